"""The page and the trace of a profile: what they show is what the answer says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.cli import main
from perfatlas.profiles import activity_spans, explain, import_profile, read_rules
from tests.profiles.samples import NCU, nsys_database, trace, written

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = "examples/profiles/h100_two_layers.json.gz"


def spans(*paths: str | Path) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    profiles, rules = [import_profile(one) for one in paths], read_rules()
    results = explain(profiles, rules)
    return activity_spans(profiles, rules, results), results


def test_spans_add_up_to_the_operators_of_the_answer(tmp_path: Path) -> None:
    columns, results = spans(EXAMPLE)
    assert sum(columns["time_s"]) == pytest.approx(sum(r["time_s"] for r in results["operators"]))
    for name in ("predicted_s", "predicted_s_low", "predicted_s_high"):
        told = sum(row[name] or 0.0 for row in results["operators"])
        assert sum(one or 0.0 for one in columns[name]) == pytest.approx(told)
    # by hand: the sum of 60 to 80 µs starts after its launch, whatever was predicted before it
    columns, _ = spans(written(tmp_path / "t.json", trace()))
    at = columns["name"].index("at::native::add_functor<int>")
    assert columns["predicted_start_s"][at] == pytest.approx(columns["start_s"][at], abs=1e-9)
    assert columns["predicted_s"][columns["name"].index("my_kernel")] is None


def test_without_a_known_device_both_timelines_are_the_measured_one(tmp_path: Path) -> None:
    unknown = trace() | {"deviceProperties": []}
    columns, _ = spans(written(tmp_path / "t.json", unknown))
    assert columns["predicted_start_s"] == pytest.approx(columns["start_s"])
    assert set(columns["predicted_s"]) == {None}


def test_the_command_writes_a_page_and_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, timeline = tmp_path / "p.html", tmp_path / "t.json"
    ranks = [str(written(tmp_path / f"{rank}.json", trace(rank, 2))) for rank in range(2)]
    asked = ["profile", *ranks, "--against", EXAMPLE, "--on", "b200_sxm"]
    assert (
        main([*asked, "--html", str(page), "--html-script", "none", "--trace", str(timeline)]) == 0
    )
    assert "reproduce: perfatlas profile" in capsys.readouterr().out
    events = json.loads(timeline.read_text())["traceEvents"]
    assert len([one for one in events if one["ph"] == "X"]) == 2 * 2 * 5
    names = [one["args"]["name"] for one in events if one["ph"] == "M"]
    assert names[:2] == [
        "rank 0, GPU 0, measured",
        "rank 0, GPU 0, at the predicted durations",
    ]
    text = page.read_text()
    for shown in ("aten::mm m=64", "Re-timed on b200_sxm", "Against NVIDIA H100", "Integrity"):
        assert shown in text


def test_a_table_of_benchmarks_has_a_page_and_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.csv"
    report.write_text(NCU)
    page = tmp_path / "p.html"
    assert main(["profile", str(report), "--html", str(page), "--html-script", "none"]) == 0
    assert "sm90_gemm" in page.read_text()
    assert main(["profile", str(report), "--trace", str(tmp_path / "t.json")]) == 3
    assert "--trace needs a timeline" in capsys.readouterr().err
    database = nsys_database(tmp_path / "n.sqlite")
    assert main(["profile", str(database), "--trace", str(tmp_path / "t.json")]) == 0

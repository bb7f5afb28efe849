"""The page and the trace of a profile: what they show is what the answer says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.profiles import activity_spans, explain, import_profile, read_rules
from tests.profiles.samples import trace, written

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

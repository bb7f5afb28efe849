from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.files import read_table
from perfatlas.verbs.simulate import simulate as scenario_simulate

ASKED = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--system", "h200_sxm"]
FEW = ["--isl", "256", "--osl", "16", "--num-requests", "30"]


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["simulate", *ASKED, *FEW, *words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_per_request_results_are_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "requests.parquet"
    answer = answered(capsys, "--request-rate", "10", "--per-request", str(path))
    table = read_table(str(path))
    assert table.rows == 30
    ttft = [float(cell) for cell in table.cells("ttft_s")]
    assert sum(ttft) / 30 == pytest.approx(answer["results"]["ttft_s"]["mean"])


def test_the_power_over_time_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    results = answered(capsys, "--request-rate", "10", "--power-trace", str(path))["results"]
    table = read_table(str(path))
    lasts_s = [*map(float, table.cells("time_s")), results["makespan_s"]]
    watts = list(map(float, table.cells("deployment_power_w")))
    each_j = [w * (end - start) for w, start, end in zip(watts, lasts_s, lasts_s[1:], strict=False)]
    assert sum(each_j) / results["makespan_s"] == pytest.approx(
        results["deployment_power_w"], rel=0.02
    )


def test_requests_of_a_file_are_simulated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("arrival_s,isl,osl\n0,100,10\n0.5,200,20\n")
    assert main(["simulate", *ASKED, "--requests", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["requests_completed"] == 2
    path.write_text("arrival_s,isl,osl\n0,100,10\n0.5,-200,20\n")
    assert main(["simulate", *ASKED, "--requests", str(path)]) == 3
    assert "line 3" in capsys.readouterr().err


def test_two_pools_by_flags_files_and_tables(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--mode", "disaggregated", "--prefill-workers", "2", "--decode-tp", "2"]
    files = ["--per-request", str(tmp_path / "r.csv"), "--html", str(tmp_path / "p.html")]
    files += ["--trace", str(tmp_path / "t.json")]
    answer = answered(capsys, *words, "--request-rate", "10", *files)
    assert answer["scenario"]["decode_tp"] == 2
    assert answer["results"]["gpus"] == 4
    assert answer["results"]["kv_transfer_s"]["p99"] > 0
    table = read_table(str(tmp_path / "r.csv"))
    assert set(table.cells("decode_replica")) == {2} or set(table.cells("decode_replica")) == {"2"}
    names = {one["name"] for one in json.loads((tmp_path / "t.json").read_text())["traceEvents"]}
    assert {"tokenize", "prompt", "transfer", "output"} <= names
    assert "KV cache transfer time" in (tmp_path / "p.html").read_text()
    (tmp_path / "in.csv").write_text("request_rate,decode_workers\n5,1\n5,2\n5,0\n")
    asked = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv")]
    assert main(["simulate", *ASKED, *FEW, "--mode", "disaggregated", *asked]) == 0
    table = read_table(str(tmp_path / "out.csv"))
    assert [bool(code) for code in table.cells("error_code")] == [False, False, True]


def _interrupting(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Send Ctrl-C at the n-th summary of a simulation, counted from 1."""
    module = sys.modules[scenario_simulate.__module__]
    calls: list[int] = []

    def summarize(*given: Any, **named: Any) -> dict[str, Any]:  # noqa: ANN401 - as the original
        calls.append(1)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        found: dict[str, Any] = original(*given, **named)
        return found

    original = module.summarize
    monkeypatch.setattr(module, "summarize", summarize)


@pytest.mark.parametrize(("call", "has_interval"), [(1, False), (2, False), (3, True)])
def test_ctrl_c_after_the_first_run_keeps_it_with_a_warning(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    call: int,
    *,
    has_interval: bool,
) -> None:
    _interrupting(monkeypatch, call)
    assert main(["simulate", *ASKED, *FEW, "--request-rate", "10", "--json"]) == 130
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["requests_completed"] == 30
    assert (
        "ttft_s_low" in answer["results"] and "ttft_s_high" in answer["results"]
    ) == has_interval
    assert answer["results"]["interrupted"] is not has_interval
    assert any("interrupted" in said for said in answer["warnings"]) is not has_interval


@pytest.mark.parametrize("call", [1, 4, 5])
def test_ctrl_c_with_seeds_keeps_completed_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    _interrupting(monkeypatch, call)
    words = ["--request-rate", "10", "--num-seeds", "3", "--json"]
    assert main(["simulate", *ASKED, *FEW, *words]) == 130
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["interrupted"] is True
    assert answer["results"]["requests_completed"] == 30
    assert ("ttft_s_low" in answer["results"]) == (call > 1)
    assert "results are for seed 0 only" in " ".join(answer["evidence"]["assumptions"])


def test_files_are_written_if_stdout_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text[:0])

        def fileno(self) -> int:
            return spare.fileno()

    paths = [tmp_path / name for name in ("r.csv", "p.html", "t.json")]
    words = [
        f"{flag}={path}"
        for flag, path in zip(("--per-request", "--html", "--trace"), paths, strict=True)
    ]
    with (tmp_path / "spare").open("w") as spare:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert main(["simulate", *ASKED, *FEW, "--request-rate", "10", "--json", *words]) == 141
    assert all(path.stat().st_size for path in paths)


def test_a_file_of_no_known_kind_is_refused_before_the_simulation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("perfatlas.verbs.simulate.answer", None)
    words = ["--request-rate", "10", "--per-request", str(tmp_path / "x.foo")]
    assert main(["simulate", *ASKED, *FEW, *words]) == 3
    assert ".foo is not a table format" in capsys.readouterr().err

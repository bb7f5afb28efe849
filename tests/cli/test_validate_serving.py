"""`perfatlas validate serving`: output and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from perfatlas.cli import main
from tests.measurements.benchmark_files import sglang, trtllm, vllm, write
from tests.validation.test_validate_traffic import write_points

VERB = ["validate", "serving"]
ON = ["--system", "h200_sxm"]


def test_text_shows_every_run_and_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    runs = [vllm(max_concurrency=n, mean_tpot_ms=0.1 * n) for n in (4, 8)]
    path = write(tmp_path, *runs, vllm(completed=0))
    assert main([*VERB, *ON, "--results", str(path)]) == 0
    out = capsys.readouterr().out
    for said in ("TPOT (measured: mean TPOT)", "result.json:2", "roofline", "not compared"):
        assert said in out
    assert "perfatlas estimate --model meta-llama/Llama-3.1-8B --engine vllm" in out


def test_json_is_one_envelope_with_the_same_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write(tmp_path, vllm(failed=2))
    two = write(tmp_path, sglang(), name="two.jsonl")
    assert main([*VERB, *ON, "--results", str(one), str(two), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["command"] == "validate serving"
    assert [row["run"] for row in answer["results"]["runs"]] == ["result.json", "two.jsonl"]
    assert answer["evidence"]["calibrations"]
    assert answer["scenario"] == {"system": "h200_sxm", "results": [str(one), str(two)]}
    assert any("failed" in text for text in answer["warnings"])


def test_flags_are_those_of_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, trtllm())
    words = [*VERB, *ON, "--results", str(path), "--tp", "4", "--format", "fp8", "--json"]
    assert main([*words, "--max-num-seqs", "32", "--engine", "vllm"]) == 0
    question = json.loads(capsys.readouterr().out)["results"]["question"]
    assert (question["tp"], question["max_num_seqs"], question["engine"]) == (4, 32, "vllm")


@pytest.mark.parametrize(
    ("words", "text", "code", "said"),
    [
        ([], "{}", 2, "missing --system"),
        (ON, "", 3, "is empty"),
        (ON, "{}", 3, "unknown benchmark result; supported are"),
        (ON, json.dumps(vllm(model_id="deepseek-ai/DeepSeek-V3")), 4, "no run could be compared"),
        ([*ON, "--isl", "4"], json.dumps(vllm()), 2, "--isl"),
        ([*ON, "--tp", "3"], json.dumps(vllm()), 3, "no run could be compared"),
        (["--system", "h2000"], json.dumps(vllm()), 3, "did you mean 'h200_sxm'"),
    ],
)
def test_exit_codes(
    words: list[str], text: str, code: int, said: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "result.json"
    path.write_text(text, "utf-8")
    assert main([*VERB, *words, "--results", str(path)]) == code
    shown = capsys.readouterr()
    assert said in shown.err
    assert "Traceback" not in shown.out + shown.err


def test_without_files_there_is_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*VERB, *ON]) == 2
    assert "--results result.json" in capsys.readouterr().err


def nothing_here(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PERFATLAS_SHARED_DATA", str(folder / "nowhere"))
    module = sys.modules["validation.serving.traffic"]
    monkeypatch.setattr(module, "has_silicon", lambda: False)


def test_public_runs_that_are_not_here_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing_here(monkeypatch, tmp_path)
    assert main(VERB) != 0
    shown = capsys.readouterr()
    assert "PERFATLAS_SHARED_DATA" in shown.err
    assert "perfatlas[silicon]" in shown.err


def test_public_runs_fit_a_terminal_and_one_envelope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing_here(monkeypatch, tmp_path)
    monkeypatch.setenv("PERFATLAS_SHARED_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    write_points(tmp_path)
    assert main(VERB) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "tp8 ep8 dp1" in shown
    assert "perfatlas[silicon]" in shown
    assert main([*VERB, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [row["plan"] for row in results["point_totals"]] == ["all", "tp8 ep8 dp1"]
    assert len(results["missing"]) == 3  # two recorded runs and the benchmarks


def test_a_page_needs_the_public_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    assert main([*VERB, *ON, "--page", str(page)]) == 2
    nothing_here(monkeypatch, tmp_path)
    monkeypatch.setenv("PERFATLAS_SHARED_DATA", str(tmp_path))
    write_points(tmp_path)
    assert main([*VERB, "--page", str(page)]) != 0
    assert "needs all measurements" in capsys.readouterr().err
    assert not page.exists()

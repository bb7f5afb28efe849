"""`perfatlas validate serving`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfatlas.cli import main
from tests.measurements.benchmark_files import sglang, trtllm, vllm, write

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

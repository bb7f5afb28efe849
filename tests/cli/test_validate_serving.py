"""`perfatlas validate serving`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfatlas.cli import main
from tests.measurements.benchmark_files import vllm

VERB = ["validate", "serving"]
ON = ["--system", "h200_sxm"]


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

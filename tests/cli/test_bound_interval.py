from __future__ import annotations

import json

import pytest

from perfatlas.cli import main

GEMM = ["kernel", "gemm", "--m", "64", "--n", "8192", "--k", "8192"]
ATTENTION = ["kernel", "attention", "--kv-len", "4096", "--num-heads", "8", "--num-kv-heads", "1"]
MOE = [
    *["kernel", "moe", "--tokens", "64", "--hidden", "4096", "--intermediate", "1536"],
    *["--experts", "128", "--top-k", "8"],
]
COLLECTIVE = ["collective", "--op", "all_reduce", "--bytes", "1MB", "--gpus", "4"]
UNMEASURED = [
    *([*words, "--system", "tpu_v7"] for words in (GEMM, ATTENTION, MOE, COLLECTIVE)),
    [*COLLECTIVE, "--system", "tpu_v7"],
]
ASKED = [
    [*words, "--system", "h200_sxm", "--tier", "bound"]
    for words in (GEMM, ATTENTION, MOE, COLLECTIVE)
]


@pytest.mark.parametrize("words", [*UNMEASURED, *ASKED])
def test_a_bound_is_a_lower_limit(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["tier"] == "bound"
    assert results["time_s_low"] == results["time_s"] == results["bound_time_s"]
    assert results["time_s_high"] is None


@pytest.mark.parametrize("words", [GEMM, COLLECTIVE])
def test_a_bound_reads_at_least(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--system", "tpu_v7"]) == 0
    (line,) = (one for one in capsys.readouterr().out.splitlines() if one.startswith("  time "))
    assert "at least" in line


@pytest.mark.parametrize("words", [GEMM, ATTENTION, COLLECTIVE])
def test_physics_keeps_its_interval(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--system", "h200_sxm", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["tier"] == "physics"
    assert results["time_s_low"] < results["time_s"] < results["time_s_high"]

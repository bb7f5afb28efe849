from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main

ASKED = {
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "system": "h200_sxm",
    "gpus": 8,
    "tp": 8,
    "engine": "vllm",
    "format": "fp8",
    "mode": "static",
    "batch": 64,
    "isl": 2048,
    "osl": 512,
}
QUESTION = [word for name, value in ASKED.items() for word in (f"--{name}", str(value))]
METRICS = (
    "ttft_s",
    "tpot_s",
    "request_latency_s",
    "output_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
)
MEMORY = {
    "weights_bytes",
    "kv_bytes",
    "activation_bytes",
    "other_bytes",
    "total_bytes",
    "capacity_bytes",
    "kv_capacity_tokens",
    "fits",
}
ROW = {"name", "phase", "count", "time_s", "share", "bound", "bound_time_s", "tier", "calibration"}


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    return answer


def test_the_json_answer_has_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answered(capsys, "estimate", *QUESTION)
    assert list(answer) == [
        "schema",
        "version",
        "command",
        "scenario",
        "results",
        "breakdown",
        "evidence",
        "warnings",
    ]
    results = answer["results"]
    for name in METRICS:
        assert 0 < results[f"{name}_low"] <= results[name] <= results[f"{name}_high"]
    assert set(results["memory"]) >= MEMORY
    assert results["memory"]["fits"] is True
    assert {row["phase"] for row in answer["breakdown"]} == {"prefill", "decode"}
    for row in answer["breakdown"]:
        assert set(row) >= ROW
        assert row["bound"] in ("compute", "memory", "network", "latency", "host")
    evidence = answer["evidence"]
    assert set(evidence) >= {"tier", "calibrations", "data_versions", "assumptions", "sources"}
    for calibration in evidence["calibrations"]:
        wanted = {"id", "rows", "median_error", "p90_error", "protocol", "data_hash"}
        assert set(calibration) >= wanted


def test_scenario_files_flags_and_table_rows_agree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "question.toml").write_text(
        'model = "meta-llama/Llama-3.1-8B-Instruct"\nsystem = "h200_sxm"\nbatch = 4\nisl = 512\n'
    )
    words = ["--scenario", str(tmp_path / "question.toml"), "--batch", "8"]
    from_file = answered(capsys, "estimate", *words)
    assert from_file["scenario"]["batch"] == 8
    (tmp_path / "rows.jsonl").write_text(
        '{"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm", "batch": 8}\n'
    )
    target = tmp_path / "answers.jsonl"
    table = ["--table", str(tmp_path / "rows.jsonl"), "--output", str(target), "--isl", "512"]
    summary = answered(capsys, "estimate", *table)
    assert summary["results"]["answered"] == 1
    row = json.loads(target.read_text())
    for name in METRICS:
        assert row[name] == pytest.approx(from_file["results"][name])


def test_the_trace_opens_and_lasts_as_long_as_the_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "trace.json"
    answer = answered(capsys, "estimate", *QUESTION, "--trace", str(target))
    trace = json.loads(target.read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    last_us = max(event["ts"] + event["dur"] for event in events)
    longest_s = max(
        sum(row["time_s"] for row in answer["breakdown"] if row["phase"] == phase)
        for phase in ("prefill", "decode")
    )
    assert last_us == pytest.approx(1e6 * longest_s)


def test_a_trace_that_cannot_be_written_is_refused_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "missing" / "trace.json"
    assert main(["estimate", *QUESTION, "--trace", str(target)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "does not exist; create it first" in captured.err


def test_an_answer_survives_its_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("perfatlas.files.check_writable", lambda _: None)
    assert main(["estimate", *QUESTION, "--trace", str(tmp_path)]) == 3
    captured = capsys.readouterr()
    assert "TTFT" in captured.out
    assert "not a regular file" in captured.err


@pytest.mark.parametrize("kind", ["systems", "models", "formats", "engines", "rates", "durations"])
def test_every_catalog_entry_can_be_shown(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    names = [row["name"] for row in answered(capsys, "catalog", kind)["results"][kind]]
    assert names
    for name in names[:: max(1, len(names) // 8)]:
        assert answered(capsys, "catalog", kind, "show", name)["results"]
    assert main(["catalog", kind, "show", names[0]]) == 0


def test_nothing_but_the_answer_is_on_stdout_of_a_process() -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "perfatlas", "catalog", "systems", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert finished.stderr == ""
    json.loads(finished.stdout)

"""Host time of sampling penalties: vLLM reads all output tokens of its sequences in every step."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas

ASKED: dict[str, Any] = {"model": "openai/gpt-oss-20b", "system": "h100_sxm", "isl": 200}


def decode_host_s(**fields: object) -> float:
    asked = ASKED | {"mode": "static", "batch": 1024, "osl": 2000, "max_num_seqs": 1024}
    answer = perfatlas.estimate(**{**asked, **fields})
    rows = [row for row in answer.breakdown if row["phase"] == "decode"]
    exposed_s = sum(row["time_s"] for row in rows if row["stream"] == "host")
    return float(exposed_s + sum(row["time_s"] for row in rows if row["stream"] != "host"))


def test_the_host_time_by_hand() -> None:
    # 126 us and 4.42 us for each of 1,024 sequences, and 50 ns for each of their 1,000 tokens so
    # far: 0.126 + 4.526 + 51.2 ms, longer than the GPU takes
    found = decode_host_s(sampling_penalties=True)
    assert found == pytest.approx(126e-6 + 1024 * (4.42e-6 + 1000 * 50e-9), rel=1e-6)
    assert decode_host_s() < 0.9 * found


def test_short_outputs_are_hidden_behind_the_gpu() -> None:
    few = {"batch": 8, "max_num_seqs": 64, "osl": 100}
    assert decode_host_s(**few, sampling_penalties=True) == decode_host_s(**few)

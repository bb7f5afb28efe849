"""The largest number of live sessions within SLOs."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.verbs.simulate import max_sessions, simulate

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h100_sxm", "kv_blocks": 3000,
    "requests": "examples/agents/sessions.jsonl", "session_start": "beginning",
}  # fmt: skip


def test_one_session_more_misses_the_slo() -> None:
    slo: dict[str, Any] = {"slo_ttft_s": 0.5, "slo_percentile": 90}
    found = max_sessions(**ASKED, **slo).answer
    number = found.results["max_sessions"]
    assert found.results["max_sessions_per_gpu"] == number
    assert found.results["max_sessions_low"] <= number <= found.results["max_sessions_high"]
    at, above = (
        simulate(**ASKED, sessions=live).answer.results["ttft_s"]["p90"]
        for live in (number, number + 1)
    )
    assert at <= 0.5 < above
    assert found.results["ttft_s"]["p90"] == at
    assert "sessions" not in found.scenario


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"slo_ttft_s": 1e-6}, InfeasibleError, "one session misses the SLOs: mean ttft_s is"),
        ({"slo_ttft_s": 1e6}, InvalidSpecError, "met even with all 12 sessions live"),
        ({"slo_ttft_s": 1, "kv_blocks": 8}, InfeasibleError, "no number of sessions meets .* KV"),
        ({}, InvalidSpecError, "no SLO specified"),
        ({"slo_ttft_s": 1, "sessions": 2}, InvalidSpecError, "sessions = 2: the number of live"),
    ],
)
def test_searches_without_an_answer(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        max_sessions(**(ASKED | fields))

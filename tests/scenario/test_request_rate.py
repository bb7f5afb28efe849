from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perfatlas.answer import Answer
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies.traffic import request_rates
from perfatlas.verbs.simulate import max_request_rate, simulate

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 1024,
    "osl": 64,
    "num_requests": 300,
}


@pytest.mark.parametrize(("percentile", "statistic"), [(None, "mean"), (90, "p90")])
def test_the_rate_found_meets_the_objective_and_a_higher_one_does_not(
    percentile: float | None, statistic: str
) -> None:
    asked = {**ASKED, "slo_ttft_s": 0.12, "slo_percentile": percentile}
    answer = max_request_rate(**asked).answer
    found = answer.results
    rate = found["max_requests_per_s"]
    assert found["ttft_s"][statistic] <= 0.12
    drawn = {"num_requests": answer.scenario["num_requests"]}
    above = simulate(**{**ASKED, **drawn}, request_rate=1.02 * rate).answer.results
    assert above["ttft_s"][statistic] > 0.12
    assert found["max_requests_per_s_low"] < rate < found["max_requests_per_s_high"]


def test_the_times_of_a_file_are_scaled(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    rows = "".join(f"{0.5 * i},512,32\n" for i in range(400))
    path.write_text("arrival_s,isl,osl\n" + rows)
    asked = {name: ASKED[name] for name in ("model", "system")}
    found = max_request_rate(**asked, requests=str(path), slo_ttft_s=0.1).answer
    scale = found.results["max_requests_per_s"] / 2.0  # requests/s in the file
    again = simulate(**asked, requests=str(path), rate_scale=scale).answer.results
    assert again["ttft_s"]["mean"] <= 0.1
    assert again["ttft_s"] == found.results["ttft_s"]


def test_the_bound_of_the_search_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_rates, "MAX_RATE_RATIO", 0.1)
    with pytest.raises(InvalidSpecError, match="maximum tested rate"):
        max_request_rate(**ASKED, slo_ttft_s=0.2)


def _stopped(look: int) -> Answer:
    """Return the answer of a search that is stopped at the n-th check, counted from 1."""
    looks = count(1)
    asked = {**ASKED, "slo_ttft_s": 0.2}
    return max_request_rate(**asked, progress=lambda _: next(looks) >= look).answer


def test_an_interrupted_search_brackets_the_rate() -> None:
    looks: list[float] = []

    def look(share: float) -> bool:
        looks.append(share)
        return False

    whole = max_request_rate(**ASKED, slo_ttft_s=0.2, progress=look)
    rate = whole.answer.results["max_requests_per_s"]
    slowest = whole.answer.results["max_requests_per_s_low"]
    assert sorted(looks) == looks
    brackets = []
    for stop in range(4, len(looks), 9):
        found = _stopped(stop)
        results = found.results
        assert results["interrupted"] is True
        assert any("interrupted" in said for said in found.warnings)
        assert results.get("max_requests_per_s_low") in (None, slowest)
        if results["max_requests_per_s"] is None:
            brackets.append((results["met_requests_per_s"], results["missed_requests_per_s"]))
        else:
            assert results["max_requests_per_s"] == rate
    assert any(met <= rate <= (missed or rate) for met, missed in brackets)
    with pytest.raises(KeyboardInterrupt):
        _stopped(1)


def test_no_rate_is_found_that_front_ends_cannot_send() -> None:
    asked = {**ASKED, "engine": "vllm", "tp": 8, "format": "fp8", "isl": 100, "osl": 1000}
    found = max_request_rate(**{**asked, "num_requests": 500}, slo_tpot_s=0.05).answer.results
    assert found["max_requests_per_s"] < 1 / 46e-6 / 1000  # a token takes 46 us to send
    assert not found["saturated"]


def test_a_front_end_that_falls_behind_is_saturated() -> None:
    asked = {**ASKED, "engine": "vllm", "tp": 8, "format": "fp8", "isl": 100, "osl": 1000}
    found = simulate(**{**asked, "num_requests": 1000}, request_rate=30).answer
    assert found.results["saturated"]
    assert any("front ends send output tokens" in said for said in found.warnings)
    sent = simulate(**{**asked, "num_requests": 1000}, request_rate=30, stream_interval=20).answer
    assert not sent.results["saturated"]
    assert sent.results["output_tokens_per_s"] > 1.2 * found.results["output_tokens_per_s"]

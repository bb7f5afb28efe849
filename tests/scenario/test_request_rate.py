from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfatlas import max_request_rate, simulate
from perfatlas.quantities import InfeasibleError, InvalidSpecError

if TYPE_CHECKING:
    from pathlib import Path

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
    found = max_request_rate(**asked).answer.results
    rate = found["max_request_rate"]
    assert found["ttft_s"][statistic] <= 0.12
    above = simulate(**ASKED, request_rate=1.02 * rate).answer.results
    assert above["ttft_s"][statistic] > 0.12
    assert found["max_request_rate_low"] < rate < found["max_request_rate_high"]


def test_looser_objectives_allow_more_and_every_one_binds() -> None:
    rates = [
        max_request_rate(**ASKED, **slos).answer.results["max_request_rate"]
        for slos in (
            {"slo_ttft_s": 0.06},
            {"slo_ttft_s": 0.2},
            {"slo_ttft_s": 0.2, "slo_tpot_s": 0.007},
        )
    ]
    assert rates[0] < rates[1]
    assert rates[2] < rates[1]


def test_a_deployment_of_two_serves_about_twice_as_much() -> None:
    one, two = (
        max_request_rate(**ASKED, slo_ttft_s=0.2, dp=dp).answer.results["max_request_rate"]
        for dp in (1, 2)
    )
    assert 1.8 < two / one < 2.6


def test_the_times_of_a_file_are_scaled(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    rows = "".join(f"{0.5 * i},512,32\n" for i in range(100))
    path.write_text("arrival_s,isl,osl\n" + rows)
    asked = {name: ASKED[name] for name in ("model", "system")}
    found = max_request_rate(**asked, requests=str(path), slo_ttft_s=0.1).answer
    scale = found.results["max_request_rate"] / 2.0  # requests/s in the file
    again = simulate(**asked, requests=str(path), rate_scale=scale).answer.results
    assert again["ttft_s"]["mean"] <= 0.1
    assert again["ttft_s"] == found.results["ttft_s"]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({}, InvalidSpecError, "no objective"),
        ({"slo_ttft_s": 1, "request_rate": 3}, InvalidSpecError, "the rate is what is searched"),
        ({"slo_ttft_s": 1, "concurrency": 3}, InvalidSpecError, "concurrency"),
        ({"slo_ttft_s": 1e-3}, InfeasibleError, r"no request rate.*mean ttft_s is .*over 0.001"),
        ({"slo_ttft_s": 1, "kv_blocks": 4}, InfeasibleError, "every request needs more cache"),
        ({"slo_ttft_s": 1, "slo_percentile": 100}, InvalidSpecError, "slo_percentile = 100"),
        ({"slo_ttft_s": 1, "arrival": "gamma", "request_rate": "inf"}, InvalidSpecError, "inf"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    fields: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        max_request_rate(**{**ASKED, **fields})

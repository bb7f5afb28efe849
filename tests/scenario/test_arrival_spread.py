"""The interval of a simulation holds other draws of its arrivals and lengths."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.studies.traffic import widened
from perfatlas.verbs.simulate import simulate

SERVED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 400,
    "osl": 50,
    "num_requests": 120,
}


def test_the_spread_of_arrivals_by_hand() -> None:
    run = simulate(**SERVED, request_rate=5.0)
    results = run.answer.results
    gap = np.diff(run.requests.arrival_N)
    span_s = float(run.requests.arrival_N[-1]) * 1e-12
    # 1.645 x (standard deviation / mean) / sqrt(119), of two runs, diluted by the drain
    width = 1.645 * gap.std() / gap.mean() / math.sqrt(119) * math.sqrt(2.0)
    width *= span_s / results["makespan_s"]
    away = math.log(results["requests_per_s_high"] / results["requests_per_s"])
    assert away == pytest.approx(width, rel=0.03)  # 0.2, beside which steps are nothing


def test_nothing_is_added_to_traffic_that_is_not_random() -> None:
    run = simulate(**SERVED, request_rate=5.0, arrival="constant").answer
    assert run.results["requests_per_s_high"] < 1.01 * run.results["requests_per_s"]
    assert any("arrivals and lengths are not varied" in one for one in run.evidence.assumptions)
    assert not any("other random arrivals" in one for one in run.evidence.assumptions)


def test_ends_that_are_unknown_stay_so() -> None:
    found = {"ttft_s": {"mean": 1.0, "p99": 2.0}, "ttft_s_high": {"mean": None, "p99": 4.0}}
    held = widened(found, {"ttft_s": {"mean": 0.1, "p99": 0.3}})
    assert held["ttft_s_high"]["mean"] is None
    assert held["ttft_s_high"]["p99"] == pytest.approx(
        2.0 * math.exp(math.hypot(math.log(2.0), 0.3))
    )
    assert "ttft_s_low" not in held


@pytest.mark.parametrize("request_rate", [2.0, 20.0, 60.0])
def test_a_higher_percentile_has_no_lower_end(request_rate: float) -> None:
    for seed in range(8):
        results = simulate(**SERVED, request_rate=request_rate, seed=seed).answer.results
        for name in ("ttft_s", "tpot_s", "itl_s", "request_latency_s", "queue_s"):
            for end in ("", "_low", "_high"):
                row = results.get(f"{name}{end}")
                if row is not None:
                    ends = [row[p] for p in ("p50", "p90", "p95", "p99") if row[p] is not None]
                    assert ends == sorted(ends), (seed, name, end)

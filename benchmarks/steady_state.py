"""Default answers of `simulate` beside runs 20 times as long, at random loads.

    python benchmarks/steady_state.py [--loads 40] [--seed 0]

Loads are drawn evenly from 30 to 110% of the capacity, deployments from `DEPLOYMENTS`. A statistic
is within its precision where it differs from that of the long run, which has another seed and loses
its first tenth, by no more than `sampling_precision` (mean TTFT, mean TPOT) or twice that (p99 of
TTFT). A verdict is wrong where the load is below 97% of the capacity and it is not stable, or above
103% and it is not overloaded; the capacity it is compared with is that of the long run of
saturated engines, of another seed.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

import numpy as np

from perfatlas.verbs.simulate import simulate

DEPLOYMENTS: Final[tuple[dict[str, Any], ...]] = (
    {"model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm", "isl": 2000, "osl": 300}
    | {"tp": 8, "dp": 2},
    {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "isl": 1000, "osl": 200}
    | {"length_distribution": "lognormal", "length_spread": 0.8},
    {"model": "meta-llama/Llama-3.1-8B", "system": "l40s", "isl": 500, "osl": 500}
    | {"engine": "sglang", "arrival": "gamma", "burstiness": 0.5},
    {"model": "Qwen/Qwen3-32B", "system": "b200_sxm", "isl": 4000, "osl": 150, "tp": 2}
    | {"engine": "trtllm", "length_distribution": "uniform", "length_spread": 0.5},
    {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "isl": 3000, "osl": 400}
    | {"mode": "disaggregated", "prefill_workers": 2, "decode_workers": 1},
)
LONGER: Final = 20  # times the requests of the default answer
MAX_REQUESTS: Final = 2_000_000
BAND: Final = 0.03


def main() -> int:
    """Return 0 where nine of ten statistics hold and no verdict is wrong, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    draw = np.random.default_rng(asked.seed)
    held = {"mean TTFT": 0, "p99 TTFT": 0, "mean TPOT": 0}
    compared = wrong = 0
    for number in range(asked.loads):
        deployment = DEPLOYMENTS[number % len(DEPLOYMENTS)]
        probe = simulate(**deployment, request_rate=0.1, num_requests=10, seed=1000 + number)
        capacity = probe.answer.results["capacity_requests_per_s"]
        load = float(draw.uniform(0.3, 1.1))
        short = simulate(**deployment, request_rate=load * capacity, seed=number)
        results, scenario = short.answer.results, short.answer.scenario
        stability = results["stability"]
        wrong += (load < 1.0 - BAND and stability != "stable") or (
            load > 1.0 + BAND and stability != "overloaded"
        )
        line = f"{scenario['model'].rpartition('/')[2]:14} {load:6.1%} {stability:14}"
        if load < 1.0 - BAND and results["precision_reached"]:
            compared += 1
            errors = _errors(deployment, load * capacity, number, results)
            for (name, error), most in zip(errors.items(), (0.05, 0.1, 0.05), strict=True):
                held[name] += abs(error) <= most
            line += "".join(f"  {name} {error:+.1%}" for name, error in errors.items())
        print(line, flush=True)
    for name, count in held.items():
        print(f"{name}: {count} of {compared} within their precision")
    print(f"wrong verdicts: {wrong} of {asked.loads}")
    return int(wrong > 0 or min(held.values()) < 0.9 * compared)


def _errors(
    deployment: dict[str, Any],
    rate: float,
    seed: int,
    results: Any,  # noqa: ANN401 - of an answer
) -> dict[str, float]:
    """Return how far statistics are from those of a long run, relatively."""
    count = min(LONGER * int(results["requests_completed"]), MAX_REQUESTS)
    long = simulate(**deployment, request_rate=rate, num_requests=count, seed=10_000 + seed)
    columns = long.per_request()
    ttft_N, tpot_N = (np.array(columns[name])[count // 10 :] for name in ("ttft_s", "tpot_s"))
    truth = {
        "mean TTFT": ttft_N.mean(),
        "p99 TTFT": np.percentile(ttft_N, 99),
        "mean TPOT": tpot_N.mean(),
    }
    found = (results["ttft_s"]["mean"], results["ttft_s"]["p99"], results["tpot_s"]["mean"])
    return {
        name: value / true - 1.0 for value, (name, true) in zip(found, truth.items(), strict=True)
    }


if __name__ == "__main__":
    raise SystemExit(main())

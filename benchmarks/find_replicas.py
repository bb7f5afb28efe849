"""Numbers of replicas found by `simulate --find-replicas`, checked by long runs of other seeds.

    python benchmarks/find_replicas.py [--loads 40] [--first 0] [--seed 0] [--pools]

Deployments are those of `DEPLOYMENTS`; the request rate is drawn from 0.3 to 12 times the
capacity of one replica, the SLOs (of TTFT, TPOT, latency, or TTFT and TPOT, as the mean or a
percentile) from 1.1 to 4 times the latency of requests that run nearly alone. An answer N holds
where N replicas meet the SLOs and N - 1 do not (of prefill and decode workers, neither with one
less of one kind), in runs 20 times as long that have another seed and
lose their first tenth; replicas whose capacity is below the rate do not meet them. `--pools`
asks about prefill and decode workers.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.deployments import offered_load, resolve_traffic, run_traffic, service
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import Window, request_latencies
from perfatlas.verbs.simulate import required_replicas, simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

DEPLOYMENTS: Final[tuple[dict[str, Any], ...]] = (
    {"model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm", "isl": 2000, "osl": 300, "tp": 8},
    {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "isl": 1000, "osl": 200}
    | {"length_distribution": "lognormal", "length_spread": 0.8},
    {"model": "meta-llama/Llama-3.1-8B", "system": "l40s", "isl": 500, "osl": 500}
    | {"engine": "sglang", "arrival": "gamma", "burstiness": 0.5},
    {"model": "Qwen/Qwen3-32B", "system": "b200_sxm", "isl": 4000, "osl": 150, "tp": 2}
    | {"engine": "trtllm", "length_distribution": "uniform", "length_spread": 0.5},
    {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "isl": 3000, "osl": 100}
    | {"routing": "least_loaded"},
)
POOLS: Final[tuple[dict[str, Any], ...]] = (
    {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "isl": 3000, "osl": 100}
    | {"mode": "disaggregated"},
    {"model": "Qwen/Qwen3-32B", "system": "h200_sxm", "isl": 1000, "osl": 200}
    | {"mode": "disaggregated", "prefill_tp": 2, "decode_tp": 4}
    | {"length_distribution": "lognormal", "length_spread": 0.5},
)
SIZES: Final = ("dp", "prefill_workers", "decode_workers")
OBJECTIVES: Final = (("ttft_s",), ("tpot_s",), ("request_latency_s",), ("ttft_s", "tpot_s"))
PERCENTILES: Final = (None, 90.0, 95.0, 99.0)
LONGER: Final = 20  # times the requests of the answer
MAX_REQUESTS: Final = 2_000_000
SHARE: Final = 0.95  # of the answers that hold


def main() -> int:
    """Return 0 where 95% of the answers hold, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first load asked")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pools", action="store_true", help="prefill and decode workers")
    asked = parser.parse_args()
    draw = np.random.default_rng(asked.seed)
    held = 0
    for number in range(asked.loads):
        fields = drawn_question(draw, number, POOLS if asked.pools else DEPLOYMENTS)
        if number < asked.first:
            continue
        good, line = _checked(fields, number)
        held += good
        print(f"{number:3} {line}{'' if good else '   DOES NOT HOLD'}", flush=True)
    count = asked.loads - asked.first
    print(f"{held} of {count} answers hold")
    return int(held < SHARE * count)


def drawn_question(
    draw: np.random.Generator, number: int, of: tuple[dict[str, Any], ...] = DEPLOYMENTS
) -> dict[str, Any]:
    """Return a deployment with a request rate and SLOs.

    Args:
        draw: Where random numbers come from.
        of: Deployments, taken in turn.
    """
    deployment = of[number % len(of)]
    alone = simulate(**deployment, request_rate=0.1, num_requests=200, seed=1000 + number)
    results = alone.answer.results
    rate = float(draw.uniform(0.3, 12.0)) * results["capacity_requests_per_s"]
    percentile = PERCENTILES[int(draw.integers(len(PERCENTILES)))]
    statistic = "mean" if percentile is None else f"p{percentile:g}"
    slos = {
        f"slo_{name}": float(f"{float(draw.uniform(1.1, 4.0)) * results[name][statistic]:.3g}")
        for name in OBJECTIVES[int(draw.integers(len(OBJECTIVES)))]
    }
    asked = {**deployment, "request_rate": float(f"{rate:.4g}"), **slos}
    return asked | ({} if percentile is None else {"slo_percentile": percentile})


def _checked(fields: dict[str, Any], seed: int) -> tuple[bool, str]:
    """Return whether the answer to a question holds, and a line about it."""
    slos = {name: value for name, value in fields.items() if name.startswith("slo_")}
    line = f"{fields['model'].rpartition('/')[2]:14} {fields['request_rate']:7.4g}/s {slos}"
    try:
        answer = required_replicas(**fields, seed=seed).answer
    except PerfatlasError as error:
        return False, f"{line}: {error}"
    found = _sizes(answer.results)
    ran = answer.results["measured_requests"] + answer.results["warm_up_requests"]
    count = min(LONGER * int(ran), MAX_REQUESTS)
    enough = meets({**fields, **found}, count, 10_000 + seed)
    fewer = [{**found, name: number - 1} for name, number in found.items() if number > 1]
    too_many = [row for row in fewer if meets({**fields, **row}, count, 10_000 + seed)]
    text = f"{line}: {_text(found)} {'met' if enough else 'missed'}"
    text += "".join(f"; {_text(row)} met" for row in too_many)
    return enough and not too_many, text


def _sizes(results: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers found, by field."""
    names = {"dp": "required_replicas"} | {name: f"required_{name}" for name in SIZES[1:]}
    return {name: int(results[key]) for name, key in names.items() if key in results}


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sizes.items())


def meets(fields: Mapping[str, Any], count: int, seed: int) -> bool:
    """Return whether a deployment meets the SLOs in a long run.

    Args:
        fields: The deployment with its size, its request rate and the SLOs.
        count: Number of requests.
    """
    traffic, scenario = split_fields({**fields, "seed": seed})
    load = offered_load(scenario, traffic, {}).load
    if load is None or load.grows:
        return False
    traffic = traffic.changed(num_requests=count)
    resolved = resolve_traffic(traffic, scenario)
    ready = service(scenario, traffic, resolved)
    outcome = run_traffic(ready, resolved, Control())
    found = request_latencies(resolved.requests, outcome, ready.seen)
    found = found.between(Window(count // 10, count, settled=True))
    percentile = traffic.slo_percentile
    for name, slo_s in traffic.objectives().items():
        values_N = getattr(found, name)
        values_N = values_N[np.isfinite(values_N)]
        at = values_N.mean() if percentile is None else np.percentile(values_N, percentile)
        if at > slo_s:
            return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())

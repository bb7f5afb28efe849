from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st

from perfatlas.scenario.deployments import offered_load
from perfatlas.scenario.resolution import split_fields
from perfatlas.studies import cheapest_pair
from perfatlas.verbs.simulate import required_replicas, simulate

POOLS: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "mode": "disaggregated",
    "isl": 1024,
    "osl": 16,
}
NUMBERS = ("prefill_workers", "decode_workers")


@given(
    stairs=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    gpus=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    first=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_the_search_finds_what_trying_every_pair_finds(
    stairs: list[int], gpus: tuple[int, int], first: tuple[int, int]
) -> None:
    """With p prefill workers, stairs[p - 1] decode workers are needed, fewer for larger p."""
    most = (max(len(stairs), first[0]), 9)
    needed = sorted(stairs, reverse=True)
    tried = []

    def meets(size: tuple[int, ...]) -> bool:
        tried.append(size)
        return size[1] >= needed[min(size[0], len(needed)) - 1]

    def total(size: tuple[int, ...]) -> int:
        return size[0] * gpus[0] + size[1] * gpus[1]

    pairs = itertools.product(range(first[0], most[0] + 1), range(first[1], most[1] + 1))
    best = min((total(pair) for pair in pairs if meets(pair)), default=None)
    tried.clear()
    found = cheapest_pair(meets, first, most, gpus)
    assert (None if found is None else total(found)) == best
    assert len(tried) <= most[0] + 12


@pytest.mark.parametrize("workers", [(1, 1), (11, 8), (8, 1)])
def test_the_capacity_of_prompts_that_arrive_at_once_is_that_of_their_order(
    workers: tuple[int, ...],
) -> None:
    """A thread per request tokenizes the shortest of all prompts first; the capacity ignores it."""
    size = dict(zip(NUMBERS, workers, strict=True))
    lengths: dict[str, Any] = {"length_distribution": "lognormal", "length_spread": 0.8}
    fields = {**POOLS, **size, **lengths, "request_rate": 50}
    seen = {}
    for place in ("client", "engine"):
        traffic, scenario = split_fields({**fields, "measured_at": place})
        load = offered_load(scenario, traffic, {}).load
        assert load is not None
        seen[place] = load.capacity_requests_per_s
    assert seen["client"] == pytest.approx(seen["engine"], rel=1e-9)


def test_nothing_is_found_where_no_pair_suffices() -> None:
    assert cheapest_pair(lambda _: False, (1, 1), (4, 4), (1, 1)) is None


@pytest.mark.study  # the search itself is compared with every pair above
@pytest.mark.parametrize(
    ("slos", "plan"),
    [
        ({"slo_ttft_s": 0.25, "slo_request_latency_s": 0.33}, {"decode_tp": 2}),
        ({"slo_tpot_s": 0.0072, "slo_percentile": 90}, {"prefill_tp": 2}),
    ],
)
def test_every_pair_with_fewer_gpus_misses_the_slos_of_a_sample(
    slos: dict[str, Any], plan: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {**POOLS, "request_rate": 150, "num_requests": 300, **plan}
    found = required_replicas(**asked, **slos).answer.results
    best = tuple(found[f"required_{name}"] for name in NUMBERS)
    gpus = [plan.get(name, 1) for name in ("prefill_tp", "decode_tp")]

    def total(pair: tuple[int, ...]) -> int:
        return int(pair[0] * gpus[0] + pair[1] * gpus[1])

    def meets(pair: tuple[int, ...]) -> bool:
        size: dict[str, Any] = dict(zip(NUMBERS, pair, strict=True))
        results = simulate(**asked, **size).answer.results
        percentile = slos.get("slo_percentile")
        at = "mean" if percentile is None else f"p{percentile:g}"
        limits = {name[4:]: slos[name] for name in slos if name != "slo_percentile"}
        within = all(results[name][at] <= limit for name, limit in limits.items())
        return within and results["offered_load"] <= 1.0

    assert found["gpus"] == total(best)
    assert meets(best)
    fewer = itertools.product(range(1, total(best)), range(1, total(best)))
    assert not any(meets(pair) for pair in fewer if total(pair) < total(best))

"""Searches among prefill and decode pools: numbers of estimates, and an exhaustive search."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.studies import probability_at_most
from perfatlas.studies.deployments.points import LOADS
from perfatlas.studies.deployments.pools import PROMPTS, Times, unexceeded_workers
from perfatlas.studies.deployments.question import read_search
from perfatlas.studies.deployments.rows import estimate_fields, plan_row
from perfatlas.verbs.search import SearchAnswer, search
from tests.examples import few

SMALL: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "mode": "disaggregated",
    "gpus": 3,
    "pp": 1,
    "isl": 1024,
    "osl": 128,
    "slo_ttft_s": 0.2,
    "slo_tpot_s": 0.01,
    "min_slo_probability": 0.5,
    "num_simulated": 0,
}
OBJECTIVES: Final = (
    "output_tokens_per_s_per_gpu",
    "request_latency_s",
    "energy_per_output_token_j",
)
PRICED: Final = ("ttft_s", "tpot_s", "tpot_s_high", "request_latency_s", "gpus", *OBJECTIVES)


@cache
def _searched(objective: str) -> SearchAnswer:
    return search(**{**SMALL, "objective": objective})


def test_deployments_have_exactly_the_numbers_of_an_estimate() -> None:
    answer = _searched(OBJECTIVES[0])
    assert answer.found.size > 2
    for place in range(answer.found.size):
        row = plan_row(answer.found, place, answer.inputs)
        fields = estimate_fields(answer.found, row, place, answer.inputs)
        estimate = perfatlas.estimate(**fields).results
        for name in PRICED:
            assert row[name] == pytest.approx(estimate[name], rel=1e-12), name


@cache
def _all_rows() -> list[dict[str, Any]]:
    """Return the estimate of every pair of workers, batches and numbers, one by one."""
    sizes = [
        (tp, decode_tp, x, y)
        for tp, decode_tp, x, y in product((1, 2), (1, 2), (1, 2), (1, 2))
        if tp * x + decode_tp * y == SMALL["gpus"]
    ]
    rows = [
        (*size, int(prompts), int(batch))
        for size in sizes
        for prompts in PROMPTS
        for batch in LOADS
    ]
    names = ("prefill_tp", "decode_tp", "prefill_workers", "decode_workers")
    table: dict[str, list[Any]] = {
        name: list(values)
        for name, values in zip(
            (*names, "prefill_batch", "decode_batch"), zip(*rows, strict=True), strict=True
        )
    }
    shared = {n: SMALL[n] for n in ("model", "system", "mode", "isl", "osl")}
    table |= {name: [value] * len(rows) for name, value in {**shared, "method": "formula"}.items()}
    columns = perfatlas.estimate_table(table).columns
    found = [
        {n: cells[place] for n, cells in {**table, **columns}.items()} for place in range(len(rows))
    ]
    return [row for row in found if not row["error"]]


def test_the_winner_by_probability_is_that_of_an_exhaustive_search() -> None:
    limit, least = 1.6, 0.9
    rows = _all_rows()
    predicted, low, high = (
        np.array([row[f"request_latency_s{end}"] for row in rows]) for end in ("", "_low", "_high")
    )
    chance = probability_at_most(predicted, low, high, limit)
    rates = np.array([row[OBJECTIVES[0]] for row in rows])
    asked = {n: v for n, v in SMALL.items() if n not in ("slo_ttft_s", "slo_tpot_s")}
    asked |= {"slo_request_latency_s": limit, "min_slo_probability": least}
    best = search(**asked).results["plans"][0]
    assert best[OBJECTIVES[0]] == pytest.approx(rates[chance >= least].max(), rel=1e-9)
    assert best[OBJECTIVES[0]] < rates[chance >= 0.5].max()


@pytest.mark.parametrize("least", [0.3, 0.5, 0.8, 0.95])
def test_a_worker_with_a_narrower_interval_is_kept(least: float) -> None:
    inputs = read_search({**SMALL, "min_slo_probability": least})
    random = np.random.default_rng(1)
    count, ones = 60, np.ones(60)
    predicted = np.exp(random.normal(size=count) / 4.0)
    busy = Times(
        predicted,
        predicted / random.uniform(1.0, 3.0, count),
        predicted * random.uniform(1, 3, count),
    )
    kept = unexceeded_workers(ones, ones, busy, inputs)
    assert kept.size < count
    # each worker beside a time of another pool, as a request latency of both
    for other in (0.0, *random.uniform(0.0, 2.0, 20)):
        ends = (busy.predicted + other, busy.low + 0.8 * other, busy.high + 1.5 * other)
        for limit in np.quantile(ends[0], [0.1, 0.5, 0.9]):
            meets = probability_at_most(*ends, limit) >= least
            fastest = predicted[meets].min(initial=np.inf)
            assert predicted[kept][meets[kept]].min(initial=np.inf) == fastest


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_winner_is_that_of_an_exhaustive_search(objective: str) -> None:
    meeting = [
        row
        for row in _all_rows()
        if row["ttft_s"] <= SMALL["slo_ttft_s"] and row["tpot_s"] <= SMALL["slo_tpot_s"]
    ]
    pick = max if objective.startswith("output") else min
    expected = pick(row[objective] for row in meeting)
    best = _searched(objective).results["plans"][0]
    assert best[objective] == pytest.approx(expected, rel=1e-9)


def test_the_frontier_is_that_of_an_exhaustive_search() -> None:
    names = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_gpu")
    rates = [tuple(row[name] for name in names) for row in _all_rows()]
    expected = {
        p for p in rates if not any(a >= p[0] and b >= p[1] and (a, b) != p for a, b in rates)
    }
    told = [
        tuple(row[name] for name in names) for row in _searched(OBJECTIVES[0]).results["frontier"]
    ]
    assert sorted(told) == [pytest.approx(one, rel=1e-9) for one in sorted(expected)]


@pytest.mark.parametrize(
    "names", few([(one,) for one in (*combinations(OBJECTIVES, 2), OBJECTIVES)], every=2)
)
def test_the_pareto_set_is_that_of_an_exhaustive_search(names: tuple[str, ...]) -> None:
    signs = [1.0 if name.startswith("output") else -1.0 for name in names]
    points = {
        tuple(sign * row[name] for sign, name in zip(signs, names, strict=True))
        for row in _all_rows()
        if row["ttft_s"] <= SMALL["slo_ttft_s"] and row["tpot_s"] <= SMALL["slo_tpot_s"]
    }
    expected = np.array(sorted(
        p for p in points
        if not any(all(map(float.__ge__, o, p)) for o in points - {p})
    ))  # fmt: skip
    frontier = _searched(",".join(names)).results["frontier"]
    told = {tuple(s * row[name] for s, name in zip(signs, names, strict=True)) for row in frontier}
    # points that differ by rounding alone may be one or two
    near = [np.isclose(expected, one, rtol=1e-9).all(axis=1).any() for one in told]
    found = [np.isclose(list(told), one, rtol=1e-9).all(axis=1).any() for one in expected]
    assert all(near)
    assert all(found)

"""Numbers of workers of both pools, and tables of deployments, against one deployment at a time."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.studies.deployments.find import Found
from perfatlas.studies.deployments.matching import Rates, matched_pairs
from perfatlas.studies.deployments.pools import find_pools
from perfatlas.studies.deployments.question import SearchInputs, read_search
from perfatlas.studies.deployments.rows import candidate_table, plan_row

ASKED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "mode": "disaggregated",
    "isl": 1024,
    "osl": 128,
}


def _best_numbers(
    own: tuple[float, ...], other: tuple[float, ...], inputs: SearchInputs
) -> tuple[float, float] | None:
    """Return the numbers of workers of two kinds, by all numbers of them."""
    found = []
    for x, y in product(range(1, inputs.most_gpus + 1), repeat=2):
        total = own[0] * x + other[0] * y
        if total > inputs.most_gpus or (inputs.gpus is not None and total != inputs.most_gpus):
            continue
        serves = min(own[2] * x, other[2] * y) >= (inputs.request_rate or np.inf)
        value = min(own[1] * x, other[1] * y) / total
        found.append((not serves, total if serves else -value, total, x, y))
    return min(found)[-2:] if found else None


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ({"gpus": 12}, 40),
        ({"max_gpus": 12}, 40),
        ({"max_gpus": 12, "request_rate": 9.0}, 40),
        ({"max_gpus": 61}, 10),
        ({"max_gpus": 61, "request_rate": 40.0}, 10),
    ],
)
def test_numbers_of_workers_are_those_of_an_exhaustive_search(
    asked: dict[str, Any], kinds: int
) -> None:
    random = np.random.default_rng(5)
    inputs = read_search({**ASKED, **asked})
    sides = []
    for _ in range(2):
        rate = random.uniform(0.5, 4.0, kinds).round(1)
        gpus = np.sort(random.choice([1.0, 2.0, 3.0, 4.0, 8.0, 14.0], kinds))
        sides.append(Rates(gpus, rate, rate * random.uniform(0.5, 1.0, kinds)))
    prefill, decode = sides
    expected = {}
    for first, second in product(range(kinds), repeat=2):
        one, other = (tuple(v[i] for v in side) for side, i in ((prefill, first), (decode, second)))
        best = _best_numbers(one, other, inputs)
        if best is not None:
            expected[first, second] = best
    exact, served = inputs.gpus is not None, inputs.request_rate
    pairs = matched_pairs(prefill, decode, inputs.most_gpus, exact=exact, request_rate=served)
    found = zip(*(values.tolist() for values in pairs), strict=True)
    assert {(first, second): (x, y) for first, second, x, y in found} == expected
    assert len(expected) > kinds * kinds / 4


def test_workers_that_do_not_fit_have_no_deployments() -> None:
    one = Rates(*(np.array([value]) for value in (3.0, 1.0, 1.0)))
    nothing = Rates(*(np.empty(0) for _ in range(3)))
    for prefill, decode in ((one, one), (nothing, one), (one, nothing)):
        assert matched_pairs(prefill, decode, 4, exact=True).first.size == 0


@cache
def _found() -> tuple[Found, SearchInputs]:
    asked = {**ASKED, "gpus": 4, "systems": ("h100_sxm", "h200_sxm"), "slo_tpot_s": 0.02}
    inputs = read_search(asked)
    return find_pools(inputs), inputs


def test_a_table_of_deployments_has_their_rows() -> None:
    found, inputs = _found()
    table = candidate_table(found, inputs)
    rows = [plan_row(found, place, inputs) for place in range(found.size)]
    assert found.size > 20
    assert {*table, "method"} - {"meets_slos"} == {name for row in rows for name in row}
    for place, row in enumerate(rows):
        assert {name: table.get(name, ["formula"] * len(rows))[place] for name in row} == row
    assert set(table["prefill_system"]) == {"h100_sxm", "h200_sxm"}


def test_the_frontier_of_deployments_is_no_worse_than_any_candidate() -> None:
    found, _ = _found()
    names = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_gpu")
    front, all_ = (
        np.stack([one[name] for name in names]) for one in (found.frontier, found.candidates)
    )
    beaten = np.all(all_[:, :, None] > front[:, None, :], axis=0)
    assert not beaten.any()

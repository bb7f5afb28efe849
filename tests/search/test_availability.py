"""N + k replicas: spares by hand, their limits, and what they add to a search."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.parallelism import most_replicas
from perfatlas.reliability.fleet.closed_form import replicas_up, spare_replicas
from perfatlas.verbs.search import search

ASKED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "max_gpus": 32,
    "tp": 4,
    "pp": 1,
    "isl": 1024,
    "osl": 128,
    "max_num_batched_tokens": 8192,
    "request_rate": 100.0,
    "objective": "gpus",
    "num_simulated": 0,
}
SPARE: Final[dict[str, Any]] = {"availability": 0.999, "node_mtbf_s": 90.0, "repair_s": 10.0}


def _enumerated(needed: int, replicas: int, each: int, down: float) -> float:
    """Return the probability that enough replicas work, over all states of all nodes."""
    nodes = -(-replicas // each)
    held = [min(each, replicas - each * node) for node in range(nodes)]
    total = 0.0
    for states in product((True, False), repeat=nodes):
        chance = float(np.prod([1.0 - down if up else down for up in states]))
        total += chance * (sum(n for n, up in zip(held, states, strict=True) if up) >= needed)
    return total


def _up(needed: int, replicas: int, nodes_each: float, down: float) -> float:
    one, two, three = (np.array([float(number)]) for number in (needed, replicas, nodes_each))
    return float(replicas_up(one, two, three, down)[0])


@pytest.mark.parametrize("each", [1, 2, 4])
def test_probabilities_are_those_of_all_states(each: int) -> None:
    for needed, replicas in ((1, 1), (3, 5), (4, 9), (5, 10), (9, 9)):
        found = _up(needed, replicas, 1.0 / each, 0.1)
        assert found == pytest.approx(_enumerated(needed, replicas, each, 0.1), rel=1e-12)


def test_a_replica_of_two_nodes_needs_both() -> None:
    one, two = np.array([1.0]), np.array([2.0])
    assert replicas_up(one, one, two, 0.1)[0] == pytest.approx(0.81)


def test_spares_are_the_fewest() -> None:
    needed, most, each = np.array([3.0, 3.0]), np.array([20.0, 4.0]), np.ones(2)
    spares = spare_replicas(needed, most, each, 0.1, 0.999)
    # 1 - 0.9^3 ... P(at least 3 of 6) = 0.99873, of 7 = 0.99982
    assert spares.tolist() == [4.0, np.inf]


def test_spares_add_gpus_and_cost_alone() -> None:
    priced = {**ASKED, "usd_per_gpu_hour": 2.0}
    plain = search(**priced).results["plans"][0]
    spared = search(**priced, **SPARE).results["plans"][0]
    total = spared["dp"] + spared["spare_replicas"]
    assert "spare_replicas" not in plain
    assert spared["dp"] == plain["dp"]
    assert spared["spare_replicas"] > 0
    assert spared["gpus"] == 4 * total
    assert spared["tpot_s"] == plain["tpot_s"]
    cost = "usd_per_million_output_tokens"
    assert spared[cost] == pytest.approx(plain[cost] * total / plain["dp"])
    assert spared["availability"] >= SPARE["availability"]
    assert spared["availability"] == pytest.approx(_up(plain["dp"], total, 0.5, 0.1))
    assert "availability" not in plain


def test_simulated_plans_keep_their_spares() -> None:
    # replicas of 4 or 8 GPUs need both nodes to serve: no spare fits, however fast they are
    asked = {**ASKED, "max_gpus": 16, "request_rate": 180.0, "num_simulated": 4}
    del asked["tp"]
    spare: dict[str, Any] = {"availability": 0.998, "node_mtbf_s": 30.0, "repair_s": 1.0}
    found = search(**asked, **spare)
    closed = found.columns
    assert 0 in closed["spare_replicas"]
    for plan in found.results["plans"]:
        assert plan["method"] == "simulate"
        total = plan["dp"] + plan["spare_replicas"]
        assert _up(plan["dp"], total, plan["tp"] / 8, 1.0 / 31.0) >= spare["availability"]


def test_replicas_that_leave_gpus_of_a_node_idle_need_their_nodes() -> None:
    each = np.array([1.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0])
    assert most_replicas(each, 8.0, np.full_like(each, 24.0)).tolist() == [
        24.0,
        6.0,
        6.0,
        3.0,
        3.0,
        1.0,
        1.0,
    ]
    assert most_replicas(each, 8.0, np.full_like(each, 12.0)).tolist() == [
        12.0,
        3.0,
        3.0,
        1.0,
        1.0,
        1.0,
        0.0,
    ]

"""Placement of workers on nodes: by hand, and against an independent packing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas import parallelism
from tests.parallelism.packing import holds


def plan_of(**sizes: float) -> parallelism.PlanColumns:
    names = (
        "tp",
        "pp",
        "cp",
        "attention_dp",
        "ep",
        "moe_tp",
        "dp",
        "ring_degree",
        "guidance_degree",
        "dcp",
    )
    return parallelism.PlanColumns(
        **{name: np.array([float(sizes.get(name, 1.0))]) for name in names}
    )


@pytest.mark.parametrize(
    ("sizes", "counts", "gpus", "fit"),
    [
        ((4, 6), (1, 2), 16, False),  # 6 | 6 leave 2 and 2
        ((2, 6), (2, 2), 16, True),
        ((4, 12), (1, 1), 16, False),  # 12 take both nodes
        ((8, 8), (1, 1), 16, True),
        ((4, 8), (1, 1), 12, True),  # the last node has 4
        ((12, 4), (1, 3), 28, True),
        ((3, 4), (2, 2), 16, True),
        ((3, 4), (2, 2), 14, False),  # a limit: 4 goes to the last node, where 3 and 3 would fit
    ],
)
def test_pools_by_hand(
    sizes: tuple[float, float], counts: tuple[float, float], gpus: float, *, fit: bool
) -> None:
    assert parallelism.pools_fit(sizes, counts, gpus, 8.0) is fit
    assert parallelism.pools_fit(sizes[::-1], counts[::-1], gpus, 8.0) is fit


workers = st.tuples(st.integers(1, 20), st.integers(0, 4))


@settings(max_examples=200)
@given(workers, workers, st.sampled_from((4, 6, 8)), st.integers(1, 40))
def test_what_fits_is_packed(
    first: tuple[int, int], second: tuple[int, int], per_node: int, gpus: int
) -> None:
    sizes, counts = zip(first, second, strict=True)
    every = (first[0],) * first[1] + (second[0],) * second[1]
    fit = parallelism.pools_fit(
        (float(sizes[0]), float(sizes[1])), (float(counts[0]), float(counts[1])), gpus, per_node
    )
    if fit:
        assert holds(every, gpus, per_node)
    if max(sizes) % min(sizes) == 0 and per_node % min(sizes) == 0 and max(sizes) <= per_node:
        assert fit == holds(every, gpus, per_node)
    one = parallelism.most_replicas(
        np.array([float(sizes[0])]), float(per_node), np.array([float(gpus)])
    )[0]
    assert holds((sizes[0],) * int(one), gpus, per_node)
    assert parallelism.pools_fit(
        (float(sizes[0]), 1.0), (float(one), 0.0), float(gpus), float(per_node)
    )


def test_the_fewest_nodes_of_pools() -> None:
    assert parallelism.nodes_of_pools((6.0, 4.0), (2.0, 1.0), 8.0) == 3.0
    assert parallelism.nodes_of_pools((6.0, 2.0), (2.0, 2.0), 8.0) == 2.0
    assert parallelism.nodes_of_pools((5.0, 4.0), (1e9, 4.0), 8.0) == 1e9 + 2.0


@settings(max_examples=200)
@given(workers, workers, st.sampled_from((4, 6, 8)))
def test_one_node_less_does_not_hold_the_pools(
    first: tuple[int, int], second: tuple[int, int], per_node: int
) -> None:
    sizes = float(first[0]), float(second[0])
    counts = float(first[1]), float(second[1])
    nodes = parallelism.nodes_of_pools(sizes, counts, float(per_node))
    assert parallelism.pools_fit(sizes, counts, nodes * per_node, per_node)
    used = sizes[0] * counts[0] + sizes[1] * counts[1]
    less = (nodes - 1.0) * per_node
    assert less < used or not parallelism.pools_fit(sizes, counts, less, per_node)


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ({"tp": 6}, False),  # inside a node
        ({"tp": 6, "pp": 2}, False),  # a stage on each of two nodes
        ({"tp": 6, "pp": 4}, True),  # 24 GPUs are three nodes, which hold three stages
        ({"tp": 4, "pp": 3}, False),
        ({"tp": 2, "attention_dp": 6, "moe_tp": 12}, False),
        ({"tp": 4, "attention_dp": 3, "moe_tp": 6, "ep": 2}, True),  # no cut leaves 4 and 6 whole
        ({"tp": 16}, False),  # priced across nodes
    ],
)
def test_groups_that_nodes_cut(sizes: dict[str, Any], *, cut: bool) -> None:
    assert parallelism.cuts_groups(plan_of(**sizes), 8.0).tolist() == [cut]


def test_groups_across_nodes_by_hand() -> None:
    assert parallelism.crossing_groups({"tp": 8, "dp": 4}, 8.0) == []
    assert parallelism.crossing_groups({"tp": 4, "attention_dp": 4, "ep": 16}, 8.0) == [
        "attention_dp",
        "ep",
    ]
    assert parallelism.crossing_groups({"tp": 16, "moe_tp": 16}, 8.0) == ["tp", "moe_tp"]

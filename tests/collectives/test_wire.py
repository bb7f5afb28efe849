from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import collectives
from perfatlas.collectives.wire import between_nodes_wire_bytes

sizes = st.floats(min_value=1.0, max_value=2.0**34)
groups = st.integers(min_value=2, max_value=1024)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("all_reduce", 12e6),  # 2 x 8 MB x 3/4
        ("all_gather", 6e6),  # 8 MB x 3/4
        ("reduce_scatter", 6e6),
        ("all_to_all", 6e6),
        ("dispatch", 6e6),
        ("combine", 6e6),
        ("send_recv", 8e6),
    ],
)
def test_ring_bytes_of_four_ranks_by_hand(op: str, expected: float) -> None:
    assert collectives.ring_wire_bytes(op, np.array([8e6]), np.array([4.0]))[0] == pytest.approx(
        expected
    )


def test_the_switch_moves_one_and_an_eighth_of_the_buffer_on_eight_ranks() -> None:
    # each way: S out for the reduction + S/8 out for the multicast = 1.125 x 8 MB
    assert collectives.in_network_wire_bytes(np.array([8e6]), np.array([8.0]))[0] == pytest.approx(
        9e6
    )


def test_one_shot_reads_every_peer() -> None:
    assert collectives.one_shot_wire_bytes(np.array([1e6]), np.array([8.0]))[0] == pytest.approx(
        7e6
    )


def test_minimum_bytes_use_the_switch_only_if_lower() -> None:
    size, ranks = np.full(3, 8e6), np.array([2.0, 8.0, 8.0])
    least = collectives.least_wire_bytes("all_reduce", size, ranks, np.array([1.0, 1.0, 0.0]))
    # 2 ranks: ring 8 MB < switch 12 MB; 8 ranks: switch 9 MB < ring 14 MB; no switch: ring
    np.testing.assert_allclose(least, [8e6, 9e6, 14e6])


@given(sizes, groups)
def test_no_op_moves_less_than_the_minimum(size: float, ranks: int) -> None:
    size_U, ranks_U, helped_U = np.array([size]), np.array([float(ranks)]), np.ones(1)
    for op in collectives.OPS:
        least = collectives.least_wire_bytes(op, size_U, ranks_U, helped_U)
        assert least[0] <= collectives.ring_wire_bytes(op, size_U, ranks_U)[0]
        assert least[0] > 0.0


@given(sizes, groups, st.floats(min_value=1e-7, max_value=10.0))
def test_bus_bandwidth_times_time_is_the_ring_volume(
    size: float, ranks: int, time_s: float
) -> None:
    size_U, ranks_U, time_U = np.array([size]), np.array([float(ranks)]), np.array([time_s])
    for op in collectives.OPS:
        bus = collectives.bus_bandwidth(op, size_U, ranks_U, time_U)
        np.testing.assert_allclose(bus * time_U, collectives.ring_wire_bytes(op, size_U, ranks_U))


def test_a_group_of_one_moves_nothing() -> None:
    for op in collectives.OPS:
        assert collectives.ring_wire_bytes(op, np.array([1e6]), np.ones(1))[0] == 0.0
        assert collectives.bus_bandwidth(op, np.array([1e6]), np.ones(1), np.zeros(1))[0] == 0.0
    assert collectives.in_network_wire_bytes(np.array([1e6]), np.ones(1))[0] == 0.0


def test_between_nodes_a_ring_sends_what_a_rank_sends_and_a_tree_up_and_down() -> None:
    # 8 ranks on 2 nodes, 8 MB: ring 2 x 8 x 7/8 = 14 MB, gather 7 MB; tree S on 2 nodes, 2 S on 4
    size, ranks, nodes = np.full(2, 8e6), np.array([8.0, 16.0]), np.array([2.0, 4.0])
    on, off = np.ones(2), np.zeros(2)
    ring = between_nodes_wire_bytes("all_reduce", size, ranks, nodes, off)
    np.testing.assert_allclose(ring, [14e6, 15e6])
    np.testing.assert_allclose(
        between_nodes_wire_bytes("all_gather", size, ranks, nodes, on), [7e6, 7.5e6]
    )
    tree = between_nodes_wire_bytes("all_reduce", size, ranks, nodes, on)
    np.testing.assert_allclose(tree, [8e6, 16e6])
    alone = between_nodes_wire_bytes("all_reduce", size, ranks, np.ones(2), on)
    np.testing.assert_allclose(alone, 0.0)

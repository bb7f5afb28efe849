from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import collectives
from perfatlas.collectives import physics
from perfatlas.operators import BOUND_LATENCY, BOUND_NETWORK

if TYPE_CHECKING:
    pass

LINK = 100e9
LIBRARY = {
    "overhead_s": 5e-6,
    "overhead_rank_s": 1e-6,
    "overhead_ramp_s": 2e-6,
    "ramp_exponent": 0.5,
    "overhead_bulk_s": 20e-6,
    "overhead_bulk_rank_s": 0.0,
    "efficiency_two_ranks": 0.5,
    "efficiency_most_ranks": 0.8,
    "overlap_power": 1.0,
    "switch_bytes_per_rank": 1e6,
    "efficiency_in_network": 0.0,
    "ranks_measured": 8.0,
}
CUSTOM = {
    "overhead_s": 4e-6,
    "overhead_rank_s": 0.1e-6,
    "efficiency_one_shot": 0.5,
    "overhead_two_shot_s": 3e-6,
    "efficiency_two_shot": 0.5,
    "switch_bytes": 8e6,
    "overhead_bulk_s": 30e-6,
    "efficiency_two_ranks": 0.5,
    "efficiency_most_ranks": 0.8,
    "ranks_measured": 8.0,
}


def shape(size: float, ranks: float, *, reduces: bool = False) -> collectives.CollectiveShape:
    flag = np.array([float(reduces)])
    return collectives.collective_shape(
        "all_reduce", np.array([size]), np.array([ranks]), np.array([LINK]), flag
    )


def library(**changes: float) -> collectives.LibraryParameters:
    values = {**LIBRARY, **changes}
    return collectives.LibraryParameters(
        **{name: np.array([value]) for name, value in values.items()}
    )


def custom(**changes: float) -> collectives.CustomParameters:
    values = {**CUSTOM, **changes}
    return collectives.CustomParameters(
        **{name: np.array([value]) for name, value in values.items()}
    )


def library_s(size: float, ranks: float, *, reduces: bool = False, **changes: float) -> float:
    time_s, _ = collectives.library_time_s(shape(size, ranks, reduces=reduces), library(**changes))
    return float(time_s[0])


def custom_s(size: float, ranks: float) -> float:
    return float(collectives.custom_time_s(shape(size, ranks), custom())[0][0])


def test_small_ring_by_hand() -> None:
    # 400 kB on 8 ranks, below 8 MB: wire 2 x 400 kB x 7/8 = 700 kB = 7 us at 100 GB/s;
    # 5 + 1 x 7 + 2 x 7^0.5 = 17.2915 us
    assert library_s(4e5, 8.0) == pytest.approx(17.29150e-6, rel=1e-6)


def test_bulk_ring_by_hand() -> None:
    # 80 MB on 8 ranks: wire 140 MB over 0.8 x 100 GB/s = 1750 us, + 20 us
    assert library_s(8e7, 8.0) == pytest.approx(1770e-6)


def test_bulk_in_the_switch_by_hand() -> None:
    # 80 MB on 8 ranks: S (1 + 1/8) = 90 MB over 0.9 x 100 GB/s = 1000 us, + 20 us
    assert library_s(8e7, 8.0, reduces=True, efficiency_in_network=0.9) == pytest.approx(1020e-6)
    # on 2 ranks the ring moves 80 MB at 0.5 (1600 us), the switch 120 MB at 0.9 (1333 us)
    two = library_s(8e7, 2.0, reduces=True, efficiency_in_network=0.9)
    assert two == pytest.approx(20e-6 + 120e6 / 90e9)


def test_more_ranks_in_the_switch_by_hand() -> None:
    # 80 MB on 64 ranks: the 140 MB of a ring of the 8 measured ranks over 0.8 x 100 GB/s = 1750 us,
    # + 20 + 63 us
    far = library_s(8e7, 64.0, reduces=True, overhead_bulk_rank_s=1e-6)
    assert far == pytest.approx(1833e-6)
    # where the fit has the switch: 90 MB of 8 ranks over 0.9 x 100 GB/s = 1000 us, + 20 us
    fitted = library_s(8e7, 64.0, reduces=True, efficiency_in_network=0.9)
    assert fitted == pytest.approx(1020e-6)


def test_the_switch_between_protocols_fades_over_two_doublings_by_hand() -> None:
    # 16 MB, above the 8 MB of 8 ranks, on 16: wire 30 MB over 0.8 x 100 GB/s = 375 us. Bulk
    # 20 + 15 x 20 + 375 = 695 us; low latency 5 + 15 + 375 = 395 us; halfway, their geometric mean
    halfway = library_s(1.6e7, 16.0, overhead_bulk_rank_s=20e-6)
    assert halfway == pytest.approx((695e-6 * 395e-6) ** 0.5)
    # on 32 ranks low latency: 5 + 20 hops of a tree + 31 MB over 80 GB/s
    assert library_s(1.6e7, 32.0, overhead_bulk_rank_s=20e-6) == pytest.approx(412.5e-6)


def test_one_and_two_shot_by_hand() -> None:
    # 10 kB on 8 ranks, one shot: 4 + 0.7 + 70 kB / 50 GB/s = 1.4 -> 6.1 us
    assert custom_s(1e4, 8.0) == pytest.approx(6.1e-6)
    # 1 MB: one shot 4.7 + 140 us; two shots 4.7 + 3 + 1.75 MB / 50 GB/s = 35 -> 42.7 us
    assert custom_s(1e6, 8.0) == pytest.approx(42.7e-6)
    # 80 MB goes to the library: 30 + 140 MB / 80 GB/s = 1780 us
    assert custom_s(8e7, 8.0) == pytest.approx(1780e-6)


def test_names_of_the_algorithms() -> None:
    assert physics.library_algorithm("all_reduce", shape(1e4, 8.0), library())[0] == "ring"
    assert physics.library_algorithm("all_to_all", shape(1e4, 8.0), library())[0] == "pairwise"
    assert physics.library_algorithm("all_reduce", shape(1e4, 64.0), library())[0] == "tree"
    switch = library(efficiency_in_network=0.9)
    assert (
        physics.library_algorithm("all_reduce", shape(8e7, 8.0, reduces=True), switch)[0] == "nvls"
    )
    for size, name in ((1e4, "one_shot"), (1e6, "two_shot"), (1e8, "library")):
        assert physics.custom_algorithm(shape(size, 8.0), custom())[0] == name


def test_bound_codes_of_small_and_large_messages() -> None:
    for size, code in ((1e3, BOUND_LATENCY), (1e9, BOUND_NETWORK)):
        assert collectives.library_time_s(shape(size, 8.0), library())[1][0] == code
        assert collectives.custom_time_s(shape(size, 8.0), custom())[1][0] == code


def test_hops_are_a_ring_as_measured_and_a_tree_beyond() -> None:
    ranks = np.array([2.0, 8.0, 16.0, 64.0])
    # 16: ring 15 < tree 4 x 4; 64: tree 4 x 6 = 24 < ring 63
    np.testing.assert_allclose(physics.latency_hops(ranks, np.full(4, 8.0)), [1.0, 7.0, 15.0, 24.0])


def test_ring_efficiency_is_geometric_between_two_and_the_most_ranks() -> None:
    ranks = np.array([2.0, 4.0, 8.0, 64.0])
    fitted = library(efficiency_two_ranks=0.4, efficiency_most_ranks=0.9)
    share = physics.ring_efficiency(ranks, fitted)
    np.testing.assert_allclose(share, [0.4, 0.6, 0.9, 0.9])


def test_between_nodes_by_hand() -> None:
    # 4 nodes, one pass: 4 + 3 x 2 us, 9 MB over 0.9 x 50 GB/s = 200 us
    columns = np.array([[4.0, 9e6, 50e9, 0.0, 1.0], [1.0, 9e6, 50e9, 7e-6, 1.0]])
    fitted = collectives.FabricParameters(*np.array([[4e-6], [3e-6], [0.9]]))
    time_s, code = collectives.fabric_time_s(collectives.FabricShape(*columns.T), fitted)
    np.testing.assert_allclose(time_s, [210e-6, 7e-6])
    assert code[0] == BOUND_NETWORK


sizes = st.floats(min_value=1.0, max_value=2.0**33)


@given(sizes, sizes, st.integers(2, 8))
def test_time_never_decreases_with_bytes(first: float, second: float, ranks: int) -> None:
    small, large = sorted((first, second))
    assert library_s(small, float(ranks)) <= library_s(large, float(ranks)) * (1.0 + 1e-12)
    assert custom_s(small, float(ranks)) <= custom_s(large, float(ranks)) * (1.0 + 1e-12)


@given(size=sizes, ranks=st.integers(2, 64), reduces=st.booleans())
def test_never_faster_than_the_link(*, size: float, ranks: int, reduces: bool) -> None:
    columns = shape(size, float(ranks), reduces=reduces)
    wire = min(columns.wire_bytes[0], columns.in_network_bytes[0] or np.inf)
    optimist = {"overhead_s": 1e-12, "overhead_rank_s": 1e-15, "overhead_ramp_s": 1e-12}
    time_s = library_s(size, float(ranks), reduces=reduces, efficiency_in_network=1.0, **optimist)
    assert time_s >= wire / LINK * (1.0 - 1e-12)


def test_formulas_take_no_groups() -> None:
    nothing = np.zeros(0)
    none = collectives.collective_shape("all_reduce", nothing, nothing, nothing, nothing)
    assert [column.shape for column in collectives.library_time_s(none, library())] == [(0,), (0,)]
    assert [column.shape for column in collectives.custom_time_s(none, custom())] == [(0,), (0,)]


def test_a_group_of_one_takes_no_time() -> None:
    assert library_s(1e6, 1.0) == 0.0
    assert custom_s(1e6, 1.0) == 0.0

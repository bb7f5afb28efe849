from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.collectives import CollectiveShapes, link_columns, place_group, price_collectives
from perfatlas.collectives.placement import level_bytes, within_group
from perfatlas.collectives.pricing import Tier
from perfatlas.hardware import System, resolve_system


def small_system(
    *, domain: int = 8, bandwidth: float = 400e9, reduces: bool = False, node_devices: int = 8
) -> System:
    """Return a system of round numbers: one 50 GB/s NIC per device, 64 GB/s host link."""
    system = resolve_system("h200_sxm")
    scale_up = replace(
        system.device.scale_up,
        domain_size=domain,
        bandwidth=bandwidth,
        in_network_reduction=reduces,
    )
    device = replace(system.device, scale_up=scale_up, host_link_bandwidth=64e9)
    node = replace(system.node, devices=node_devices, nics=node_devices, nic_bandwidth=50e9)
    return replace(system, device=device, node=node)


def spread(ranks: float, stride: float, *, domain: int, node_devices: int = 8) -> list[float]:
    """Ranks that communicate on the domain, node and fabric level."""
    system = small_system(domain=domain, node_devices=node_devices)
    links = link_columns([system], np.zeros(1, np.int64))
    group = place_group(np.array([ranks]), np.array([stride]), links)
    return [float(x) for x in group.ranks_LU[:, 0]]


@pytest.mark.parametrize(
    ("ranks", "stride", "domain", "expected"),
    [
        (8, 1, 8, [8, 1, 1]),  # tp8 fills a domain
        (4, 1, 8, [4, 1, 1]),
        (4, 2, 8, [4, 1, 1]),  # attention-dp 4 over tp 2: ranks 0 2 4 6
        (4, 8, 8, [1, 1, 4]),  # pp over whole nodes: one rank per node
        (4, 4, 8, [2, 1, 2]),  # two per node
        (16, 1, 8, [8, 1, 2]),
        (72, 1, 72, [72, 1, 1]),  # NVL72: one domain over 18 nodes
        (64, 2, 72, [36, 1, 2]),
        (8, 1, 2, [2, 4, 1]),  # bridged pairs: the node level joins four of them
        (16, 1, 2, [2, 4, 2]),
        (12, 1, 8, [8, 1, 2]),  # a ragged last node counts as a node
        (1, 1, 8, [1, 1, 1]),
    ],
)
def test_placement_by_hand(ranks: int, stride: int, domain: int, expected: list[float]) -> None:
    assert spread(ranks, stride, domain=domain) == expected


@given(
    st.integers(1, 4096),
    st.sampled_from([1, 2, 4, 8, 16, 64]),
    st.sampled_from([1, 2, 4, 8, 72, 256]),
)
def test_no_rank_is_lost(ranks: int, stride: int, domain: int) -> None:
    levels = spread(ranks, stride, domain=domain)
    assert np.prod(levels) >= ranks
    assert min(levels) >= 1


def test_outer_levels_move_shards_and_exchanges_the_remote_share() -> None:
    links = link_columns([small_system()], np.zeros(1, np.int64))
    group = place_group(np.array([16.0]), np.ones(1), links)
    # 2 nodes of 8: the fabric reduces one eighth of the buffer
    np.testing.assert_allclose(
        level_bytes("all_reduce", np.array([8e6]), group)[:, 0], [8e6, 1e6, 1e6]
    )
    # all_to_all: half of the buffer is for the own node; the whole is split over two nodes
    np.testing.assert_allclose(
        level_bytes("all_to_all", np.array([8e6]), group)[:, 0], [4e6, 4e6, 8e6]
    )


def test_each_system_of_a_table_keeps_its_own_links() -> None:
    systems = [small_system(bandwidth=1e11), small_system(bandwidth=2e11, reduces=True)]
    links = link_columns(systems, np.array([1, 0]))
    np.testing.assert_allclose(links.bandwidth_LU[0], [2e11, 1e11])
    np.testing.assert_allclose(links.bandwidth_LU[2], [5e10, 5e10])
    np.testing.assert_allclose(links.in_network_U, [1.0, 0.0])


@pytest.mark.parametrize(("ranks", "share"), [(2.0, 1 / 7), (4.0, 3 / 7), (8.0, 1.0)])
def test_without_a_switch_a_group_uses_the_links_between_its_members(
    ranks: float, share: float
) -> None:
    system = resolve_system("mi300x")
    links = link_columns([system], np.zeros(1, np.int64))
    group = place_group(np.array([ranks]), np.ones(1), links)
    inside = within_group(links, group).bandwidth_LU[0, 0]
    assert inside == pytest.approx(system.device.scale_up.bandwidth * share)


@pytest.mark.parametrize("tier", ["bound", "physics"])
@pytest.mark.parametrize(
    ("system", "ranks"), [("mi300x", (2.0, 4.0, 8.0)), ("gb200", (2.0, 8.0, 72.0))]
)
def test_a_send_inside_a_domain_does_not_see_the_size_of_its_group(
    system: str, ranks: tuple[float, ...], tier: Tier
) -> None:
    priced = price_collectives(
        CollectiveShapes(
            op="send_recv", bytes=np.full(3, 2.0**30), ranks=np.array(ranks), stride=np.ones(3)
        ),
        systems=[resolve_system(system)],
        system_index_U=np.zeros(3, np.int64),
        tier=tier,
    )
    for one_U in (
        priced.prices.bound_s_CO[:, 0],
        priced.prices.time_s_CO[:, 0],
        priced.prices.low_s_CO[:, 0],
        priced.prices.high_s_CO[:, 0],
    ):
        np.testing.assert_array_equal(one_U, one_U[0])
    if system == "mi300x":  # one Infinity Fabric link of 64 GB/s joins two devices
        assert priced.prices.bound_s_CO[0, 0] == pytest.approx(2.0**30 / 64e9, rel=1e-6)

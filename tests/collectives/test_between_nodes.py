"""Inter-node collectives: rails, leaves, in-network reduction, and notes on extrapolations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas import collective, collectives
from perfatlas.collectives.fabric import Fabric, ring_between_nodes_s
from perfatlas.collectives.parameters import nic_share, unseen_fabric_tails
from perfatlas.hardware import resolve_system
from perfatlas.operators import FloatArray
from perfatlas.quantities import InvalidSpecError

SIZE = 2.0**32
ALONE = "h100_sxm{node.devices=1, device.scale_up.domain_size=1}"


def priced_columns(
    system: str, op: str, ranks: float, sizes_U: FloatArray, format_name: str = "bf16"
) -> collectives.PricedCollectives:
    """Return the prices of several sizes."""
    return collectives.price_collectives(
        collectives.CollectiveShapes(
            op=op,
            bytes=sizes_U,
            ranks=np.full(sizes_U.size, ranks),
            stride=np.ones(sizes_U.size),
            format_name=format_name,
        ),
        systems=[resolve_system(system)],
        system_index_U=np.zeros(sizes_U.size, np.int64),
        tier="physics",
        implementation=collectives.Implementation(),
    )


def priced(
    system: str, op: str, ranks: float, size: float = SIZE, format_name: str = "bf16"
) -> tuple[float, float, float, str]:
    """Return time, low, high [s] and all notes."""
    found = priced_columns(system, op, ranks, np.array([size]), format_name).prices
    ends = (found.time_s_CO[0, 0], found.low_s_CO[0, 0], found.high_s_CO[0, 0])
    return float(ends[0]), float(ends[1]), float(ends[2]), " ".join(found.notes)


def test_large_all_reduce_of_eight_nodes_by_hand() -> None:
    # trees send 2 S over 8 NICs of 50 GB/s at the fitted share: 2 x 4.295 GB / (400 GB/s x 0.94),
    # after the hops of a ring: 1.4 (8.4 us + 2 (56 x 3.4 us + 7 x 14 us))
    time_s, *_ = priced("h100_sxm", "all_reduce", 64.0)
    assert time_s == pytest.approx(2.0 * SIZE / (400e9 * 0.94) + 819e-6, rel=0.01)


def test_small_all_reduces_between_nodes_take_the_hops_of_a_tree() -> None:
    # two nodes of 8: the measured 15.7 us inside a node, above 6.8 us + 2 x 7 x 0.6 us of LL,
    # and 2 x 5 us between them; an efa hop of 75 us replaces the 5 us
    inside = priced("h100_sxm", "all_reduce", 8.0, 8.0)[0]
    assert inside == pytest.approx(15.7e-6, rel=0.01)
    both = priced("h100_sxm", "all_reduce", 16.0, 8.0)[0]
    assert both == pytest.approx(inside + 10e-6, rel=0.01)
    efa, *_ = priced("a100_sxm{fabric=efa}", "all_reduce", 16.0, 8.0)
    assert efa == pytest.approx(priced("a100_sxm", "all_reduce", 8.0, 8.0)[0] + 150e-6, rel=0.01)
    # dstackai/dstack examples/clusters/nebius.md, two nodes of H100: nothing is fitted to these
    for size, measured_s in ((2.0**22, 110.1e-6), (2.0**24, 210.3e-6)):
        assert priced("h100_sxm", "all_reduce", 16.0, size)[0] == pytest.approx(
            measured_s, rel=0.15
        )


def test_servers_of_a_rack_share_its_domain() -> None:
    asked: dict[str, Any] = {"system": "gb300", "op": "all_reduce", "bytes": 2**30}
    for gpus, nodes, racks in ((64, 16, 1), (8, 2, 1), (128, 32, 2)):
        by_server = collective(**asked, gpus=gpus, nodes=nodes).results["time_s"]
        assert by_server == collective(**asked, gpus=gpus, nodes=racks).results["time_s"]


def test_switches_between_nodes_halve_what_a_node_sends() -> None:
    plain, *_ = priced("h200_sxm{node.nic_bandwidth=10GB/s}", "all_reduce", 64.0)
    adding, *_ = priced(
        "h200_sxm{node.nic_bandwidth=10GB/s, fabric.in_network_reduction=true}", "all_reduce", 64.0
    )
    assert adding == pytest.approx(plain / 2.0, rel=0.01)
    gather, *_ = priced("h200_sxm{fabric.in_network_reduction=true}", "all_gather", 64.0)
    assert gather == priced("h200_sxm", "all_gather", 64.0)[0]


def test_a_leaf_hides_oversubscription_and_rings_cross_it_once() -> None:
    narrow = "h100_sxm{fabric.oversubscription=4}"  # 32 nodes below a leaf
    for op in ("all_reduce", "all_to_all"):
        assert priced(narrow, op, 256.0)[0] == priced("h100_sxm", op, 256.0)[0]
    assert priced(narrow, "all_reduce", 512.0)[0] == priced("h100_sxm", "all_reduce", 512.0)[0]
    # 64 nodes, 32 of 63 peers beyond the leaf: 4 x 32/63 = 2.03 times the transfer
    ratio = priced(narrow, "all_to_all", 512.0)[0] / priced("h100_sxm", "all_to_all", 512.0)[0]
    assert ratio == pytest.approx(4.0 * 32.0 / 63.0, rel=0.01)
    all_up = priced("h100_sxm{fabric.oversubscription=4, fabric.leaf_nodes=1}", "all_to_all", 512.0)
    assert all_up[0] > 3.9 * priced("h100_sxm", "all_to_all", 512.0)[0]


def test_leaves_follow_the_ports_of_a_switch() -> None:
    def leaf(changes: str) -> int:
        return resolve_system(f"h100_sxm{{{changes}}}").fabric.leaf_nodes

    assert leaf("fabric.radix=128") == 64  # half the ports of a leaf are downlinks, one per node
    assert leaf("fabric.topology=fat_tree") == 4  # all 8 NICs of a node on one leaf of 32 downlinks
    assert leaf("fabric.radix=64, fabric.oversubscription=3") == 48
    assert leaf("fabric.radix=128, fabric.leaf_nodes=8") == 8  # as stated


def test_exchanges_share_the_links_of_a_pod_with_its_other_nodes() -> None:
    pods = "h100_sxm{fabric.pod_nodes=128, fabric.pod_oversubscription=7}"
    for op in ("all_reduce", "all_to_all"):
        assert priced(pods, op, 1024.0)[0] == priced("h100_sxm", op, 1024.0)[0]
    # 256 nodes, 128 of 255 peers in other pods: 7 x 128/255; a ring leaves a pod once
    ratio = priced(pods, "all_to_all", 2048.0)[0] / priced("h100_sxm", "all_to_all", 2048.0)[0]
    assert ratio == pytest.approx(7.0 * 128.0 / 255.0, rel=0.01)
    assert priced(pods, "all_reduce", 2048.0)[0] == priced("h100_sxm", "all_reduce", 2048.0)[0]


def test_messages_pass_two_more_switches_per_tier() -> None:
    def tiers(nodes: float) -> float:
        system = "h100_sxm{fabric.pod_nodes=64, fabric.switch_latency=100us, fabric.latency=100us}"
        plain = system.replace("switch_latency=100us", "switch_latency=0")
        asked: dict[str, Any] = {"op": "all_to_all", "ranks": 8.0 * nodes, "size": 8.0}
        more_s = priced(system, **asked)[0] - priced(plain, **asked)[0]
        return more_s / math.log2(nodes) / 100e-6  # one cost for each doubling of the nodes

    assert [tiers(nodes) for nodes in (32.0, 64.0, 256.0)] == pytest.approx([0.0, 2.0, 4.0])


def test_leaves_count_servers_of_a_rack() -> None:
    # a leaf of 36 trays is two racks of 18: 4 racks of GB300, 2 of 3 peers beyond
    asked: dict[str, Any] = {"op": "all_to_all", "ranks": 288.0}
    narrow = priced("gb300{fabric.leaf_nodes=36, fabric.oversubscription=4}", **asked)[0]
    assert narrow / priced("gb300", **asked)[0] == pytest.approx(4.0 * 2.0 / 3.0, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ("fabric.leaf_nodes=64", "leaves no uplink"),
        ("fabric.pod_nodes=100", "no multiple of fabric.leaf_nodes = 32"),
        ("fabric.pod_oversubscription=2", "set fabric.pod_nodes"),
        ("fabric.topology=dragonfly_plus", "set fabric.pod_nodes"),
        ("fabric.topology=torus", "rail_optimized_fat_tree"),
        ("fabric.radix=0", "positive number"),
        ("fabric.oversubscription=-1", "positive number"),
    ],
)
def test_contradictory_topologies_are_refused(changes: str, told: str) -> None:
    with pytest.raises(InvalidSpecError, match=told):
        resolve_system(f"h100_sxm{{{changes}}}")


def test_rings_without_the_switch_are_those_of_integers() -> None:
    ring = "h200_sxm{device.scale_up.in_network_reduction=false}"
    time_s, _, _, notes = priced(ring, "all_reduce", 8.0)
    assert "rings on" in notes
    assert time_s == priced("h200_sxm", "all_reduce", 8.0, format_name="int8")[0]
    assert time_s > 1.2 * priced("h200_sxm", "all_reduce", 8.0)[0]


@pytest.mark.parametrize("op", ["all_reduce", "all_to_all"])
def test_more_nodes_than_measured_have_a_note_and_a_wider_interval(op: str) -> None:
    few = priced("h100_sxm", op, 64.0)
    many = priced("h100_sxm", op, 4096.0)
    assert "at most 8 nodes" not in few[3]
    assert "at most 8 nodes" in many[3]
    assert many[2] / many[0] > few[2] / few[0]


def test_nvl72_notes_missing_in_network_measurements() -> None:
    assert "the switch is assumed to reduce" in priced("gb200", "all_reduce", 72.0)[3]
    assert "the switch is assumed" not in priced("gb200", "all_gather", 72.0)[3]
    assert "the switch is assumed" not in priced("h200_sxm", "all_reduce", 8.0)[3]


@given(
    op=st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]),
    nodes=st.sampled_from([2, 4, 8, 32, 256]),
    size=st.integers(1, 2**34),
)
@settings(max_examples=25)
def test_latency_grows_with_nodes(op: str, nodes: int, size: int) -> None:
    fewer = priced("h100_sxm", op, 8.0 * nodes, 8.0)
    more = priced("h100_sxm", op, 16.0 * nodes, 8.0)
    assert more[0] > fewer[0]
    time_s, low_s, high_s, _ = priced("h100_sxm", op, 8.0 * nodes, float(size))
    assert low_s <= time_s <= high_s


@given(
    op=st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]),
    device=st.sampled_from(["l40s", "rtx_pro_6000_server", "h100_pcie"]),
    size=st.integers(2**20, 2**34),
)
@settings(max_examples=20)
def test_more_nodes_do_not_relieve_a_host_link(op: str, device: str, size: int) -> None:
    times = [priced(device, op, 8.0 * nodes, float(size))[0] for nodes in (1, 2, 4, 16, 64)]
    assert times == sorted(times)


def test_bytes_for_both_levels_share_the_host_link_by_hand() -> None:
    # 2 nodes of 8: a rank sends 15/16 of its 1 GiB through its 32 GB/s link, 7/8 on one node
    few, many = (
        collectives.price_collectives(
            collectives.CollectiveShapes(
                op="all_to_all",
                bytes=np.array([2.0**30]),
                ranks=np.array([ranks]),
                stride=np.ones(1),
            ),
            systems=[resolve_system("l40s")],
            system_index_U=np.zeros(1, np.int64),
            tier="physics",
        )
        for ranks in (8.0, 16.0)
    )
    assert few.prices.bound_s_CO[0, 0] == pytest.approx(2.0**30 * 7.0 / 8.0 / 32e9)
    assert many.prices.bound_s_CO[0, 0] == pytest.approx(2.0**30 * 15.0 / 16.0 / 32e9)
    assert many.prices.time_s_CO[0, 0] == pytest.approx(
        few.prices.time_s_CO[0, 0] * 15.0 / 14.0, rel=1e-3
    )


@given(
    op=st.sampled_from(collectives.OPS),
    device=st.sampled_from(["h100_sxm", "b200_sxm", "l40s"]),
    size=st.integers(1, 2**34),
)
@settings(max_examples=30)
def test_more_nodes_never_lower_the_low_end(op: str, device: str, size: int) -> None:
    first = 16.0 if op in {"all_to_all", "dispatch", "combine"} else 8.0
    ranks = [first, 16.0, 32.0, 64.0, 128.0, 4096.0]
    lows = [priced(device, op, one, float(size))[1] for one in ranks]
    assert all(low <= more * (1.0 + 1e-9) for low, more in itertools.pairwise(lows))


def test_extrapolated_nodes_widen_the_slow_side_by_hand() -> None:
    # q95 of one doubling for each of 3 and of 9 doublings of the nodes, q05 once for both
    few, many = (priced("h100_sxm", "all_gather", ranks, 2.0**16) for ranks in (64.0, 4096.0))
    assert many[1] / many[0] == pytest.approx(few[1] / few[0])
    assert math.log(many[2] / many[0]) - math.log(few[2] / few[0]) == pytest.approx(6.0 * 0.214)


def fabric_of(*, nics_bytes_per_s: float, sent_bytes: float, pcie: bool = False) -> Fabric:
    """Return links to price a ring with, without latencies of their own."""
    return Fabric(
        wire_s_U=np.array([sent_bytes / nics_bytes_per_s]),
        nics_U=np.array([nics_bytes_per_s]),
        pcie_U=np.array([pcie]),
        network_s_U=np.zeros(1),
        least_s_U=np.zeros(1),
        inside_s_U=np.zeros(1),
    )


def test_all_gather_of_an_empty_message_takes_the_hops_of_a_ring_by_hand() -> None:
    # LL: 6.6 us, 512 - 64 = 448 hops of 1 us inside nodes and 63 of 2.7 us between them: 624.7 us
    time_s, *_, notes = priced("h100_sxm", "all_gather", 512.0, 8.0)
    assert time_s == pytest.approx(624.7e-6, rel=1e-3)
    assert "one after the other" in notes
    # 512 MiB: LL128 at 0.92 of the speed, 14 + 448 x 1.9 + 63 x 4 us = 1.12 ms later than at once
    gather_s, _, _, _ = priced("h100_sxm", "all_gather", 512.0, 2.0**29)
    moved_s = 2.0**29 * (511.0 / 512.0) / 400e9 / 0.92
    assert 1.1172e-3 + moved_s < gather_s < 1.1172e-3 + 1.1 * moved_s


def test_trees_of_all_reduce_do_not_pass_all_ranks() -> None:
    assert priced("h100_sxm", "all_reduce", 4096.0, 8.0)[0] < 2e-4
    assert priced("h100_sxm", "all_gather", 4096.0, 8.0)[0] > 4e-3


def test_two_nodes_with_few_nics_reduce_by_a_tree_by_hand() -> None:
    few = "a100_sxm{node.nics=4,node.nic_bandwidth=100Gbit/s}"
    one_s, more_s = (priced(few, "all_reduce", ranks, 2.0**31)[0] for ranks in (16.0, 24.0))
    sent_s = 2.0**31 / 50e9 / 0.9416  # all bytes once, at the measured efficiency of NICs
    assert one_s == pytest.approx(sent_s, rel=0.01)
    assert more_s > 1.8 * one_s  # a ring sends them twice
    # eight NICs of 200 Gbit/s: the chain of GPUs, 1.24 times as long as the ring of a node
    inside_s = priced("a100_sxm", "all_reduce", 8.0, 2.0**31)[0]
    assert priced("a100_sxm", "all_reduce", 16.0, 2.0**31)[0] == pytest.approx(
        inside_s * (8.0 / 14.0) / 0.46, rel=0.01
    )


def test_a_network_of_amazon_has_the_latency_that_its_plugin_tells_nccl() -> None:
    near_s, far_s = (
        priced(f"h100_sxm{{fabric={fabric}}}", "all_reduce", 16.0, 1024.0)[0]
        for fabric in ("efa_p5en", "efa")
    )
    assert far_s - near_s == pytest.approx(2 * 40e-6, rel=0.01)  # there and back


def test_one_rank_per_node_gathers_by_trees_with_a_linear_part() -> None:
    few_s, many_s = (priced(ALONE, "all_gather", ranks, 2.0**29)[0] for ranks in (64.0, 512.0))
    # PAT: 3 more doublings of 4 us and 448 more ranks of 2.8 us, less than 448 hops of 5 us
    assert many_s - few_s == pytest.approx(3 * 4.0e-6 + 448 * 2.8e-6, rel=0.4)
    # LL: 6.6 us and 3 hops of 5 us, alone between nodes; PAT: 8 us, 2 doublings and 4 of 2.8 us
    assert priced(ALONE, "all_gather", 4.0, 8.0)[0] == pytest.approx(21.6e-6, rel=0.02)


@pytest.mark.parametrize("system", ["h100_sxm", "l40s", "l40s{node.nics=1}", ALONE])
@pytest.mark.parametrize("ranks", [9.0, 16.0, 144.0])
def test_gathers_between_nodes_grow_with_bytes_without_jumps(system: str, ranks: float) -> None:
    sizes = 2.0 ** np.arange(3.0, 33.0, 0.125)
    time_s = priced_columns(system, "all_gather", ranks, sizes).prices.time_s_CO[:, 0]
    growth = time_s[1:] / time_s[:-1]
    assert growth.min() >= 1.0
    assert growth.max() < 1.2  # of 1.09 times the bytes; protocols inside a node add a step


def test_low_latency_messages_have_the_bandwidth_of_a_host_not_of_the_nics() -> None:
    ring = {
        nics: ring_between_nodes_s(
            np.array([256.0]),
            np.array([32.0]),
            fabric_of(nics_bytes_per_s=nics, sent_bytes=2.0**10),
        )
        for nics in (25e9, 400e9, 3.6e12)
    }
    # LL: half of slow NICs, at most 20.4 GB/s; all with 6.6 us, 224 hops of 1 us and 31 of 2.7 us
    for nics, speed in ((25e9, 12.5e9), (400e9, 20.4e9), (3.6e12, 20.4e9)):
        assert ring[nics].moving_s_U[0] == pytest.approx(2.0**10 / speed)
        assert ring[nics].latency_s_U[0] == pytest.approx(314.3e-6)


def test_ll128_needs_nvlink_inside_a_node() -> None:
    # Simple over PCIe: 8.4 us, 7 x 5.7 us inside each of 8 nodes and 7 x 14 us between them
    ranks_U, nodes_U = np.array([64.0]), np.array([8.0])
    card = ring_between_nodes_s(
        ranks_U, nodes_U, fabric_of(nics_bytes_per_s=100e9, sent_bytes=2.0**30, pcie=True)
    )
    assert card.latency_s_U[0] == pytest.approx((8.4 + 56 * 5.7 + 7 * 14.0) * 1e-6)
    assert card.moving_s_U[0] == pytest.approx(2.0**30 / 100e9)
    module = ring_between_nodes_s(
        ranks_U, nodes_U, fabric_of(nics_bytes_per_s=100e9, sent_bytes=2.0**22)
    )
    assert module.moving_s_U[0] == pytest.approx(2.0**22 / 92e9)


def test_a_slow_network_slows_every_hop_between_nodes() -> None:
    near_s, far_s = (
        priced(system, "reduce_scatter", 64.0, 8.0)[0]
        for system in ("h100_sxm", "h100_sxm{fabric.latency=100us}")
    )
    assert far_s - near_s == pytest.approx(7 * (100e-6 - 2.7e-6), rel=0.2)


def test_unseen_fabrics_end_at_the_quantiles_of_the_farthest_machines() -> None:
    """By hand: -0.098 of ten nodes of H100, 1.901 of AWS p6-b200: up to exp(1.901) = 6.69 times."""
    assert unseen_fabric_tails().tolist() == [-0.098, 1.901]
    assert nic_share(resolve_system("a100_sxm")) == 25e9  # 8 NICs of 200 Gbit/s, 8 GPUs
    time_s, _, high_s, notes = priced("a100_sxm", "all_reduce", 16.0)
    assert high_s == pytest.approx(6.6926 * time_s, rel=1e-3)
    assert "25 GB/s of NICs per GPU" in notes


@pytest.mark.parametrize("op", collectives.OPS)
@pytest.mark.parametrize("size", [2.0**10, 2.0**20, 2.0**32])
def test_every_exchange_over_slower_nics_than_fitted_has_their_interval(
    op: str, size: float
) -> None:
    for system, ranks in (("a100_sxm", 16.0), ("h100_sxm{node.nics=4}", 16.0), ("h100_nvl", 16.0)):
        time_s, _, high_s, notes = priced(system, op, ranks, size)
        assert high_s >= 6.6 * time_s
        assert "unseen fabrics" in notes
    for system, ranks in (("h100_sxm", 16.0), ("b200_sxm", 16.0), ("a100_sxm", 8.0)):
        time_s, _, high_s, notes = priced(system, op, ranks, size)
        assert high_s < 6.0 * time_s
        assert "unseen fabrics" not in notes


def test_nodes_of_a100_and_pairs_of_h100_nvl_are_inside() -> None:
    """Published all-reduces [s] that no fit and no interval was taken from."""
    nics = "node.nics={}, node.nic_bandwidth={}GB/s"
    for system, ranks, size, measured_s in (
        (f"a100_sxm{{{nics.format(4, 25)}}}", 16.0, 2.0**30, 23.4e-3),  # nccl-tests#100: 86 GB/s
        (f"a100_sxm{{{nics.format(8, 12.5)}}}", 16.0, 2.0**30, 26.8e-3),  # nccl#495: 75 GB/s
        (f"a100_sxm{{{nics.format(4, 12.5)}}}", 16.0, 8.0, 164.3e-6),  # AWS p4de.24xlarge
    ):
        _, low_s, high_s, _ = priced(system, "all_reduce", ranks, size)
        assert low_s < measured_s < high_s


def test_domains_of_one_node_over_the_host_link_have_the_interval_of_unseen_fabrics() -> None:
    # nccl-tests#178: three of eight A100 PCIe, bridged in pairs, take 71.6 ms
    pairs = "a100_pcie{device.scale_up.kind=nvlink, device.scale_up.bandwidth=300GB/s"
    system = f"{pairs}, device.scale_up.domain_size=2}}"
    time_s, low_s, high_s, notes = priced(system, "all_reduce", 3.0, 2.0**30)
    assert low_s < 71.6e-3 < high_s
    assert high_s >= 6.6 * time_s
    assert "unseen fabrics" in notes
    assert "unseen fabrics" not in priced(system, "all_reduce", 2.0, 2.0**30)[3]

"""Rings over PCIe are priced on a typical machine, and the interval spans the published ones."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.collectives.topology import NOTE, published_rings
from perfatlas.verbs.collective import collective, collective_columns

SIZE = 1 << 26


def asked(system: str, gpus: int, op: str = "all_reduce") -> tuple[dict[str, Any], tuple[str, ...]]:
    answer = collective(system=system, op=op, bytes=SIZE, gpus=gpus)
    return dict(answer.results), answer.evidence.assumptions


@pytest.mark.parametrize("system", ["l40s", "rtx_pro_6000_server", "rtx_4090"])
@pytest.mark.parametrize("gpus", [4, 8])
# of two exchanges, the published one and that of the table, the median is their mean
@pytest.mark.parametrize(
    ("op", "groups", "least"), [("all_reduce", "rings", 0.9), ("all_to_all", "exchanges", 0.5)]
)
def test_large_groups_reach_a_typical_share_of_the_link_and_span_all_machines(
    system: str, gpus: int, op: str, groups: str, least: float
) -> None:
    results, notes = asked(system, gpus, op)
    assert NOTE.format(rings=groups) in notes
    link = {"l40s": 32e9, "rtx_4090": 32e9, "rtx_pro_6000_server": 64e9}[system]
    usual = [ring for ring in published_rings(op) if ring["usual"]]
    shares = [ring["share"] for ring in usual if ring["gpus"] == gpus]
    rate = results["bus_bandwidth_bytes_per_s"] / link
    assert min(shares) * least <= rate <= max(shares)
    fastest = rate * results["time_s"] / results["time_s_low"]
    slowest = rate * results["time_s"] / results["time_s_high"]
    assert fastest >= 0.95 * max(shares)
    assert slowest <= min(shares)


def test_the_machine_of_the_table_stays_inside_the_interval() -> None:
    # the measured all-reduce of 2 MiB on eight L40S, in the tables of aiconfigurator-core 0.12.0
    answer = collective(system="l40s", op="all_reduce", bytes=1 << 21, gpus=8)
    assert answer.results["time_s"] < 0.3 * 2.58e-3
    assert answer.results["time_s_high"] > 2.58e-3


@pytest.mark.parametrize("system", ["l40s", "h100_sxm"])
def test_pairs_and_nvlink_are_priced_as_calibrated(system: str) -> None:
    _, notes = asked(system, 2 if system == "l40s" else 8)
    assert not any("typical machine" in note for note in notes)


def test_exchanges_and_rings_have_machines_of_their_own() -> None:
    """64 MiB x 7/8 over 0.32 of 32 GB/s: 5.7 ms; the table of one machine says 48 ms."""
    results, _ = asked("l40s", 8, "all_to_all")
    assert results["time_s"] == pytest.approx(SIZE * 7 / 8 / (0.32 * 32e9), rel=0.01)
    assert results["time_s_high"] > 0.047


def test_groups_in_between_take_the_nearest_size() -> None:
    rates = [asked("l40s", gpus)[0]["bus_bandwidth_bytes_per_s"] for gpus in (4, 5, 6, 8)]
    assert rates[0] == pytest.approx(rates[1], rel=0.05)
    assert rates[2] == pytest.approx(rates[3], rel=0.05)
    assert np.all(np.diff(rates) <= 0.05 * rates[0])


@pytest.mark.parametrize(
    ("system", "same"),
    [
        ("l40s{device.scale_up.bandwidth=64GB/s}", "l40s"),
        ("l40s{device.host_link.bandwidth=16GB/s}", "l40s{device.scale_up.bandwidth=16GB/s}"),
    ],
)
@pytest.mark.parametrize("gpus", [2, 8])
def test_a_ring_is_no_faster_than_the_link_to_the_host(system: str, same: str, gpus: int) -> None:
    results, limited = asked(system, gpus)[0], asked(same, gpus)[0]
    assert results["time_s"] == pytest.approx(limited["time_s"])
    assert results["time_s"] > 1.2 * results["bound_time_s"]


def test_one_gpu_in_a_table_of_rings_divides_nothing_by_zero() -> None:
    rows: dict[str, list[Any]] = {
        "system": ["l40s"] * 2,
        "op": ["all_reduce"] * 2,
        "bytes": [SIZE] * 2,
        "gpus": [1, 8],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = collective_columns(rows)
    assert list(table["time_s"]) == [0.0, asked("l40s", 8)[0]["time_s"]]


def test_a_stated_topology_takes_rings_with_its_paths() -> None:
    # 8 GPUs on two sockets copy through host memory: 28 GB/s of 64 published, 0.44 of the link
    results, notes = asked("rtx_pro_6000_server{node.topology=two_sockets_8}", 8)
    assert results["bus_bandwidth_bytes_per_s"] == pytest.approx(0.44 * 64e9, rel=0.03)
    assert any("SYS paths with host memory" in note for note in notes)
    shares = [ring["share"] for ring in published_rings() if ring["gpus"] == 8]
    rate = results["bus_bandwidth_bytes_per_s"] / 64e9
    assert rate * results["time_s"] / results["time_s_high"] <= min(shares)


def test_switches_and_peer_access_are_no_slower_than_host_memory() -> None:
    through_host = asked("l40s{node.topology=two_switches_8, node.peer_access=no}", 4)[0]
    direct = asked("l40s{node.topology=two_switches_8}", 4)[0]
    assert direct["time_s"] < through_host["time_s"]
    forced = asked("l40s{node.topology=two_sockets_8, node.peer_access=yes}", 4)[0]
    assert forced["time_s"] < asked("l40s{node.topology=two_sockets_8}", 4)[0]["time_s"]


def test_bridged_pairs_use_their_nvlinks(tmp_path: Path) -> None:
    file = tmp_path / "topo.txt"
    file.write_text("GPU0 X NV12\nGPU1 NV12 X\n", "utf-8")
    size = "node.devices=2, device.scale_up.domain_size=2"
    system = f"h100_pcie{{node.topology={file}, {size}}}"
    answer = collective(system=system, op="all_reduce", bytes=1 << 30, gpus=2)
    results = answer.results
    # NVIDIA/nccl#1161: 115.4 GB/s between two H100 PCIe; one of the two draws
    assert 115.4e9 < results["bus_bandwidth_bytes_per_s"] < 0.82 * 300e9
    assert results["time_s_high"] >= (1 << 30) / 115.4e9
    assert results["bound_time_s"] == pytest.approx((1 << 30) / 300e9)


@pytest.mark.parametrize(("card", "rate"), [("rtx_3090", 56.25e9), ("a100_pcie", 300e9)])
def test_a_bridge_has_the_links_of_its_card(card: str, rate: float) -> None:
    """By hand: 4 links of 14.0625 GB/s of an RTX 3090, 12 of 25 GB/s of an A100 PCIe."""
    plain = collective(system=card, op="all_reduce", bytes=1 << 30, gpus=2)
    (note,) = plain.warnings
    assert "set node.topology = bridged_2" in note
    stated = "node.topology=bridged_2, node.devices=2, device.scale_up.domain_size=2"
    answer = collective(system=f"{card}{{{stated}}}", op="all_reduce", bytes=1 << 30, gpus=2)
    assert not answer.warnings
    assert answer.results["bound_time_s"] == pytest.approx((1 << 30) / rate)


def test_the_interval_of_a_pair_without_a_topology_covers_a_bridge() -> None:
    for system, size, measured_s in (
        ("a100_pcie", 2**30, 5.162e-3),  # NVIDIA/nccl-tests#178, the one pair that no share is from
        ("h100_pcie", 2**31, 18.535e-3),  # NVIDIA/nccl#1161
    ):
        found = collective(system=system, op="all_reduce", bytes=size, gpus=2).results
        assert found["bound_time_s"] == pytest.approx(size / 300e9)
        assert found["time_s_low"] <= measured_s <= found["time_s_high"]
    bare = collective(system="l40s", op="all_reduce", bytes=2**30, gpus=2).results
    assert bare["bound_time_s"] == pytest.approx(2**30 / 32e9)  # a card without bridges


def test_a_pair_of_a_mesh_has_the_links_between_the_two() -> None:
    # six of the 18 NVLinks of an H200 NVL in a bridge of four, two of the six links of an MI300A
    for system, rate in (("h200_nvl", 150e9), ("mi300a", 128e9)):
        found = collective(system=system, op="all_reduce", bytes=2**30, gpus=2).results
        assert found["bound_time_s"] == pytest.approx(2**30 / rate)


def test_a_ring_of_two_domains_of_a_node_crosses_the_host_link() -> None:
    found = collective(system="h200_nvl", op="all_reduce", bytes=2**30, gpus=8).results
    assert found["time_s"] > 2.0 * 7.0 / 8.0 * 2**30 / 64e9  # one ring of eight over PCIe 5 x16
    assert found["time_s_low"] < found["time_s"] < found["time_s_high"]


def test_nvlink_is_not_slower_than_pcie_at_the_same_rate() -> None:
    for gpus in (2, 4, 8):
        over_nvlink = asked("l40s{device.scale_up.kind=nvlink}", gpus)[0]
        assert over_nvlink["time_s"] <= asked("l40s", gpus)[0]["time_s"]


@pytest.mark.parametrize(("family", "gpus"), [("vllm", 4), ("sglang", 8)])
def test_engines_leave_large_pcie_groups_to_the_library(family: str, gpus: int) -> None:
    fields: dict[str, Any] = {"system": "l40s", "op": "all_reduce", "bytes": 1 << 16}
    own = collective(**fields, gpus=gpus, kernel_family=family)
    library = collective(**fields, gpus=gpus, kernel_family="nccl")
    assert own.results["time_s"] == library.results["time_s"]
    assert any("over PCIe; others use the library" in note for note in own.evidence.assumptions)


def test_a_topology_that_narrows_the_interval_alone_has_an_effect() -> None:
    answer = collective(
        system="l40s{node.topology=two_sockets_8}", op="all_reduce", bytes=SIZE, gpus=8
    )
    assert not [text for text in answer.warnings if "has no effect" in text]


@pytest.mark.parametrize("op", ["all_to_all", "dispatch"])
@pytest.mark.parametrize("board", ["", "two_sockets_8", "two_switches_8"])
@pytest.mark.parametrize("peer_access", ["", "yes", "no"])
def test_exchanges_take_no_less_time_with_more_gpus(op: str, board: str, peer_access: str) -> None:
    stated = [f"node.topology={board}"] * bool(board)
    stated += [f"node.peer_access={peer_access}"] * bool(board and peer_access)
    system = f"l40s{{{', '.join(stated)}}}" if stated else "l40s"
    times = [asked(system, gpus, op)[0]["time_s"] for gpus in (2, 3, 4, 6, 8)]
    assert np.all(np.diff(times) >= 0.0)

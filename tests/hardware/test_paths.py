"""Paths between the GPUs of a node, read from `nvidia-smi topo -m`."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.hardware import HOST, PEER, resolve_system, ring_route
from perfatlas.hardware.paths import boards, parse_topology, read_topology

PRINTED = """
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\tSYS\tPIX\t0-31,64-95\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tSYS\tPIX\t0-31,64-95\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV12\tSYS\t32-63\t1\t\tN/A
GPU3\tSYS\tSYS\tNV12\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPIX\tPIX\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect
"""


def test_the_printed_matrix_is_read_without_nics_and_affinities() -> None:
    matrix = parse_topology(PRINTED, "here")
    assert matrix[0] == ("X", "NV12", "SYS", "SYS")
    assert len(matrix) == 4


def test_rings_take_the_farthest_path_of_their_group() -> None:
    matrix = parse_topology(PRINTED, "here")
    assert ring_route(matrix, 2, "auto") == ("NV", PEER, 12)
    assert ring_route(matrix, 4, "auto") == ("SYS", HOST, 0)
    assert ring_route(matrix, 4, "yes") == ("SYS", PEER, 0)
    assert ring_route(matrix, 8, "auto") == ("", "", 0)  # more GPUs than it lists


@pytest.mark.parametrize(
    ("board", "ranks", "path", "transport"),
    [
        ("two_switches_8", 4, "PIX", PEER),
        ("two_switches_8", 8, "PHB", HOST),
        ("wrx90_cascade_8", 4, "PXB", PEER),
        ("asus_esc8000a_e13p", 2, "PIX", PEER),
        ("asus_esc8000a_e13p", 4, "NODE", HOST),
        ("two_sockets_8", 8, "SYS", HOST),
    ],
)
def test_peer_access_ends_at_the_host_bridge(
    board: str, ranks: int, path: str, transport: str
) -> None:
    # NVIDIA/nccl@5067397 src/graph/paths.cc: p2pLevel = PATH_PXB
    route = ring_route(read_topology(board), ranks, "auto")
    assert (route.path, route.transport) == (path, transport)


def test_all_boards_can_be_read() -> None:
    assert all(len(read_topology(name)) in (2, 4, 8) for name in boards())
    assert all(board["ref"] for board in boards().values())


def test_a_system_takes_a_board_a_file_or_the_text_itself(tmp_path: Path) -> None:
    file = tmp_path / "topo.txt"
    file.write_text(PRINTED, "utf-8")
    size = "node.devices=4, device.scale_up.domain_size=4"
    named = resolve_system(f"h100_pcie{{node.topology={file}, {size}}}")
    spec = tmp_path / "mine.toml"
    spec.write_text(
        'base = "h100_pcie"\n[node]\nbase = "pcie_2_8_5_200"\ndevices = 4\n'
        f'topology = """{PRINTED.replace(chr(27), "")}"""\n[device.scale_up]\ndomain_size = 4\n',
        "utf-8",
    )
    pasted = resolve_system(str(spec))
    assert named.node.paths == pasted.node.paths == parse_topology(PRINTED, "here")
    file.write_text(PRINTED.replace("NV12", "PIX"), "utf-8")
    assert resolve_system(f"h100_pcie{{node.topology={file}, {size}}}").node.paths[0][1] == "PIX"


def test_another_node_does_not_keep_the_topology() -> None:
    system = resolve_system("l40s{node.topology=two_sockets_8}")
    assert len(system.node.paths) == 8
    assert resolve_system("l40s{node=hgx_b200}").node.paths == ()

"""Paths between the GPUs of a node, as `nvidia-smi topo -m` prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

BOARDS: Final = "data/hardware/boards.toml"
# Nearest first. Source: `nvidia-smi topo -m`, legend.
PCIE_PATHS: Final = ("PIX", "PXB", "PHB", "NODE", "SYS")
# Through PCIe switches alone; farther paths pass a host bridge.
SWITCH_PATHS: Final = ("PIX", "PXB")
PEER_ACCESS: Final = ("auto", "yes", "no")
PEER: Final = "peer access"
HOST: Final = "host memory"
MAX_TOPOLOGY_LENGTH: Final = 65_536  # characters of a printed matrix
_LINKS: Final = re.compile(r"NV(\d+)")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_GPU: Final = re.compile(r"GPU\d+")
_HOW: Final = (
    "give the name of a board (docs/hardware-files.md lists them), a file with the output of"
    " `nvidia-smi topo -m`, or, in a hardware file, that output as a multi-line string"
)

Matrix = tuple[tuple[str, ...], ...]


class Route(NamedTuple):
    """How the ring of a group inside a node travels."""

    path: str  # Farthest path between neighbours: NV, PIX, PXB, PHB, NODE or SYS; "" if unknown
    transport: str  # `PEER`, `HOST`, or "" if unknown
    links: int = 0  # NVLinks between neighbours, the fewest; 0 over PCIe


UNKNOWN_ROUTE: Final = Route("", "")


@dataclass(frozen=True, kw_only=True)
class TopologyText:
    """Reader of `node.topology`: a name, a path, or the printed matrix with its line breaks."""

    def read(self, value: object, where: str) -> str:
        """Return the text; what it names is read when the system is resolved."""
        if not isinstance(value, str) or len(value) > MAX_TOPOLOGY_LENGTH or "\0" in value:
            raise InvalidSpecError(f"{where} = {repr_for_error(value)}: expected text; {_HOW}")
        return value.strip(" \t\r\n") if "\n" not in value.strip() else value


def parse_topology(text: str, where: str) -> Matrix:
    r"""Return the paths between GPUs from the output of `nvidia-smi topo -m` (GPUs, GPUs).

    Columns of NICs and affinities are ignored.

    Args:
        text: The printed matrix, with or without header and legend.

    Example:
        >>> from perfatlas.hardware.paths import parse_topology
        >>> parse_topology("GPU0 X NODE 0-31 0\nGPU1 NODE X 0-31 0", "example")
        (('X', 'NODE'), ('NODE', 'X'))
    """
    lines = [_STYLE.sub("", line).split() for line in text.splitlines()]
    rows = [line for line in lines if line and _GPU.fullmatch(line[0]) and "X" in line[1:]]
    count = len(rows)
    if not count:
        raise InvalidSpecError(f"{where} has no rows of GPUs; {_HOW}")
    matrix = tuple(tuple(row[1 : count + 1]) for row in rows)
    for index, row in enumerate(matrix):
        if len(row) != count or row[index] != "X":
            raise InvalidSpecError(
                f"{where}: the row of GPU{index} has {len(row)} paths before its affinities, with"
                f" X not at place {index}; expected {count}, one per GPU"
            )
        for other, word in enumerate(row):
            _check_path(word, index, other, where)
            if word != matrix[other][index]:
                raise InvalidSpecError(
                    f"{where}: GPU{index} to GPU{other} is {word}, and back {matrix[other][index]}"
                )
    return matrix


def _check_path(word: str, gpu: int, other: int, where: str) -> None:
    valid = word in PCIE_PATHS or _LINKS.fullmatch(word) is not None
    if not (valid or (word == "X" and gpu == other)):
        raise InvalidSpecError(
            f"{where}: GPU{gpu} to GPU{other} is {repr_for_error(word)}; expected NV followed by"
            f" the number of links, {', '.join(PCIE_PATHS)}"
        )


def boards() -> Mapping[str, Mapping[str, str]]:
    """Return the known boards: name -> printed matrix and reference.

    Example:
        >>> from perfatlas.hardware.paths import boards
        >>> "two_sockets_8" in boards()
        True
    """
    return shipped_table(BOARDS)


def read_topology(value: str) -> Matrix:
    """Return the paths of a board, a file or a printed matrix; empty without a topology.

    Args:
        value: The field `node.topology`.
    """
    if not value:
        return ()
    if value in boards():
        return parse_topology(boards()[value]["matrix"], f"board {value}")
    if "\n" in value.strip():
        return parse_topology(value, "node.topology")
    file = Path(value)
    try:
        is_file = file.is_file()
        text = file.read_text("utf-8")[:MAX_TOPOLOGY_LENGTH] if is_file else ""
    except (OSError, ValueError) as error:
        raise InvalidSpecError(f"node.topology = {repr_for_error(value)}: {error}") from error
    if not is_file:
        raise InvalidSpecError(
            f"node.topology = {repr_for_error(value)} is neither a board nor a file"
            f"{did_you_mean(value[:80], boards())}; {_HOW}"
        )
    return parse_topology(text, f"node.topology = {repr_for_error(value)}")


def ring_route(matrix: Matrix, ranks: int, peer_access: str) -> Route:
    """Return the route of the ring of a group, the worst over aligned groups of a node.

    A ring over a tree of switches crosses the farthest level of its group, whatever its order.

    Args:
        matrix: Paths between GPUs; empty if unknown.
        ranks: GPUs of the group, consecutive and aligned.
        peer_access: One of `PEER_ACCESS`; "auto" follows NCCL's rule.

    Source:
        NVIDIA/nccl@5067397 src/graph/paths.cc, ncclTopoCheckP2p: by default peer access is used up
        to PXB (between exactly two GPUs on AMD hosts: always); farther pairs copy through host
        memory.

    Limits: The exception for two GPUs on AMD hosts is left out, as the host is not described.

    Example:
        >>> from perfatlas.hardware.paths import ring_route
        >>> ring_route((("X", "PHB"), ("PHB", "X")), 2, "auto")
        Route(path='PHB', transport='host memory', links=0)
    """
    if not matrix or not 1 < ranks <= len(matrix):
        return Route("", {"yes": PEER, "no": HOST}.get(peer_access, ""))
    starts = range(0, len(matrix) - ranks + 1, ranks)
    words = [
        matrix[index][other]
        for start in starts
        for index in range(start, start + ranks)
        for other in range(start, index)
    ]
    pcie = [word for word in words if word in PCIE_PATHS]
    if not pcie:
        links = min(int(word.removeprefix("NV")) for word in words)
        return Route("NV", PEER, links)
    path = max(pcie, key=PCIE_PATHS.index)
    direct = path in SWITCH_PATHS if peer_access == "auto" else peer_access == "yes"
    return Route(path, PEER if direct else HOST)

"""Operators that exporters of ONNX write as several: the patterns, and where they occur."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.files import shipped_table
from perfatlas.networks.graphs.imports import KINDS_FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

MAX_TRIED_GROUPS: Final = 500  # groups of operators around an anchor
MAX_READERS: Final = 8  # of a tensor inside a group


class Pattern(NamedTuple):
    """An operator that an exporter writes as several."""

    kind: str  # What they are together
    inside: Mapping[str, int]  # How many operators of each type may stand around the anchor
    needs: frozenset[str]  # Types without which it is another operator


class Group(NamedTuple):
    """Operators that are one."""

    kind: str
    anchor: Any  # The operator that none of the other patterns has
    last: Any  # The operator that writes the result
    read: str  # The tensor that they read
    written: frozenset[str]  # The tensors that they write


@cache
def _patterns() -> Mapping[str, Pattern]:
    """Return the patterns by the type of their anchor.

    Source: data/graph_operators.toml, from exports of PyTorch.
    """
    rows = shipped_table(KINDS_FILE)["onnx_patterns"]
    return {
        row["anchor"]: Pattern(row["kind"], row["inside"], frozenset(row["needs"])) for row in rows
    }


def is_folded_norm(op: Any) -> bool:  # noqa: ANN401 - `onnx.NodeProto`
    """Return whether an exporter folded a batch norm into the weights of a convolution.

    Limits: PyTorch's exporters say so, by metadata or by the name of the new weights; others do
        not.
    """
    marks = shipped_table(KINDS_FILE)["onnx_folded"]
    marked = any(marks["metadata"] in entry.value for entry in op.metadata_props)
    return marked or (len(op.input) > 1 and op.input[1].startswith(marks["weight"]))


def groups(graph: Any, fixed: Collection[str]) -> Iterator[Group]:  # noqa: ANN401 - a graph
    """Yield groups of operators that are one, which read one tensor and write one."""
    wires = _Wires(list(graph.node), fixed, {output.name for output in graph.output})
    for anchor, node in enumerate(wires.nodes):
        if node.op_type in _patterns():
            yield from wires.largest_group(anchor, _patterns()[node.op_type])


class _Wires:
    """Which operators of a graph write and read its tensors, by their number.

    Args:
        fixed: Tensors that no input of the network changes.
        outputs: Tensors of the graph's outputs.
    """

    def __init__(self, nodes: Sequence[Any], fixed: Collection[str], outputs: set[str]) -> None:
        """Note the writer and the readers of each tensor."""
        self.nodes, self.fixed, self.outputs = nodes, fixed, outputs
        self.writer: dict[str, int] = {}
        self.readers: defaultdict[str, list[int]] = defaultdict(list)
        for number, node in enumerate(nodes):
            self.writer |= dict.fromkeys(node.output, number)
            for name in node.input:
                self.readers[name].append(number)

    def largest_group(self, anchor: int, pattern: Pattern) -> Iterator[Group]:
        """Yield the largest group around an operator, if there is one."""
        first = frozenset((anchor,))
        best, seen, queue = None, {first}, [first]
        while queue and len(seen) < MAX_TRIED_GROUPS:
            chosen = queue.pop()
            if best is None or len(chosen) > len(best[0]):
                types = {self.nodes[number].op_type for number in chosen - first}
                ends = self._ends(chosen) if pattern.needs <= types else None
                best = best if ends is None else (chosen, *ends)
            for neighbour in self._neighbours(chosen):
                grown = chosen | {neighbour}
                counts = Counter(self.nodes[number].op_type for number in grown - first)
                if grown not in seen and all(
                    number <= pattern.inside.get(kind, 0) for kind, number in counts.items()
                ):
                    seen.add(grown)
                    queue.append(grown)
        if best is not None:
            chosen, read, result = best
            written = frozenset(name for number in chosen for name in self.nodes[number].output)
            last = self.nodes[self.writer[result]]
            yield Group(pattern.kind, self.nodes[anchor], last, read, written)

    def _ends(self, chosen: frozenset[int]) -> tuple[str, str] | None:
        """Return the tensor that operators read and the one that others read, None if several."""
        written = {name for number in chosen for name in self.nodes[number].output if name}
        read = {name for number in chosen for name in self.nodes[number].input if name}
        read -= written | set(self.fixed).intersection(read)
        leaving = [
            name
            for name in written
            if name in self.outputs or not chosen.issuperset(self.readers[name])
        ]
        return (*read, *leaving) if len(read) == len(leaving) == 1 else None

    def _neighbours(self, chosen: frozenset[int]) -> Iterator[int]:
        for number in chosen:
            for name in self.nodes[number].input:
                if name in self.writer and name not in self.fixed:
                    yield self.writer[name]
            for name in self.nodes[number].output:
                if len(self.readers[name]) <= MAX_READERS:
                    yield from self.readers[name]

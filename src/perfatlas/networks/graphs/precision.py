"""Number formats of the tensors of a graph in automatic mixed precision.

Products run in 16 bits; norms of rows, softmax and embeddings in 32 bits, as do operators with a
weight that is none of a product. Other operators keep the format of their inputs, the wider one of
two. Which tensor an operator reads follows from what it comes after, and else from its size.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.networks.graphs.nodes import LOOKUPS, PRODUCTS, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from perfatlas.networks.graphs.nodes import Node

CAST: Final = "cast"
FLOAT32_WIDTH: Final = 2.0  # 32 bits over 16
BASE_WIDTH: Final = 1.0
# Operators that run in 16 bits; operands that are repeated after one of these are its bias.
IN_16_BITS: Final = (*PRODUCTS, "depthwise_conv", "attention")
BIASED: Final = ("linear", "conv", "depthwise_conv", "attention")
# Kinds that end a branch which a product begins: another product reads their output, or an operator
# that comes after them does first.
ENDS: Final = ("activation", "attention", "matmul", "pool")
# Kinds whose outputs a later addition reads beside those of a branch.
RESIDUALS: Final = (*LOOKUPS, "add", "norm", "strided")


class Precision(NamedTuple):
    """How wide the tensors of an operator are, over 16 bits."""

    read: float = BASE_WIDTH  # What is read
    write: float = BASE_WIDTH  # What is written
    casts: float = 0.0  # Share of executions whose input another kernel casts before
    # Share of executions whose input other operators cast too, so that gradients of it are added
    shared: float = 0.0
    channels: float = 0.0  # Channels of a batch norm, 0 of others and where they are not known
    keeps: bool = True  # Whether its gradient needs its input, unlike that of a copy or a bias


class _Moved(NamedTuple):
    """Executions of a node, and the elements that it reads and writes of one item."""

    times: float
    read: float
    write: float


def precisions(
    nodes: Sequence[Node], columns: Mapping[str, Any], *, fuses_casts: bool
) -> Iterator[Precision]:
    """Yield the precision of each node in a training step.

    Args:
        fuses_casts: Whether casts are part of the kernels around them. Norms then read what they
            are given, and write 32 bits only where an addition reads them.

    Source: pytorch.org, torch.amp: operators that autocast to float32 (layer_norm, group_norm,
        softmax) and to lower precision, and those that take the widest type; batch norm keeps the
        type of its input. Casts of weights are cached, those of activations are not.
    """
    moved = [_moved(node, columns) for node in nodes]
    channels = _channels(nodes, moved, columns)
    wide = list(_wide(nodes, moved))
    casts, shared = _cast_shares(nodes, moved, wide)
    scales = _scales(nodes)
    for node, size, (first, second, out), channel_count, one_scale in zip(
        nodes, moved, wide, channels, scales, strict=True
    ):
        if node.kind in IN_16_BITS:
            part = 0.0 if fuses_casts else casts.get(size.read, 0.0)
            yield Precision(casts=part, shared=shared.get(size.read, 0.0) if part else 0.0)
            continue
        if node.kind in LOOKUPS:
            yield Precision(read=FLOAT32_WIDTH, write=FLOAT32_WIDTH)
            continue
        read, write = (
            BASE_WIDTH + 0.5 * (first + second) * (FLOAT32_WIDTH - BASE_WIDTH),
            FLOAT32_WIDTH if out else BASE_WIDTH,
        )
        if _is_rowed(node):
            if fuses_casts:
                residual = node.kind == "norm" and bool(node.after)
                yield Precision(read=read, write=FLOAT32_WIDTH if residual else BASE_WIDTH)
            else:
                yield Precision(read=FLOAT32_WIDTH, write=FLOAT32_WIDTH, casts=float(not first))
            continue
        keeps = node.kind != "strided" or size.read != size.write or one_scale
        yield Precision(read=read, write=write, channels=channel_count, keeps=keeps)


def _moved(node: Node, columns: Mapping[str, Any]) -> _Moved:
    size = {name: float(value) for name, value in node.values(columns).items()}
    if node.kind == "attention":
        rows = size["sequences"] * size["q_len"] * size["num_heads"] * size["head_dim"]
        return _Moved(size["count"], rows, rows)
    if node.kind in PRODUCTS:
        rows = size["m"] * size.get("groups", 1.0)
        return _Moved(size["count"], size.get("read", rows * size["k"]), rows * size["n"])
    if node.kind in LOOKUPS:
        write = size.get("samples", size["rows"]) * size["width"]
        return _Moved(size["count"], write, write)
    return _Moved(size["count"], size["read"], size["write"])


def _is_rowed(node: Node) -> bool:
    """Return whether an operator reduces rows, in 32 bits: a batch norm does not."""
    return node.kind in ROWS and (node.kind != "norm" or "row" in node.sizes)


def _wide(nodes: Sequence[Node], moved: Sequence[_Moved]) -> Iterator[tuple[bool, bool, bool]]:
    """Yield whether both inputs of each node (of which most have one) and its output are wide."""
    outputs: dict[str, bool] = {}
    residuals: set[float] = set()
    for node, size, scale in zip(nodes, moved, _scales(nodes), strict=True):
        residual = size.write in residuals
        first = outputs.get(node.after, False) if node.after else size.read in residuals
        second = first if node.kind != "add" else residual
        if node.kind == "add" and not node.after:
            first = residual
        repeats = node.kind == "strided" and size.read == size.write
        repeats = repeats and (scale or node.after not in BIASED)
        out = first or second or repeats or node.kind in LOOKUPS or _is_rowed(node)
        outputs[node.kind] = out = out and node.kind not in IN_16_BITS
        if out and node.kind in RESIDUALS and (node.after or node.kind != "norm"):
            residuals.add(size.write)
        yield first, second, out


def _scales(nodes: Sequence[Node]) -> list[bool]:
    """Return whether each node scales the channels of a branch that is added next."""
    added = [node.kind == "add" and node.after == "strided" for node in nodes[1:]]
    pairs = zip(nodes, [*added, False], strict=True)
    return [node.kind == "strided" and next_adds for node, next_adds in pairs]


def _cast_shares(
    nodes: Sequence[Node], moved: Sequence[_Moved], wide: Sequence[tuple[bool, bool, bool]]
) -> tuple[dict[float, float], dict[float, float]]:
    """Return the shares of products that cast their input, and that share it, by its elements.

    Products read the narrow tensors at the end of branches once each, and wide ones else.
    """
    reads: defaultdict[float, float] = defaultdict(float)
    narrow: defaultdict[float, float] = defaultdict(float)
    branches: defaultdict[float, float] = defaultdict(float)
    sizes, ends = set(), dict.fromkeys(ENDS, True)
    for node, size, (_, _, out) in zip(nodes, moved, wide, strict=True):
        if node.kind in (*PRODUCTS, "depthwise_conv"):
            reads[size.read] += size.times
        if out:
            sizes.add(size.write)
            branches[size.write] += size.times * (node.kind in ("norm", "group_norm"))
        if node.kind not in ENDS:
            ends[node.kind] = ends.get(node.after, False)
        if ends.get(node.after, False):
            narrow[size.write if node.kind == "add" else size.read] -= size.times
        if ends[node.kind] and not out:
            narrow[size.write] += size.times
    casts = {
        value: max(reads[value] - max(narrow[value], 0.0), 0.0) for value in sizes if reads[value]
    }
    shared = {value: max(count - branches[value], 0.0) for value, count in casts.items()}
    return (
        {value: count / reads[value] for value, count in casts.items()},
        {
            value: count / casts[value]
            for value, count in shared.items()
            if branches[value] and count
        },
    )


def _channels(
    nodes: Sequence[Node], moved: Sequence[_Moved], columns: Mapping[str, Any]
) -> Iterator[float]:
    """Yield the channels of batch norms: those of the last convolution that writes as much."""
    channels: dict[float, float] = {}
    for node, size in zip(nodes, moved, strict=True):
        if node.kind == "conv":
            sizes = node.values(columns)
            channels[size.write] = float(sizes["n"] * sizes["groups"])
        elif node.kind == "depthwise_conv":
            channels[size.write] = channels.get(size.read, 0.0)
        yield channels.get(size.read, 0.0) if node.kind == "norm" else 0.0

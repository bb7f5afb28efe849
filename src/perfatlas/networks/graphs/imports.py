"""What importers of graphs share: sizes of tensors as expressions, and what fuses with what."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from perfatlas.files import shipped_table
from perfatlas.networks.graphs.nodes import BATCH, Node
from perfatlas.quantities import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Size = int | str
# Producers in the order in which a reader with several of them is fused.
_OVER_ITEMS: Final = (("m", "read", "write", "rows", "samples", "sequences"), ("groups",))
_FIRST: Final = ("conv", "depthwise_conv", "linear")
_ELEMENT_BY_ELEMENT: Final = ("activation", "add", "elementwise")


KINDS_FILE: Final = "data/graph_operators.toml"
BY_OUTPUT: Final = ("relu", "sigmoid", "tanh")
VIEW, FREE, STRIDED = "view", "free", "strided"
WITHOUT_KERNEL: Final = (VIEW, FREE)
IN_16_BITS: Final = "bf16"  # format of products whose weights are floats of 16 or 32 bits
# Formats of products by the type of weights, and whether activations are quantized too.
FORMATS: Final = {
    ("int8", True): "int8",
    ("int8", False): "int8_wo",
    ("fp8", True): "fp8_static",
    ("fp8", False): "int8_wo",
    ("fp4", True): "nvfp4",
    ("fp4", False): "nvfp4_wo",
    **dict.fromkeys((("int4", True), ("int4", False)), "int4_wo"),
    **dict.fromkeys((("", True), ("", False)), IN_16_BITS),
}


@cache
def kinds_of_operators(framework: str) -> Mapping[str, str]:
    """Return the kind of each operator of a framework: of a node, `view` or `free`.

    Args:
        framework: torch_export, onnx or stablehlo.

    Source: data/graph_operators.toml.
    """
    rows = shipped_table(KINDS_FILE)[framework]
    return {name: kind for kind, names in rows.items() for name in names}


def is_by_output(kind: str, name: str) -> bool:
    """Return whether an operator is an activation whose derivative follows from its output.

    Source: pytorch tools/autograd/derivatives.yaml: those whose formula reads `result`.
    """
    return kind == "activation" and name.lower() in BY_OUTPUT


@dataclass(frozen=True)
class Tensor:
    """Sizes of a tensor: numbers, or expressions over sizes of the network."""

    sizes: tuple[Size, ...]

    def elements(self) -> Size:
        """Return the product of the sizes."""
        number, texts = 1, []
        for size in self.sizes:
            if isinstance(size, int):
                number *= size
            else:
                texts.append(size if size.isidentifier() else f"({size})")
        if not texts:
            return number
        return " * ".join([*([str(number)] if number != 1 else []), *texts])

    @staticmethod
    def total(tensors: Iterable[Tensor]) -> Size:
        """Return the elements of several tensors."""
        number, texts = 0, []
        for tensor in tensors:
            elements = tensor.elements()
            if isinstance(elements, int):
                number += elements
            else:
                texts.append(elements)
        counted = {text: texts.count(text) for text in texts}
        parts = [text if count == 1 else f"{count} * {text}" for text, count in counted.items()]
        if not parts:
            return number
        return " + ".join([*parts, *([str(number)] if number else [])])


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The operators of a file of a framework."""

    nodes: Sequence[Node]  # In execution order
    parameters: int  # Elements of its parameters
    # Sizes that nodes refer to, beside the batch, with the values of the file
    sizes: Mapping[str, int]
    items: int  # Items of its inputs, 0 where their number is `batch` already
    unknown: Mapping[str, int]  # How often an operator that is not known runs, by its name
    # Values that sizes may have: `least`, `most` and `multiple_of`, by name
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    notes: Sequence[str] = ()  # What an answer says of the file
    format: str = ""  # Number format of the weights of products, "" for 16 or 32 bits

    def per_batch(self) -> tuple[Node, ...]:
        """Return the nodes of a file with a fixed number of items as ones of a batch.

        Limits: Every operator is taken to run over the items, unless its size is no multiple.
        """
        return tuple(_scaled(node, self.items) for node in self.nodes)


def node(
    kind: str, sizes: Mapping[str, Size], *, after: str = "", causal: bool = False, times: int = 1
) -> Node:
    """Return an operator with sizes as numbers or expressions, run a number of times."""
    return Node(
        kind=kind,
        sizes={name: Expression(str(size)) for name, size in sizes.items()},
        count=Expression(str(times)),
        after=after,
        causal=causal,
    )


def weights_by_format(nodes: Iterable[Node]) -> Counter[str]:
    """Return the elements of the weights of products by format."""
    elements: Counter[str] = Counter()
    for each in nodes:
        texts = [each.sizes[name].text for name in ("n", "k", "groups") if name in each.sizes]
        if each.format and all(text.isdigit() for text in texts):
            elements[each.format] += math.prod(map(int, texts))
    return elements


def with_formats(nodes: Sequence[Node]) -> tuple[str, tuple[Node, ...]]:
    """Return the format of most weights of products, "" for 16 or 32 bits, and nodes of others."""
    elements = weights_by_format(nodes)
    most = max(elements, key=lambda name: elements[name], default=IN_16_BITS)
    others = (replace(each, format="" if each.format == most else each.format) for each in nodes)
    return most.replace(IN_16_BITS, ""), tuple(others)


def convolution(
    image: Tensor, weight: Tensor, out: Tensor, groups: int, *, transposed: bool
) -> Node:
    """Return a convolution with all its filters, depthwise where each has a channel of its own."""
    first, second, *window = (int(size) for size in weight.sizes)
    taps = math.prod(window)
    if groups > 1 and second == 1 and first == groups:
        moved = {"read": image.elements(), "write": out.elements(), "taps": taps}
        return node("depthwise_conv", moved)
    if transposed:
        rows, n, k = image, second * taps, first // groups
    else:
        rows, n, k = out, first // groups, second * taps
    m = Tensor((rows.sizes[0], *rows.sizes[2:])).elements()
    sizes = {"m": m, "n": n, "k": k, "groups": groups, "read": image.elements()}
    return node("conv", sizes)


def added_bias(out: Tensor, after: str) -> Node:
    """Return the kernel that adds the bias of a convolution, which cuDNN leaves out."""
    return node(STRIDED, dict.fromkeys(("read", "write"), out.elements()), after=after)


def _scaled(node: Node, items: int) -> Node:
    """Return an operator over `batch` items instead of a fixed number; 0 leaves it as it is."""
    sizes = dict(node.sizes)
    for name in _OVER_ITEMS[node.kind == "matmul"] if items else ():
        if name in sizes and sizes[name].text.isdigit():
            number, rest = divmod(int(sizes[name].text), items)
            if not rest and number:
                text = BATCH if number == 1 else f"{number} * {BATCH}"
                sizes[name] = Expression(text)
    return replace(node, sizes=sizes)


def is_strided(kind: str, operands: Sequence[Tensor], out: Tensor) -> bool:
    """Return whether an operator repeats an operand, other than a number."""
    others = [operand for operand in operands if operand != out and operand.elements() != 1]
    return kind in _ELEMENT_BY_ELEMENT and bool(others)


def row_elements(image: Tensor, kind: str, start: int, groups: int = 0) -> Size:
    """Return the elements that one thread block of a norm or softmax reduces.

    Args:
        start: Dimension from which a row of a norm goes to the last, or that of a softmax.
        groups: Groups of channels of a group norm, 0 for one per channel.
    """
    if kind == "softmax":
        return image.sizes[start]
    if kind == "norm":
        return Tensor(image.sizes[start:]).elements()
    channels, *positions = image.sizes[1:]
    shared = int(channels) // groups if groups else 1
    return Tensor((shared, *positions)).elements()


def fused_into(producers: Sequence[str]) -> str:
    """Return the producer that an operator is fused into, "" for none."""
    ranked = [kind for kind in _FIRST if kind in producers]
    return next(iter((*ranked, *producers)), "")

"""Nodes of a graph: kinds of operators with their sizes, as columns over candidates.

A size is an expression over the sizes of the network and `batch`, the items of a pass.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import operators
from perfatlas.formats import get_format
from perfatlas.quantities import Expression, InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.formats import Format
    from perfatlas.networks.emission import ModelFormats

BATCH: Final = "batch"
TARGET: Final = "target_length"  # output tokens that a decoder runs at once, as in training
OUTPUT: Final = "output_length"  # tokens that a pass without a decoder generates of an item
KV_LENGTH: Final = "kv_length"  # keys of a decoder that generates one token, with its own
PRODUCTS: Final = ("linear", "conv", "matmul")
# Kinds that are limited by memory bandwidth: what they read and write, in elements.
STREAMS: Final = (
    *("activation", "add", "copy", "depthwise_conv", "elementwise", "group_norm", "norm", "pool"),
    *("reduce", "resize", "scan", "softmax", "strided"),
)
GROUP_NORM: Final = "group_norm"
STATISTICS: Final = 2.0  # a group norm reads its input for its statistics, and once more
ROWS: Final = (GROUP_NORM, "norm", "softmax")
ROW_PASSES: Final = 2.0  # a thread block that reduces a row reads and writes it
LOOKUPS: Final = (operators.EMBEDDING, operators.EMBEDDING_BAG)
# The sizes of each kind; those with a value may be left out. A norm without rows is one of channels
# over all items (a batch norm), and a softmax without them is one of unknown rows.
SIZES: Final[Mapping[str, Mapping[str, str]]] = {
    "linear": {"m": "", "n": "", "k": "", "groups": "1"},
    "conv": {"m": "", "n": "", "k": "", "groups": "1", "read": ""},
    "matmul": {"m": "", "n": "", "k": "", "groups": "1"},
    "attention": {
        "sequences": "batch",
        "q_len": "",
        "kv_len": "",
        "num_heads": "",
        "num_kv_heads": "num_heads",
        "head_dim": "",
    },
    "embedding": {"rows": "", "width": ""},
    # `table_rows` of a table that ranks may divide, 0 of one that they copy
    "embedding_bag": {"rows": "", "width": "", "samples": "", "table_rows": "0"},
    **{kind: {"read": "", "write": "read"} for kind in STREAMS},
    "depthwise_conv": {"read": "", "write": "read", "taps": ""},
    **{kind: {"read": "", "write": "read", "row": "0"} for kind in ROWS},
    GROUP_NORM: {"read": "", "write": "read", "row": ""},
    "sort": {"rows": "", "key_bytes": "8", "value_bytes": "0"},
    "filter": {"rows": "", "value_bytes": "8", "selectivity": ""},
    "join": {"rows": "", "build_rows": "", "key_bytes": "8", "selectivity": "1"},
    "group_by": {"rows": "", "groups": "", "key_bytes": "8", "value_bytes": "8"},
    "histogram": {"rows": "", "bins": "256", "value_bytes": "4"},
    "spmv": {"rows": "", "columns": "rows", "nonzeros": ""},
    "stencil": {"width": "", "height": "1", "depth": "1", "radius": "1", "steps": "1"},
    "fft": {"width": "", "height": "1", "depth": "1", "batch": "1"},
    "solve": {"n": "", "batch": "1", "right_hand_sides": "1"},
}
KINDS: Final = tuple(SIZES)
# Calls of libraries, with keys and values as in databases
LIBRARY_CALLS: Final[Mapping[str, Mapping[str, str]]] = {
    "sort": {"algorithm": "radix"},
    "spmv": {"pattern": "scattered", "format": "fp64"},
    "stencil": {"format": "fp64"},
    "fft": {"signal": "complex", "format": "fp32"},
    "solve": {"factorization": "lu", "format": "fp64"},
    **{kind: {} for kind in ("filter", "group_by", "histogram", "join")},
}
# Elements that a thread block of a kernel limited by memory bandwidth processes.
# Source: pytorch aten/src/ATen/native/cuda/thread_constants.h, block_work_size: 128 threads of 4.
BLOCK_ELEMENTS: Final = 512.0


@dataclass(frozen=True, kw_only=True)
class Node:
    """Equal operators of a graph."""

    kind: str  # One of `KINDS`
    # Its sizes, as `SIZES` names them. Of products: C[m, n] = A[m, k] B[k, n] in each of `groups`;
    # a convolution is an implicit product over m output positions and k = input channels of a group
    # times taps, and reads `read` elements. Of kinds limited by memory bandwidth: elements read and
    # written; `row` are those that one thread block reduces, 0 of a norm of channels over all items
    # (a batch norm) and of a softmax whose rows are unknown. A strided one repeats an operand, or
    # reads in another order.
    sizes: Mapping[str, Expression]
    count: Expression  # How often it runs in a pass
    # Kind of the operator whose only reader it is, "" for none: compilers fuse it into that kernel
    after: str = ""
    causal: bool = False  # Whether queries of an attention see only the keys up to their own
    # Whether the derivative of an activation follows from its output, as of ReLU
    by_output: bool = False
    format: str = ""  # Of a product with weights, "" for that of the network

    @property
    def label(self) -> str:
        """Kind, and what it follows: what fusions of engines name."""
        return f"{self.kind}_after_{self.after}" if self.after else self.kind

    @property
    def names(self) -> frozenset[str]:
        """Names that its sizes and its count read."""
        return frozenset(name for size in (self.count, *self.sizes.values()) for name in size.names)

    @property
    def names_of_weights(self) -> frozenset[str]:
        """Names that the weights it holds, and how often it runs, read."""
        held = ("n", "k", "groups") if self.kind in ("linear", "conv") else ()
        some = [size for name, size in self.sizes.items() if name in held or self.kind in LOOKUPS]
        return frozenset(name for size in (self.count, *some) for name in size.names)

    def values(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return its sizes and its count, each (C,) or one number.

        Args:
            columns: The sizes of the network, and `batch`.

        Raises:
            InvalidSpecError: A size is not positive, or a row is longer than what is read.
        """
        sizes: dict[str, Any] = {"count": self.count.of(columns)}
        for name, default in SIZES[self.kind].items():
            expression = self.sizes.get(name)
            sizes[name] = (
                sizes[default]
                if expression is None and default in sizes
                else (Expression(default) if expression is None else expression).of(columns)
            )
        for name, value in sizes.items():
            number = isinstance(value, (int, float))
            low, high = (value, value) if number else (np.min(value), np.max(value))
            if not LEAST.get(name, 0.0) <= low <= high < math.inf:
                text = self.count.text if name == "count" else self.sizes[name].text
                raise InvalidSpecError(f"{self.kind}: {name} = {text} is {np.min(value):g}")
        if "row" in sizes and np.any(sizes["row"] > sizes.get("read", np.inf)):
            row, read = self.sizes["row"].text, self.sizes["read"].text
            raise InvalidSpecError(
                f"{self.kind}: row = {row} is {np.max(sizes['row']):g}, more than all that it"
                f" reads: read = {read} is {np.min(sizes['read']):g}"
            )
        return sizes

    def flop(self, columns: Mapping[str, Any]) -> Any:  # noqa: ANN401 - (C,) or one number
        """Return the FLOP of products, convolutions and attention in a pass [FLOP].

        Args:
            columns: The sizes of the network, and `batch`.
        """
        size = self.values(columns)
        if self.kind in PRODUCTS:
            return 2.0 * size["count"] * size.get("groups", 1.0) * size["m"] * size["n"] * size["k"]
        if self.kind == "attention":
            pairs = size["sequences"] * size["num_heads"] * size["q_len"] * size["kv_len"]
            return 4.0 * size["count"] * pairs * size["head_dim"]
        return 2.0 * size["count"] * size["write"] * size["taps"] if "taps" in size else 0.0

    def operator(
        self, name: str, formats: ModelFormats, phase: operators.Phase, columns: Mapping[str, Any]
    ) -> operators.Operator:
        """Return it as an operator over candidates.

        Args:
            name: Its name, unique in the graph.
            phase: The phase of the pass.
            columns: The sizes of the network, and `batch` (C,).
        """
        ones_C = np.ones_like(columns[BATCH])
        size: dict[str, operators.FloatArray] = {
            key: value * ones_C for key, value in self.values(columns).items()
        }
        shared: dict[str, Any] = {"name": name, "phase": phase, "count": size["count"]}
        if self.kind in PRODUCTS:
            weight_format = get_format(self.format or formats.gemm)
            activations = get_format(formats.attention)
            if self.kind == "matmul" or (
                self.format
                and weight_format.weight_bytes == activations.weight_bytes
                and activations.weight_bytes == operators.ACTIVATION_BYTES
            ):  # bf16 or fp16, as the device multiplies
                weight_format = activations
            return _product(self.kind, size, weight_format, shared)
        if self.kind == "attention":
            shared |= {key: size[key] for key in ("q_len", "kv_len", "num_heads", "num_kv_heads")}
            return operators.Attention(
                **shared,
                batch=size["sequences"],
                head_dim=size["head_dim"],
                value_head_dim=size["head_dim"],
                window=0.0 * ones_C,
                format=formats.attention,
                causal=self.causal,
                cache_append=False,
                exchanges_heads=True,
            )
        if self.kind in LIBRARY_CALLS:
            call = operators.library_kernel(self.kind, size, LIBRARY_CALLS[self.kind])
            return operators.with_fields(call, **shared)
        # kernels of any shape are divided over all SMs
        moved = {"read": size.get("read", 0.0 * ones_C), "write": size.get("write", ones_C)}
        if self.kind == GROUP_NORM:
            moved["read"] = STATISTICS * moved["read"]
        cold_C = 0.0 * ones_C
        gathers_C = size.get("rows", cold_C)
        if self.kind in LOOKUPS:
            cold_C = gathers_C * size["width"]
            moved["write"] = size.get("samples", gathers_C) * size["width"]
        return operators.Streaming(
            **shared,
            stream=self.kind,
            tokens=np.maximum(moved["read"], moved["write"]) / BLOCK_ELEMENTS,
            read_bytes=moved["read"] * operators.ACTIVATION_BYTES,
            write_bytes=moved["write"] * operators.ACTIVATION_BYTES,
            cold_read_bytes=cold_C * operators.ACTIVATION_BYTES,
            taps=size.get("taps", 0.0),
            gathers=gathers_C,
            table_rows=size.get("table_rows", 0.0),
            row_bytes=size.get("width", ROW_PASSES * size.get("row", 0.0))
            * operators.ACTIVATION_BYTES,
        )


COUNTED: Final = frozenset(("m", "n", "k", "groups", "sequences", "q_len", "kv_len", "head_dim"))
# Least value of a size; those of lookups are above 0, and less than 1 in the mean
LEAST: Final[Mapping[str, float]] = {
    **dict.fromkeys(COUNTED, 1.0),
    **dict.fromkeys(("rows", "width", "samples"), math.ulp(0.0)),
}


def _product(
    kind: str,
    size: Mapping[str, operators.FloatArray],
    number_format: Format,
    shared: Mapping[str, Any],
) -> operators.Gemm:
    """Return a linear layer, a convolution, or a product of activations."""
    groups_C = size.get("groups", np.ones_like(size["m"]))
    input_bytes: operators.FloatArray | float = number_format.activation_bytes
    output_bytes = operators.ACTIVATION_BYTES
    if kind == "conv":  # neighbouring windows share most of their inputs
        input_bytes = input_bytes * size["read"] / (size["m"] * size["k"] * groups_C)
        output_bytes = number_format.activation_bytes  # of quantized networks, images stay so
    return operators.Gemm(
        **shared,
        m=size["m"] * groups_C,
        n=size["n"],
        k=size["k"],
        groups=groups_C,
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=input_bytes,
        output_bytes_per_element=output_bytes,
        has_weights=kind != "matmul",
    )

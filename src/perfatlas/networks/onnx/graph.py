"""Operators of an ONNX graph with the shapes that ONNX infers.

The number of items and all other free sizes are set before shapes are inferred; external data is
never opened, and weights are dropped as soon as they are counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.formats import get_format
from perfatlas.networks.graphs import imports
from perfatlas.networks.graphs.attentions import Chains
from perfatlas.networks.graphs.nodes import GROUP_NORM, ROWS
from perfatlas.networks.onnx import loading
from perfatlas.networks.onnx.control import CONTROL, Control, name_of, reads_of
from perfatlas.networks.onnx.folding import Folding
from perfatlas.networks.onnx.functions import operators_of
from perfatlas.networks.onnx.patterns import Group, groups, is_folded_norm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from perfatlas.networks.graphs.nodes import Node

# Places of the activations and of the weights among the inputs.
_CONVOLUTIONS: Final = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "FusedConv"), (0, 1)),
    "QLinearConv": (0, 3),
}
_PRODUCTS: Final = {
    **dict.fromkeys(
        ("Gemm", "MatMul", "MatMulInteger", "FusedMatMul", "DynamicQuantizeMatMul", "FusedGemm"),
        (0, 1),
    ),
    **dict.fromkeys(("QLinearMatMul", "QGemm"), (0, 3)),
    **dict.fromkeys(("MatMulIntegerToFloat", "MatMulNBits", "MatMulBnb4"), (0, 1)),
}
_PACKED: Final = ("MatMulNBits", "MatMulBnb4")  # whose weights are bits in bytes, [n, ...]
# Attentions: places of the keys and of cached keys among the inputs, and the dimension of these
# that is their number.
_ATTENTIONS: Final = {
    "MultiHeadAttention": (1, 6, 2),
    **dict.fromkeys(("GroupQueryAttention", "PackedGroupQueryAttention"), (1, 3, 2)),
    "Attention": (1, 4, 2),
    "QAttention": (1, 8, 3),
}
_MORE_LABELS: Final = "αβγδεζηθ"  # which no equation of ONNX has
_GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}
# What may stand between the scores of an attention and their softmax.
_SCORES: Final = ("MatMul", "FusedMatMul")
PYTORCH: Final = "pytorch"  # whose exporters scale queries and keys of one attention each
HEADS_APART: Final = 4  # dimensions of queries that are not one width
BATCHED: Final = 3  # dimensions of products in a batch
BIAS: Final = 2  # place of the bias among the inputs of a convolution
BATCH_NORMS: Final = ("BatchNormalization", "LRN", "LpNormalization")  # without rows
_SCALED: Final = ("Add", "Cast", "Div", "Mul", "Where")
_BITS: Final = {
    **dict.fromkeys((2, 3), "int8"),
    **dict.fromkeys((17, 18, 19, 20), "fp8"),
    **dict.fromkeys((21, 22), "int4"),
    23: "fp4",
}
# Operators of integers that read floats.
_OF_FLOATS: Final = ("DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "QAttention")
INT32: Final = 6  # type of ONNX
# Operators whose inputs of 32-bit integers are biases.
_BIASED: Final = frozenset(("DequantizeLinear", "QGemm", "QLinearConv"))
# What parts of a file raise that do not fit together: a name that is not UTF-8 is one of bytes.
_DAMAGED: Final = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError),
    ValueError,
)
_STANDARD: Final = ("", "ai.onnx", "ai.onnx.ml")  # operator sets whose shapes ONNX infers


def _kinds() -> Mapping[str, str]:
    return imports.kinds_of_operators("onnx")


def nodes_of_file(
    path: Path, batch: int | None = None, sizes: Mapping[str, int] | None = None
) -> imports.Imported:
    """Return the operators of an ONNX file.

    Args:
        batch: Items of the inputs where their first size is free; None takes 1.
        sizes: Values of free sizes by name, or by input and dimension such as image_2, of inputs
            that are one integer or condition, and iterations of loops, by name.

    Raises:
        InvalidSpecError: The file is no ONNX graph, or a size is free.
        UnsupportedError: The path of control flow, or a shape, is not known.
        MissingDependencyError: The package onnx is not installed.

    Limits: A product of activations around a softmax is one attention; other chains stay apart.
        Weights in external files are not counted as parameters beyond their shapes.
    """
    try:
        return _imported(loading.loaded(path), path, batch, dict(sizes or {}))
    except _DAMAGED as problem:
        raise quantities.InvalidSpecError(
            f"{path} is damaged, or its operators do not fit together: {problem}"
        ) from problem


def _imported(model: Any, path: Path, batch: int | None, sizes: dict[str, int]) -> imports.Imported:  # noqa: ANN401
    """Return the operators of a model."""
    loops = [name_of(node) for node in operators_of(model.graph) if node.op_type == "Loop"]
    stated = {name: sizes.pop(name) for name in loops if name in sizes}
    items, of_batch = loading.fix_sizes(model.graph, batch, sizes, path)
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in held]
    weights = loading.drop_weights(model.graph, ())
    folding = Folding(model, of_batch, stated)
    graph = loading.inferred(folding, path, weights)
    loading.check_order(graph)
    reader = _Graph(
        graph=graph,
        weights=set(weights),
        producer=model.producer_name,
        control=folding.control,
        inputs=inputs,
    )
    reader.read()
    for loop, first, following in folding.control.carried:
        if reader.shapes.get(first) != reader.shapes.get(following):
            raise quantities.UnsupportedError(
                f"{path}: iterations of {loop!r} do not have equal sizes; export the graph without"
                " the loop"
            )
    read = {*reader.users, *(output.name for output in graph.output), *folding.control.initial}
    for name in weights.keys() & reader.users.keys():  # quantized biases are 32-bit integers
        if reader.types.get(name) == INT32 and _BIASED.intersection(
            user.op_type for user in reader.users[name]
        ):
            weights[name] = _count(reader.shapes[name])
    number_format, nodes = imports.with_formats(reader.nodes)
    elements = imports.weights_by_format(reader.nodes)
    elements_held = sum(reader.packed.get(name, weights[name]) for name in weights.keys() & read)
    # scales that the bytes of a format contain are tensors of the file
    scales = (n * (8 * get_format(name).weight_bytes % 1) / 16 for name, n in elements.items())
    own_scales = min(round(sum(scales)), max(elements_held - elements.total(), 0))
    return imports.Imported(
        nodes=nodes,
        parameters=elements_held + sum(reader.computed.values()) - own_scales,
        sizes={},
        items=items,
        unknown=dict(reader.unknown),
        notes=[f"loop {name} is priced for {number} iterations" for name, number in stated.items()],
        format=number_format,
    )


@dataclass
class _Graph:
    """A graph while it is read.

    Attributes:
        weights: Tensors that no input of the network changes.
        control: Control flow that was replaced.
        inputs: Inputs of the network.
        producer: What wrote the file.
        shapes: Sizes of tensors by name.
        types: Types of their elements.
        readers: How many operators read a tensor.
        users: The operators that read a tensor.
        writers: The operator that writes a tensor.
        kinds: Kind of the operator that wrote a tensor, through views.
        skipped: Tensors inside of operators that several make up.
        stored: Weights that the file holds, by name, with the type of their elements.
        computed: Elements of weights that operators of constants compute, by name.
        packed: Elements of weights that are bits in bytes, by name.
    """

    graph: Any
    weights: set[str]
    control: Control
    inputs: Collection[str]
    producer: str = ""
    shapes: dict[str, imports.Tensor] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    readers: Counter[str] = field(default_factory=Counter)
    users: defaultdict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    writers: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    skipped: set[str] = field(default_factory=set)
    stored: dict[str, int] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)
    packed: dict[str, int] = field(default_factory=dict)

    def read(self) -> None:
        """Add all operators."""
        graph = self.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            tensor = value.type.tensor_type
            self.types[value.name] = tensor.elem_type
            has_shape = tensor.HasField("shape")
            if has_shape and all(size.HasField("dim_value") for size in tensor.shape.dim):
                sizes = tuple(int(size.dim_value) for size in tensor.shape.dim)
                self.shapes[value.name] = imports.Tensor(sizes)
        for value in graph.initializer:
            self.shapes[value.name] = imports.Tensor(tuple(int(size) for size in value.dims))
            self.types[value.name] = value.data_type
        self.stored = {name: self.types.get(name, 1) for name in self.weights}
        for op in self.graph.node:
            reads = reads_of(op)
            for name in reads:
                self.users[name].append(op)
            self.writers |= dict.fromkeys(op.output, op)
            if all(name in self.weights for name in reads):
                self.weights.update(op.output)
        self.readers.update({name: len(users) for name, users in self.users.items()})
        fused = self._fused_nodes()
        for op in self.graph.node:
            if id(op) in fused:
                self._put(fused[id(op)](), op)
            elif not self.skipped.intersection(op.output):
                try:
                    self._add(op)
                except (ValueError, LookupError, ZeroDivisionError) as problem:
                    raise quantities.InvalidSpecError(
                        f"{op.op_type} {op.name!r} has inputs, shapes or attributes that do not"
                        f" fit the operator: {problem}"
                    ) from problem

    def _fused_nodes(self) -> dict[int, Callable[[], Node]]:
        """Return what makes one of several operators, by the last of them; skip the others."""
        fused: dict[int, Callable[[], Node]] = {}
        for last, attention, inside in filter(None, map(self._attention, self.graph.node)):
            self.skipped |= inside
            fused[id(last)] = partial(lambda attention: attention, attention)
        for group in groups(self.graph, self.weights):
            if not self.skipped & group.written:
                self.skipped |= group.written
                fused[id(group.last)] = partial(self._grouped, group)
        return fused

    def _grouped(self, group: Group) -> Node:
        """Return operators that are one."""
        alone = all(group.written.issuperset(reader.output) for reader in self.users[group.read])
        read = [group.read]
        node = self._moving(group.kind, group.last, read, read if alone else [])
        if group.kind != GROUP_NORM:
            return node
        groups = int(self.shape(group.anchor.input[0], group.anchor).sizes[1])
        row = imports.row_elements(self.shape(group.read, group.last), GROUP_NORM, -1, groups)
        return replace(node, sizes={**node.sizes, "row": quantities.Expression(str(row))})

    def _put(self, node: Node, op: Any) -> None:  # noqa: ANN401 - `onnx.NodeProto`
        times = self.control.times.get(next(filter(None, op.output), ""), 1)
        count = quantities.Expression(str(times * int(node.count.text)))
        self.nodes.append(node if times == 1 else replace(node, count=count))
        self.kinds |= dict.fromkeys(op.output, node.kind)

    def _add(self, op: Any) -> None:  # noqa: ANN401
        read = reads_of(op)
        if all(name in self.weights for name in read):
            stored = [name for name in read if name in self.stored and name in self.shapes]
            source = max(stored, key=lambda name: _count(self.shapes[name]), default="")
            most = sum(_count(self.shapes[name]) for name in stored)
            for name in op.output:  # a view, copy or part of stored weights, or several as one
                if stored and name in self.shapes and _count(self.shapes[name]) <= most:
                    self.stored[name] = self.stored[source]
            return
        if (
            _kinds().get(op.op_type) in imports.WITHOUT_KERNEL
            or self._is_shape(op)
            or self._is_view(op, read)
        ):
            source = next(tensor for tensor in read if tensor not in self.weights)
            if self.readers[source] == 1:
                self.kinds |= dict.fromkeys(op.output, self.kinds.get(source, ""))
            return
        if op.op_type in CONTROL:
            raise self._unknown_path(op)
        for node in self._nodes(op, read):
            self._put(node, op)

    def _unknown_path(self, op: Any) -> quantities.UnsupportedError:  # noqa: ANN401
        """Return the refusal of control flow, with the numbers that set its path."""
        loops = [name_of(one) for one in self.graph.node if one.op_type == "Loop"]
        scalars = [
            name
            for name in self.inputs
            if self.types[name] in loading.WHOLE
            and name in self.shapes
            and _count(self.shapes[name]) == 1
        ]
        names = [name for name in loops if name not in self.control.stated]
        what = "the iterations of loops" if op.op_type == "Loop" else "the inputs that choose it"
        names = names if op.op_type == "Loop" else scalars
        given = ",".join(f"{name}=1" for name in names)
        remedy = f"state {what} as in --sizes {given}, or export" if names else "export"
        return quantities.UnsupportedError(
            f"{op.op_type} {op.name!r} is control flow, whose path depends on data; {remedy} the"
            " graph without it, for example with fixed sizes and onnxsim"
        )

    def _is_shape(self, op: Any) -> bool:  # noqa: ANN401
        """Return whether an operator computes sizes: few integers, without a kernel."""
        written = [name for name in op.output if name]
        return all(
            self.types.get(name, 1) not in loading.FLOATS and len(self.shapes[name].sizes) <= 1
            for name in written
            if name in self.shapes
        ) and all(
            name in self.shapes and _count(self.shapes[name]) <= loading.MAX_SHAPE_ELEMENTS
            for name in (*written, *op.input)
            if name
        )

    def _is_view(self, op: Any, read: list[str]) -> bool:  # noqa: ANN401
        """Return whether an operator selects one index, or adds the bias of a product."""
        fixed = [name for name in read if name in self.weights]
        if op.op_type == "Gather":
            return read[1] in fixed and read[1] in self.shapes and _count(self.shapes[read[1]]) == 1
        others = [name for name in read if name not in fixed]
        if len(others) != 1:
            return False
        other = others[0]
        biased = op.op_type == "Add" and len(fixed) == 1 and self.readers[other] == 1
        bias = self.shapes.get(fixed[0]) if biased else None
        return self.kinds.get(other) == "linear" and bias is not None and len(bias.sizes) == 1

    def shape(self, name: str, op: Any) -> imports.Tensor:  # noqa: ANN401
        """Return the sizes of a tensor."""
        tensor = self.shapes.get(name)
        if tensor is None and op.domain not in _STANDARD:
            raise quantities.UnsupportedError(
                f"{op.op_type} {op.name!r} is an operator of {op.domain}, whose shapes ONNX does"
                " not infer; export the graph with standard operators of ONNX"
            )
        if tensor is None:
            raise quantities.UnsupportedError(
                f"the shape of {name!r}, of {op.op_type} {op.name!r}, depends on data; export the"
                " graph with fixed sizes"
            )
        return tensor

    def _nodes(self, op: Any, read: list[str]) -> Sequence[Node]:  # noqa: ANN401
        name = op.op_type
        if name in (*_CONVOLUTIONS, *_PRODUCTS):
            fixed = [
                tensor for tensor in read if tensor in self.weights and tensor not in self.stored
            ]
            self.computed |= {tensor: _count(self.shape(tensor, op)) for tensor in fixed}
        if name in _CONVOLUTIONS:
            return self._convolution(op)
        if name in _PRODUCTS:
            return [self._product(op)]
        if name in _GATES:
            return self._recurrent(op)
        if name in _ATTENTIONS:
            return self._attention_operator(op)
        if name == "Gather" and read[0] in self.weights:
            table = self.shape(read[0], op)
            rows = _count(self.shape(read[1], op))
            sizes = {"rows": rows, "width": _count(imports.Tensor(table.sizes[1:]))}
            return [imports.node("embedding", sizes)]
        if name == "Einsum":
            return [self._einsum(op, read)]
        if name not in _kinds():
            self.unknown[name] += 1
        alone = [tensor for tensor in read if self.readers[tensor] == 1]
        return [self._moving(_kinds().get(name, "elementwise"), op, read, alone)]

    def _moving(self, kind: str, op: Any, read: list[str], unshared: list[str]) -> Node:  # noqa: ANN401
        """Return an operator that is limited by memory bandwidth."""
        moved = [self.shape(name, op) for name in read if name not in self.weights]
        if kind == "add" and len(moved) < 2:
            kind = "elementwise"
        producers = [self.kinds.get(name, "") for name in unshared]
        out = self.shape(op.output[0], op)
        operands = [self.shape(name, op) for name in read]
        if op.op_type in _kinds() and imports.is_strided(kind, operands, out):
            kind = imports.STRIDED
        selects = op.op_type.startswith("Gather")  # reads no more than what it writes
        moves = {"read": imports.Tensor.total([out] if selects else moved), "write": out.elements()}
        if kind in ROWS and op.op_type not in BATCH_NORMS:
            start, groups = int(_attribute(op, "axis", -1)), int(_attribute(op, "num_groups", 0))
            moves["row"] = imports.row_elements(self.shape(read[0], op), kind, start, groups)
        node = imports.node(kind, moves, after=imports.fused_into(producers))
        return replace(node, by_output=imports.is_by_output(kind, op.op_type))

    def _convolution(self, op: Any) -> list[Node]:  # noqa: ANN401
        """Return a convolution, and the batch norm that an exporter folded into its weights."""
        image, weight = (self.shape(op.input[index], op) for index in _CONVOLUTIONS[op.op_type])
        out, number = self.shape(op.output[0], op), int(_attribute(op, "group", 1))
        transposed = op.op_type == "ConvTranspose"
        node = imports.convolution(image, weight, out, number, transposed=transposed)
        first, second = (op.input[index] for index in _CONVOLUTIONS[op.op_type])
        if node.kind == "conv" and second in self.weights:
            node = replace(node, format=self._format(op, second, first))
        if not is_folded_norm(op):
            biased = len(op.input) > BIAS and op.op_type in ("Conv", "ConvTranspose")
            return [node, *([imports.added_bias(out, node.kind)] if biased else ())]
        moved = dict.fromkeys(("read", "write"), out.elements())
        return [node, imports.node("norm", moved, after=node.kind)]

    def _format(self, op: Any, weight: str, other: str) -> str:  # noqa: ANN401
        """Return the format of a product by the type that its weights are stored in."""
        source = self.writers.get(other)
        integers = self.types.get(other, 1) not in loading.FLOATS or op.op_type in _OF_FLOATS
        quantized = integers or (source is not None and source.op_type == "DequantizeLinear")
        bits = _BITS.get(self.stored.get(weight, 1), "")
        if op.op_type in _PACKED:
            bits = {4: "int4", 8: "int8"}.get(int(_attribute(op, "bits", 4)), "")
            if not bits:
                raise quantities.UnsupportedError(
                    f"{op.op_type} {op.name!r} holds weights of {_attribute(op, 'bits', 4)} bits,"
                    " and the formats of weights alone have 4 or 8; export it with these"
                )
        return imports.FORMATS[bits, quantized]

    def _held(
        self,
        op: Any,  # noqa: ANN401
        weight: str,
        other: str,
        sizes: Mapping[str, int],
        times: int = 1,
    ) -> Node:
        """Return a product with weights in the format that they are stored in."""
        node = imports.node("linear", sizes, times=times)
        return replace(node, format=self._format(op, weight, other))

    def _einsum(self, op: Any, read: list[str]) -> Node:  # noqa: ANN401
        """Return the product of two operands that an equation states, by element without a sum.

        One operand is copied, or summed.
        """
        text = _attribute(op, "equation", b"").decode().replace(" ", "")
        left, arrow, out = text.partition("->")
        shapes = [self.shape(name, op).sizes for name in op.input]
        terms = [*map(_spelled, left.split(","), map(len, shapes))]
        out = _spelled(out, len(self.shape(op.output[0], op).sizes))
        if len(terms) == len(shapes) == 1:
            return self._moving("copy" if len(out) == len(terms[0]) else "reduce", op, read, read)
        is_product = len(terms) == len(shapes) == 2 and arrow
        sizes: dict[str, int] = {}
        for term, shape in zip(terms, shapes, strict=False):
            for label, size in zip(term, shape, strict=False):
                is_product = is_product and sizes.setdefault(label, int(size)) == int(size)
        first, second = (set(terms[0]), set(terms[-1]))
        summed = (first ^ second) - set(out)
        if not is_product or summed or any(len(set(term)) < len(term) for term in terms):
            raise quantities.UnsupportedError(
                f"Einsum {op.name!r} of {text!r} is no product of two operands with named"
                " dimensions, each of one size; export it as MatMul"
            )
        if not (first & second) - set(out):
            unshared = [name for name in read if self.readers[name] == 1]
            return self._moving(_kinds()["Mul"], op, read, unshared)
        m, n, k, groups = (
            math.prod(sizes[label] for label in labels)
            for labels in (
                first - second,
                second - first,
                (first & second) - set(out),
                first & second & set(out),
            )
        )
        weight, other = op.input[1], op.input[0]
        if weight not in self.weights:
            weight, other = other, weight
            m, n = (n, m) if weight in self.weights else (m, n)
        if groups == 1 and self.weights.intersection(op.input):
            constants = [
                name for name in op.input if name in self.weights and name not in self.stored
            ]
            self.computed |= {name: _count(self.shape(name, op)) for name in constants}
            return self._held(op, weight, other, {"m": m, "n": n, "k": k})
        return imports.node("matmul", {"m": m, "n": n, "k": k, "groups": groups})

    def _product(self, op: Any) -> Node:  # noqa: ANN401
        first, second = (op.input[index] for index in _PRODUCTS[op.op_type])
        left, right = self.shape(first, op), self.shape(second, op)
        out = self.shape(op.output[0], op)
        if op.op_type in _PACKED:
            n, k = int(_attribute(op, "N", 1)), int(_attribute(op, "K", 1))
            if second in self.weights:
                self.packed[second] = n * k
            return self._held(op, second, first, {"m": _count(out) // n, "n": n, "k": k})
        k = int(
            right.sizes[-1 if _attribute(op, "transB", 0) else 0 if len(right.sizes) == 1 else -2]
        )
        if second in self.weights and len(right.sizes) <= 2:
            n = int(out.sizes[-1]) if len(right.sizes) == 2 else 1
            return self._held(op, second, first, {"m": _count(out) // n, "n": n, "k": k})
        if first in self.weights and len(left.sizes) == 2:
            n = int(left.sizes[-1 if _attribute(op, "transA", 0) else 0])
            return self._held(op, first, second, {"m": _count(out) // n, "n": n, "k": k})
        rows, n = (int(size) for size in (1, 1, *out.sizes)[-2:])
        groups = _count(out) // (rows * n)
        return imports.node("matmul", {"m": rows, "n": n, "k": k, "groups": groups})

    def _recurrent(self, op: Any) -> list[Node]:  # noqa: ANN401
        """Return the products of a recurrent layer: of all inputs, and of each state in turn."""
        length, sequences, width = (int(size) for size in self.shape(op.input[0], op).sizes)
        if _attribute(op, "layout", 0):
            length, sequences = sequences, length
        hidden, gates = int(_attribute(op, "hidden_size", 0)), _GATES[op.op_type]
        both = 2 if _attribute(op, "direction", b"forward") == b"bidirectional" else 1
        rows, wide = length * sequences, gates * hidden * both
        data, weight, recurrent = op.input[:3]
        states = {"m": sequences, "n": wide, "k": hidden}
        return [
            self._held(op, weight, data, {"m": rows, "n": wide, "k": width}),
            self._held(op, recurrent, data, states, times=length),
            imports.node("elementwise", {"read": rows * wide, "write": rows * hidden * both}),
        ]

    def _attention_operator(self, op: Any) -> list[Node]:  # noqa: ANN401
        """Return an attention that a graph has as one operator, with its projections."""
        keys_at, past_at, dimension = _ATTENTIONS[op.op_type]
        given = dict(enumerate(op.input))
        image, out = self.shape(given[0], op), self.shape(op.output[0], op)
        projects = op.domain != "" and op.op_type in ("Attention", "QAttention")
        heads = int(_attribute(op, "num_heads", 0) or _attribute(op, "q_num_heads", 0))
        kv_heads = int(_attribute(op, "kv_num_heads", 0)) or heads
        nodes = []
        if len(image.sizes) == HEADS_APART:  # items, heads, tokens, width
            sequences, heads, q_len, head_dim = map(int, image.sizes)
            kv_heads = int(self.shape(given[keys_at], op).sizes[1])
        else:
            sequences, q_len, width = map(int, out.sizes)
            head_dim = width // heads
        keys = self.shape(given[keys_at], op).sizes if given.get(keys_at) and not projects else ()
        kv_len = int(keys[-2]) if keys else q_len
        if past := given.get(past_at):
            kv_len += int(self.shape(past, op).sizes[3 if projects else dimension])
        if projects:
            rows, k = sequences * q_len, int(image.sizes[-1])
            n = int(self.shape(given[1], op).sizes[-1])
            nodes.append(self._held(op, given[1], given[0], {"m": rows, "n": n, "k": k}))
        causal = op.op_type.endswith("GroupQueryAttention") or any(
            _attribute(op, name, 0) for name in ("is_causal", "unidirectional")
        )
        sizes = {
            "sequences": sequences,
            "q_len": q_len,
            "kv_len": kv_len,
            "num_heads": heads,
            "num_kv_heads": kv_heads,
            "head_dim": head_dim,
        }
        return [*nodes, imports.node("attention", sizes, causal=causal)]

    def _attention(self, op: Any) -> tuple[Any, Node, set[str]] | None:  # noqa: ANN401
        """Return the attention whose softmax an operator is: its last product, and its inside."""
        if op.op_type != "Softmax":
            return None
        chain = Chains(
            writers=self.writers,
            users=self.users,
            weights=self.weights,
            products=_SCORES,
            scaled=_SCALED,
        ).attention_around(op)
        if chain is None:
            return None
        scores, last, inside = chain
        (query, key), value = scores.input[:2], last.input[1]
        sizes = self._sizes(query, scores.output[0], value)
        if sizes is None or {query, key, value} & self.weights:
            return None
        scaled = [self._scaling(query), self._scaling(key)]
        if self.producer == PYTORCH and not all(scaled):
            return None  # products and a softmax in PyTorch, too
        return last, imports.node("attention", sizes), inside | scaled[0] | scaled[1]

    def _sizes(self, query: str, scores: str, value: str) -> dict[str, int] | None:
        """Return the sizes of an attention, None where its tensors are not those of one."""
        tensors = [self.shapes.get(name) for name in (query, scores, value)]
        sizes = [tuple(map(int, tensor.sizes)) for tensor in tensors if tensor is not None]
        if len(sizes) < len(tensors) or min(map(len, sizes)) < BATCHED:
            return None
        (*batch, q_len, head_dim), (*_, kv_len), (*_, value_dim) = sizes
        if value_dim != head_dim:
            return None
        sequences, heads = (batch[0], math.prod(batch[1:])) if len(batch) > 1 else (1, batch[0])
        return {
            "sequences": sequences,
            "q_len": q_len,
            "kv_len": kv_len,
            "num_heads": heads,
            "head_dim": head_dim,
        }

    def _scaling(self, name: str) -> set[str]:
        """Return the tensors between a projection and its attention: scaled by a number alone."""
        scaled_tensors: set[str] = set()
        while (writer := self.writers.get(name)) is not None and self.readers[name] == 1:
            scaled = writer.op_type in ("Mul", "Div") and any(
                factor in self.shapes and _count(self.shapes[factor]) == 1
                for factor in writer.input
            )
            if not scaled and writer.op_type != "Transpose":
                break
            scaled_tensors |= {name} if scaled else set()
            name = next(factor for factor in writer.input if factor not in self.weights)
        return scaled_tensors


def _spelled(term: str, dimensions: int) -> str:
    """Return a term of an Einsum with labels for the dimensions that "..." stands for."""
    number = max(dimensions - len(term.replace("...", "")), 0)
    return term.replace("...", _MORE_LABELS[len(_MORE_LABELS) - number :])


def _count(tensor: imports.Tensor) -> int:
    return math.prod(int(size) for size in tensor.sizes)


def _attribute(op: Any, name: str, default: Any) -> Any:  # noqa: ANN401
    """Return an attribute of an operator: an integer or a text."""
    for attribute in op.attribute:
        if attribute.name == name:
            return attribute.s if attribute.type == attribute.STRING else attribute.i
    return default

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
from perfatlas.networks.graphs import imports
from perfatlas.networks.graphs.attentions import Chains
from perfatlas.networks.graphs.nodes import GROUP_NORM, ROWS
from perfatlas.networks.onnx.folding import Folding, reads_of
from perfatlas.networks.onnx.patterns import Group, groups, is_folded_norm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from perfatlas.networks.graphs.nodes import Node

MAX_FILE_BYTES: Final = (1 << 31) - 1  # bytes of a protocol buffer
MAX_SHAPE_INITIALIZER: Final = 1024  # elements of an initializer that may be a shape
MAX_SHAPE_ELEMENTS: Final = 64  # elements of a tensor of integers that is a shape
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
    "MatMulIntegerToFloat": (0, 1),
}
_GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}
_CONTROL: Final = ("If", "Loop", "Scan", "SequenceMap")
# What may stand between the scores of an attention and their softmax.
_SCORES: Final = ("MatMul", "FusedMatMul")
PYTORCH: Final = "pytorch"  # whose exporters scale queries and keys of one attention each
BATCHED: Final = 3  # dimensions of products in a batch
BIAS: Final = 2  # place of the bias among the inputs of a convolution
BATCH_NORMS: Final = ("BatchNormalization", "LRN", "LpNormalization")  # without rows
_SCALED: Final = ("Add", "Cast", "Div", "Mul", "Where")
_FLOATS: Final = (1, 10, 11, 16)  # types of ONNX: float, float16, double, bfloat16
_WEIGHTS: Final = (*_FLOATS, 2, 3, 17, 18, 19, 20, 21, 22)  # and 8 and 4 bits
_BITS: Final = {
    **dict.fromkeys((2, 3), "int8"),
    **dict.fromkeys((17, 18, 19, 20), "fp8"),
    **dict.fromkeys((21, 22), "int4"),
}
# Formats of products by the type of weights, and whether activations are quantized too.
_FORMATS: Final = {
    ("int8", True): "int8",
    ("int8", False): "int8_wo",
    ("fp8", True): "fp8_static",
    ("fp8", False): "int8_wo",
    **dict.fromkeys((("int4", True), ("int4", False)), "int4_wo"),
}
_OF_FLOATS: Final = ("DynamicQuantizeMatMul",)  # products of integers that read floats
_STANDARD: Final = ("", "ai.onnx", "ai.onnx.ml")  # operator sets whose shapes ONNX infers


def _kinds() -> Mapping[str, str]:
    return imports.kinds_of_operators("onnx")


def nodes_of_file(
    path: Path, batch: int | None = None, sizes: Mapping[str, int] | None = None
) -> imports.Imported:
    """Return the operators of an ONNX file.

    Args:
        batch: Items of the inputs where their first size is free; None takes 1.
        sizes: Values of free sizes by name, or by input and dimension such as image_2.

    Raises:
        InvalidSpecError: The file is no ONNX graph, or a size is free.
        UnsupportedError: The graph has control flow or functions, or a shape is not known.
        MissingDependencyError: The package onnx is not installed.

    Limits: A product of activations around a softmax is one attention; other chains stay apart.
        Weights in external files are not counted as parameters beyond their shapes.
    """
    model = _loaded(path)
    try:
        return _imported(model, path, batch, dict(sizes or {}))
    except UnicodeDecodeError as problem:  # names are decoded when they are read
        raise quantities.InvalidSpecError(
            f"{path}: a name is not UTF-8: {problem.reason}"
        ) from problem


def _imported(model: Any, path: Path, batch: int | None, given: dict[str, int]) -> imports.Imported:  # noqa: ANN401
    """Return the operators of a model."""
    items, of_batch = _fix_sizes(model.graph, batch, given, path)
    weights = _drop_weights(model.graph)
    graph = _inferred(Folding(model, of_batch), path, weights)
    reader = _Graph(graph=graph, weights=set(weights), producer=model.producer_name)
    reader.read()
    read = {*reader.users, *(one.name for one in graph.output)}
    number_format, notes = _stored_format(reader.formats)
    return imports.Imported(
        nodes=tuple(reader.nodes),
        parameters=sum(weights[name] for name in weights.keys() & read)
        + sum(reader.computed.values()),
        sizes={},
        items=items,
        unknown=dict(reader.unknown),
        notes=notes,
        format=number_format,
    )


def _stored_format(formats: Mapping[str, int]) -> tuple[str, tuple[str, ...]]:
    """Return the format of most weights of products, "" for 16 or 32 bits, and notes."""
    found = max(formats, key=lambda name: formats[name], default="")
    others = [name or "16 or 32 bits" for name in formats if name != found]
    if not others:
        return found, ()
    share = formats[found] / sum(formats.values())
    note = (
        f"{share:.0%} of the weights of products are in {found or '16 or 32 bits'}, which stands"
        f" for {' and '.join(others)}"
    )
    return found, (note,)


def _loaded(path: Path) -> Any:  # noqa: ANN401 - `onnx.ModelProto`
    try:
        import onnx
        from google.protobuf.message import Error
    except ImportError as problem:
        raise quantities.MissingDependencyError(
            "graphs of ONNX need the package onnx: pip install '.[graph]' in the clone"
        ) from problem
    if path.exists() and path.stat().st_size > MAX_FILE_BYTES:
        raise quantities.InvalidSpecError(
            f"{path} has 2 GB or more; export it with external data, which is not opened"
        )
    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as problem:
        raise quantities.InvalidSpecError(f"{path} cannot be read: {problem.strerror}") from problem
    except (Error, ValueError) as problem:
        raise quantities.InvalidSpecError(f"{path} is no ONNX file: {problem}") from problem
    if not model.graph.node:
        raise quantities.InvalidSpecError(f"{path} has no operators; is it an ONNX file?")
    if model.functions:
        raise quantities.UnsupportedError(
            f"{path} has functions of its own; inline them with onnx.inliner.inline_local_functions"
        )
    return model


def _fix_sizes(
    graph: Any,  # noqa: ANN401
    batch: int | None,
    given: dict[str, int],
    path: Path,
) -> tuple[int, list[tuple[str, int]]]:
    """Set the free sizes of the inputs; return the number of items, and which sizes it is."""
    held = {one.name for one in graph.initializer}
    inputs = [one for one in graph.input if one.name not in held]
    items, free, of_batch = 0, [], []
    names, symbols = _free_sizes(inputs), set[str]()
    for wrong in sorted(given.keys() - names):
        known = f"its free sizes are {', '.join(names)}" if names else "it has no free sizes"
        raise quantities.InvalidSpecError(
            f"{path} has no free size {quantities.repr_for_error(wrong)}; {known}"
        )
    for one in inputs:
        for index, size in enumerate(one.type.tensor_type.shape.dim):
            name = f"{one.name}_{index}"
            value = given.get(name, given.get(size.dim_param, 0))
            if size.dim_value <= 0:
                if (index == 0 and not (items and value)) or size.dim_param in symbols:
                    of_batch.append((one.name, index))
                    symbols |= {size.dim_param} - {""}
                value = value or ((items or batch or 1) if index == 0 else 0)
                if not value:
                    free.append(name)
                    continue
                if size.dim_param:
                    given.setdefault(size.dim_param, value)
                size.Clear()
                size.dim_value = value
            if index == 0 and not items:
                items = size.dim_value
    if free:
        raise quantities.InvalidSpecError(
            f"{path} has free sizes: {', '.join(free)}; set them as in --sizes {free[0]}=224"
        )
    return items or batch or 1, of_batch


def _free_sizes(inputs: Sequence[Any]) -> dict[str, None]:
    """Return the names of free sizes of inputs, in order: by input and dimension, and their own."""
    found: dict[str, None] = {}
    for one in inputs:
        for index, size in enumerate(one.type.tensor_type.shape.dim):
            if size.dim_value <= 0:
                found |= dict.fromkeys(filter(None, (f"{one.name}_{index}", size.dim_param)))
    return found


def _drop_weights(graph: Any) -> dict[str, int]:  # noqa: ANN401
    """Replace large initializers by inputs; return the parameters of each by name."""
    import onnx

    kept, names = [], {}
    declared = {one.name for one in graph.input}
    for one in graph.initializer:
        elements = math.prod(one.dims)
        names[one.name] = elements if one.data_type in _WEIGHTS else 0
        if elements <= MAX_SHAPE_INITIALIZER and one.data_location != onnx.TensorProto.EXTERNAL:
            kept.append(one)
        elif one.name not in declared:
            graph.input.append(
                onnx.helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
            )
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return names


def _inferred(folding: Folding, path: Path, weights: dict[str, int]) -> Any:  # noqa: ANN401
    """Return the graph with shapes; add the weights of branches that are known to run."""
    import onnx

    model = folding.model
    del model.graph.value_info[:]
    for one in model.graph.output:
        one.type.tensor_type.ClearField("shape")
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        while folding.fold(found):  # each round makes a constant or takes a branch
            weights |= _drop_weights(model.graph) | weights
            found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as problem:
        raise quantities.InvalidSpecError(
            f"{path}: shapes cannot be inferred: {problem}"
        ) from problem
    return found


@dataclass
class _Graph:
    """A graph while it is read.

    Attributes:
        weights: Tensors that no input of the network changes.
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
        formats: Elements of weights of products by format, "" for 16 or 32 bits.
    """

    graph: Any
    weights: set[str]
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
    formats: Counter[str] = field(default_factory=Counter)

    def read(self) -> None:
        """Add all operators."""
        graph = self.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            tensor = value.type.tensor_type
            self.types[value.name] = tensor.elem_type
            known = tensor.HasField("shape")
            if known and all(size.HasField("dim_value") for size in tensor.shape.dim):
                sizes = tuple(int(size.dim_value) for size in tensor.shape.dim)
                self.shapes[value.name] = imports.Tensor(sizes)
        for value in graph.initializer:
            self.shapes[value.name] = imports.Tensor(tuple(int(size) for size in value.dims))
            self.types[value.name] = value.data_type
        self.stored = {name: self.types.get(name, 1) for name in self.weights}
        for one in self.graph.node:
            reads = reads_of(one)
            for name in reads:
                self.users[name].append(one)
            self.writers |= dict.fromkeys(one.output, one)
            if all(name in self.weights for name in reads):
                self.weights.update(one.output)
        self.readers.update({name: len(users) for name, users in self.users.items()})
        together = self._together()
        for one in self.graph.node:
            if id(one) in together:
                self._put(together[id(one)](), one)
            elif not self.skipped.intersection(one.output):
                try:
                    self._add(one)
                except (ValueError, LookupError, ZeroDivisionError) as problem:
                    raise quantities.InvalidSpecError(
                        f"{one.op_type} {one.name!r} has inputs, shapes or attributes that are not"
                        f" those of the operator: {problem}"
                    ) from problem

    def _together(self) -> dict[int, Callable[[], Node]]:
        """Return what makes one of several operators, by the last of them; skip the others."""
        found: dict[int, Callable[[], Node]] = {}
        for last, attention, inside in filter(None, map(self._attention, self.graph.node)):
            self.skipped |= inside
            found[id(last)] = partial(lambda attention: attention, attention)
        for group in groups(self.graph, self.weights):
            if not self.skipped & group.written:
                self.skipped |= group.written
                found[id(group.last)] = partial(self._grouped, group)
        return found

    def _grouped(self, group: Group) -> Node:
        """Return operators that are one."""
        alone = all(group.written.issuperset(each.output) for each in self.users[group.read])
        read = [group.read]
        found = self._moving(group.kind, group.last, read, read if alone else [])
        if group.kind != GROUP_NORM:
            return found
        groups = int(self.shape(group.anchor.input[0], group.anchor).sizes[1])
        row = imports.row_elements(self.shape(group.read, group.last), GROUP_NORM, -1, groups)
        return replace(found, sizes={**found.sizes, "row": quantities.Expression(str(row))})

    def _put(self, found: Node, one: Any) -> None:  # noqa: ANN401 - `onnx.NodeProto`
        self.nodes.append(found)
        self.kinds |= dict.fromkeys(one.output, found.kind)

    def _add(self, one: Any) -> None:  # noqa: ANN401
        read = reads_of(one)
        if all(name in self.weights for name in read):
            held = [name for name in read if name in self.stored and name in self.shapes]
            source = max(held, key=lambda name: _count(self.shapes[name]), default="")
            most = _count(self.shapes[source]) if held else 0
            for name in one.output:  # a view or copy of a stored weight
                if held and name in self.shapes and _count(self.shapes[name]) <= most:
                    self.stored[name] = self.stored[source]
            return
        if (
            _kinds().get(one.op_type) in imports.WITHOUT_KERNEL
            or self._is_shape(one)
            or self._is_view(one, read)
        ):
            source = next(each for each in read if each not in self.weights)
            if self.readers[source] == 1:
                self.kinds |= dict.fromkeys(one.output, self.kinds.get(source, ""))
            return
        if one.op_type in _CONTROL:
            raise quantities.UnsupportedError(
                f"{one.op_type} {one.name!r} is control flow, whose path depends on data; export"
                " the graph without it, for example with fixed sizes and onnxsim"
            )
        for found in self._nodes(one, read):
            self._put(found, one)

    def _is_shape(self, one: Any) -> bool:  # noqa: ANN401
        """Return whether an operator computes sizes: few integers, without a kernel."""
        written = [name for name in one.output if name]
        return all(
            self.types.get(name, 1) not in _FLOATS and len(self.shapes[name].sizes) <= 1
            for name in written
            if name in self.shapes
        ) and all(
            name in self.shapes and _count(self.shapes[name]) <= MAX_SHAPE_ELEMENTS
            for name in (*written, *one.input)
            if name
        )

    def _is_view(self, one: Any, read: list[str]) -> bool:  # noqa: ANN401
        """Return whether an operator selects one index, or adds the bias of a product."""
        fixed = [name for name in read if name in self.weights]
        if one.op_type == "Gather":
            return read[1] in fixed and read[1] in self.shapes and _count(self.shapes[read[1]]) == 1
        others = [name for name in read if name not in fixed]
        if len(others) != 1:
            return False
        other = others[0]
        biased = one.op_type == "Add" and len(fixed) == 1 and self.readers[other] == 1
        bias = self.shapes.get(fixed[0]) if biased else None
        return self.kinds.get(other) == "linear" and bias is not None and len(bias.sizes) == 1

    def shape(self, name: str, one: Any) -> imports.Tensor:  # noqa: ANN401
        """Return the sizes of a tensor."""
        found = self.shapes.get(name)
        if found is None and one.domain not in _STANDARD:
            raise quantities.UnsupportedError(
                f"{one.op_type} {one.name!r} is an operator of {one.domain}, whose shapes ONNX does"
                " not infer; export the graph with standard operators of ONNX"
            )
        if found is None:
            raise quantities.UnsupportedError(
                f"the shape of {name!r}, of {one.op_type} {one.name!r}, depends on data; export the"
                " graph with fixed sizes"
            )
        return found

    def _nodes(self, one: Any, read: list[str]) -> Sequence[Node]:  # noqa: ANN401
        name = one.op_type
        if name in _CONVOLUTIONS or name in _PRODUCTS:
            own = [each for each in read if each in self.weights and each not in self.stored]
            self.computed |= {each: _count(self.shape(each, one)) for each in own}
            self._tally_format(one, (_CONVOLUTIONS | _PRODUCTS)[name])
        if name in _CONVOLUTIONS:
            return self._convolution(one)
        if name in _PRODUCTS:
            return [self._product(one)]
        if name in _GATES:
            return self._recurrent(one)
        if name == "Gather" and read[0] in self.weights:
            table = self.shape(read[0], one)
            rows = _count(self.shape(read[1], one))
            sizes = {"rows": rows, "width": _count(imports.Tensor(table.sizes[1:]))}
            return [imports.node("embedding", sizes)]
        if name == "Einsum":
            return [self._einsum(one, read)]
        if name not in _kinds():
            self.unknown[name] += 1
        alone = [each for each in read if self.readers[each] == 1]
        return [self._moving(_kinds().get(name, "elementwise"), one, read, alone)]

    def _moving(self, kind: str, one: Any, read: list[str], alone: list[str]) -> Node:  # noqa: ANN401
        """Return an operator that is limited by memory bandwidth."""
        moved = [self.shape(each, one) for each in read if each not in self.weights]
        if kind == "add" and len(moved) < 2:
            kind = "elementwise"
        producers = [self.kinds.get(each, "") for each in alone]
        out = self.shape(one.output[0], one)
        operands = [self.shape(each, one) for each in read]
        if one.op_type in _kinds() and imports.is_strided(kind, operands, out):
            kind = imports.STRIDED
        moves = {"read": imports.Tensor.total(moved), "write": out.elements()}
        if kind in ROWS and one.op_type not in BATCH_NORMS:
            start, groups = int(_attribute(one, "axis", -1)), int(_attribute(one, "num_groups", 0))
            moves["row"] = imports.row_elements(self.shape(read[0], one), kind, start, groups)
        made = imports.node(kind, moves, after=imports.fused_into(producers))
        return replace(made, by_output=imports.is_by_output(kind, one.op_type))

    def _convolution(self, one: Any) -> list[Node]:  # noqa: ANN401
        """Return a convolution, and the batch norm that an exporter folded into its weights."""
        image, weight = (self.shape(one.input[index], one) for index in _CONVOLUTIONS[one.op_type])
        out, number = self.shape(one.output[0], one), int(_attribute(one, "group", 1))
        transposed = one.op_type == "ConvTranspose"
        found = imports.convolution(image, weight, out, number, transposed=transposed)
        if not is_folded_norm(one):
            biased = len(one.input) > BIAS and one.op_type in ("Conv", "ConvTranspose")
            return [found, *([imports.added_bias(out, found.kind)] if biased else ())]
        moved = dict.fromkeys(("read", "write"), out.elements())
        return [found, imports.node("norm", moved, after=found.kind)]

    def _tally_format(self, one: Any, operands: tuple[int, int]) -> None:  # noqa: ANN401
        """Count the weights of a product in the format that they are stored in."""
        weight, other = (one.input[operands[index]] for index in (1, 0))
        if weight not in self.weights:
            weight, other = other, weight
        if weight not in self.weights or weight not in self.shapes:
            return
        source = self.writers.get(other)
        integers = self.types.get(other, 1) not in _FLOATS or one.op_type in _OF_FLOATS
        quantized = integers or (source is not None and source.op_type == "DequantizeLinear")
        bits = _BITS.get(self.stored.get(weight, 1), "")
        self.formats[_FORMATS[bits, quantized] if bits else ""] += _count(self.shapes[weight])

    def _einsum(self, one: Any, read: list[str]) -> Node:  # noqa: ANN401
        """Return the product of two operands that an equation states, by element without a sum."""
        text = _attribute(one, "equation", b"").decode().replace(" ", "")
        left, arrow, out = text.partition("->")
        terms = left.split(",")
        shapes = [self.shape(name, one).sizes for name in one.input]
        known = len(terms) == len(shapes) == 2 and arrow and "..." not in text
        sizes: dict[str, int] = {}
        for term, shape in zip(terms, shapes, strict=False):
            for label, size in zip(term, shape, strict=False):
                known = known and sizes.setdefault(label, int(size)) == int(size)
        first, second = (set(terms[0]), set(terms[-1]))
        summed = (first ^ second) - set(out)
        if not known or summed or any(len(set(term)) < len(term) for term in terms):
            raise quantities.UnsupportedError(
                f"Einsum {one.name!r} of {text!r} is no product of two operands with named"
                " dimensions, each of one size; export it as MatMul"
            )
        if not (first & second) - set(out):
            alone = [each for each in read if self.readers[each] == 1]
            return self._moving(_kinds()["Mul"], one, read, alone)
        m, n, k, groups = (
            math.prod(sizes[label] for label in labels)
            for labels in (
                first - second,
                second - first,
                (first & second) - set(out),
                first & second & set(out),
            )
        )
        self._tally_format(one, (0, 1))
        if one.input[0] in self.weights:
            m, n = n, m
        if groups == 1 and self.weights.intersection(one.input):
            own = [each for each in one.input if each in self.weights and each not in self.stored]
            self.computed |= {each: _count(self.shape(each, one)) for each in own}
            return imports.node("linear", {"m": m, "n": n, "k": k})
        return imports.node("matmul", {"m": m, "n": n, "k": k, "groups": groups})

    def _product(self, one: Any) -> Node:  # noqa: ANN401
        first, second = (one.input[index] for index in _PRODUCTS[one.op_type])
        left, right = self.shape(first, one), self.shape(second, one)
        out = self.shape(one.output[0], one)
        k = int(
            right.sizes[-1 if _attribute(one, "transB", 0) else 0 if len(right.sizes) == 1 else -2]
        )
        if second in self.weights and len(right.sizes) <= 2:
            n = int(out.sizes[-1]) if len(right.sizes) == 2 else 1
            return imports.node("linear", {"m": _count(out) // n, "n": n, "k": k})
        if first in self.weights and len(left.sizes) == 2:
            n = int(left.sizes[0])
            return imports.node("linear", {"m": _count(out) // n, "n": n, "k": k})
        rows, n = (int(size) for size in (1, 1, *out.sizes)[-2:])
        groups = _count(out) // (rows * n)
        return imports.node("matmul", {"m": rows, "n": n, "k": k, "groups": groups})

    def _recurrent(self, one: Any) -> list[Node]:  # noqa: ANN401
        """Return the products of a recurrent layer: of all inputs, and of each state in turn."""
        length, sequences, width = (int(size) for size in self.shape(one.input[0], one).sizes)
        hidden, gates = int(_attribute(one, "hidden_size", 0)), _GATES[one.op_type]
        both = 2 if _attribute(one, "direction", b"forward") == b"bidirectional" else 1
        rows, wide = length * sequences, gates * hidden * both
        return [
            imports.node("linear", {"m": rows, "n": wide, "k": width}),
            imports.node("linear", {"m": sequences, "n": wide, "k": hidden}, times=length),
            imports.node("elementwise", {"read": rows * wide, "write": rows * hidden * both}),
        ]

    def _attention(self, one: Any) -> tuple[Any, Node, set[str]] | None:  # noqa: ANN401
        """Return the attention whose softmax an operator is: its last product, and its inside."""
        found = self._chains().around(one) if one.op_type == "Softmax" else None
        if found is None:
            return None
        scores, last, inside = found
        (query, key), value = scores.input[:2], last.input[1]
        sizes = self._sizes(query, scores.output[0], value)
        if sizes is None or {query, key, value} & self.weights:
            return None
        scaled = [self._scaling(query), self._scaling(key)]
        if self.producer == PYTORCH and not all(scaled):
            return None  # products and a softmax in PyTorch, too
        return last, imports.node("attention", sizes), inside | scaled[0] | scaled[1]

    def _chains(self) -> Chains[Any]:
        return Chains(
            writers=self.writers,
            users=self.users,
            weights=self.weights,
            products=_SCORES,
            scaled=_SCALED,
        )

    def _sizes(self, query: str, scores: str, value: str) -> dict[str, int] | None:
        """Return the sizes of an attention, None where its tensors are not those of one."""
        known = [self.shapes.get(name) for name in (query, scores, value)]
        sizes = [tuple(map(int, each.sizes)) for each in known if each is not None]
        if len(sizes) < len(known) or min(map(len, sizes)) < BATCHED:
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
        found: set[str] = set()
        while (writer := self.writers.get(name)) is not None and self.readers[name] == 1:
            scaled = writer.op_type in ("Mul", "Div") and any(
                one in self.shapes and _count(self.shapes[one]) == 1 for one in writer.input
            )
            if not scaled and writer.op_type != "Transpose":
                break
            found |= {name} if scaled else set()
            name = next(one for one in writer.input if one not in self.weights)
        return found


def _count(tensor: imports.Tensor) -> int:
    return math.prod(int(size) for size in tensor.sizes)


def _attribute(one: Any, name: str, default: Any) -> Any:  # noqa: ANN401
    """Return an attribute of an operator: an integer or a text."""
    for each in one.attribute:
        if each.name == name:
            return each.s if each.type == each.STRING else each.i
    return default

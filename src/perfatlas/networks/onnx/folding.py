"""Sizes that a graph of ONNX computes from constants, where the inference of shapes does not."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.networks.onnx.control import CONTROL, Control, name_of
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_FOLDED_ELEMENTS: Final = 64  # elements of a tensor of sizes
_FOLDED: Final = (
    *("Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand"),
    *("Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max"),
    *("Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "ReduceMax", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "Reshape", "Round", "Slice", "Sqrt", "Squeeze", "Sub", "Transpose"),
    *("Unsqueeze", "Where", "Xor"),
)
# Operators that move the elements of their first input (of all inputs: Concat) as the others say.
_MOVED: Final = (
    *("Concat", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose"),
    "Unsqueeze",
)
# Operators each of whose elements follows from all of the input.
_REDUCED: Final = ("ConstantOfShape", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Size")
_OF_SIZES: Final = ("Shape", "Size")  # read sizes and no elements
_RESHAPED: Final = ("ConstantOfShape", "Expand")  # whose last input is the shape of the result
_EVALUATION_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError),
    ValueError,
)


class Folding:
    """Operators on constants of few elements, which their values replace.

    Args:
        model: Is changed.
        of_batch: Free sizes of its inputs that are the number of items: input and dimension.
        iterations: Of loops, by name.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        of_batch: Sequence[tuple[str, int]],
        iterations: Mapping[str, int],
    ) -> None:
        """Take a model whose free sizes are set."""
        self.model, self.of_batch = model, of_batch
        self.control = Control(stated=iterations)
        self.folded: set[str] = set()  # names of values that replace operators
        # values that follow from the number of items: which elements do, and their operators
        self.varying: dict[str, tuple[Any, Any]] = {}

    def fold(self, inferred: Any) -> bool:  # noqa: ANN401 - a graph
        """Replace operators by what they compute; return whether any was.

        Control flow whose path follows from such values is replaced by the operators inside.
        """
        import onnx

        graph = self.model.graph
        types = _types(inferred)
        shapes = {name: _sizes(kind) for name, kind in types.items()}
        values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        branches = any(node.op_type in CONTROL for node in graph.node)
        if not branches and all(
            name in shapes or name in values for node in graph.node for name in node.output if name
        ):
            return False
        fixed = self._fixed_sizes() if branches and self.of_batch else shapes
        changed = False
        for node in graph.node:
            value = self._value(node, shapes, values)
            if value is None or value.size > MAX_FOLDED_ELEMENTS:
                continue
            values[node.output[0]] = value
            if node.op_type == "Constant":
                continue
            self.folded.add(node.output[0])
            if branches and self.of_batch:
                self._mark(node, value, values, fixed)
            tensor = onnx.numpy_helper.from_array(value, node.output[0])
            node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, value=tensor))
            changed = True
        for node in graph.node:
            decides = {"If": "condition", "Loop": "number of iterations"}.get(node.op_type)
            stated = name_of(node) in self.control.stated
            if decides and not stated and node.input[0] in self.varying.keys() & values.keys():
                raise UnsupportedError(
                    f"the {decides} of {node.op_type} {name_of(node)!r} depends on the batch size;"
                    " export the graph with a fixed choice"
                )
        return (branches and self.control.inline(graph, values, types)) or changed

    def _fixed_sizes(self) -> dict[str, list[int]]:
        """Return the sizes of tensors for any number of items, 0 where they may vary."""
        import onnx

        free = onnx.ModelProto()
        free.CopyFrom(self.model)
        for node in free.graph.input:
            for index, size in enumerate(node.type.tensor_type.shape.dim):
                if (node.name, index) in self.of_batch:
                    size.dim_param = "items of the batch"
        for node in free.graph.node:
            if node.op_type == "Constant" and node.output[0] in self.varying:
                node.CopyFrom(self.varying[node.output[0]][1])
        inferred = onnx.shape_inference.infer_shapes(free, data_prop=True).graph
        return {name: _sizes(kind) for name, kind in _types(inferred, free=True).items()}

    def _mark(
        self,
        node: Any,  # noqa: ANN401
        value: Any,  # noqa: ANN401
        values: Mapping[str, Any],
        fixed: Mapping[str, list[int]],
    ) -> None:
        """Note which elements of a value follow from the number of items."""
        import onnx

        names = [name for name in node.input if name]
        input_marks = {
            name: self.varying[name][0]
            if name in self.varying
            else np.zeros(values[name].shape, np.bool_)
            for name in names
            if node.op_type not in _OF_SIZES
        }
        moved = names if node.op_type == "Concat" else names[:1]
        marks = None
        if node.op_type == "Shape":
            sizes = fixed.get(node.input[0])
            marks = np.array([0] * value.size if sizes is None else _chosen(node, sizes)) == 0
        elif node.op_type == "Size":
            marks = np.array(0 in fixed.get(node.input[0], [0]))
        elif node.op_type not in (*_MOVED, *_REDUCED):
            marks = reduce(np.logical_or, input_marks.values())
        elif node.op_type in _MOVED and not any(
            input_marks[name].any() for name in names[len(moved) :]
        ):
            read = {name: input_marks[name] if name in moved else values[name] for name in names}
            marks = self._computed(node, read)
        if marks is None:
            marks = np.full(value.shape, any(mark.any() for mark in input_marks.values()))
        if marks.any():
            original = onnx.NodeProto()
            original.CopyFrom(node)
            self.varying[node.output[0]] = (marks, original)

    def _value(
        self,
        node: Any,  # noqa: ANN401
        shapes: Mapping[str, list[int]],
        values: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401
        """Return what an operator computes (numpy array), None where it is not few constants."""
        from onnx.numpy_helper import to_array

        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            elements = math.prod(node.attribute[0].t.dims)
            return to_array(node.attribute[0].t) if elements <= MAX_FOLDED_ELEMENTS else None
        if node.op_type in _OF_SIZES and node.input[0] in shapes:
            sizes = _chosen(node, shapes[node.input[0]])
            return np.array(sizes if node.op_type == "Shape" else math.prod(sizes), dtype=np.int64)
        names = [name for name in node.input if name]
        if node.op_type not in _FOLDED or len(node.output) != 1 or not set(names) <= values.keys():
            return None
        return self._computed(node, {name: values[name] for name in names})

    def _computed(self, node: Any, read: Mapping[str, Any]) -> Any:  # noqa: ANN401 - arrays
        """Return what an operator computes of its inputs, None where they are many or others."""
        from onnx import ValueInfoProto
        from onnx.helper import make_graph, make_model
        from onnx.reference import ReferenceEvaluator

        last = [*read.values(), np.ones(1)][max(len(read) - 1, 0)]
        many = [value.size for value in read.values()]
        if node.op_type in _RESHAPED:
            many.append(np.prod(np.abs(last.astype(float))))
        if max(many, default=0) > MAX_FOLDED_ELEMENTS:
            return None
        try:
            # a node alone would be read as one of the newest version
            sets = self.model.opset_import
            names = [[ValueInfoProto(name=name) for name in some] for some in (read, node.output)]
            alone = make_model(make_graph([node], "alone", *names), opset_imports=sets)
            return np.asarray(ReferenceEvaluator(alone).run(None, dict(read))[0])
        except _EVALUATION_ERRORS:
            return None


def _types(graph: Any, *, free: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """Return the types of tensors by name: with a number of dimensions, or of known sizes."""
    import onnx

    tensors = (*graph.input, *graph.value_info, *graph.output)
    known = {
        tensor.name: tensor.type
        for tensor in tensors
        if tensor.type.tensor_type.HasField("shape")
        and (free or all(s.HasField("dim_value") for s in tensor.type.tensor_type.shape.dim))
    }
    held = {
        tensor.name: onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for tensor in graph.initializer
    }
    return held | known


def _sizes(kind: Any) -> list[int]:  # noqa: ANN401
    return [size.dim_value for size in kind.tensor_type.shape.dim]


def _chosen(node: Any, sizes: list[int]) -> list[int]:  # noqa: ANN401
    """Return the sizes that a Shape from `start` to `end` writes."""
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return sizes[bounds.get("start") : bounds.get("end")]

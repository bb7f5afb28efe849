"""Sizes that a graph of ONNX computes from constants, where the inference of shapes does not."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_FOLDED_ELEMENTS: Final = 64  # elements of a tensor of sizes
_FOLDED: Final = (
    *("Add", "And", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather"),
    *("Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Mod", "Mul", "Not", "Or"),
    *("ReduceProd", "Reshape", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"),
)
# Operators that move the elements of their first input (of all inputs: Concat) as the others say.
_MOVED: Final = (
    *("Concat", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose"),
    "Unsqueeze",
)
_REDUCED: Final = ("ConstantOfShape", "ReduceProd")  # each element follows from all of the input
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
    """

    def __init__(self, model: Any, of_batch: Sequence[tuple[str, int]]) -> None:  # noqa: ANN401
        """Take a model whose free sizes are set."""
        self.model, self.of_batch = model, of_batch
        # values that follow from the number of items: which elements do, and their operators
        self.varying: dict[str, tuple[Any, Any]] = {}

    def fold(self, inferred: Any) -> bool:  # noqa: ANN401 - a graph
        """Replace operators by what they compute; return whether any was.

        An `If` whose condition is such a value is replaced by the operators of its branch.
        """
        import onnx

        graph = self.model.graph
        shapes = _known_sizes(inferred)
        values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        branches = any(node.op_type == "If" for node in graph.node)
        if not branches and all(
            name in shapes or name in values for node in graph.node for name in node.output if name
        ):
            return False
        fixed = self._fixed_sizes() if branches and self.of_batch else shapes
        changed = False
        for node in graph.node:
            value = _value(node, shapes, values)
            if value is None or value.size > MAX_FOLDED_ELEMENTS:
                continue
            values[node.output[0]] = value
            if node.op_type == "Constant":
                continue
            if branches and self.of_batch:
                self._mark(node, value, values, fixed)
            tensor = onnx.numpy_helper.from_array(value, node.output[0])
            node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, value=tensor))
            changed = True
        for node in graph.node:
            if node.op_type == "If" and node.input[0] in self.varying and node.input[0] in values:
                raise UnsupportedError(
                    f"the condition of If {node.name or node.output[0]!r} depends on the batch"
                    " size; export the graph with a fixed choice"
                )
        return (branches and _inline_branches(graph, values)) or changed

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
        return _known_sizes(inferred, free=True)

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
            if node.op_type != "Shape"
        }
        moved = names if node.op_type == "Concat" else names[:1]
        marks = None
        if node.op_type == "Shape":
            marks = np.array(fixed.get(node.input[0]) or [0] * value.size) == 0
        elif node.op_type not in (*_MOVED, *_REDUCED):
            marks = reduce(np.logical_or, input_marks.values())
        elif node.op_type in _MOVED and not any(
            input_marks[name].any() for name in names[len(moved) :]
        ):
            read = {name: input_marks[name] if name in moved else values[name] for name in names}
            marks = _computed(node, read)
        if marks is None:
            marks = np.full(value.shape, any(mark.any() for mark in input_marks.values()))
        if marks.any():
            original = onnx.NodeProto()
            original.CopyFrom(node)
            self.varying[node.output[0]] = (marks, original)


def _known_sizes(graph: Any, *, free: bool = False) -> dict[str, list[int]]:  # noqa: ANN401
    """Return the sizes of tensors by name; with free ones as 0, or only where all are known."""
    tensors = (*graph.input, *graph.value_info, *graph.output)
    return {
        tensor.name: [size.dim_value for size in tensor.type.tensor_type.shape.dim]
        for tensor in tensors
        if tensor.type.tensor_type.HasField("shape")
        and (free or all(s.HasField("dim_value") for s in tensor.type.tensor_type.shape.dim))
    }


def _inline_branches(graph: Any, values: Mapping[str, Any]) -> bool:  # noqa: ANN401
    """Replace each `If` whose condition is known by its branch; drop what nothing reads then."""
    import onnx

    nodes, changed = [], False
    for node in graph.node:
        condition = values.get(node.input[0]) if node.op_type == "If" else None
        if condition is None or condition.size != 1:
            nodes.append(onnx.helper.make_node("Identity", [], []))
            nodes[-1].CopyFrom(node)
            continue
        branch_name = "then_branch" if condition.item() else "else_branch"
        branch = next(attribute.g for attribute in node.attribute if attribute.name == branch_name)
        names = {tensor.name for tensor in branch.initializer}
        names.update(name for inner in branch.node for name in inner.output if name)
        # two branches may have equal names inside
        renamed = {name: f"{node.output[0]}/{name}" for name in names}
        for tensor in branch.initializer:
            tensor.name = renamed[tensor.name]
        graph.initializer.extend(branch.initializer)
        _rename(branch.node, renamed)
        nodes += branch.node
        nodes += [
            onnx.helper.make_node("Identity", [renamed.get(inner.name, inner.name)], [outer])
            for inner, outer in zip(branch.output, node.output, strict=True)
        ]
        changed = True
    if changed:
        read, live = {output.name for output in graph.output}, []
        for node in reversed(nodes):  # operators that only the other branches read do not run
            if read.intersection(node.output):
                live.append(node)
                read.update(reads_of(node))
        nodes = [onnx.NodeProto.FromString(proto.SerializeToString()) for proto in reversed(live)]
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def _rename(nodes: Any, renamed: Mapping[str, str]) -> None:  # noqa: ANN401
    """Rename tensors of operators and of the graphs inside of them."""
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        for attribute in node.attribute:
            _rename(attribute.g.node, renamed)
            for out in attribute.g.output:
                out.name = renamed.get(out.name, out.name)


def reads_of(node: Any) -> list[str]:  # noqa: ANN401 - `onnx.NodeProto`
    """Return the tensors that an operator reads, those of the graphs inside of it among them."""
    read = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == attribute.GRAPH:
            inner_names = {value.name for value in (*attribute.g.initializer, *attribute.g.input)}
            inner_names.update(name for inner in attribute.g.node for name in inner.output)
            inside = [name for inner in attribute.g.node for name in reads_of(inner)]
            read += [
                name
                for name in (*inside, *(o.name for o in attribute.g.output))
                if name not in inner_names
            ]
    return list(dict.fromkeys(read))


def _value(node: Any, shapes: Mapping[str, list[int]], values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return what an operator computes (numpy array), None where it is not few constants."""
    from onnx.numpy_helper import to_array

    if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
        elements = math.prod(node.attribute[0].t.dims)
        return to_array(node.attribute[0].t) if elements <= MAX_FOLDED_ELEMENTS else None
    if node.op_type == "Shape" and not node.attribute and node.input[0] in shapes:
        return np.array(shapes[node.input[0]], dtype=np.int64)
    names = [name for name in node.input if name]
    if node.op_type not in _FOLDED or len(node.output) != 1 or not set(names) <= values.keys():
        return None
    return _computed(node, {name: values[name] for name in names})


def _computed(node: Any, read: Mapping[str, Any]) -> Any:  # noqa: ANN401 - arrays
    """Return what an operator computes of its inputs, None where they are many, or not its own."""
    from onnx.reference import ReferenceEvaluator

    last = [*read.values(), np.ones(1)][max(len(read) - 1, 0)]
    many = [value.size for value in read.values()]
    if node.op_type in _RESHAPED:
        many.append(np.prod(np.abs(last.astype(float))))
    if max(many, default=0) > MAX_FOLDED_ELEMENTS:
        return None
    try:
        return np.asarray(ReferenceEvaluator(node).run(None, dict(read))[0])
    except _EVALUATION_ERRORS:
        return None

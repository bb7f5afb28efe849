"""Sizes that a graph of ONNX computes from constants, where the inference of shapes does not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_SIZES: Final = 64  # elements of a tensor of sizes
_FOLDED: Final = (
    *("Add", "And", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather"),
    *("Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Mod", "Mul", "Not", "Or"),
    *("ReduceProd", "Reshape", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"),
)
_RESHAPED: Final = ("ConstantOfShape", "Expand")  # whose last input is the shape of the result
_EVALUATION_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError),
    ValueError,
)


def fold_sizes(graph: Any, inferred: Any) -> bool:  # noqa: ANN401 - graphs of ONNX
    """Replace operators on constants of few elements by their values; return whether any was.

    An `If` whose condition is such a value is replaced by the operators of its branch.

    Args:
        graph: Is changed.
        inferred: The same graph with shapes; nothing is done where all are known without branches.
    """
    import onnx

    known = {
        one.name: [size.dim_value for size in one.type.tensor_type.shape.dim]
        for one in (*inferred.input, *inferred.value_info, *inferred.output)
        if all(size.HasField("dim_value") for size in one.type.tensor_type.shape.dim)
        and one.type.tensor_type.HasField("shape")
    }
    values = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    branches = any(one.op_type == "If" for one in graph.node)
    if not branches and all(
        name in known or name in values for one in graph.node for name in one.output if name
    ):
        return False
    changed = False
    for one in graph.node:
        found = _value(one, known, values)
        if found is not None and found.size <= MOST_SIZES:
            values[one.output[0]] = found
            if one.op_type != "Constant":
                tensor = onnx.numpy_helper.from_array(found, one.output[0])
                one.CopyFrom(onnx.helper.make_node("Constant", [], one.output, value=tensor))
                changed = True
    return (branches and _inline_branches(graph, values)) or changed


def _inline_branches(graph: Any, values: Mapping[str, Any]) -> bool:  # noqa: ANN401
    """Replace each `If` whose condition is known by the operators of its branch."""
    import onnx

    nodes, changed = [], False
    for one in graph.node:
        condition = values.get(one.input[0]) if one.op_type == "If" else None
        if condition is None or condition.size != 1:
            nodes.append(onnx.helper.make_node("Identity", [], []))
            nodes[-1].CopyFrom(one)
            continue
        taken = "then_branch" if condition.item() else "else_branch"
        branch = next(each.g for each in one.attribute if each.name == taken)
        names = {each.name for each in branch.initializer}
        names.update(name for each in branch.node for name in each.output if name)
        # two branches may have equal names inside
        renamed = {name: f"{one.output[0]}/{name}" for name in names}
        for each in branch.initializer:
            each.name = renamed[each.name]
        graph.initializer.extend(branch.initializer)
        _rename(branch.node, renamed)
        nodes += branch.node
        nodes += [
            onnx.helper.make_node("Identity", [renamed.get(inner.name, inner.name)], [outer])
            for inner, outer in zip(branch.output, one.output, strict=True)
        ]
        changed = True
    if changed:
        nodes = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def _rename(nodes: Any, renamed: Mapping[str, str]) -> None:  # noqa: ANN401
    """Rename tensors of operators and of the graphs inside of them."""
    for one in nodes:
        one.input[:] = [renamed.get(name, name) for name in one.input]
        one.output[:] = [renamed.get(name, name) for name in one.output]
        for each in one.attribute:
            _rename(each.g.node, renamed)
            for out in each.g.output:
                out.name = renamed.get(out.name, out.name)


def reads_of(one: Any) -> list[str]:  # noqa: ANN401 - `onnx.NodeProto`
    """Return the tensors that an operator reads, those of the graphs inside of it among them."""
    read = [name for name in one.input if name]
    for each in one.attribute:
        if each.type == each.GRAPH:
            own = {one.name for one in (*each.g.initializer, *each.g.input)}
            own.update(name for inner in each.g.node for name in inner.output)
            inside = [name for inner in each.g.node for name in reads_of(inner)]
            read += [
                name for name in (*inside, *(o.name for o in each.g.output)) if name not in own
            ]
    return list(dict.fromkeys(read))


def _value(one: Any, known: Mapping[str, list[int]], values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return what an operator computes (numpy array), None where it is not few constants."""
    from onnx.numpy_helper import to_array

    if one.op_type == "Constant" and one.attribute and one.attribute[0].name == "value":
        elements = math.prod(one.attribute[0].t.dims)
        return to_array(one.attribute[0].t) if elements <= MOST_SIZES else None
    if one.op_type == "Shape" and not one.attribute and one.input[0] in known:
        return np.array(known[one.input[0]], dtype=np.int64)
    names = [name for name in one.input if name]
    if one.op_type not in _FOLDED or len(one.output) != 1 or not set(names) <= values.keys():
        return None
    return _computed(one, {name: values[name] for name in names})


def _computed(one: Any, read: Mapping[str, Any]) -> Any:  # noqa: ANN401 - arrays
    """Return what an operator computes of its inputs, None where they are many, or not its own."""
    from onnx.reference import ReferenceEvaluator

    last = [*read.values(), np.ones(1)][max(len(read) - 1, 0)]
    many = [value.size for value in read.values()]
    if one.op_type in _RESHAPED:
        many.append(np.prod(np.abs(last.astype(float))))
    if max(many, default=0) > MOST_SIZES:
        return None
    try:
        return np.asarray(ReferenceEvaluator(one).run(None, dict(read))[0])
    except _EVALUATION_ERRORS:
        return None

"""Sizes that a graph of ONNX computes from constants, where the inference of shapes does not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_SIZES: Final = 64  # elements of a tensor of sizes
_FOLDED: Final = (
    *("Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather", "Identity"),
    *("Mod", "Mul", "Not", "ReduceProd", "Reshape", "Slice", "Squeeze", "Sub", "Transpose"),
    *("Unsqueeze", "Where"),
)
_RESHAPED: Final = ("ConstantOfShape", "Expand")  # whose last input is the shape of the result
_EVALUATION_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError),
    ValueError,
)


def fold_sizes(graph: Any, inferred: Any) -> bool:  # noqa: ANN401 - graphs of ONNX
    """Replace operators on constants of few elements by their values; return whether any was.

    Args:
        graph: Is changed.
        inferred: The same graph with shapes; nothing is done where all are known.
    """
    import onnx

    known = {
        one.name: [size.dim_value for size in one.type.tensor_type.shape.dim]
        for one in (*inferred.input, *inferred.value_info, *inferred.output)
        if all(size.HasField("dim_value") for size in one.type.tensor_type.shape.dim)
        and one.type.tensor_type.HasField("shape")
    }
    values = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    if all(name in known or name in values for one in graph.node for name in one.output if name):
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
    return changed


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

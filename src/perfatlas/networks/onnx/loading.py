"""Models of ONNX as they are read: sizes set, weights counted and dropped, shapes inferred."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import quantities
from perfatlas.networks.dimensions import MAX_SIZE
from perfatlas.networks.onnx.functions import with_functions

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from perfatlas.networks.onnx.folding import Folding

MAX_FILE_BYTES: Final = (1 << 31) - 1  # bytes of a protocol buffer
MAX_SHAPE_INITIALIZER: Final = 1024  # elements of an initializer that may be a shape
MAX_SHAPE_ELEMENTS: Final = 64  # elements of a tensor of integers that is a shape
MAX_PROCESSED: Final = 300_000  # operators over all rounds of inference, some 5 s
FLOATS: Final = (1, 10, 11, 16)  # types of ONNX: float, float16, double, bfloat16
WHOLE: Final = (6, 7, 9)  # int32, int64, bool
WEIGHTS: Final = (*FLOATS, *range(2, 6), *range(17, 27))  # and 16, 8, 4 and 2 bits


def loaded(path: Path) -> Any:  # noqa: ANN401 - `onnx.ModelProto`
    """Return the model of a file, without external data, with functions that state all shapes."""
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
        raise quantities.InvalidSpecError(f"{path} is not an ONNX file: {problem}") from problem
    if not model.graph.node:
        raise quantities.InvalidSpecError(f"{path} has no operators; is it an ONNX file?")
    return with_functions(model, path)


def fix_sizes(
    graph: Any,  # noqa: ANN401
    batch: int | None,
    sizes: dict[str, int],
    path: Path,
) -> tuple[int, list[tuple[str, int]]]:
    """Set the free sizes of the inputs; return the number of items, and which sizes it is."""
    inputs = _fix_values(graph, sizes)
    items, free, of_batch = 0, [], []
    names, symbols = _free_sizes(inputs), set[str]()
    for wrong in sorted(sizes.keys() - names):
        hint = f"its free sizes are {', '.join(names)}" if names else "it has no free sizes"
        raise quantities.InvalidSpecError(
            f"{path} has no free size {quantities.repr_for_error(wrong)}; {hint}"
        )
    if empty := [name for name, value in sizes.items() if value < 1]:
        raise quantities.InvalidSpecError(
            f"{empty[0]} = 0: expected an integer of 1 to {MAX_SIZE:,}"
        )
    for tensor in inputs:
        for index, size in enumerate(tensor.type.tensor_type.shape.dim):
            name = f"{tensor.name}_{index}"
            value = sizes.get(name, sizes.get(size.dim_param, 0))
            if size.dim_value <= 0:
                if (index == 0 and not (items and value)) or size.dim_param in symbols:
                    of_batch.append((tensor.name, index))
                    symbols |= {size.dim_param} - {""}
                value = value or ((items or batch or 1) if index == 0 else 0)
                if not value:
                    free.append(name)
                    continue
                if size.dim_param:
                    sizes.setdefault(size.dim_param, value)
                size.Clear()
                size.dim_value = value
            if index == 0 and not items:
                items = size.dim_value
    if free:
        raise quantities.InvalidSpecError(
            f"{path} has free sizes: {', '.join(free)}; set them as in --sizes {free[0]}=224"
        )
    return items or batch or 1, of_batch


def _fix_values(graph: Any, sizes: dict[str, int]) -> list[Any]:  # noqa: ANN401
    """Give inputs of one integer or condition the values that sizes state; return the others."""
    import onnx

    known = {tensor.name for tensor in graph.initializer}
    inputs = []
    for tensor in graph.input:
        kind = tensor.type.tensor_type
        whole = kind.elem_type in WHOLE and all(size.dim_value == 1 for size in kind.shape.dim)
        if whole and tensor.name in sizes and tensor.name not in known:
            dims, value = [1] * len(kind.shape.dim), [sizes.pop(tensor.name)]
            graph.initializer.add().CopyFrom(
                onnx.helper.make_tensor(tensor.name, kind.elem_type, dims, value)
            )
        elif tensor.name not in known:
            inputs.append(tensor)
    return inputs


def _free_sizes(inputs: Sequence[Any]) -> dict[str, None]:
    """Return the names of free sizes of inputs, in order: by input and dimension, and their own."""
    names: dict[str, None] = {}
    for tensor in inputs:
        for index, size in enumerate(tensor.type.tensor_type.shape.dim):
            if size.dim_value <= 0:
                names |= dict.fromkeys(filter(None, (f"{tensor.name}_{index}", size.dim_param)))
    return names


def drop_weights(graph: Any, folded: Collection[str]) -> dict[str, int]:  # noqa: ANN401
    """Replace large constants by inputs, and others by initializers; return the parameters of each.

    Args:
        folded: Constants that were operators on sizes, which stay.
    """
    import onnx

    declared = {tensor.name for tensor in graph.input}
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:  # which runtimes make dense
        tensors[sparse.values.name] = _shape_only(sparse.values.data_type, sparse.dims)
    for index, node in reversed([*enumerate(graph.node)]):
        if node.op_type == "Constant" and node.output[0] not in folded and node.attribute:
            tensors[node.output[0]] = _constant(node.attribute[0])
            del graph.node[index]
    for index, node in reversed([*enumerate(graph.node)]):
        if node.op_type == "ConstantOfShape" and node.input[0] in tensors:
            sizes = [int(size) for size in onnx.numpy_helper.to_array(tensors[node.input[0]])]
            value = node.attribute[0].t if node.attribute else onnx.TensorProto(data_type=1)
            if value.data_type in FLOATS and math.prod(sizes) > MAX_SHAPE_ELEMENTS:
                tensors[node.output[0]] = _shape_only(value.data_type, sizes)
                del graph.node[index]
    small, parameters = [], {}
    for name, tensor in tensors.items():
        elements = math.prod(tensor.dims)
        parameters[name] = elements if tensor.data_type in WEIGHTS else 0
        if elements <= MAX_SHAPE_INITIALIZER and tensor.data_location != tensor.EXTERNAL:
            small.append(onnx.TensorProto.FromString(tensor.SerializeToString()))
            small[-1].name = name
        elif name not in declared:
            dims = list(tensor.dims)
            graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, dims))
    del graph.initializer[:], graph.sparse_initializer[:]
    graph.initializer.extend(small)
    return parameters


def _constant(attribute: Any) -> Any:  # noqa: ANN401
    """Return the tensor of a Constant."""
    import onnx

    if attribute.type == attribute.TENSOR:
        return attribute.t
    if attribute.type == attribute.SPARSE_TENSOR:
        return _shape_only(attribute.sparse_tensor.values.data_type, attribute.sparse_tensor.dims)
    value = np.asarray(onnx.helper.get_attribute_value(attribute))
    if value.dtype == np.float64:
        value = value.astype(np.float32)
    return onnx.numpy_helper.from_array(value)


def _shape_only(kind: int, sizes: Sequence[int]) -> Any:  # noqa: ANN401
    """Return a tensor whose elements are not held."""
    import onnx

    tensor = onnx.TensorProto(data_type=kind, dims=sizes)
    tensor.data_location = tensor.EXTERNAL
    return tensor


def inferred(folding: Folding, path: Path, weights: dict[str, int]) -> Any:  # noqa: ANN401
    """Return the graph with shapes; add the weights of branches that are known to run."""
    import onnx

    model = folding.model
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    processed, again = 0, True
    try:
        while again:  # each round makes a constant or takes a branch
            processed += len(model.graph.node)
            if processed > MAX_PROCESSED:
                raise quantities.UnsupportedError(
                    f"{path}: sizes follow from each other in too many steps; export the graph"
                    " with fixed sizes, for example with onnxsim"
                )
            graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
            again = folding.fold(graph)
            weights |= (drop_weights(model.graph, folding.folded) | weights) if again else {}
    except (onnx.shape_inference.InferenceError, LookupError, ValueError, RuntimeError) as problem:
        raise quantities.InvalidSpecError(
            f"{path}: shapes cannot be inferred: {problem}"
        ) from problem
    return graph


def check_order(graph: Any) -> None:  # noqa: ANN401
    """Refuse a graph with an operator that reads what follows it, as in a cycle."""
    written = {"", *(value.name for value in (*graph.input, *graph.initializer))}
    for op in graph.node:
        if early := [name for name in op.input if name not in written]:
            raise quantities.InvalidSpecError(
                f"{op.op_type} {op.name!r} reads {early[0]!r}, which nothing before it writes"
            )
        written.update(op.output)

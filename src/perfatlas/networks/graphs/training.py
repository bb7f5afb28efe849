"""Training of a graph: what its nodes keep for the backward pass, and what they run in it.

Weights are in 32 bits and are cast to 16 bits before they are used (autocast).

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import operators
from perfatlas.formats import get_format
from perfatlas.networks.graphs.nodes import BLOCK_ELEMENTS, GROUP_NORM, LOOKUPS, PRODUCTS, Node
from perfatlas.networks.graphs.precision import CAST, FLOAT32_WIDTH, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any


INPUT: Final = "input"
SUMS: Final = "sums"
STEPS: Final = "steps"  # of a denoiser
WEIGHT_BYTES: Final = 4.0
BIASES: Final = ("strided_after_conv", "strided_after_depthwise_conv")
NORMS: Final = (GROUP_NORM, "norm")
# Kinds whose derivative needs their inputs again. Of elementwise operators, products of two tensors
# do and sums do not: all are counted.
READ_AGAIN: Final = (*NORMS, "activation", "elementwise", "depthwise_conv", "scan", "strided")
TWICE: Final = 2.0
# Columns that a thread block sums over all rows, for the gradients of the weights of a layer norm,
# and rows from which several share them.
# Source: pytorch aten/src/ATen/native/cuda/layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel.
COLUMNS: Final = 32.0
MAX_COLUMN_ROWS: Final = 65_536.0
SUM_BLOCKS: Final = 2112.0
SUM_COLUMNS: Final = 128.0
SUM_ROWS: Final = 64.0
WHOLE_IMAGE: Final = 32.0  # inputs of an output from which pooling is a mean of an image
# What a block of a network is where it names none: the first kind of these that it has.
BLOCKS: Final = ("attention", "add", *PRODUCTS)


def weights_of_products(nodes: Iterable[Node], columns: Mapping[str, Any]) -> int:
    """Return the weights of linear layers and convolutions."""
    total = 0.0
    for node in nodes:
        if node.kind in ("linear", "conv"):
            size = node.values(columns)
            total += size["count"] * size["n"] * size["k"] * size.get("groups", 1.0)
    return round(total)


def blocks_of(nodes: Iterable[Node], columns: Mapping[str, Any]) -> int:
    """Return the blocks whose weights are gathered together: by attention, else by addition."""
    counts = dict.fromkeys(BLOCKS, 0.0)
    for node in nodes:
        if node.kind in counts:
            counts[node.kind] += float(node.count.of(columns))
    return next((round(count) for count in counts.values() if count >= 1.0), 1)


def block_input(nodes: Sequence[Node], columns: Mapping[str, Any]) -> int:
    """Return the elements of an item that a block reads: those of its residual stream.

    It is what additions write of the size of a product, else what products write. Several streams
    are read together, up to the size of the largest.

    Limits: At most what blocks read, where streams have different sizes.
    """
    kinds = [(node.kind, node.values(columns)) for node in nodes]
    products = [
        (float(size["count"]), float(size["m"] * size["n"] * size.get("groups", 1.0)))
        for kind, size in kinds
        if kind in PRODUCTS
    ]
    sizes = {elements for _, elements in products}
    sums = [
        (float(size["count"]), float(size["write"]))
        for kind, size in kinds
        if kind == "add" and float(size["write"]) in sizes
    ]
    outputs = np.array(sums or products or [(1.0, 1.0)])
    mean = outputs.prod(axis=1).sum() / blocks_of(nodes, columns)
    return round(float(min(mean, outputs[:, 1].max())))


def reads_data(nodes: Iterable[Node], columns: Mapping[str, Any]) -> int:
    """Return how many of the first nodes have inputs without gradients: up to the first weights.

    Limits: A network with several inputs has further ones.
    """
    count = 0
    for node in nodes:
        if node.kind in LOOKUPS:
            return count
        if node.kind in ("linear", "conv", "depthwise_conv"):
            return count + (float(node.count.of(columns)) == 1.0)
        count += 1
    return count


def forward_operators(
    operator: operators.Operator, precision: Precision, weights_per_product: float
) -> tuple[operators.Operator, ...]:
    """Return what an operator runs in a forward pass of training.

    Weights are cast to 16 bits before the first product that reads them, and inputs to the format
    of the operator. Batch norms read their input twice: for its statistics, and to normalize it.

    Args:
        weights_per_product: Weights over those of all products, below 1 where products share them.

    Source: torch.autocast caches casts of weights until the end of a forward pass; pytorch
        aten/src/ATen/native/cuda/Normalization.cuh: statistics are those of one thread block per
        channel, where images are stored as NCHW.
    """
    if isinstance(operator, operators.Gemm):
        read = operator.m * operator.k * operator.input_bytes_per_element
        before = _input_cast(operator, precision.casts, FLOAT32_WIDTH * read, read)
        if not operator.has_weights:
            return *before, operator
        weights_C = operator.weight_elements()
        read, write = WEIGHT_BYTES * weights_C, operators.ACTIVATION_BYTES * weights_C
        cast = _kernel(operator, f"{CAST}_{operator.name}", CAST, read, write)
        cast = operators.with_fields(cast, count=weights_per_product * operator.count)
        return cast, *before, operator
    if not isinstance(operator, operators.Streaming):
        return (operator,)
    if operator.stream == "depthwise_conv":
        read = operator.read_bytes
        return *_input_cast(operator, precision.casts, FLOAT32_WIDTH * read, read), operator
    rows = operator.row_bytes * 0.5 * (precision.read + precision.write)
    done = operators.with_fields(
        operator,
        read_bytes=precision.read * operator.read_bytes,
        write_bytes=precision.write * operator.write_bytes,
        cold_read_bytes=precision.write * operator.cold_read_bytes,
        row_bytes=rows,
    )
    if _is_batch_norm(operator):
        return _statistics(operator, precision.channels), done
    before = _input_cast(operator, precision.casts, input_bytes(operator), input_bytes(done))
    return *before, done


def _input_cast(
    operator: operators.Gemm | operators.Streaming,
    share: float,
    read: operators.FloatArray,
    write: operators.FloatArray,
) -> tuple[operators.Streaming, ...]:
    """Return the kernel that casts the input of a share of the executions, if there is one."""
    cast = _kernel(operator, f"{INPUT}_{operator.name}", CAST, read, write)
    return (operators.with_fields(cast, count=share * operator.count),) if share else ()


def _kernel(
    near: operators.Gemm | operators.Streaming,
    name: str,
    stream: str,
    read: operators.FloatArray,
    write: operators.FloatArray,
) -> operators.Streaming:
    """Return a kernel that runs as often as an operator near it."""
    return operators.Streaming(
        name=name,
        phase=near.phase,
        count=near.count,
        stream=stream,
        tokens=np.maximum(read, write) / (BLOCK_ELEMENTS * operators.ACTIVATION_BYTES),
        read_bytes=read,
        write_bytes=write,
        cold_read_bytes=0.0 * read,
    )


def _statistics(norm: operators.Streaming, channels: float) -> operators.Streaming:
    """Return the kernel that reads an image for the mean and variance of each channel."""
    return operators.with_fields(
        norm,
        name=f"{SUMS}_{norm.name}",
        stream=f"batch_norm_{SUMS}",
        write_bytes=0.0 * norm.write_bytes,
        row_bytes=norm.read_bytes / (channels or np.inf),
    )


def input_bytes(operator: operators.Streaming) -> operators.FloatArray:
    """Return the bytes of the input of an operator, which a group norm reads twice (C,) [bytes]."""
    return operator.read_bytes / (TWICE if operator.stream == GROUP_NORM else 1.0)


def _is_batch_norm(operator: operators.Streaming) -> bool:
    """Return whether a norm is one of channels over all items, which has no rows."""
    return operator.stream == "norm" and not np.any(operator.row_bytes)


def saved_bytes_of(operator: operators.Streaming) -> operators.FloatArray:
    """Return what one execution keeps for its backward pass (C,) [bytes].

    Norms, activations, elementwise operators and depthwise convolutions keep their inputs, softmax
    its output, lookups their indices, and casts the weights in 16 bits.
    """
    if operator.stream in LOOKUPS:
        return np.asarray(operator.gathers) * operators.INDEX_BYTES
    if operator.stream == "softmax" or operator.name.startswith(CAST):
        return operator.write_bytes
    if operator.stream in READ_AGAIN and not operator.name.startswith(BIASES):
        return input_bytes(operator)
    return 0.0 * operator.read_bytes


def streaming_backward(operator: operators.Streaming, precision: Precision) -> operators.Backward:
    """Return the gradient of an operator that memory bandwidth limits.

    It reads the gradient of its output and what the operator keeps, and writes the gradient of its
    input. An addition adds the gradients of two branches where it splits, and so do casts of one
    tensor; a norm sums over rows for the gradients of its weights, a batch norm also for that of
    its input; a depthwise convolution has a gradient of its weights, that of a bias is summed, and
    a lookup adds to rows of the gradient of its table.

    Source: pytorch aten/src/ATen/native/cuda/layer_norm_kernel.cu, LayerNormBackward and
        GammaBetaBackward; aten/src/ATen/native/cuda/Normalization.cuh, batch_norm_backward_kernel.
    Limits: The gradient of a table is not cleared.
    """
    gradient, read = operator.write_bytes, operator.read_bytes
    stream = f"{operator.stream}_gradient"
    if operator.stream.endswith(SUMS):
        return operators.Backward(())
    if operator.stream in NORMS:
        return _norm_backward(operator, precision)
    if operator.stream == "scan":
        return operators.Backward(
            (operators.with_fields(operator, count=operator.backward_passes * operator.count),)
        )
    if operator.stream in (*LOOKUPS, "depthwise_conv") or operator.name.startswith(BIASES):
        return _weight_backward(operator, stream)
    if operator.stream == "pool" and np.all(read > WHOLE_IMAGE * gradient):
        stream = "strided_gradient"  # the mean of an image: its gradient is repeated
    saved = 0.0 if operator.name.startswith(CAST) else saved_bytes_of(operator)
    back = operators.with_fields(
        operator, stream=stream, read_bytes=gradient + saved, write_bytes=read
    )
    if operator.stream == CAST and precision.shared:
        added = operators.with_fields(
            operator,
            stream="add",
            count=precision.shared * operator.count,
            read_bytes=TWICE * read,
            write_bytes=read,
        )
        return operators.Backward((back, added))
    return operators.Backward((back,))


def _weight_backward(operator: operators.Streaming, stream: str) -> operators.Backward:
    """Return the gradients of a table, of a depthwise convolution, or of the bias of one."""
    gradient, read = operator.write_bytes, operator.read_bytes
    if operator.stream in LOOKUPS:
        rows = np.asarray(operator.gathers) * operator.row_bytes
        added = operators.with_fields(
            operator, stream=stream, read_bytes=gradient, write_bytes=rows
        )
        return operators.Backward((added,))
    if operator.name.startswith(BIASES):
        summed = operators.with_fields(
            operator, stream=stream, read_bytes=gradient, write_bytes=0.0 * read
        )
        return operators.Backward((), (summed,))
    by_input = operators.with_fields(operator, stream=stream, read_bytes=gradient, write_bytes=read)
    return operators.Backward(
        (by_input,), (operators.with_fields(operator, stream="depthwise_conv_weight_gradient"),)
    )


def _norm_backward(norm: operators.Streaming, precision: Precision) -> operators.Backward:
    """Return the gradient of a norm: of a layer norm and of its weights apart."""
    gradient, read = norm.write_bytes, input_bytes(norm)
    both = gradient + read
    if norm.stream == GROUP_NORM or _is_batch_norm(norm):
        twice = operators.with_fields(norm, read_bytes=TWICE * both, write_bytes=read)
        if norm.stream == GROUP_NORM:
            return operators.Backward((operators.with_fields(twice, stream="group_norm_gradient"),))
        row_bytes = (TWICE * both + read) / (precision.channels or np.inf)
        return operators.Backward(
            (operators.with_fields(twice, stream="batch_norm_gradient", row_bytes=row_bytes),)
        )
    rows = np.maximum(both, 1.0) / np.maximum(norm.row_bytes, 1.0)
    by_input = operators.with_fields(
        norm,
        stream="norm_gradient",
        read_bytes=both,
        write_bytes=read,
        row_bytes=(both + read) / rows,
    )
    column_bytes = rows * COLUMNS * TWICE * operators.ACTIVATION_BYTES
    by_weight = operators.with_fields(
        norm,
        stream="norm_weight_gradient",
        read_bytes=both,
        write_bytes=0.0 * read,
        row_bytes=np.where(rows > MAX_COLUMN_ROWS, 0.0, column_bytes),
    )
    return operators.Backward((by_input,), (by_weight,))


def product_backward(product: operators.Gemm) -> operators.Backward:
    """Return dX = dY W^T and dW = dY^T X of each group, and the sum of a linear layer's bias.

    A convolution with strides is one without on positions that hold the channels of several: each
    element of an image is read and written once.

    Limits: All linear layers have biases.
    """
    activation_bytes = get_format(product.format).activation_bytes
    # channels of a position over those under all taps; 1 of a linear layer
    share = product.input_bytes_per_element / activation_bytes
    gradient_bytes = product.output_bytes_per_element
    by_input = operators.with_fields(
        product,
        n=product.k * share,
        k=product.n / share,
        input_bytes_per_element=gradient_bytes * share,
    )
    by_weight = operators.with_fields(
        product,
        m=product.n * product.groups,
        n=product.k,
        k=product.m / product.groups,
        input_bytes_per_element=gradient_bytes,
        weight_bytes_per_element=product.input_bytes_per_element,
    )
    if not product.name.startswith("linear"):
        return operators.Backward((by_input,), (by_weight,))
    return operators.Backward((by_input,), (by_weight, _bias_gradient(product)))


def _bias_gradient(product: operators.Gemm) -> operators.Streaming:
    """Return the sum of the output gradient over rows.

    Thread blocks of 128 columns share rows; the last one of each adds what the others summed.

    Source: pytorch aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig: 16 blocks per SM, at
        least 16 rows for each of the 4 warps of a block.
    Limits: The blocks are those that fill 132 SMs.
    """
    read = product.m * product.n * product.output_bytes_per_element
    blocks = np.minimum(SUM_BLOCKS * SUM_COLUMNS / product.n, product.m / SUM_ROWS)
    summed = _kernel(product, product.name, "bias_gradient", read, 0.0 * read)
    row_bytes = np.maximum(blocks, 1.0) * SUM_COLUMNS * WEIGHT_BYTES
    return operators.with_fields(summed, row_bytes=row_bytes)

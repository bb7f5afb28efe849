"""Training of a graph: what its nodes keep for the backward pass, and what they run in it.

Weights are in 32 bits and are cast to 16 bits before they are used (autocast).

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.networks.graphs.nodes import BATCH, GROUP_NORM, LOOKUPS, PRODUCTS, Node
from perfatlas.operators import (
    ACTIVATION_BYTES,
    INDEX_BYTES,
    Backward,
    Gemm,
    Operator,
    Streaming,
    with_fields,
)
from perfatlas.quantities import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from perfatlas.operators import FloatArray

CAST: Final = "cast"
STEPS: Final = "steps"  # of a denoiser
GUIDED: Final = f"2 * {BATCH}"  # items of a denoiser that runs with and without a prompt
WEIGHT_BYTES: Final = 4.0
BIASES: Final = ("strided_after_conv", "strided_after_depthwise_conv")
NORMS: Final = (GROUP_NORM, "norm")
# Kinds whose derivative needs their inputs again. Of elementwise operators, products of two tensors
# do and sums do not: all are counted.
READ_AGAIN: Final = (*NORMS, "activation", "elementwise", "depthwise_conv", "scan", "strided")
TWICE: Final = 2.0
# What a block of a network is where it names none: the first kind of these that it has.
BLOCKS: Final = ("attention", "add", *PRODUCTS)


def one_step(
    nodes: Sequence[Node], lengths: Mapping[str, Expression]
) -> tuple[tuple[Node, ...], dict[str, Expression]]:
    """Return the nodes of a denoiser and the lengths of a training step, of one pass of it.

    A denoiser that runs with and without a prompt is trained on one of both.
    """
    items = {GUIDED: BATCH}
    changed = {
        name: Expression(items.get(length.text, length.text.replace(f"({GUIDED})", BATCH)))
        for name, length in lengths.items()
    }
    return tuple(node for node in nodes if STEPS in node.count.names), changed


def weights_of_products(nodes: Iterable[Node], columns: Mapping[str, Any]) -> int:
    """Return the weights of linear layers and convolutions.

    Args:
        columns: What expressions of nodes read.
    """
    total = 0.0
    for node in nodes:
        if node.kind in ("linear", "conv"):
            size = node.values(columns)
            total += size["count"] * size["n"] * size["k"] * size.get("groups", 1.0)
    return round(total)


def blocks_of(nodes: Iterable[Node], columns: Mapping[str, Any]) -> int:
    """Return the blocks whose weights are gathered at once: one per attention, else per addition.

    Args:
        columns: What expressions of nodes read.
    """
    counts = dict.fromkeys(BLOCKS, 0.0)
    for node in nodes:
        if node.kind in counts:
            counts[node.kind] += float(node.count.of(columns))
    return next((round(count) for count in counts.values() if count >= 1.0), 1)


def reads_data(nodes: Iterable[Node], columns: Mapping[str, Any]) -> int:
    """Return how many of the first nodes have inputs without gradients: up to the first weights.

    Limits: A network with several inputs has further ones.
    """
    found = 0
    for node in nodes:
        if node.kind in LOOKUPS:
            return found
        if node.kind in ("linear", "conv", "depthwise_conv"):
            return found + (float(node.count.of(columns)) == 1.0)
        found += 1
    return found


def forward_operators(operator: Operator) -> tuple[Operator, ...]:
    """Return what an operator runs in a forward pass of training.

    Weights are cast to 16 bits before their product, and batch norms read their input twice: for
    its statistics, and to normalize it.

    Source: torch.autocast caches casts of weights until the end of a forward pass; cuDNN,
        `CUDNN_BATCHNORM_SPATIAL`.
    """
    if isinstance(operator, Gemm) and operator.has_weights:
        return _cast(operator), operator
    if isinstance(operator, Streaming) and _is_batch_norm(operator):
        return (with_fields(operator, read_bytes=TWICE * operator.read_bytes),)
    return (operator,)


def _cast(product: Gemm) -> Streaming:
    elements_C = product.weight_elements()
    return Streaming(
        name=f"{CAST}_{product.name}",
        phase=product.phase,
        count=product.count,
        stream="copy",
        tokens=elements_C / product.k,
        read_bytes=WEIGHT_BYTES * elements_C,
        write_bytes=ACTIVATION_BYTES * elements_C,
        cold_read_bytes=0.0 * elements_C,
    )


def input_bytes(operator: Streaming) -> FloatArray:
    """Return the bytes of the input of an operator, which some norms read twice (C,) [bytes]."""
    twice = operator.stream == GROUP_NORM or _is_batch_norm(operator)
    return operator.read_bytes / (TWICE if twice else 1.0)


def _is_batch_norm(operator: Streaming) -> bool:
    """Return whether a norm is one of channels over all items, which has no rows."""
    return operator.stream == "norm" and not np.any(operator.row_bytes)


def saved_bytes_of(operator: Streaming) -> FloatArray:
    """Return what one execution keeps for its backward pass (C,) [bytes].

    Norms, activations, elementwise operators and depthwise convolutions keep their inputs, softmax
    its output, lookups their indices, and casts the weights in 16 bits.
    """
    if operator.stream in LOOKUPS:
        return np.asarray(operator.gathers) * INDEX_BYTES
    if operator.stream == "softmax" or operator.name.startswith(CAST):
        return operator.write_bytes
    if operator.stream in READ_AGAIN and not operator.name.startswith(BIASES):
        return input_bytes(operator)
    return 0.0 * operator.read_bytes


def streaming_backward(operator: Streaming) -> Backward:
    """Return the gradient of an operator that memory bandwidth limits.

    It reads the gradient of its output and what the operator keeps, and writes the gradient of its
    input; a norm reads both twice, for sums over them. An addition adds the gradients of two
    branches where it splits, a depthwise convolution has a gradient of its weights, that of a bias
    is summed, and a lookup adds to rows of the gradient of its table.

    Source: pytorch aten/src/ATen/native/cuda/layer_norm_kernel.cu, LayerNormBackward and
        GammaBetaBackward; cuDNN, cudnnBatchNormalizationBackward: sums first.
    Limits: The gradient of a table is not cleared.
    """
    if operator.stream in LOOKUPS:
        rows = np.asarray(operator.gathers) * operator.row_bytes
        return Backward((with_fields(operator, read_bytes=operator.write_bytes, write_bytes=rows),))
    gradient, own = operator.write_bytes, input_bytes(operator)
    if operator.stream == "scan":
        return Backward((with_fields(operator, count=operator.backward_passes * operator.count),))
    if operator.stream == "depthwise_conv":
        by_input = with_fields(operator, read_bytes=gradient, write_bytes=own)
        return Backward((by_input,), (operator,))
    if operator.name.startswith(BIASES):
        summed = with_fields(operator, read_bytes=gradient, write_bytes=0.0 * own)
        return Backward((), (summed,))
    passes = TWICE if operator.stream in NORMS else 1.0
    kept = 0.0 if operator.name.startswith(CAST) else saved_bytes_of(operator)
    read = passes * (gradient + kept)
    return Backward((with_fields(operator, read_bytes=read, write_bytes=own),))


def product_backward(product: Gemm) -> Backward:
    """Return dX = dY W^T and dW = dY^T X of each group.

    A convolution with strides is one without on positions that hold the channels of several: each
    element of an image is read and written once.
    """
    each = get_format(product.format).activation_bytes
    # channels of a position over those under all taps; 1 of a linear layer
    share = product.input_bytes_per_element / each
    gradient_bytes = product.output_bytes_per_element
    by_input = with_fields(
        product,
        n=product.k * share,
        k=product.n / share,
        input_bytes_per_element=gradient_bytes * share,
    )
    by_weight = with_fields(
        product,
        m=product.n * product.groups,
        n=product.k,
        k=product.m / product.groups,
        input_bytes_per_element=gradient_bytes,
        weight_bytes_per_element=product.input_bytes_per_element,
    )
    return Backward((by_input,), (by_weight,))

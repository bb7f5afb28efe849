"""Kernels of attention that stores its scores, and of dropout, in each part of a training step.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas import operators
from perfatlas.training.work.operators import Part

if TYPE_CHECKING:
    from collections.abc import Iterator


# Kernels that scale, mask and normalize scores read the lower triangle of a causal matrix.
_CAUSAL_SHARE: Final = 0.5


def unfused_attention_kernels(
    attention: operators.Attention, part: Part, *, dropout: bool
) -> tuple[operators.Operator, ...]:
    """Return the kernels of attention whose scores are stored; the first is a product.

    Forward: the product of queries and keys, a kernel that scales, masks and normalizes the scores,
    dropout, and the product with values. Backward: two products for each of these, and the
    gradients of the kernels between them. Products compute whole matrices of scores, of which a
    causal mask hides half.

    Args:
        attention: Attention on one rank, with the count of its part.
        part: Part of the step: forward, or the gradients of its inputs.
        dropout: Whether probabilities are dropped out, by a kernel of its own.

    Source: NVIDIA/Megatron-LM@1ecbebe, megatron/model/transformer.py, `CoreAttention`, and
        megatron/fused_kernels/scaled_upper_triang_masked_softmax.h: the forward pass reads the
        unmasked scores and writes all, as does the backward pass.

    Limits: Copies that reorder heads are not counted, and of the keys and values of each head that
        products read only those of one: a share of head_dim/kv_len of the scores' bytes. Sliding
        windows save nothing.
    """
    queries_C, keys_C = attention.q_len, attention.kv_len
    width_C, value_width_C = attention.head_dim, attention.value_head_dim
    if part == Part.FORWARD:
        return (
            _product(attention, "scores", queries_C, keys_C, width_C),
            _softmax(attention, "softmax", tensors=1.0),
            *_dropout(attention, "dropout", dropout=dropout, write_mask=True),
            _product(attention, "context", queries_C, value_width_C, keys_C),
        )
    kernels = (
        _product(attention, "value_gradient", keys_C, value_width_C, queries_C),
        _product(attention, "probability_gradient", queries_C, keys_C, value_width_C),
        *_dropout(attention, "dropout_gradient", dropout=dropout, write_mask=False),
        _softmax(attention, "softmax_gradient", tensors=2.0),
        _product(attention, "query_gradient", queries_C, width_C, keys_C),
        _product(attention, "key_gradient", keys_C, width_C, queries_C),
    )
    # the count of the row is that of its forward pass times ATTENTION_BACKWARD
    return tuple(
        operators.with_fields(kernel, count=kernel.count / operators.ATTENTION_BACKWARD)
        for kernel in kernels
    )


def dropout_of_residual(norm: operators.Streaming) -> operators.Streaming:
    """Return what dropout before a residual adds to a norm that is fused with the residual.

    One kernel adds the bias, drops out and adds the residual; it writes a mask, and the norm reads
    the sum again. The backward pass adds as much: it reads the mask, and the gradient twice.

    Args:
        norm: A norm with a residual, or its gradient.

    Source: NVIDIA/Megatron-LM@1ecbebe, megatron/model/transformer.py,
        `bias_dropout_add_fused_train`.
    """
    # it writes a normalized tensor and the sum; its gradient writes the gradients of both inputs
    elements_C = norm.write_bytes / (2.0 * operators.ACTIVATION_BYTES)
    return operators.with_fields(
        norm,
        name=f"{norm.name}_dropout",
        stream="add",
        read_bytes=elements_C * operators.ACTIVATION_BYTES,
        write_bytes=elements_C * operators.MASK_BYTES,
        cold_read_bytes=0.0 * elements_C,
    )


def _product(
    attention: operators.Attention,
    name: str,
    rows_C: operators.FloatArray,
    columns_C: operators.FloatArray,
    inner_C: operators.FloatArray,
) -> operators.Gemm:
    """Return a product of one matrix per sequence and head, as rows of one product.

    The larger input is that of the rows, so that nearly all bytes are counted.
    """
    return operators.Gemm(
        name=f"{attention.name}_{name}",
        phase=attention.phase,
        count=attention.count,
        shard="heads",
        m=attention.batch * attention.num_heads * rows_C,
        n=columns_C,
        k=inner_C,
        format="bf16",
        weight_bytes_per_element=operators.ACTIVATION_BYTES,
        input_bytes_per_element=operators.ACTIVATION_BYTES,
    )


def _softmax(attention: operators.Attention, name: str, *, tensors: float) -> operators.Streaming:
    """Return a kernel that reads the unmasked part of some tensors of scores and writes one."""
    bytes_C = attention.scores() * operators.ACTIVATION_BYTES
    read_C = bytes_C * tensors * (_CAUSAL_SHARE if attention.causal else 1.0)
    return _stream(attention, name, read_C, bytes_C)


def _dropout(
    attention: operators.Attention, name: str, *, dropout: bool, write_mask: bool
) -> Iterator[operators.Streaming]:
    """Yield dropout of probabilities, or its gradient, which reads the mask."""
    tensor_C = attention.scores() * operators.ACTIVATION_BYTES
    mask_C = attention.scores() * operators.MASK_BYTES
    if dropout and write_mask:
        yield _stream(attention, name, tensor_C, tensor_C + mask_C)
    elif dropout:
        yield _stream(attention, name, tensor_C + mask_C, tensor_C)


def _stream(
    attention: operators.Attention,
    name: str,
    read_C: operators.FloatArray,
    write_C: operators.FloatArray,
) -> operators.Streaming:
    return operators.Streaming(
        name=f"{attention.name}_{name}",
        phase=attention.phase,
        count=attention.count,
        shard="heads",
        stream="scores",
        tokens=attention.softmax_rows(),
        read_bytes=read_C,
        write_bytes=write_C,
        cold_read_bytes=0.0 * read_C,
    )

"""Kernels of the routed experts of one rank, in each part of a training step.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators import ACTIVATION_BYTES, QUANTIZE, Gemm, Streaming
from perfatlas.training.work.operators import Part, passes_of
from perfatlas.training.work.recomputation import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.operators import FloatArray, GroupedGemm, Operator


# Rows of an expert are a multiple of these, by the format that was asked; 16-bit rows are as sent.
# Source: NVIDIA/Megatron-LM@0011998, get_fp8_align_size (fp8_utils.py) and get_fp4_align_size
# (fp4_utils.py, 64 for the Hadamard transform).
_ALIGNED_ROWS: Final = {
    "fp8_static": 16,
    "fp8_dynamic": 16,
    "fp8_block": 16,
    "mxfp8": 32,
    "nvfp4": 64,
}
# What fused products do themselves.
_FUSED: Final = (QUANTIZE, "activation")
# Bytes read and written per element of the second product's output to add its biases: the product
# with fp32 probabilities, the sum, a concatenation and the cast; backward the casts, the split, and
# products and sums for the gradients of biases and probabilities.
# Source: NVIDIA/Megatron-LM@d98e8a6, experts.py, _apply_bias; PyTorch runs each as a kernel.
_BIAS_BYTES: Final = {Part.FORWARD: (14.0, 14.0), Part.INPUT_GRADIENT: (24.0, 16.0)}


def expert_kernels(
    experts: GroupedGemm,
    part: Part,
    *,
    fused: bool = False,
    sorted_again: bool = False,
    biases: bool = False,
    recipe: str = "",
) -> tuple[Operator, ...]:
    """Return the kernels that experts run in a part of the step; the first is a product.

    Each expert has two products of the rows that were sent to it. Around them rows are sorted by
    expert and back, activated and, in low precision, quantized along both dimensions. Gradients
    follow the rules of other operators.

    Args:
        fused: Whether products activate and quantize what they write, and add biases.
        sorted_again: Whether the rank sorts rows by expert after they arrive and before they leave,
            beside the permutation of its own tokens, as the all-to-all dispatcher does.
        recipe: Format that pads rows, where quantized experts are priced as another format.

    Source: Transformer Engine documentation, grouped GEMM: one cuBLAS product per expert on several
        streams, or one cuBLASLt grouped product of them. Serving engines fuse experts into one
        kernel instead, which training does not run. Sorted rows: NVIDIA/Megatron-LM@d98e8a6,
        token_dispatcher.py, sort_chunks_by_idxs of the all-to-all dispatcher.

    Limits: All experts have the same rows, as balanced routing sends them. Sorting that HybridEP
        does while it receives is counted. Copies of rows that are padded are not.
    """
    kernels = tuple(
        row.operator
        for operator in _forward(experts, recipe or experts.format, sorted_again=sorted_again)
        for row in passes_of(operator, 0, NEVER)
        if row.part == part and not (fused and row.operator.stream_kind in _FUSED)
    )
    if biases and not fused and part in _BIAS_BYTES:
        return (*kernels, _biases(experts, *_BIAS_BYTES[part]))
    return kernels


def _forward(experts: GroupedGemm, recipe: str, *, sorted_again: bool) -> Iterator[Operator]:
    """Yield the kernels of the forward pass, products first."""
    width_C = experts.width()
    hidden_C = experts.hidden
    rows_C = _aligned(experts, recipe)
    yield _product(experts, "up", rows_C, (experts.matrices - 1) * width_C, hidden_C)
    yield _product(experts, "down", rows_C, hidden_C, width_C)
    for name in ("permute", "unpermute"):
        yield _copy(experts, name, hidden_C, hidden_C * ACTIVATION_BYTES)
    if sorted_again:
        several_C = hidden_C * (experts.experts / experts.ep > 1.0)
        for name in ("sort", "unsort"):
            yield _copy(experts, name, several_C, several_C * ACTIVATION_BYTES)
    yield experts.activation()
    if get_format(experts.format).quantize != "none":
        for name, columns_C in (("up", hidden_C), ("down", width_C)):
            write_C = columns_C * experts.input_bytes_per_element
            yield _copy(experts, f"{name}_quantize", columns_C, write_C, stream=QUANTIZE)


def _product(
    experts: GroupedGemm,
    name: str,
    rows_C: FloatArray,
    columns_C: FloatArray,
    inner_C: FloatArray,
) -> Gemm:
    """Return a product of one expert, as often as the rank has experts."""
    held_C = experts.experts / experts.ep
    return Gemm(
        name=f"experts_{name}",
        phase=experts.phase,
        count=experts.count * held_C,
        shard=experts.shard,
        m=rows_C,
        n=columns_C,
        k=inner_C,
        format=experts.format,
        weight_bytes_per_element=experts.weight_bytes_per_element,
        input_bytes_per_element=experts.input_bytes_per_element,
    )


def _aligned(experts: GroupedGemm, recipe: str) -> FloatArray:
    """Return the rows of an expert with those that a format pads (C,)."""
    rows_C = experts.sent_rows() / (experts.experts / experts.ep)
    multiple = _ALIGNED_ROWS.get(recipe)
    return rows_C if multiple is None else multiple * np.ceil(rows_C / multiple)


def _biases(experts: GroupedGemm, read: float, written: float) -> Streaming:
    """Return the kernels of a pass that add biases, of some bytes per element, as one."""
    elements_C = experts.sent_rows() * experts.hidden
    return Streaming(
        name="experts_biases",
        phase=experts.phase,
        count=experts.count,
        shard=experts.shard,
        stream="add",
        tokens=experts.sent_rows(),
        read_bytes=read * elements_C,
        write_bytes=written * elements_C,
        cold_read_bytes=0.0 * elements_C,
    )


def _copy(
    experts: GroupedGemm,
    name: str,
    columns_C: FloatArray,
    write_C: FloatArray,
    *,
    stream: str = "permute",
) -> Streaming:
    """Return a kernel that reads 16-bit rows of some columns and writes some bytes per row."""
    rows_C = experts.sent_rows()
    return Streaming(
        name=f"experts_{name}",
        phase=experts.phase,
        count=experts.count,
        shard=experts.shard,
        stream=stream,
        tokens=rows_C,
        read_bytes=rows_C * columns_C * ACTIVATION_BYTES,
        write_bytes=rows_C * write_C,
        cold_read_bytes=0.0 * rows_C,
    )

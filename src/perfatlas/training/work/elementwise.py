"""Element-wise kernels of the backward pass: gradients, their quantization and accumulation.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import GroupedGemm, Streaming, with_fields

if TYPE_CHECKING:
    from perfatlas.operators import Gemm

EMBEDDING: Final = "embedding"
QUANTIZE: Final = "quantize"
ACTIVATION_BYTES: Final = 2.0
# A backward pass of these reads the inputs of the forward pass again.
_SAVES_INPUT: Final = ("norm", "activation", "output_gate", "qk_norm", "latent_norm", "gated_norm")


def quantized_gradient(operator: Gemm, copies: float) -> Streaming:
    """Return the quantization of the output gradient, a copy for each product that reads it.

    Args:
        operator: The forward product.
        copies: Products that read it.
    """
    elements = operator.m * operator.n
    return Streaming(
        name=f"{operator.name}_gradient_quantize",
        phase=operator.phase,
        count=operator.count,
        shard=operator.shard,
        stream=QUANTIZE,
        tokens=operator.m,
        read_bytes=elements * ACTIVATION_BYTES,
        write_bytes=copies * elements * operator.input_bytes_per_element,
        cold_read_bytes=np.zeros_like(elements),
    )


def accumulation(operator: Gemm | GroupedGemm, gradient_bytes: float) -> Streaming:
    """Return the kernel that adds a 16-bit weight gradient to the accumulated one.

    Args:
        operator: The forward product or experts of a rank.
        gradient_bytes: Bytes of an accumulated gradient.

    Source: Megatron-LM, `--no-gradient-accumulation-fusion`: a product writes the gradient of a
        micro-batch, which another kernel reads and adds.
    """
    if isinstance(operator, GroupedGemm):
        width_C = operator.intermediate / operator.moe_tp
        held_C = operator.experts / operator.ep
        columns_C, rows_C = operator.hidden, operator.matrices * width_C * held_C
    else:
        columns_C, rows_C = operator.k, operator.n
    elements_C = rows_C * columns_C
    return Streaming(
        name=f"{operator.name}_accumulation",
        phase=operator.phase,
        count=operator.count,
        shard=operator.shard,
        stream="add",
        tokens=rows_C,
        read_bytes=elements_C * (ACTIVATION_BYTES + gradient_bytes),
        write_bytes=elements_C * gradient_bytes,
        cold_read_bytes=0.0 * elements_C,
    )


def streaming_gradient(operator: Streaming) -> Streaming:
    """Return the gradient of a bandwidth-limited operator.

    It reads the gradients of what the forward pass wrote and writes those of what it read. Norms
    and activations also read their inputs again, of which a norm with a residual has one.

    Args:
        operator: The forward operator.
    """
    again = np.zeros_like(operator.read_bytes)
    if operator.stream == "norm":
        again = operator.read_bytes / 2.0
    elif operator.stream in _SAVES_INPUT:
        again = operator.read_bytes
    write = operator.read_bytes
    if operator.stream == EMBEDDING:  # adds rows to the gradient of the table
        write = operator.write_bytes
    if operator.stream == "sampling":  # the gradient of the loss replaces the logits
        return with_fields(operator, write_bytes=operator.read_bytes)
    return with_fields(operator, read_bytes=operator.write_bytes + again, write_bytes=write)

"""Bytes of elementwise operators: norms, activations, rotary embeddings, quantization, sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.operators import ACTIVATION_BYTES
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

    Width = float | FloatArray

TOKEN_ID_BYTES: Final = 4.0


class RowBytes(NamedTuple):
    """Bytes that one row of an elementwise operator moves."""

    read: Width  # Activations read [bytes]
    write: Width  # Activations written [bytes]
    cold: Width = 0.0  # Read from device memory once per execution [bytes]


def norm_bytes(width: Width, *, residual: bool = True) -> RowBytes:
    """Return the bytes of a norm; with a residual it also adds and stores it.

    Args:
        width: Hidden size.
    """
    streams, width_bytes = 2.0 if residual else 1.0, width * ACTIVATION_BYTES
    return RowBytes(streams * width_bytes, streams * width_bytes, cold=width_bytes)


def activation_bytes(width: Width, *, gated: bool = True) -> RowBytes:
    """Return the bytes of the activation of a feed-forward layer."""
    matrices = 2.0 if gated else 1.0
    return RowBytes(matrices * width * ACTIVATION_BYTES, width * ACTIVATION_BYTES)


def rope_and_cache_bytes(width: Width, kv_width: Width, kv_bytes: float) -> RowBytes:
    """Return the bytes of a rotary embedding that appends keys and values to the cache."""
    return RowBytes(
        (width + kv_width) * ACTIVATION_BYTES, width * ACTIVATION_BYTES + kv_width * kv_bytes
    )


def stream_bytes(
    op: str, width: Width, *, kv_width: Width, kv_bytes: float, quantized_bytes: float
) -> RowBytes:
    """Return the bytes of an elementwise operator by its name.

    Args:
        op: activation, rope_and_cache, quantize or sampling.
        width: Elements per token.
        kv_width: Elements of keys and values of rope_and_cache.
        kv_bytes: Bytes per element of the cache.
        quantized_bytes: Bytes per quantized element, scales included.

    Raises:
        UsageError: There is no such operator.

    Example:
        >>> from perfatlas.networks import stream_bytes
        >>> row = stream_bytes("quantize", 4096, kv_width=0, kv_bytes=2, quantized_bytes=1)
        >>> row.read, row.write
        (8192.0, 4096)
    """
    moved = {
        "activation": activation_bytes(width),
        "rope_and_cache": rope_and_cache_bytes(width, kv_width, kv_bytes),
        "quantize": RowBytes(width * ACTIVATION_BYTES, width * quantized_bytes),
        "sampling": RowBytes(width * ACTIVATION_BYTES, TOKEN_ID_BYTES),
    }
    if op not in moved:
        raise UsageError(f"unknown elementwise operator {op!r}; known: {', '.join(moved)}")
    return moved[op]

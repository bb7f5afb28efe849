"""Shapes of operators, from the inputs that a profiler recorded."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from perfatlas.profiles.events import OperatorCall


class GemmShape(NamedTuple):
    """A matrix product."""

    m: int  # Rows, of each group
    n: int
    k: int  # Inner dimension
    groups: int  # Products of a batch
    format: str  # Number format of the inputs


class AttentionShape(NamedTuple):
    """An attention whose sequences are of equal length."""

    batch: int
    q_len: int  # Queries of each
    kv_len: int  # Keys of each
    num_heads: int  # Query heads
    num_kv_heads: int  # Key-value heads
    head_dim: int  # Width of a head
    causal: bool  # Whether a query sees only keys up to its own
    format: str  # Number format of the inputs


class StreamingShape(NamedTuple):
    """An operator that reads its inputs and writes one output of their broadcast shape."""

    tokens: int
    read_bytes: int
    write_bytes: int


# Position of both factors among the inputs, and whether the second is stored as (n, k).
_PRODUCTS: Final = {
    "aten::mm": (0, 1, False),
    "aten::addmm": (1, 2, False),
    "aten::_addmm_activation": (1, 2, False),
    "aten::bmm": (0, 1, False),
    "aten::baddbmm": (1, 2, False),
    "aten::linear": (0, 1, True),
    "aten::_scaled_mm": (0, 1, False),
    "aten::_int_mm": (0, 1, False),
    "cublaslt_gemm": (0, 1, False),
}
_LIBRARY: Final = (0, 1, False)  # kernels of the CUTLASS profiler
# Whether the sequence is the second dimension, before the heads.
_SOFTMAXES: Final = {
    "aten::_flash_attention_forward": True,
    "aten::_scaled_dot_product_flash_attention": False,
    "aten::_scaled_dot_product_efficient_attention": False,
    "aten::_scaled_dot_product_cudnn_attention": False,
    "aten::_efficient_attention_forward": True,
}
_POINTWISE: Final = frozenset(
    f"aten::{name}{suffix}"
    for name in (
        *("add", "sub", "mul", "div", "neg", "pow", "sqrt", "rsqrt", "exp", "log", "tanh", "abs"),
        *("silu", "gelu", "relu", "sigmoid", "clamp_min", "clamp", "sin", "cos", "where", "copy"),
        *("threshold_backward", "gelu_backward", "silu_backward", "_softmax", "native_layer_norm"),
    )
    for suffix in ("", "_")
)
_BYTES: Final = {
    **dict.fromkeys(("double", "long"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("c10::BFloat16", "c10::Half"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "c10::Float8_e4m3fn"), 1),
}
_FORMATS: Final = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "c10::Float8_e4m3fn": "fp8_static",
    "c10::Float8_e4m3fnuz": "fp8_static",
    "signed char": "int8",
}


def case_text(call: OperatorCall) -> str:
    """Return the shape of an operator in words, "" if it is unknown.

    Example:
        >>> from perfatlas.profiles.events import OperatorCall
        >>> from perfatlas.profiles.join.shapes import case_text
        >>> case_text(OperatorCall("aten::mm", ((8, 64), (64, 32)), ("c10::Half", "c10::Half")))
        'm=8 n=32 k=64 fp16'
        >>> case_text(OperatorCall("aten::relu", ((8, 64),), ("float",)))
        '8x64 float'
    """
    if call.case:
        return call.case
    gemm = gemm_shape(call)
    if gemm is not None:
        batch = f" groups={gemm.groups}" if gemm.groups > 1 else ""
        return f"m={gemm.m} n={gemm.n} k={gemm.k}{batch} {gemm.format}".rstrip()
    attention = attention_shape(call)
    if attention is not None:
        mask = " causal" if attention.causal else ""
        return (
            f"batch={attention.batch} q={attention.q_len} kv={attention.kv_len}"
            f" heads={attention.num_heads}/{attention.num_kv_heads}x{attention.head_dim}{mask}"
            f" {attention.format}".rstrip()
        )
    sizes = ["x".join(map(str, shape)) for shape in call.shapes if shape]
    dtype = next((text for text, shape in zip(call.dtypes, call.shapes, strict=False) if shape), "")
    return " ".join([", ".join(sizes), dtype.removeprefix("c10::")]).strip()


def gemm_shape(call: OperatorCall) -> GemmShape | None:
    """Return the matrix product of an operator, None if it is another one or has no shapes.

    Args:
        call: The call; a format that the model does not have is "".
    """
    kernel = _LIBRARY if call.name.startswith("cutlass") else None
    position = _PRODUCTS.get(call.name, kernel)
    if position is None or len(call.shapes) <= max(position[:2]):
        return None
    left, right = call.shapes[position[0]], call.shapes[position[1]]
    if len(left) < 2 or len(right) < 2 or 0 in left or 0 in right:
        return None
    rows, columns = right[-2:] if not position[2] else right[:-3:-1]
    batch = prod(right[:-2])
    if left[-1] != rows or (batch > 1 and left[:-2] != right[:-2]):
        return None
    return GemmShape(prod(left[:-1]) // batch, columns, rows, batch, _format(call, position[0]))


def attention_shape(call: OperatorCall) -> AttentionShape | None:
    """Return the attention of an operator, None if it is another one or has no equal lengths.

    Args:
        call: The call; a format that the model does not have is "".
    """
    second = _SOFTMAXES.get(call.name)
    if second is None or len(call.shapes) < 3 or call.causal is None:
        return None
    query, key = call.shapes[:2]
    packed = second and len(call.shapes) > 3 and call.shapes[3]  # offsets of packed sequences
    if len(query) != 4 or len(key) != 4 or packed or 0 in query or 0 in key:
        return None
    of_length, of_heads = (1, 2) if second else (2, 1)
    return AttentionShape(
        query[0],
        query[of_length],
        key[of_length],
        query[of_heads],
        key[of_heads],
        query[3],
        call.causal,
        _format(call, 0),
    )


def streaming_shape(call: OperatorCall) -> StreamingShape | None:
    """Return the bytes of a pointwise operator, softmax or norm; None for others."""
    if call.name not in _POINTWISE:
        return None
    inputs = [
        (shape, _BYTES.get(dtype, 0))
        for shape, dtype in zip(call.shapes, call.dtypes, strict=False)
        if shape
    ]
    if not inputs or not all(prod(shape) * size for shape, size in inputs):
        return None
    output = max((shape for shape, _ in inputs), key=prod)
    write_bytes = prod(output) * inputs[0][1]
    read = inputs[1:] if call.name.startswith("aten::copy") else inputs
    read_bytes = sum(prod(shape) * size for shape, size in read)
    return StreamingShape(prod(output[:-1]), read_bytes, write_bytes)


def _format(call: OperatorCall, position: int) -> str:
    return _FORMATS.get(call.dtypes[position], "") if position < len(call.dtypes) else ""

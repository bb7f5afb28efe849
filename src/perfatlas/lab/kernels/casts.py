"""Repair of the casts of Triton's interpreter, installed only where a probe fails.

The interpreter of Triton 3.9 truncates to bf16, loses carries and subnormal values of fp8, and
multiplies the bit patterns of bf16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Handle = Any  # Triton's data with a type

# Torch's types by Triton's.
_TORCH: Final = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}
_CONVERT: Final = "_convert_float"  # of the interpreter
_PROBE: Final = {1000.0: 0x7E, 1.01: 0x38, 464.0: 0x7E, -0.001: 0x81}  # codes of e4m3


def repair_casts() -> bool:
    """Repair the interpreter of this process, before any launch; return whether it needed that.

    Numbers are rounded to the nearest, ties to even, and fp8 saturates, as hardware does.
    """
    from triton.runtime import interpreter

    if _casts_are_right(interpreter):
        return False
    original = vars(interpreter)[_CONVERT]
    builder = interpreter.InterpreterBuilder

    def convert(data: Array, source: object, target: object, rounding: object) -> Array:
        toward_zero = vars(interpreter)["_ir"].ROUNDING_MODE.RTZ
        if {str(source), str(target)} <= set(_TORCH) and rounding != toward_zero:
            return rounded(data, str(source), str(target))
        result: Array = original(data, source, target, rounding)
        return result

    setattr(interpreter, _CONVERT, convert)
    builder.create_dot = _dot_of(interpreter, convert)
    return True


def rounded(data: Array, source: str, target: str) -> Array:
    """Return the bits of numbers in another format, to the nearest, ties to even.

    Args:
        data: Numbers, or their bits.
    """
    import torch

    kind, other = (getattr(torch, _TORCH[name]) for name in (source, target))
    width = np.dtype(f"uint{8 * kind.itemsize}")
    bits = torch.from_numpy(np.ascontiguousarray(data).view(width).copy())
    values = bits.view(kind).float()
    if other.itemsize == 1:
        most = torch.finfo(other).max
        values = values.clamp(-most, most)  # NaN stays
    signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[other.itemsize]
    rounded: Array = values.to(other).view(signed).numpy().view(f"uint{8 * other.itemsize}")
    return rounded.reshape(np.shape(data))


def _dot_of(interpreter: ModuleType, convert: Callable[..., Array]) -> Callable[..., Handle]:
    """Return a product of tiles that reads bf16 and fp8 as numbers."""
    import triton.language as tl

    def widened(handle: Handle) -> Array:
        if str(handle.dtype.scalar) in ("fp16", "fp32", "fp64") or handle.dtype.scalar.is_int():
            data: Array = handle.data
            return data
        return convert(handle.data, handle.dtype.scalar, tl.float32, None).view(np.float32)

    def create_dot(_self: object, a: Handle, b: Handle, d: Handle, *_: object) -> Handle:
        product = np.matmul(widened(a), widened(b), dtype=d.data.dtype)
        return interpreter.TensorHandle(product + d.data, d.dtype.scalar)

    return create_dot


def _casts_are_right(interpreter: ModuleType) -> bool:
    """Return whether e4m3 saturates and rounds, and whether bf16 is multiplied as numbers."""
    import triton.language as tl

    nearest = vars(interpreter)["_ir"].ROUNDING_MODE.RTNE
    values = np.array([*_PROBE], np.float32)
    codes = vars(interpreter)[_CONVERT](values, tl.float32, tl.float8e4nv, nearest)
    if [*codes.view(np.uint8)] != [*_PROBE.values()]:
        return False
    handle = interpreter.TensorHandle
    two = handle(np.full((1, 1), 0x4000, np.uint16), tl.bfloat16)
    zero = handle(np.zeros((1, 1), np.float32), tl.float32)
    product = interpreter.InterpreterBuilder().create_dot(two, two, zero, None, 0)
    return bool(product.data[0, 0] == 4.0)

"""Tensors of named distributions, which determine the switching activity of a product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEVICE = "cuda"
DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "fp8": torch.float8_e4m3fn,
    "int8": torch.int8,
}


def tensor(sizes: Sequence[int], form: str, inputs: str) -> torch.Tensor:
    """Return a tensor of one distribution.

    Args:
        sizes: Its shape.
        form: Number format, a key of DTYPES.
        inputs: normal, uniform (0 to 1), symmetric (-1 to 1), zeros, ones, small_integers (0 to
            3) or half_zeros (normal, every other one zero at random).
    """
    dtype = torch.float64 if form == "fp64" else torch.float32
    whole = 32.0 if form == "int8" else 1.0  # standard deviation, so that int8 uses its range
    made: dict[str, Callable[[], torch.Tensor]] = {
        "normal": lambda: whole * torch.randn(*sizes, device=DEVICE, dtype=dtype),
        "uniform": lambda: torch.rand(*sizes, device=DEVICE, dtype=dtype),
        "symmetric": lambda: 2 * torch.rand(*sizes, device=DEVICE, dtype=dtype) - 1,
        "zeros": lambda: torch.zeros(*sizes, device=DEVICE, dtype=dtype),
        "ones": lambda: torch.ones(*sizes, device=DEVICE, dtype=dtype),
        "small_integers": lambda: torch.randint(0, 4, tuple(sizes), device=DEVICE).to(dtype),
        "half_zeros": lambda: (
            torch.randn(*sizes, device=DEVICE, dtype=dtype)
            * torch.randint(0, 2, tuple(sizes), device=DEVICE)
        ),
    }
    found = made[inputs]()
    if form == "int8":
        found = found.round().clamp(-127, 127)
    return found.to(DTYPES[form])

"""Helpers for operator fields that several folders use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.formats import get_format
from perfatlas.operators import Phase

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, Operator


_MEASURED: Final = {
    Phase.PREFILL: "prefill",
    Phase.FORWARD: "prefill",
    Phase.DECODE: "decode",
}


def named(operator: Operator, names: tuple[str, ...]) -> dict[str, FloatArray | float]:
    """Return the named fields of an operator.

    Args:
        operator: Columns over candidates.
    """
    return {name: getattr(operator, name) for name in names}


def is_fp8(format_name: str) -> bool:
    """Return whether products in a format run on fp8 tensor cores."""
    return get_format(format_name).tensor_peak == "fp8"


def kernel_phase(phase: Phase) -> str | None:
    """Return the phase whose measured kernels run an operator, None if there are none.

    The forward pass of training runs prefill kernels; gradients have kernels of their own.
    """
    return _MEASURED.get(phase)


def fitted_format(format_name: str) -> str:
    """Return the format whose measured rows a matrix product is fitted on.

    Static and dynamic scales use the same GEMM kernel; fp16 runs as bf16.
    """
    return {"fp8_static": "fp8_dynamic", "fp16": "bf16"}.get(format_name, format_name)


# Formats without rows of their own, and those whose kernels stand for them: Marlin reads both, and
# only the expansion of a weight differs. On 1,640 rows of Marlin experts with mxfp4
# weights on H100, H200 and L40S (vLLM and SGLang) the fits of int4_wo have median errors of 10 to
# 15%, at other model sizes than they were fitted to. Products of fp8 with a scale for a block run
# on Blackwell as those of mxfp8: DeepGEMM (README) packs its scales as UE8M0 for the block-scaled
# instruction of SM100; Hopper scales both outside of the tensor cores.
SUBSTITUTES: Final = {"nvfp4_wo": ("int4_wo",), "mxfp8": ("fp8_block",)}


def fitted_formats(format_name: str) -> tuple[str, ...]:
    """Return the formats whose fits can price a matrix product, best first."""
    return fitted_format(format_name), *SUBSTITUTES.get(format_name, ())

"""Fields of operators that several folders read in the same way."""

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
    """Return fields of an operator by name.

    Args:
        operator: Columns over candidates.
        names: Of its fields.
    """
    return {name: getattr(operator, name) for name in names}


def is_fp8(format_name: str) -> bool:
    """Return whether products in a format run on fp8 tensor cores.

    Args:
        format_name: A name of `formats`.
    """
    return get_format(format_name).tensor_peak == "fp8"


def kernel_phase(phase: Phase) -> str | None:
    """Return the phase whose measured kernels run an operator, None where nobody measured any.

    The forward step of training runs the kernels of a prefill; gradients have their own.

    Args:
        phase: Of the operator.
    """
    return _MEASURED.get(phase)


def fitted_format(format_name: str) -> str:
    """Return the format whose rows a product is fitted on.

    Static and dynamic scales run the same product kernel; fp16 runs as bf16.

    Args:
        format_name: A name of `formats`.
    """
    return {"fp8_static": "fp8_dynamic", "fp16": "bf16"}.get(format_name, format_name)

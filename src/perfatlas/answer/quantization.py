"""Whether the time of a GEMM includes the quantization of its activation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.measurements.residuals import holds_quantization
from perfatlas.measurements.tables import QUANTIZED_INSIDE
from perfatlas.operators import Gemm

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import Operator

CHOICES: Final = ("excluded", "included")
INCLUDED: Final = "the time includes the quantization of the activation, a separate kernel"
EXCLUDED: Final = (
    "the time excludes the quantization of the activation; set quantization = included to add it"
)
STATIC: Final = "the time excludes the quantization of the activation, a separate kernel"
SHARED: Final = (
    "the measured rows include the quantization of the activation, which the answer excludes: it is"
    " the GEMM's share of the corrected sum according to physics, with an interval that covers all"
    " possible shares"
)
AS_MEASURED: Final = "quantization = included gives the time as measured"


def quantization_of(operator: Operator) -> dict[str, str]:
    """Return {"quantization": included or excluded}, empty if none is needed."""
    if not isinstance(operator, Gemm) or get_format(operator.format).quantize == "none":
        return {}
    return {"quantization": CHOICES[int(np.all(np.asarray(operator.quantizes_input) > 0.0))]}


def quantization_note(
    operator: Operator, match: CalibrationMatch | None, *, measured: bool
) -> tuple[str, ...]:
    """Return the assumption about a GEMM's quantization, empty if none is needed.

    Args:
        measured: Whether measured rows corrected it.
    """
    found = quantization_of(operator)
    if not found:
        return ()
    if found["quantization"] == "included":
        return (INCLUDED,)
    if measured and match is not None and holds_quantization(match):
        return (f"{SHARED}; {AS_MEASURED}",)
    return (EXCLUDED,) if operator.compute_format in QUANTIZED_INSIDE else (STATIC,)

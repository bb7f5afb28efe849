"""Whether the quantization of a product's activation is in its time, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.kernels.tiers import holds_quantization
from perfatlas.measurements.tables import QUANTIZED_INSIDE
from perfatlas.operators import Gemm

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import Operator

CHOICES: Final = ("excluded", "included")
INCLUDED: Final = "the quantization of the activation, a kernel before the product, is in the time"
EXCLUDED: Final = (
    "the quantization of the activation is not in the time: quantization = included adds it"
)
STATIC: Final = "the quantization of the activation, a pass of its own, is not in the time"
SHARED: Final = (
    "the measured rows hold the quantization of the activation and the answer does not: it is the"
    " product's share of their corrected sum, by physics, and the interval spans what the product"
    " can be of it"
)
AS_MEASURED: Final = "quantization = included answers as it was measured"


def quantization_of(operator: Operator) -> dict[str, str]:
    """Return {"quantization": included or excluded}, nothing where none is needed.

    Args:
        operator: What is priced.
    """
    if not isinstance(operator, Gemm) or get_format(operator.format).quantize == "none":
        return {}
    return {"quantization": CHOICES[int(np.all(np.asarray(operator.quantizes_input) > 0.0))]}


def said_of_quantization(
    operator: Operator, match: CalibrationMatch | None, *, measured: bool
) -> tuple[str, ...]:
    """Return what the evidence says of a product's quantization, nothing where none is needed.

    Args:
        operator: What was priced.
        match: The calibration that priced it.
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

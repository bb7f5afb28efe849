"""Electricity and carbon of a metered energy.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    Numbers = float | FloatArray

WATTS_PER_KW: Final = 1000.0
JOULES_PER_KWH: Final = WATTS_PER_KW * HOUR_S
MILLION: Final = 1e6
METERED: Final = {"electricity_usd": "usd_per_kwh", "gco2": "gco2_per_kwh"}  # results by field


def energy_usd(joules: float, per_kwh: float, pue: float | None) -> float:
    """Return what an energy costs, or the carbon that it emits, by its rate.

    Args:
        joules: Energy of the boards or nodes [J].
        per_kwh: USD or g of CO2 per kWh.
        pue: Energy of the facility over it; None counts as 1.

    Example:
        >>> from perfatlas.cost import energy_usd
        >>> energy_usd(7.2e6, 0.1, 1.5)
        0.30000000000000004
    """
    return joules * (per_kwh * (pue or 1.0) / JOULES_PER_KWH)


def metered_columns(
    columns: Mapping[str, FloatArray], rates: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Return electricity and carbon per hour and per million output tokens, each (C,).

    Args:
        columns: Results with `facility_power_w`, `gpus` and `output_tokens_per_s_per_gpu`.
        rates: `usd_per_kwh` and `gco2_per_kwh` (C,), NaN if not given.

    Returns:
        Those of the rates that are given anywhere; NaN where unknown.
    """
    metered: dict[str, FloatArray] = {}
    tokens_per_hour_C = HOUR_S * columns["output_tokens_per_s_per_gpu"] * columns["gpus"]
    for name, field in METERED.items():
        if np.isfinite(rates[field]).any():
            hourly_C = columns["facility_power_w"] / WATTS_PER_KW * rates[field]
            metered[f"{name}_per_hour"] = hourly_C
            metered[f"{name}_per_million_output_tokens"] = hourly_C / tokens_per_hour_C * MILLION
    return metered


def unused_meter_text(rates: Mapping[str, float | None], why: str) -> str:
    """Return the warning that PUE, price and carbon of a kWh have no effect.

    Args:
        rates: Their values by name, None if not given; not all of them.
        why: Why no power of nodes is known.
    """
    named = [f"{name} = {value:g}" for name, value in rates.items() if value is not None]
    return f"{' and '.join(named)} {'have' if named[1:] else 'has'} no effect here: {why}"

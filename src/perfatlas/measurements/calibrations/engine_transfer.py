"""Errors when one engine's kernels price another's on the same device, as shipped data."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from perfatlas.measurements.calibrations.user_folder import FIVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENGINE_TRANSFERS: Final = "data/engine_transfers.toml"
ANY_KERNEL: Final = ""


@cache
def engine_transfers(operator: str) -> Mapping[str, float]:
    """Return quantiles of ln(measured/predicted) for substituting another engine's kernels.

    Args:
        operator: Calibration operator; those measured for a single engine use pooled quantiles.

    Source: each measured cell priced with the kernels that would substitute for it;
        `validation.transfers.engine_transfer`.
    """
    text = resources.files("perfatlas").joinpath(ENGINE_TRANSFERS).read_text("utf-8")
    rows = {row["operator"]: row for row in tomllib.loads(text)["engine_transfer"]}
    found = rows.get(operator, rows[ANY_KERNEL])
    return {name: found[name] for name in FIVE}


def envelope(quantiles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the envelope of several quantile sets, with the median of their medians.

    Args:
        quantiles: Sets with the same names, at least one.
    """
    names = quantiles[0].keys()
    pooled: dict[str, float] = {}
    for name in names:
        values = sorted(one[name] for one in quantiles)
        pooled[name] = values[len(values) // 2]
        if name in ("q05", "q25"):
            pooled[name] = values[0]
        elif name in ("q75", "q95"):
            pooled[name] = values[-1]
    return pooled

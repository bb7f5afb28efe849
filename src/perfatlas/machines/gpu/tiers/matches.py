"""The calibration that prices each operator of each candidate.

Shape legend: C candidates, G operators of one physics model, M matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines.gpu.shapes import stand_in
from perfatlas.measurements.calibrations import (
    CalibrationMatch,
    as_substitute,
    find_calibration_at,
    user_file_stamp,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.machines.contract import DeviceColumns
    from perfatlas.machines.gpu.declarations import StandIn
    from perfatlas.operators import FloatArray, IntArray, Operator

_PRODUCTS: Final = ("gemm", "moe")


class Matches:
    """Calibrations in use, each looked up once per (device, operator, format)."""

    def __init__(self, devices: DeviceColumns, family: str, version: str | None) -> None:
        """Start without matches."""
        self.devices = devices
        self.family = family
        self.version = version  # version of the tables of tier measured; None in the other tiers
        self.matches: list[CalibrationMatch] = []
        self._stamps = {device.name: user_file_stamp(device.name) for device in devices.devices}
        self._known: dict[tuple[str, tuple[str, ...], StandIn | None], IntArray] = {}

    def column(self, operator: str, formats: tuple[str, ...], lent: StandIn | None) -> IntArray:
        """Return the position of the best match of every candidate, -1 if there is none (C,)."""
        key = (operator, formats, lent)
        if key not in self._known:
            found = [self._find(device, *key) for device in self.devices.devices]
            self._known[key] = np.array(found, np.int64)[self.devices.index_C]
        return self._known[key]

    def rows(
        self, name: str, operators: Sequence[Operator], formats_G: Sequence[tuple[str, ...]]
    ) -> IntArray:
        """Return the positions of the matches of operators of one physics model (G, C)."""
        rows_GC = np.empty((len(operators), self.devices.index_C.size), np.int64)
        for index, (operator, formats) in enumerate(zip(operators, formats_G, strict=True)):
            rows_GC[index] = self.column(name, formats, stand_in(operator))
        return rows_GC

    def _find(
        self, device: Device, operator: str, formats: tuple[str, ...], lent: StandIn | None
    ) -> int:
        family = lent.family if lent else self.family
        stamp = self._stamps[device.name]
        found = [find_calibration_at(device, (operator, family, name), stamp) for name in formats]
        matches = [match for match in found if match is not None]
        if not matches:
            return -1
        chosen = next((m for m in matches if m.own_kernels), matches[0])
        if lent:
            chosen = as_substitute(chosen, lent.note)
        if operator in _PRODUCTS and chosen.calibration.format != formats[0]:
            note = (
                f"{device.name} has no measured {operator} {formats[0]} kernels; those of"
                f" {chosen.calibration.format}, which expand 4-bit weights too, are used"
            )
            chosen = as_substitute(chosen, note)
        if self.version is not None:
            from perfatlas.machines.gpu.tiers.measured import with_table  # reads tables

            chosen = with_table(chosen, self.version)
        self.matches.append(chosen)
        return len(self.matches) - 1

    def spread(self) -> FloatArray:
        """Return exp of the 5% and 95% residual quantiles of each match (M, 2)."""
        pairs = [(m.quantiles["q05"], m.quantiles["q95"]) for m in self.matches]
        spread: FloatArray = np.exp(np.array(pairs, dtype=np.float64))
        return spread

"""Five validation protocols, which define the rows that a prediction may use.

Shape legend: U scored rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import fitting, hardware
from perfatlas.measurements import calibrations
from perfatlas.quantities import UsageError
from perfatlas.sampling import five_quantiles, seeded_subset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.fitting.cells import Cell, Rows
    from perfatlas.operators import FloatArray

PROTOCOLS: Final = ("own", "unseen-shapes", "unseen-device", "unseen-family", "few-shot")
FEW_ROWS: Final = 50
MIN_FEW: Final = 10
FEW_EVALUATIONS: Final = 600
FEW_SEED: Final = 11
SAMPLE_ROWS: Final = 2000  # rows of another device, for transfer errors


class Scored(NamedTuple):
    """Predictions and measurements of one cell."""

    rows: Rows
    predicted_s: FloatArray  # Predicted times (U,) [s]
    # 5% and 95% quantiles of ln(measured/predicted), predicted; None where unknown
    interval: tuple[float, float] | None
    known_rows: int  # Rows of this device used in the fit
    sources: tuple[str, ...]  # Source devices of the parameters
    # 5% and 95% quantiles of ln(measured/predicted) of the rows of the fit; None where the interval
    # is that
    constant: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Kin:
    """The cells of one operator, family and format on every measured device."""

    cells: Mapping[str, Cell]
    loaded: dict[str, Rows] = field(default_factory=dict)  # Device -> its rows, loaded lazily
    # (device of rows, device of parameters) -> errors, computed lazily
    paired: calibrations.Pairs = field(default_factory=dict)

    def rows(self, device: str) -> Rows:
        """Return the measured rows of a device, read once.

        Args:
            device: Catalog name.
        """
        if device not in self.loaded:
            self.loaded[device] = self.cells[device].load()
        return self.loaded[device]

    def calibration(self, device: str) -> calibrations.Calibration | None:
        """Return a device's shipped calibration; None where it has none for this physics model.

        Args:
            device: Catalog name.
        """
        cell = self.cells[device]
        match = calibrations.load_calibrations(device).get(cell.id)
        return match if match and set(match.parameters) == set(cell.ranges) else None

    def silicon(self, *devices: str) -> tuple[calibrations.Silicon, ...]:
        """Return the silicon columns used to choose donors.

        Args:
            devices: Catalog names.
        """
        operator = next(iter(self.cells.values())).operator
        return calibrations.catalog_silicon(devices, links=operator not in calibrations.KERNELS)

    def pairs(self, devices: Sequence[str]) -> calibrations.Pairs:
        """Return the errors of devices with each other's parameters, from a sample of rows.

        Args:
            devices: Catalog names.
        """
        lent = {name: one for name in devices if (one := self.calibration(name)) is not None}
        found: calibrations.Pairs = {}
        for turn, donor in permutations(lent, 2):
            if (turn, donor) not in self.paired:
                self.paired[turn, donor] = self._pair(turn, lent[donor].parameters)
            found[turn, donor] = self.paired[turn, donor]
        return found

    def _pair(self, turn: str, parameters: Mapping[str, float]) -> calibrations.Pair:
        rows = self.rows(turn)
        sample = fitting.taken(rows, seeded_subset(rows.measured_s.size, SAMPLE_ROWS, fitting.SEED))
        predicted_s = self.cells[turn].predict(sample.shape_UD, parameters)
        residual = np.log(sample.measured_s / predicted_s)
        quantiles = (
            round(value, calibrations.DIGITS) for value in five_quantiles(residual).values()
        )
        return calibrations.Pair(
            round(float(np.mean(np.abs(residual))), calibrations.DIGITS), tuple(quantiles)
        )

    def donor(self, device: str, others: Sequence[str]) -> calibrations.Calibration | None:
        """Return the calibration that a device borrows, None for none.

        Args:
            device: Catalog name.
            others: Calibrated devices that may be donors.
        """
        target, *known = self.silicon(device, *others)
        name = calibrations.donor_of(target, known, self.pairs(others))
        return self.calibration(name) if name else None

    def others(self, device: str, *, family: bool) -> tuple[str, ...]:
        """Return the other calibrated devices, optionally of other architectures only.

        Args:
            device: Catalog name.
            family: Whether to exclude the whole architecture.
        """
        hidden = _architecture(device) if family else ""
        return tuple(
            other
            for other in self.cells
            if other != device
            and not (family and _architecture(other) == hidden)
            and self.calibration(other) is not None
        )


def _architecture(device: str) -> str:
    return hardware.resolve_system(device).device.architecture


def few_rows(protocol: str, rows: int | None) -> int:
    """Return the number of rows of a few-shot fit.

    Args:
        protocol: One of `PROTOCOLS`.
        rows: Requested rows, None for the default.

    Raises:
        UsageError: Rows are set with another protocol, or are too few to fit.
    """
    if rows is None:
        return FEW_ROWS
    if protocol != "few-shot":
        raise UsageError(f"rows applies only to protocol few-shot, not {protocol!r}")
    if rows < MIN_FEW:
        raise UsageError(
            f"{rows} rows are too few to fit: a kernel has up to ten parameters; use {MIN_FEW}"
            " or more"
        )
    return rows


def score_rows(kin: Kin, device: str, protocol: str, count: int = FEW_ROWS) -> Scored | str:
    """Return the predictions of a device's rows under a protocol, or the reason for none.

    - own: the shipped calibration, on all rows.
    - unseen-shapes: fitted on four fifths of the shapes of this device, scored on the others.
    - unseen-device: parameters of a donor device, chosen without the rows.
    - unseen-family: the same with donors of other architectures.
    - few-shot: unseen-device refitted on `count` rows, scored on the others.

    Args:
        kin: The cell on all devices.
        protocol: One of `PROTOCOLS`.
        count: Rows of a few-shot fit.
    """
    if protocol == "own":
        return _own(kin, device)
    if protocol == "unseen-shapes":
        return _unseen_shapes(kin, device)
    if protocol == "few-shot":
        return _few_shot(kin, device, count)
    return _unseen_device(kin, device, family=protocol == "unseen-family")


def _own(kin: Kin, device: str) -> Scored | str:
    cell = kin.cells[device]
    resolved = hardware.resolve_system(device).device
    match = calibrations.find_shipped_calibration(resolved, cell.operator, cell.family, cell.format)
    if match is None or not match.own:
        return "not calibrated"
    if set(match.calibration.parameters) != set(cell.ranges):
        return "the calibration belongs to another physics model: fit it again"
    rows = kin.rows(device)
    return Scored(
        rows=rows,
        predicted_s=cell.predict(rows.shape_UD, match.calibration.parameters),
        interval=(match.quantiles["q05"], match.quantiles["q95"]),
        known_rows=min(fitting.FIT_ROWS, rows.measured_s.size),
        sources=(device,),
    )


def _unseen_shapes(kin: Kin, device: str) -> Scored | str:
    cell, rows = kin.cells[device], kin.rows(device)
    held = fitting.held_out(fitting.row_groups(cell.operator, rows))
    if held is None:
        return "too few shapes to hold out any"
    seen = fitting.taken(rows, ~held)
    seen = fitting.taken(seen, seeded_subset(seen.measured_s.size, fitting.FIT_ROWS, fitting.SEED))
    parameters = fitting.fit_cell(cell, seen)
    few = rows.measured_s.size <= fitting.SMALL_CELL
    quantiles = fitting.residual_quantiles(cell, seen, parameters) if few else None
    return _fitted(cell, seen, fitting.taken(rows, held), parameters, told=quantiles)


def _few_shot(kin: Kin, device: str, count: int) -> Scored | str:
    donor = kin.donor(device, kin.others(device, family=False))
    if donor is None:
        return "no other device to start from"
    cell, rows = kin.cells[device], kin.rows(device)
    index = seeded_subset(rows.measured_s.size, count, FEW_SEED)
    rest = np.ones(rows.measured_s.size, dtype=np.bool_)
    rest[index] = False
    if 2 * count > rows.measured_s.size:
        return f"fewer than {2 * count} rows"
    seen = fitting.taken(rows, index)
    fitted = refit(cell, seen, donor.parameters)
    return _fitted(cell, seen, fitting.taken(rows, rest), fitted, (donor.device,))


def _fitted(
    cell: Cell,
    seen: Rows,
    scored: Rows,
    parameters: Mapping[str, float],
    others: tuple[str, ...] = (),
    *,
    told: Mapping[str, float] | None = None,
) -> Scored:
    """Return predictions with parameters fitted to `seen`.

    The interval is the given one, by default the residuals of the fit.
    """
    if told is None:
        known = np.log(seen.measured_s / cell.predict(seen.shape_UD, parameters))
        told = five_quantiles(known)
    return Scored(
        rows=scored,
        predicted_s=cell.predict(scored.shape_UD, parameters),
        interval=(told["q05"], told["q95"]),
        known_rows=seen.measured_s.size,
        sources=(cell.device, *others),
    )


def _unseen_device(kin: Kin, device: str, *, family: bool) -> Scored | str:
    others = kin.others(device, family=family)
    donor = kin.donor(device, others)
    if donor is None:
        return "no other device to borrow from"
    cell, rows = kin.cells[device], kin.rows(device)
    target, *known = kin.silicon(device, *others)
    hidden = frozenset(kin.cells) - frozenset(others)
    apart = (
        calibrations.kernel_errors_apart(hidden) if cell.operator in calibrations.KERNELS else {}
    )
    quantiles = calibrations.expected_quantiles(target, known, kin.pairs(others), apart)
    return Scored(
        rows=rows,
        predicted_s=cell.predict(rows.shape_UD, donor.parameters),
        interval=(quantiles["q05"], quantiles["q95"]) if quantiles else None,
        known_rows=0,
        sources=(donor.device,),
        constant=(donor.residual_quantiles["q05"], donor.residual_quantiles["q95"]),
    )


def refit(
    cell: Cell, seen: Rows, start: Mapping[str, float], evaluations: int = FEW_EVALUATIONS
) -> dict[str, float]:
    """Return parameters fitted to few rows from given start values; discrete ones are unchanged.

    Args:
        evaluations: Maximum model evaluations.
    """
    chosen = {name for fixed in cell.grid for name in fixed}
    names = [name for name in cell.ranges if name not in chosen]
    low = np.array([cell.ranges[name].low for name in names])
    high = np.array([cell.ranges[name].high for name in names])

    def complete(values: FloatArray) -> dict[str, float]:
        return {**start, **dict(zip(names, values.tolist(), strict=True))}

    def predict(values: FloatArray) -> FloatArray:
        return cell.predict(seen.shape_UD, complete(values))

    first = np.clip([start[name] for name in names], low, high)
    found = fitting.fit_parameters(
        predict, seen.measured_s, start=first, low=low, high=high, evaluations=evaluations
    )
    return complete(found)

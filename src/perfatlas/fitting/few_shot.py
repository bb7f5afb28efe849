"""Few-shot calibration: user measurements with priors from other devices.

Shape legend: N rows, G groups of rows, P fitted parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.fitting.few_shot_rows import CHOSEN, MIN_GROUPS, row_cells
from perfatlas.fitting.few_shot_search import folds, small_sample_quantiles
from perfatlas.fitting.least_squares import PENALTY, simplex_search
from perfatlas.measurements import calibrations
from perfatlas.quantities import InvalidSpecError, format_quantity
from perfatlas.sampling import error_statistics, seeded_subset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.fitting.few_shot_rows import RowCell
    from perfatlas.hardware import Device
    from perfatlas.measurements.tables import MeasuredRows
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.sampling import ErrorStatistics

STEP: Final = 0.25  # size of the first simplex, in ln(parameter)
MIN_ROWS: Final = 10
MAX_ROWS: Final = 2000  # rows fitted and scored per cell
SEED: Final = 20251
# Typical |ln(measured/predicted)| of a fitted cell: the weight of a row relative to the prior.
ROW_SCATTER: Final = 0.1
# Spread of ln(parameter) between devices, where unknown or outside plausible bounds.
SPREAD: Final = 0.5
MIN_SPREAD: Final = 0.1
MAX_SPREAD: Final = 1.0
MAX_ERROR_FACTOR: Final = 2.0  # largest median error factor of held-out rows
IMPOSSIBLE: Final = (
    0.25  # share of rows below the speed-of-light time beyond which all are rejected
)
MOVED: Final = 0.02  # smallest reported relative change of a parameter
UNCHANGED: Final = "unchanged"
BORROWED: Final = "parameters of another device"
# Fitted parameters -> model evaluations; the simplest sufficient one is kept.
LAUNCH_AND_EFFICIENCIES: Final = "launch and efficiencies"
REFITS: Final[Mapping[str, int]] = {LAUNCH_AND_EFFICIENCIES: 120, "all parameters": 600}
VARIANTS: Final = 6  # starts with another discrete choice
FINALISTS: Final = 2  # refits of few parameters that continue with all
SIMPLE: Final = (
    "overhead_launch_s",
    "efficiency_compute",
    "efficiency_bandwidth",
    "overhead_quantize_s",
)


class Prior(NamedTuple):
    """Start values and prior of the parameters."""

    name: str  # Origin
    parameters: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class CellChange:
    """Effect of a user's rows on one cell.

    Args:
        operator, family, format: Key of the cell.
        rows: Rows used.
        left_out: Reason -> excluded rows.
        groups: Groups of rows; each is held out once.
        held_out_by: Shape columns that define the groups.
        prior: Previous calibration, "" for none.
        kept: UNCHANGED, BORROWED or a name of REFITS; "" where no comparison was possible.
        parameters: New parameters.
        before: Errors of the prior.
        after: Errors of the kept alternative on held-out groups.
        quantiles: Quantiles of ln(measured/predicted) of held-out rows.
        moved: Changed parameters -> (before, after).
        reason: Why nothing was written, "" otherwise.
    """

    operator: str
    family: str
    format: str
    rows: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    groups: int = 0
    held_out_by: tuple[str, ...] = ()
    prior: str = ""
    prior_parameters: Mapping[str, float] = field(default_factory=dict)
    kept: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)
    before: ErrorStatistics | None = None
    after: ErrorStatistics | None = None
    quantiles: Mapping[str, float] = field(default_factory=dict)
    moved: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reason: str = ""


def refit_rows(rows: MeasuredRows, device: Device) -> tuple[CellChange, ...]:
    """Return the changes due to measured rows, cell by cell, without writing them.

    Each cell starts from its prior, the calibration used without these rows. Alternatives are
    another device's parameters and refits of few or all parameters, regularised by the spread
    between devices. The one that best predicts held-out groups is kept, if it beats the prior by
    more than the standard error of the gain.

    Args:
        rows: Checked rows of the device.

    Raises:
        UnsupportedError: The device does not support a format of the rows.
        InvalidSpecError: Over a quarter of the rows of a cell are below the speed-of-light time.

    Source:
        Maximum a posteriori with Laplace residuals and a normal prior on ln(parameter); selection
        by leave-group-out cross-validation.

    Limits:
        Errors of the kept alternative are the best of four, and so slightly optimistic.
    """
    return tuple(refit_cell(cell, device) for cell in row_cells(rows, device))


def refit_cell(cell: RowCell, device: Device, without: Sequence[str] = ()) -> CellChange:
    """Return the changes due to the rows of one cell, without calibrations of some devices."""
    eager = int(np.sum(~cell.graph_N))
    usable = cell.take(np.flatnonzero(cell.graph_N))
    left_out = {"not launched from a CUDA graph": eager} if eager else {}
    usable = _possible(usable, device, left_out)
    if usable.rows > MAX_ROWS:
        left_out["rows beyond the maximum used"] = usable.rows - MAX_ROWS
        usable = usable.take(seeded_subset(usable.rows, MAX_ROWS, SEED))
    groups = int(np.unique(usable.group_N).size)
    others = known_calibrations(cell, without)
    prior = _prior(cell, device, others, without)
    if usable.rows < MIN_ROWS:
        reason = f"fewer than {MIN_ROWS} rows"
    elif groups < MIN_GROUPS:
        reason = f"fewer than {MIN_GROUPS} distinct shapes: no held-out validation possible"
    elif prior is None:
        reason = "no device has a calibration to start from"
    else:
        return _refit(usable, prior, others, left_out)
    return CellChange(
        operator=cell.operator,
        family=cell.family,
        format=cell.format,
        rows=usable.rows,
        left_out=left_out,
        groups=groups,
        held_out_by=cell.held_out_by,
        prior=prior.name if prior else "",
        reason=reason,
    )


def _possible(cell: RowCell, device: Device, left_out: dict[str, int]) -> RowCell:
    """Return the rows not below the speed-of-light time, and count the others."""
    faster_N = cell.measured_s < cell.least_s
    faster = int(np.sum(faster_N))
    if faster > IMPOSSIBLE * cell.rows:
        worst = int(np.argmax(cell.least_s / cell.measured_s))
        took, least = (
            format_quantity(float(time_s[worst]), "s") for time_s in (cell.measured_s, cell.least_s)
        )
        raise InvalidSpecError(
            f"measured rows {cell.operator}/{cell.family}/{cell.format}: {faster:,} of"
            f" {cell.rows:,} are faster than the memory bandwidth or peak FLOP/s of {device.name}"
            f" allow: one took {took} and needs at least {least}; check the unit of the times"
            " (time_s or time_us), the shapes, hot and copies, and the device"
        )
    if faster:
        left_out["faster than the device's memory bandwidth or peak FLOP/s allow"] = faster
    return cell.take(np.flatnonzero(~faster_N))


def known_calibrations(
    cell: RowCell, without: Sequence[str] = ()
) -> tuple[calibrations.Calibration, ...]:
    """Return the shipped calibrations of a cell's operator and format, of one kernel family."""
    fitted = [
        load_calibration
        for name in MEASURED_DEVICES
        if name not in without
        for load_calibration in calibrations.load_calibrations(name).values()
        if (load_calibration.operator, load_calibration.format) == (cell.operator, cell.format)
        and cell.has_parameters(load_calibration.parameters)
    ]
    families = (
        cell.family,
        *calibrations.SUBSTITUTE_FAMILIES,
        *(calibration.family for calibration in fitted),
    )
    family = next(
        (name for name in families if any(calibration.family == name for calibration in fitted)),
        "",
    )
    return tuple(calibration for calibration in fitted if calibration.family == family)


def _prior(
    cell: RowCell,
    device: Device,
    others: Sequence[calibrations.Calibration],
    without: Sequence[str],
) -> Prior | None:
    """Return the calibration of the cell without the rows, None for none."""
    if not without:
        match = calibrations.find_shipped_calibration(
            device, cell.operator, cell.family, cell.format
        )
        if match and cell.has_parameters(match.calibration.parameters):
            return Prior(match.calibration.id, match.calibration.parameters)
    return _donor(cell, device, others)


def _donor(
    cell: RowCell, device: Device, others: Sequence[calibrations.Calibration]
) -> Prior | None:
    """Return the parameters that pricing would borrow from the known devices."""
    if not others:
        return None
    links = cell.operator not in calibrations.KERNELS
    stored = calibrations.load_transfers(cell.operator)[others[0].family, cell.format]
    lenders = calibrations.catalog_silicon(
        (calibration.device for calibration in others), links=links
    )
    name = calibrations.donor_of(
        calibrations.silicon_of(device, links=links), lenders, stored.pairs
    )
    donors = (
        Prior(calibration.id, calibration.parameters)
        for calibration in others
        if calibration.device == name
    )
    return next(donors, None)


class _Problem(NamedTuple):
    """Inputs shared by the fits of a cell."""

    prior: Prior
    others: tuple[Prior, ...]
    spreads: Mapping[str, float]


def _refit(
    cell: RowCell,
    prior: Prior,
    known: Sequence[calibrations.Calibration],
    left_out: Mapping[str, int],
) -> CellChange:
    priors = [
        Prior(calibration.id, calibration.parameters)
        for calibration in known
        if calibration.id != prior.name
    ]
    problem = _Problem(prior, tuple(priors), _spreads(cell, known))
    fold_N = folds(cell.group_N)
    held_out = _held_out_s(cell, problem, fold_N)
    choice = _choose(cell, held_out)
    fitted = fit_alternatives(cell, problem)[choice]
    parameters = {name: _digits(value) for name, value in fitted.items()}
    residual = np.log(cell.measured_s / held_out[choice])
    miss = float(np.exp(np.median(np.abs(residual))))
    usable = miss <= MAX_ERROR_FACTOR
    return CellChange(
        operator=cell.operator,
        family=cell.family,
        format=cell.format,
        rows=cell.rows,
        left_out=left_out,
        groups=int(np.unique(cell.group_N).size),
        held_out_by=cell.held_out_by,
        prior=prior.name,
        prior_parameters=dict(prior.parameters),
        kept=choice if usable else "",
        parameters=parameters if usable else {},
        before=error_statistics(held_out[UNCHANGED], cell.measured_s),
        after=error_statistics(held_out[choice], cell.measured_s),
        quantiles=small_sample_quantiles(residual),
        moved={
            name: (prior.parameters[name], value)
            for name, value in parameters.items()
            if usable and abs(value - prior.parameters[name]) > MOVED * abs(prior.parameters[name])
        },
        reason="" if usable else f"the best fit has a median error factor of {miss:.3g}",
    )


def _held_out_s(cell: RowCell, problem: _Problem, fold_N: IntArray) -> dict[str, FloatArray]:
    """Return alternative -> times of held-out rows (N,)."""
    held_out = {name: np.empty(cell.rows) for name in (UNCHANGED, BORROWED, *REFITS)}
    for fold in np.unique(fold_N):
        unseen = cell.take(fold_N == fold)
        fits = fit_alternatives(cell.take(fold_N != fold), problem)
        for name, parameters in fits.items():
            held_out[name][fold_N == fold] = unseen.predict(parameters)
    return held_out


def _choose(cell: RowCell, held_out: Mapping[str, FloatArray]) -> str:
    """Return the alternative that best predicts held-out groups, if the gain is significant."""
    _, group_N = np.unique(cell.group_N, return_inverse=True)
    count_G = np.bincount(group_N)
    loss_G = {
        name: np.bincount(group_N, np.abs(np.log(time_s / cell.measured_s))) / count_G
        for name, time_s in held_out.items()
    }
    best = min(loss_G, key=lambda name: float(loss_G[name].mean()))
    gain_G = loss_G[UNCHANGED] - loss_G[best]
    error = float(gain_G.std(ddof=1)) / np.sqrt(gain_G.size)
    return best if gain_G.mean() > error else UNCHANGED


def fit_alternatives(cell: RowCell, problem: _Problem) -> dict[str, dict[str, float]]:
    """Return alternative -> parameters fitted to all rows of a cell."""
    starts = [dict(other.parameters) for other in (problem.prior, *problem.others)]
    fits = {UNCHANGED: starts[0], BORROWED: min(starts, key=lambda row: _loss(cell, row))}
    variants = [{**start, **choice} for start in starts for choice in cell.variants]
    starts += sorted(variants, key=lambda row: _loss(cell, row))[:VARIANTS]
    for name, evaluations in REFITS.items():
        wanted = SIMPLE if name == LAUNCH_AND_EFFICIENCIES else tuple(cell.ranges)
        results = [
            _most_likely(cell, start, wanted, problem.spreads, evaluations) for start in starts
        ]
        results.sort(key=lambda pair: pair[0])
        fits[name] = results[0][1]
        starts = [parameters for _, parameters in results[:FINALISTS]]
    return fits


def _loss(cell: RowCell, parameters: Mapping[str, float]) -> float:
    return float(np.mean(np.abs(np.log(cell.predict(parameters) / cell.measured_s))))


def _most_likely(
    cell: RowCell,
    start: Mapping[str, float],
    wanted: Sequence[str],
    spreads: Mapping[str, float],
    evaluations: int,
) -> tuple[float, dict[str, float]]:
    """Return the objective and maximum a posteriori parameters."""
    fixed = CHOSEN[cell.operator]
    names = [n for n in wanted if n in cell.ranges and n not in fixed and start.get(n, 0.0) > 0.0]
    ranges = [cell.ranges[name] for name in names]
    # a range from 0 has no lower bound in the logarithm: a parameter may vanish
    with np.errstate(divide="ignore"):
        low = np.log([min(limits.low, start[n]) for limits, n in zip(ranges, names, strict=True)])
    high = np.log([max(limits.high, start[n]) for limits, n in zip(ranges, names, strict=True)])
    first = np.log([start[name] for name in names])
    spread = np.array([spreads[name] for name in names])

    def complete(point: FloatArray) -> dict[str, float]:
        values = np.exp(np.clip(point, low, high)).tolist()
        return {**start, **dict(zip(names, values, strict=True))}

    def objective(point: FloatArray) -> float:
        outside = float(np.sum((point - np.clip(point, low, high)) ** 2))
        away = float(np.sum(((point - first) / spread) ** 2)) / 2.0
        return _loss(cell, complete(point)) + ROW_SCATTER / cell.rows * away + PENALTY * outside

    best = simplex_search(objective, first, high, step=STEP, evaluations=evaluations)
    return objective(best), complete(best)


def _spreads(cell: RowCell, others: Sequence[calibrations.Calibration]) -> dict[str, float]:
    """Return the spread of ln(parameter) between devices."""
    spreads: dict[str, float] = {}
    for name in cell.ranges:
        values = [
            calibration.parameters[name]
            for calibration in others
            if calibration.parameters.get(name, 0.0) > 0.0
        ]
        logs = np.log(values)
        value = float(logs.std(ddof=1)) if logs.size > 2 else SPREAD
        spreads[name] = min(max(value, MIN_SPREAD), MAX_SPREAD)
    return spreads


def _digits(value: float) -> float:
    return float(f"{value:.6g}")

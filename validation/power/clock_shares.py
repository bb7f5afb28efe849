"""Kernel parameters fitted with the clock of each row apart, and what devices borrow of them.

Shape legend: U measured rows, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import StepEnergy, board_energy, power_columns, sustained_clock, voltage
from perfatlas.fitting import FIT_ROWS, SEED, fit_cell, taken
from perfatlas.fitting.cells import MEASURED_DEVICES, cells_by_key
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns
from perfatlas.machines.gpu.attention import PREFILL_ATTENTION_SHAPE
from perfatlas.machines.gpu.devices import CLOCK, PEAK
from perfatlas.measurements.calibrations import Pair, catalog_silicon, donor_of
from perfatlas.operators import Attention, Gemm, Phase
from perfatlas.sampling import five_quantiles, seeded_subset
from validation.power.splits import power_splits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from perfatlas.energy import PowerColumns
    from perfatlas.fitting.cells import Cell, Rows
    from perfatlas.operators import FloatArray, Operator

HALVINGS: Final = 14  # of the interval of clocks
LOWEST: Final = 0.2  # clock over the highest
WAYS: Final = ("one", "apart", "relative", "lower")
LARGE_ROWS: Final = 0.7  # at the TDP: clock below this share of the highest


@dataclass(frozen=True, kw_only=True)
class RowEnergy:
    """Energy of the rows of a cell on its device."""

    chip_j: FloatArray  # At the voltage of the highest clock, without issuing (U,) [J]
    issue_w: float  # Power of issuing, at the voltage of the highest clock [W]
    memory_j: FloatArray  # Of memory (U,) [J]
    power: PowerColumns
    highest: float  # Highest clock over that at which kernels are fitted

    def clock(self, time_s: FloatArray) -> FloatArray:
        """Return the clock over the highest that the TDP leaves to rows of known times (U,).

        Args:
            time_s: Times of the rows (U,) [s].
        """
        energy = StepEnergy(
            time_s, time_s, 0.0 * time_s, self.chip_j + self.issue_w * time_s, self.memory_j
        )
        return np.maximum(sustained_clock(energy, self.power), LOWEST)

    def keeps_limit(self, clock: FloatArray, time_s: FloatArray) -> NDArray[np.bool_]:
        """Return whether rows draw at most the TDP at a clock (U,).

        Args:
            clock: Over the highest (U,).
            time_s: Times at that clock (U,) [s].
        """
        relative = voltage(clock, self.power.voltage_slope, self.power.voltage_floor)
        chip_j = self.chip_j + self.issue_w * time_s
        spent_j = relative**2 * chip_j + self.memory_j + self.power.on_w * time_s
        kept: NDArray[np.bool_] = spent_j <= self.power.calibrated_w * time_s
        return kept


def clock_share_errors(progress: Callable[[Mapping[str, Any]], None] | None = None) -> list[Any]:
    """Return errors of kernels fitted at one clock and with the clock of each row apart.

    Args:
        progress: Called with each row.

    Returns:
        One row per device and cell of the stated ones: errors at home and with the parameters of
        the device's donor, at one clock and with clocks apart, over all scored rows and over those
        whose clock is far below the highest.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    stated, found = power_splits().clock_shares, []
    for key in stated["cells"]:
        name = (key["operator"], key["family"], key["format"])
        cells = cells_by_key(MEASURED_DEVICES, (key["operator"],))[name]
        for row in _of_cell(cells, stated["evaluations"], stated["rows"]):
            found.append({**key, **row})
            if progress is not None:
                progress(found[-1])
    return found


def _of_cell(cells: Mapping[str, Cell], evaluations: int, scored: int) -> Iterator[dict[str, Any]]:
    rows = {device: cell.load() for device, cell in cells.items()}
    errors: dict[str, dict[tuple[str, str], FloatArray]] = {way: {} for way in WAYS}
    some = {
        device: taken(own, seeded_subset(own.measured_s.size, scored, SEED))
        for device, own in rows.items()
    }
    energy = {device: _row_energy(cells[device], some[device]) for device in cells}
    for lender, cell in cells.items():
        fitted = _fits(cell, rows[lender], evaluations)
        for device in cells:
            own, record = some[device], fitted["one"]
            times = {
                "one": cells[device].predict(own.shape_UD, record),
                "apart": _time_at_limit(cells[device], own, energy[device], fitted["apart"]),
            }
            lent_s = cell.predict(own.shape_UD, record)
            inside = _row_energy(cell, own).clock(lent_s) * energy[lender].highest
            for way, most in (("relative", np.inf), ("lower", 1.0)):
                times[way] = _time_at_limit(
                    cells[device], own, energy[device], record, inside=inside, most=most
                )
            for way, time_s in times.items():
                errors[way][device, lender] = np.log(own.measured_s / time_s)
    for device in cells:
        slow = energy[device].clock(some[device].measured_s) < LARGE_ROWS
        row: dict[str, Any] = {"device": device, "slow_share": float(slow.mean())}
        for way, found in errors.items():
            donor = _donor(device, found)
            for about, lender in (("home", device), ("left_out", donor)):
                error = np.abs(np.expm1(-found[device, lender]))
                row[f"{about}_{way}"] = float(error.mean())
                row[f"{about}_{way}_slow"] = float(error[slow].mean()) if slow.any() else None
            row[f"donor_{way}"] = donor
        yield row


def _fits(cell: Cell, rows: Rows, evaluations: int) -> dict[str, dict[str, float]]:
    """Return the parameters of a cell at one clock, and with the clock of each row apart."""
    sample = taken(rows, seeded_subset(rows.measured_s.size, FIT_ROWS, SEED))
    energy = _row_energy(cell, sample)
    apart = _at_clock(cell, energy.clock(sample.measured_s) * energy.highest)
    return {
        "one": fit_cell(cell, sample, evaluations=evaluations),
        "apart": fit_cell(apart, sample, evaluations=evaluations),
    }


def _at_clock(cell: Cell, ratio_U: FloatArray) -> Cell:
    """Return a cell whose rows run at clocks relative to that of its silicon columns."""

    def physics(
        shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
    ) -> tuple[FloatArray, NDArray[np.int8]]:
        scaled_US = silicon_US.copy()
        scaled_US[:, PEAK] *= ratio_U
        scaled_US[:, CLOCK] *= ratio_U
        return cell.physics(shape_UD, scaled_US, parameters_UP)

    return replace(cell, physics=physics)


def _time_at_limit(
    cell: Cell,
    rows: Rows,
    energy: RowEnergy,
    parameters: Mapping[str, float],
    *,
    inside: FloatArray | float = 1.0,
    most: float = np.inf,
) -> FloatArray:
    """Return the times of rows at the highest clocks at which they draw at most the TDP (U,) [s].

    Args:
        rows: Its rows; measured times are not read.
        energy: Their energies.
        parameters: Fitted parameters.
        inside: Clock that the parameters contain, over that of the silicon columns (U,).
        most: Highest clock over the one that the parameters contain.
    """

    def time_s(clock: FloatArray) -> FloatArray:
        ratio = np.minimum(clock * energy.highest / inside, most)
        return _at_clock(cell, ratio).predict(rows.shape_UD, parameters)

    slow, fast = np.full(rows.measured_s.size, LOWEST), np.ones(rows.measured_s.size)
    slow = np.where(energy.keeps_limit(fast, time_s(fast)), fast, slow)
    for _ in range(HALVINGS):
        middle = 0.5 * (slow + fast)
        kept = energy.keeps_limit(middle, time_s(middle))
        slow, fast = np.where(kept, middle, slow), np.where(kept, fast, middle)
    return time_s(slow)


def _donor(device: str, errors: Mapping[tuple[str, str], FloatArray]) -> str:
    """Return the device whose parameters a device borrows, chosen without its rows."""
    others = sorted({lender for _, lender in errors} - {device})
    pairs = {
        (turn, lender): Pair(
            float(np.abs(errors[turn, lender]).mean()),
            tuple(five_quantiles(errors[turn, lender]).values()),
        )
        for turn, lender in permutations(others, 2)
    }
    target, *known = catalog_silicon((device, *others), links=False)
    return donor_of(target, known, pairs)


def _row_energy(cell: Cell, rows: Rows) -> RowEnergy:
    """Return the energies of the rows of a cell.

    Args:
        cell: A cell of `gemm` or `prefill_attention`.
    """
    device = resolve_system(cell.device).device
    board, operator = board_energy(device), _operator(cell, rows.shape_UD)
    work = operator.work()
    moved = work.cold_bytes + work.activation_bytes
    peak = {"fp8_dynamic": "fp8"}.get(cell.format, "bf16")
    peak = peak if peak in device.peak_flop_per_s else "int8"
    issue = 0.0 if cell.operator == "gemm" else 0.5 * board.issue_w
    count = rows.measured_s.size
    columns = DeviceColumns(devices=(device,), index_C=np.zeros(count, np.int64))
    cold = np.where(work.cold_bytes <= device.number("l2_bytes"), 0.0, work.cold_bytes)
    return RowEnergy(
        chip_j=work.flop * board.flop_j[peak] + moved * board.sram_j_per_byte,
        issue_w=issue,
        memory_j=cold * board.memory_j_per_byte,
        power=power_columns(columns),
        highest=device.boost_clock_hz / device.sustained_clock_hz,
    )


def _operator(cell: Cell, shape_UD: FloatArray) -> Operator:
    ones = np.ones(shape_UD.shape[0])
    if cell.operator == "gemm":
        m, n, k, weight, inputs, output = shape_UD[:, :6].T
        return Gemm(
            name="product",
            phase=Phase.PREFILL,
            count=ones,
            m=m,
            n=n,
            k=k,
            format="bf16",
            weight_bytes_per_element=float(weight[0]),
            input_bytes_per_element=float(inputs[0]),
            output_bytes_per_element=float(output[0]),
        )
    columns = dict(zip(PREFILL_ATTENTION_SHAPE, shape_UD.T, strict=True))
    fields = {
        name: values
        for name, values in columns.items()
        if name not in ("kv_bytes_per_element", "attention_bytes_per_element", "hot")
    }
    return Attention(
        name="attention",
        phase=Phase.PREFILL,
        count=ones,
        kv_bytes_per_element=float(columns["kv_bytes_per_element"].max()),
        **fields,
    )

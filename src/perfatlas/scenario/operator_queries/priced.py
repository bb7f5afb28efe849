"""Queries for one operator, priced together: results and warnings.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import answer, energy
from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, device_peak, gather_operators
from perfatlas.measurements.calibrations import find_schedule
from perfatlas.operators import (
    ATTENTION_BACKWARD,
    BOUND_COMPUTE,
    LibraryKernel,
    Streaming,
    Work,
    with_fields,
)
from perfatlas.pricing import scaled
from perfatlas.quantities import UnsupportedError
from perfatlas.scenario.operator_queries import libraries, operator_columns
from perfatlas.scenario.operator_queries.clocks import CLOCKS, at_clocks, limits_w
from perfatlas.scenario.operator_queries.inputs import (
    AttentionInputs,
    ConvInputs,
    ElementwiseInputs,
    EmbeddingInputs,
    GemmInputs,
    MoeInputs,
    NormInputs,
    SoftmaxInputs,
)
from perfatlas.scenario.operator_queries.kernels import (
    borrows_format,
    eager_engine,
    own_kernels,
)
from perfatlas.scenario.resolution import half_format, kernel_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import System
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.operator_queries.inputs import OperatorInputs

_DATA: Final = "data/attention_backward.toml"
_SUSTAINED: Final = "data/energy/sustained_products.toml"


class Passes(NamedTuple):
    """Work and times of a query in forward passes."""

    work: float  # Arithmetic and bytes
    time: float
    low: float  # 5% quantile of the time
    high: float  # 95% quantile of the time


ONE_PASS: Final = Passes(1.0, 1.0, 1.0, 1.0)


@cache
def backward_passes() -> Passes:
    """Return the backward pass in forward passes."""
    rate = shipped_table(_DATA)["rate"]
    rates = (1.0, *(float(rate[name]) for name in ("median", "highest", "lowest")))
    return Passes(*(ATTENTION_BACKWARD / value for value in rates))


def forward_passes(inputs: OperatorInputs) -> Passes:
    """Return the work and times of a query in forward passes."""
    if not isinstance(inputs, AttentionInputs) or inputs.direction == "forward":
        return ONE_PASS
    backward = backward_passes()
    if inputs.direction == "backward":
        return backward
    return Passes(*(1.0 + amount for amount in backward))


def work_of(work: Work, passes: Passes) -> Work:
    """Return the work of as many forward passes."""
    return Work(*(amount * passes.work for amount in work))


def price_of(prices: PricedOperators, passes: Passes) -> PricedOperators:
    """Return prices of as many forward passes.

    Limits: Bytes and energy are in proportion to arithmetic and time. Rates of the backward
        pass were published for one kernel on one GPU.
    """
    known_CO = prices.match_CO >= 0  # a roofline time is that of the work
    time_CO, low_CO, high_CO = (
        np.where(known_CO, factor, passes.work) for factor in (passes.time, passes.low, passes.high)
    )
    return scaled(prices, work=passes.work, time=time_CO, ends=(low_CO, high_CO), energy=time_CO)


IMPLICIT_GEMM: Final = (
    "convolutions are priced as implicit GEMM with the parameters of matrix products; published"
    " convolutions: median 18 to 36% (python -m validation networks)"
)
AT_ROOFLINE: Final = (
    "{device} has no measured kernels for this operator and format; the time is the roofline, a"
    " lower limit"
)
BORROWED_FORMAT: Final = (
    "{} has no measured products in {}: parameters of {}, and no slower than measured ones in"
    " 16 bits"
)
READERS: Final = {
    "gemm": "matrix products",
    "grouped_gemm": "experts",
    "attention": "attention",
    "latent_attention": "attention",
}


@dataclass(frozen=True, kw_only=True)
class PricedQueries:
    """Queries with equal text fields, priced as candidates of one operator."""

    inputs: Sequence[OperatorInputs]  # The queries (C)
    system: System
    operator: Operator  # The operator columns (C)
    prices: PricedOperators  # The prices (C, 1)
    devices: DeviceColumns  # Device and clock of each query
    # Half-width of ln(energy of the chip) by the interval of the voltage curve
    energy_width_C: FloatArray
    problems: Mapping[int, PerfatlasError]  # Why a query has no answer, by its index

    def match(self, c: int) -> CalibrationMatch | None:
        """Return the calibration that priced a query, None in tier bound."""
        position = int(self.prices.match_CO[c, 0])
        return self.prices.matches[position] if position >= 0 else None

    def limit_w(self, c: int) -> float:
        """Return the power limit of a GPU [W], NaN where its power is not known.

        Args:
            c: Index of the query.
        """
        return float(energy.power_columns(self.devices, limits_w(self.inputs)).cap_w[c])

    def results(self) -> dict[str, Sequence[Any]]:
        """Return the results of all queries by name, each (C)."""
        work, prices = work_of(self.operator.work(), forward_passes(self.inputs[0])), self.prices
        if isinstance(self.operator, Streaming):
            work = work._replace(flop=work.flop + self.operator.vector_flop)
        moved: dict[str, Sequence[Any]] = {
            "cold_bytes": work.cold_bytes.tolist(),
            "activation_bytes": work.activation_bytes.tolist(),
        }
        if isinstance(self.operator, LibraryKernel):
            moved = {
                "input_output_bytes": self.operator.cold_bytes.tolist(),
                "pass_bytes": self.operator.moved_bytes.tolist(),
            }
        time_s_C, bytes_C = prices.time_s_CO[:, 0], work.cold_bytes + work.activation_bytes
        flop_per_s, peak = (
            _rates(work.flop, time_s_C),
            device_peak(self.system.device, self._peak_format()),
        )
        columns: dict[str, Sequence[Any]] = {
            **answer.price_columns(prices),
            "flop": work.flop.tolist(),
            **moved,
            "flop_per_s": flop_per_s,
            "bytes_per_s": _rates(bytes_C, time_s_C),
            "peak_share": [None if rate is None else rate / peak for rate in flop_per_s],
            "roofline_share": _rates(prices.bound_s_CO[:, 0], time_s_C),
            "arithmetic_intensity": (work.flop / bytes_C).tolist(),
            **self._energy(answer.on_any_machine(self.prices), prices.match_CO[:, 0] >= 0),
        }
        shared = answer.quantization_of(self.operator)
        return columns | {name: [value] * len(self.inputs) for name, value in shared.items()}

    def energy_in(self, time_s: float, ends_s: tuple[float, float] | None) -> dict[str, float]:
        """Return power and energy of another kernel for the work of the only query.

        Operations and bytes take the same energy, SMs issue for its time.

        Args:
            time_s: Its time.
            ends_s: The 90% interval of its time [s], None without.
        """
        low_s, high_s = ends_s or (time_s, time_s)
        times = {"time_s_CO": time_s, "low_s_CO": low_s, "high_s_CO": high_s}
        other = with_fields(self.prices, **{name: np.array([[s]]) for name, s in times.items()})
        before, after = (
            energy.with_energy([self.operator], priced_operators, self.devices)
            for priced_operators in (self.prices, other)
        )
        # at the voltage of the clock, which the energies of the queries have
        chip_j_CO = self.prices.chip_energy_j_CO * after.chip_energy_j_CO / before.chip_energy_j_CO
        other = with_fields(other, chip_energy_j_CO=chip_j_CO)
        found = self._energy(other, np.array([ends_s is not None]))
        return {name: value for name, (value,) in found.items() if value is not None}

    def _energy(
        self, prices: PricedOperators, known_C: NDArray[np.bool_]
    ) -> dict[str, list[float | None]]:
        """Return power and energy with their intervals.

        A roofline time has no interval; a device without known energies has neither.

        Args:
            prices: The prices (C, 1).
        """
        power = energy.power_columns(
            self.devices, limits_w(self.inputs), self.devices.clock_ratio_C
        )
        energy_C = prices.chip_energy_j_CO[:, 0] + prices.memory_energy_j_CO[:, 0]
        time_s_C, low_s_C, high_s_C = (
            times_CO[:, 0] for times_CO in (prices.time_s_CO, prices.low_s_CO, prices.high_s_CO)
        )
        power_C = power.mean_w(energy_C, time_s_C)
        width_j_C = self.energy_width_C * prices.chip_energy_j_CO[:, 0]
        total_j_C = energy_C + power.on_w * time_s_C
        # a roofline counts neither time nor energy where caches may hold all bytes
        counted_C = ~(total_j_C == 0.0)
        width_C = np.divide(width_j_C, total_j_C, out=np.zeros_like(total_j_C), where=counted_C)
        low, high = energy.power_interval(power.low, power.high, width_C)
        least_w, most_w = (power.mean_w(energy_C, column) for column in (high_s_C, low_s_C))
        columns = {
            "power_w": power_C,
            "power_w_low": np.maximum(low * least_w, power.idle_w),
            "power_w_high": np.minimum(high * most_w, power.cap_w),
            "energy_j": power_C * time_s_C,
            "energy_j_low": np.maximum(low * most_w, power.idle_w) * low_s_C,
            "energy_j_high": np.minimum(high * least_w, power.cap_w) * high_s_C,
        }
        return {
            name: [
                value
                if value == value and (has or not name.endswith(("_low", "_high")))  # noqa: PLR0124 - NaN
                else None
                for value, has in zip(values_C.tolist(), known_C.tolist(), strict=True)
            ]
            for name, values_C in columns.items()
        }

    def _peak_format(self) -> str:
        """Return the format whose peak applies, of 16 bits for what multiplies nothing."""
        streams = self.operator.stream_kind
        return half_format(self.inputs[0].system) if streams else self.operator.compute_format

    def warnings(self, c: int) -> tuple[str, ...]:
        """Return the warnings about the answer of a query."""
        device, inputs = self.system.device, self.inputs[c]
        board, limit_w = energy.board_energy(device), inputs.power_cap_w
        texts: list[str] = []
        if (match := self.match(c)) is not None:
            texts += filter(None, [answer.other_vendors_note([match.foreign_device])])
            if isinstance(self.operator, LibraryKernel):
                texts += match.notes
                texts += filter(None, [answer.extrapolated_note(self.operator, match, c)])
            if inputs.clock_ratio > 1.0 and (clock := self._clock(c)).too_high()[0]:
                texts.append(clock.note(0))
            texts += filter(None, [self._sustained(c)])
            if isinstance(inputs, ConvInputs) and not operator_columns.is_depthwise(inputs):
                texts.append(IMPLICIT_GEMM)
            if borrows_format(inputs, match):
                texts.append(
                    BORROWED_FORMAT.format(
                        device.name, self.operator.compute_format, match.calibration.device
                    )
                )
        elif inputs.tier != "bound":
            above = self.prices.exceeds_bound()[c, 0]
            texts.append(
                (answer.ASSUMED_LOSSES if above else AT_ROOFLINE).format(device=device.name)
            )
        if limit_w is not None and limit_w > board.cap_w:
            texts.append(energy.unreached_limit_note(device.name, limit_w, board.cap_w))
        if np.isnan(board.on_w):
            texts += board.notes
            texts += [energy.ZEROS_UNUSED] if inputs.input_distribution == energy.ZEROS else []
        readers = {READERS.get(self.operator.kind, "elementwise operators"), answer.POWER}
        texts += answer.unread_overrides(
            self.system, readers | answer.format_readers(self._peak_format())
        )
        return tuple(texts)

    def _sustained(self, c: int) -> str:
        """Return what a product at the power limit takes for longer than in the tables, or ""."""
        inputs = self.inputs[c]
        measured = shipped_table(_SUSTAINED).get(self.system.device.name, {})
        repeated = measured.get(self.operator.compute_format)
        changed = inputs.power_cap_w is not None or inputs.clock_ratio != 1.0
        zeros = inputs.input_distribution == energy.ZEROS
        if not isinstance(inputs, GemmInputs) or repeated is None or changed or zeros:
            return ""
        if self.prices.code_CO[c, 0] != BOUND_COMPUTE:  # a lower clock does not slow memory
            return ""
        energy_j = self.prices.chip_energy_j_CO[c, 0] + self.prices.memory_energy_j_CO[c, 0]
        power = energy.power_columns(self.devices, limits_w(self.inputs))
        at_limit = power.on_w[c] + energy_j / self.prices.time_s_CO[c, 0] >= power.cap_w[c]
        return (
            "this product reaches the power limit: repeated for 0.3 s with random values, such"
            f" products took {repeated['time_ratio']:.2f} times as long as predicted in the median,"
            f" at {repeated['clock_ghz']:g} GHz; the measured tables have runs of milliseconds"
            if at_limit
            else ""
        )

    def _clock(self, c: int) -> answer.LockedClocks:
        """Return the clock of a query and the power that it would take."""
        clock = self.inputs[c].clock_ratio
        power = energy.power_columns(self.devices, limits_w(self.inputs))
        energy_j = self.prices.chip_energy_j_CO[c, 0] + self.prices.memory_energy_j_CO[c, 0]
        watts = power.on_w[c] + energy_j / self.prices.time_s_CO[c, 0]
        columns = (np.array([one]) for one in (clock, watts, power.cap_w[c]))
        return answer.LockedClocks("this kernel", *columns)


def _rates(work_C: FloatArray, time_s_C: FloatArray) -> list[float | None]:
    """Return work per time; None where a roofline counts no time, as caches may hold all bytes."""
    return [
        work / time_s if time_s > 0.0 else None
        for work, time_s in zip(work_C.tolist(), time_s_C.tolist(), strict=True)
    ]


def _priced_queries(inputs: Sequence[OperatorInputs], operator: Operator) -> PricedQueries:
    """Return the prices of queries with equal text fields.

    Args:
        inputs: The queries (C).
        operator: Their columns (C).
    """
    first = inputs[0]
    system = resolve_system(first.system)
    eager = None if first.kernel_family else eager_engine(first, system.device)
    engine = eager or kernel_engine(first.kernel_family)
    answer.require_vendor(system, engine, "kernel_family")
    family = engine.kernel_family
    sustained = DeviceColumns(devices=(system.device,), index_C=np.zeros(len(inputs), np.int64))
    own, version = own_kernels(inputs, operator, sustained, family), first.silicon_version or ""
    if first.tier == "measured":
        answer.require_tier(system, first.tier, family, version or None)
    gathered = gather_operators(
        [operator], sustained, family=family, tier=first.tier, silicon_version=version
    )
    if first.tier == "physics" and np.any(gathered.full().match_CO < 0):
        raise UnsupportedError(
            f"{system.device.name} has no measured {operator.kind} kernels in this format;"
            " use tier bound or auto"
        )
    prices, ratio_C, width_C, problems = at_clocks(inputs, operator, gathered, sustained, own)
    if isinstance(operator, LibraryKernel):
        problems |= libraries.too_large(operator, system.device)
        prices = libraries.widened(prices, operator)
    prices = price_of(prices, forward_passes(first))
    if find_schedule(system.device) is not None:
        # constants of whole steps contain engines and hosts: alone, it may run at its roofline
        prices = with_fields(prices, low_s_CO=prices.bound_s_CO)
    return PricedQueries(
        inputs=inputs,
        system=system,
        operator=operator,
        prices=prices,
        devices=replace(sustained, clock_ratio_C=ratio_C, gathered={}),
        energy_width_C=width_C,
        problems=problems,
    )


@dataclass(frozen=True, kw_only=True)
class OperatorQuery:
    """One operator that can be asked for: the fields of its queries, and their prices."""

    schema: type[OperatorInputs]  # Its fields
    # Returns queries that differ in sizes alone as columns of an operator
    operator: Callable[[Sequence[Any]], Operator]
    sizes: tuple[str, ...]  # The fields that are its columns
    # Returns what queries that are priced together share of the sizes
    alike: Callable[[Any], Hashable] = type

    @property
    def varying(self) -> tuple[str, ...]:
        """Fields in which queries differ that are priced together."""
        return self.sizes + CLOCKS

    def priced(self, inputs: Sequence[OperatorInputs]) -> PricedQueries:
        """Return the prices of queries that differ in `varying` alone.

        Args:
            inputs: The queries (C).
        """
        return _priced_queries(inputs, self.operator(inputs))


QUERIES: Final[Mapping[str, OperatorQuery]] = {
    "gemm": OperatorQuery(
        schema=GemmInputs,
        operator=operator_columns.gemm_columns,
        sizes=operator_columns.GEMM_SIZES,
    ),
    "attention": OperatorQuery(
        schema=AttentionInputs,
        operator=operator_columns.attention_columns,
        sizes=operator_columns.ATTENTION_SIZES,
        alike=lambda query: query.window > 0,  # sparse attention is priced as one operator
    ),
    "moe": OperatorQuery(
        schema=MoeInputs,
        operator=operator_columns.moe_columns,
        sizes=operator_columns.MOE_SIZES,
    ),
    "conv": OperatorQuery(
        schema=ConvInputs,
        operator=operator_columns.conv_columns,
        sizes=operator_columns.CONV_SIZES,
        alike=operator_columns.is_depthwise,
    ),
    "norm": OperatorQuery(
        schema=NormInputs,
        operator=partial(operator_columns.row_columns, "norm"),
        sizes=operator_columns.ROWS["norm"][0],
    ),
    **{
        name: OperatorQuery(
            schema=schema,
            operator=partial(operator_columns.row_columns, name),
            sizes=operator_columns.ROWS[name][0],
            alike=alike,
        )
        for name, schema, alike in (
            ("softmax", SoftmaxInputs, type),
            ("embedding", EmbeddingInputs, operator_columns.is_bag),
            ("elementwise", ElementwiseInputs, type),
        )
    },
    **{
        name: OperatorQuery(
            schema=library.schema,
            operator=partial(libraries.library_columns, name),
            sizes=library.sizes,
        )
        for name, library in libraries.LIBRARIES.items()
    },
}

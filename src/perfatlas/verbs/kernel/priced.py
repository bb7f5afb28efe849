"""Queries for one operator, priced together, and their answers.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import (
    MEASURED_STANDING,
    POWER,
    Answer,
    clock_causes,
    clock_note,
    format_readers,
    on_any_machine,
    price_columns,
    quantization_note,
    quantization_of,
    raised_clock_notes,
    require_tier,
    single_evidence,
    single_row,
    unread_overrides,
)
from perfatlas.declarations import verb_fields
from perfatlas.energy import (
    ZEROS,
    ZEROS_UNUSED,
    board_energy,
    power_columns,
    power_interval,
    unreached_limit_note,
)
from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, device_peak, gather_operators
from perfatlas.operators import ATTENTION_BACKWARD, LatentAttention, Phase, Work
from perfatlas.pricing import scaled
from perfatlas.quantities import UnsupportedError
from perfatlas.scenario.fields import complete_scenario
from perfatlas.scenario.resolution import format_of, half_format, kernel_engine
from perfatlas.verbs.kernel.clocks import at_clocks, limits_w
from perfatlas.verbs.kernel.grouped_tiles import fixed_tile
from perfatlas.verbs.kernel.operator_columns import appends
from perfatlas.verbs.kernel.question import AttentionInputs, ElementwiseInputs, GemmInputs
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import System
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.quantities import PerfatlasError
    from perfatlas.verbs.kernel.question import OperatorInputs

_DATA: Final = "data/attention_backward.toml"


class Passes(NamedTuple):
    """Work and times of a query in forward passes.

    Args:
        work: Arithmetic and bytes.
        time: Predicted time.
        low: 5% quantile of the time.
        high: 95% quantile of the time.
    """

    work: float
    time: float
    low: float
    high: float


ONE_PASS: Final = Passes(1.0, 1.0, 1.0, 1.0)


@cache
def _backward() -> Passes:
    """Return the backward pass in forward passes."""
    rate = shipped_table(_DATA)["rate"]
    rates = (1.0, *(float(rate[name]) for name in ("median", "highest", "lowest")))
    return Passes(*(ATTENTION_BACKWARD / one for one in rates))


def forward_passes(inputs: OperatorInputs) -> Passes:
    """Return the work and times of a query in forward passes."""
    if not isinstance(inputs, AttentionInputs) or inputs.direction == "forward":
        return ONE_PASS
    backward = _backward()
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


def call_notes(inputs: OperatorInputs) -> list[str]:
    """Return remarks on what the calibrated time of a query includes."""
    if isinstance(inputs, GemmInputs) and inputs.groups > 1:
        rows, columns = fixed_tile(inputs)
        tile = f" of {rows:g} x {columns:g}, as {inputs.grouped_kernel} has them," if rows else ""
        sizes = ", cut at random points" if inputs.group_sizes == "random" else ""
        note = (
            f"{inputs.groups} groups{sizes} are priced as one kernel whose tiles{tile} hold rows"
            " of one group each, with parameters fitted to single products, as the measured"
            " tables have no grouped ones"
        )
        return [note]
    if not isinstance(inputs, AttentionInputs) or inputs.phase != "prefill":
        return []
    if inputs.kind != "gqa":
        return ["the time is that of an engine's call: the append to the KV cache is inside"]
    notes = []
    if inputs.direction == "forward" and inputs.cache_append != "excluded":
        notes.append("the time is that of an engine's call: the append to the KV cache is inside")
    else:
        notes.append(
            "the attention kernel alone: the append to the KV cache is left out, as a term of the"
            " fit to engine calls; it was not measured apart"
        )
    if inputs.mask == "none":
        notes.append("every query sees every key; only causal calls were measured")
    if inputs.direction != "forward":
        notes.append(
            f"the backward pass takes {_backward().time:.2f} times as long as the forward pass:"
            f" {ATTENTION_BACKWARD:g} times its arithmetic, at the median rate of published pairs"
            " of FlashAttention-2 on an H100, whose range widens the interval; no table has it"
        )
    return notes


READERS: Final = {
    "gemm": "matrix products",
    "grouped_gemm": "experts",
    "attention": "attention",
    "latent_attention": "attention",
}
COLD: Final = "cold caches, one kernel of a CUDA graph"
STREAMED: Final = (
    "one kernel of a CUDA graph: activations that fit in the L2 cache are there, left by the kernel"
    " before; the roofline counts the rest, and weights and tables, which are cold; arithmetic is"
    " not counted"
)


@dataclass(frozen=True, kw_only=True)
class PricedQuestions:
    """Queries with equal text fields, priced as candidates of one operator.

    Args:
        inputs: The queries (C).
        operator: The operator columns (C).
        prices: The prices (C, 1).
        devices: Device and clock of each query.
        energy_width_C: Half-width of ln(energy of the chip) by the interval of the voltage curve.
        problems: Why a query has no answer, by its index.
    """

    inputs: Sequence[OperatorInputs]
    system: System
    operator: Operator
    prices: PricedOperators
    devices: DeviceColumns
    energy_width_C: FloatArray
    problems: Mapping[int, PerfatlasError]

    def match(self, c: int) -> CalibrationMatch | None:
        """Return the calibration that priced a query, None in tier bound."""
        position = int(self.prices.match_CO[c, 0])
        return self.prices.matches[position] if position >= 0 else None

    def results(self) -> dict[str, Sequence[Any]]:
        """Return the results of all queries by name, each (C)."""
        work, prices = work_of(self.operator.work(), forward_passes(self.inputs[0])), self.prices
        time_s_C, bytes_C = prices.time_s_CO[:, 0], work.cold_bytes + work.activation_bytes
        flop_per_s, peak = (
            _rates(work.flop, time_s_C),
            device_peak(self.system.device, self._peak_format()),
        )
        columns: dict[str, Sequence[Any]] = {
            **price_columns(prices),
            "flop": work.flop.tolist(),
            "cold_bytes": work.cold_bytes.tolist(),
            "activation_bytes": work.activation_bytes.tolist(),
            "flop_per_s": flop_per_s,
            "bytes_per_s": _rates(bytes_C, time_s_C),
            "peak_share": [None if rate is None else rate / peak for rate in flop_per_s],
            "roofline_share": _rates(prices.bound_s_CO[:, 0], time_s_C),
            "arithmetic_intensity": (work.flop / bytes_C).tolist(),
            **self._energy(),
        }
        shared = quantization_of(self.operator)
        return columns | {name: [value] * len(self.inputs) for name, value in shared.items()}

    def _energy(self) -> dict[str, list[float | None]]:
        """Return power and energy with their intervals.

        A roofline time has no interval; a device without known energies has neither.
        """
        power = power_columns(self.devices, limits_w(self.inputs), self.devices.clock_ratio_C)
        prices = on_any_machine(self.prices)
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
        low, high = power_interval(power.low, power.high, width_C)
        least_w, most_w = (power.mean_w(energy_C, one) for one in (high_s_C, low_s_C))
        known = prices.match_CO[:, 0] >= 0
        columns = {
            "power_w": power_C,
            "power_w_low": low * least_w,
            "power_w_high": np.minimum(high * most_w, power.cap_w),
            "energy_j": power_C * time_s_C,
            "energy_j_low": low * most_w * low_s_C,
            "energy_j_high": np.minimum(high * least_w, power.cap_w) * high_s_C,
        }
        return {
            name: [
                value
                if value == value and (has or not name.endswith(("_low", "_high")))  # noqa: PLR0124 - NaN
                else None
                for value, has in zip(values_C.tolist(), known.tolist(), strict=True)
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
        board, limit_w = board_energy(device), inputs.power_cap_w
        texts: list[str] = []
        if self.prices.match_CO[c, 0] >= 0:
            texts += self._raised_clock(c)
        elif inputs.tier != "bound":
            above = self.prices.time_s_CO[c, 0] > self.prices.bound_s_CO[c, 0]
            texts.append(
                f"{device.name} has no measured kernels for this operator and format; the"
                f" time is {'' if above else 'the roofline, '}a lower limit"
            )
        if limit_w is not None and limit_w > board.cap_w:
            texts.append(unreached_limit_note(device.name, limit_w, board.cap_w))
        if np.isnan(board.on_w):
            texts += board.notes
            texts += [ZEROS_UNUSED] if inputs.input_distribution == ZEROS else []
        readers = {READERS.get(self.operator.kind, "elementwise operators"), POWER}
        texts += unread_overrides(self.system, readers | format_readers(self._peak_format()))
        return tuple(texts)

    def _raised_clock(self, c: int) -> tuple[str, ...]:
        """Return the warning about a clock that takes more power than the limit."""
        clock = self.inputs[c].clock_ratio
        if clock <= 1.0:
            return ()
        power = power_columns(self.devices, limits_w(self.inputs))
        energy_j = self.prices.chip_energy_j_CO[c, 0] + self.prices.memory_energy_j_CO[c, 0]
        watts = power.on_w[c] + energy_j / self.prices.time_s_CO[c, 0]
        columns = (np.array([one]) for one in (clock, watts, power.cap_w[c]))
        return tuple(text for _, text in raised_clock_notes("this kernel", *columns))


def _rates(work_C: FloatArray, time_s_C: FloatArray) -> list[float | None]:
    """Return work per time; None where a roofline counts no time, as caches may hold all bytes."""
    return [
        work / time_s if time_s > 0.0 else None
        for work, time_s in zip(work_C.tolist(), time_s_C.tolist(), strict=True)
    ]


def price_questions(inputs: Sequence[OperatorInputs], operator: Operator) -> PricedQuestions:
    """Return the prices of queries with equal text fields.

    Args:
        inputs: The queries (C).
        operator: Their columns (C).

    Raises:
        InvalidSpecError: The system or engine is unknown.
        UnsupportedError: The device does not support the format, or there are no measured kernels
            for the tier.
    """
    first = inputs[0]
    system, family = resolve_system(first.system), kernel_engine(first.kernel_family).kernel_family
    sustained = DeviceColumns(devices=(system.device,), index_C=np.zeros(len(inputs), np.int64))
    version = first.silicon_version or ""
    if first.tier == "measured":
        require_tier(system, first.tier, family, version or None)
    gathered = gather_operators(
        [operator], sustained, family=family, tier=first.tier, silicon_version=version
    )
    if first.tier == "physics" and np.any(gathered.full().match_CO < 0):
        raise UnsupportedError(
            f"{system.device.name} has no measured {operator.kind} kernels in this format;"
            " use tier bound or auto"
        )
    prices, ratio_C, width_C, problems = at_clocks(inputs, operator, gathered, sustained)
    prices = price_of(prices, forward_passes(first))
    return PricedQuestions(
        inputs=inputs,
        system=system,
        operator=operator,
        prices=prices,
        devices=replace(sustained, clock_ratio_C=ratio_C, gathered={}),
        energy_width_C=width_C,
        problems=problems,
    )


def operator_answer(command: str, priced: PricedQuestions) -> Answer:
    """Return the answer of the first query.

    Raises:
        InvalidSpecError: No clock keeps the power limit of the query, or there are no measured
            kernels for it.
    """
    if 0 in priced.problems:
        raise priced.problems[0]
    results = {name: cells[0] for name, cells in priced.results().items()}
    match = priced.match(0)
    return Answer(
        command=command,
        scenario=complete_scenario(verb_fields(command), priced.inputs[0], **_decided(priced)),
        results=results,
        breakdown=[
            single_row(priced.operator.name, priced.operator.phase, results, match, "compute")
        ],
        evidence=single_evidence(
            priced.system, match, _assumptions(priced, match), str(results["tier"])
        ),
        warnings=priced.warnings(0),
    )


def _is_unread(inputs: ElementwiseInputs, name: str) -> bool:
    """Return whether an elementwise operator does not read one of its formats."""
    needs = fields_of(type(inputs))[name].row.needs
    return needs is not None and needs.missing(vars(inputs), {}) is not None


def _decided(priced: PricedQuestions) -> dict[str, Any]:
    """Return the fields of the first question that follow from others."""
    inputs = priced.inputs[0]
    decided: dict[str, Any] = {
        name: format_of(getattr(inputs, name)).name
        for name in ("format", "kv_format")
        if hasattr(inputs, name)
        and not (isinstance(inputs, ElementwiseInputs) and _is_unread(inputs, name))
    }
    if isinstance(inputs, AttentionInputs):
        one_query = inputs.phase == "decode"
        decided["q_len"] = inputs.q_len or (1 if one_query else inputs.kv_len)
        if inputs.kind == "gqa":
            decided["num_kv_heads"] = inputs.num_kv_heads or inputs.num_heads
            if not one_query and inputs.tier != "bound":
                decided["cache_append"] = "included" if appends(inputs) else "excluded"
    return decided


def _clock(priced: PricedQuestions, *, measured: bool) -> tuple[str, ...]:
    """Return the clock of the first question, and what leaves it."""
    inputs, device = priced.inputs[0], priced.system.device
    locked = None if inputs.clock_ratio == 1.0 else inputs.clock_ratio
    limit_w = float(power_columns(priced.devices, limits_w(priced.inputs)).cap_w[0])
    limit_w = limit_w if measured else np.nan
    causes = clock_causes(device, limit_w, locked, zeros=inputs.input_distribution == ZEROS)
    if not causes:
        return ()
    clock = float(priced.devices.clock_ratio()[0])
    known = bool(np.isfinite(limit_w))
    return (clock_note(device, causes, f"{round(clock, 2):g}", moved=clock != 1.0, known=known),)


def _assumptions(priced: PricedQuestions, match: CalibrationMatch | None) -> list[str]:
    inputs, measured = priced.inputs[0], bool(priced.prices.measured_CO[0, 0])
    first = STREAMED if priced.operator.stream_kind else COLD
    said = [first, *board_energy(priced.system.device).notes]
    said += call_notes(inputs) if match is not None else []
    said += quantization_note(priced.operator, match, measured=measured)
    said += _clock(priced, measured=match is not None)
    if inputs.kernel_family is not None and match is None:
        said.append(f"kernel_family = {inputs.kernel_family} has no effect in tier bound")
    latent = isinstance(priced.operator, LatentAttention) and priced.operator.phase == Phase.DECODE
    if latent and match is None and "head_dim" in inputs.model_fields_set:
        said.append("head_dim has no effect: the decode roofline depends only on the latent cache")
    if inputs.tier == "measured":
        said.append(MEASURED_STANDING)
        if match is not None and not measured and match.table[0]:
            said.append("no measured rows near this shape; tier physics is used")
    outside = float(priced.prices.outside_CO[0, 0])
    if outside > 0.0:
        kept = "the correction at their edge is used and " if measured else ""
        said.append(
            f"the shape is {outside:.1f} octaves outside the measured shapes: {kept}the interval is"
            " widened"
        )
    return said

"""Breakdown of step time, and its evidence.

The errors of a calibration say how well a time is known on the machine that was measured
(repeatability). Another machine has other releases, clocks, power and input values
(reproducibility, ISO 5725-1). Both are independent: their half-widths in the logarithm add in
quadrature.

Shape legend: C candidates, O operators, M matches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.answer.envelope import Evidence
from perfatlas.answer.tiers import tier_name, tier_names
from perfatlas.engines import SUPPORT, operator_class, operator_spreads
from perfatlas.hardware import cited_sources
from perfatlas.measurements.calibrations import RANGED, USER_PROTOCOL, outside_rows, relatives_of
from perfatlas.operators import BOUND_NAMES, NAMED_BOUNDS, with_fields
from perfatlas.pricing import HOST, STREAM_NAMES, TIERS
from perfatlas.step import StepCost, assumes_losses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.engines import OperatorSpread
    from perfatlas.hardware import Device, System
    from perfatlas.measurements.calibrations import Calibration, CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray, LibraryKernel
    from perfatlas.pricing import PricedOperators
    from perfatlas.step import SharedSteps


def laboratory_spread(calibration: Calibration) -> OperatorSpread | None:
    """Return the spread between laboratories of an operator, None on the user's own machine."""
    if calibration.protocol.startswith(USER_PROTOCOL):
        return None
    return operator_spreads()[operator_class(calibration.operator)]


def on_any_machine(prices: PricedOperators) -> PricedOperators:
    """Return prices whose interval holds for other machines of the kind.

    Args:
        prices: Prices with the intervals of their calibrations; those in tier bound stay.

    Limits: The effect is symmetrical and the same for all shapes of a class. The lower limit stays
        at or above the roofline, unless that of the calibration is below it already.
    """
    spreads = [laboratory_spread(match.calibration) for match in prices.matches]
    width_M = np.array(
        [0.0 if spread is None else spread.half_width for spread in spreads] or [0.0]
    )
    known_CO = (prices.match_CO >= 0) & (prices.time_s_CO > 0.0)
    width_CO = np.where(known_CO, width_M[np.maximum(prices.match_CO, 0)], 0.0)
    time_s_CO = np.where(known_CO, prices.time_s_CO, 1.0)
    low_CO, high_CO = (
        np.log(np.where(known_CO, limit_s_CO, 1.0) / time_s_CO)
        for limit_s_CO in (prices.low_s_CO, prices.high_s_CO)
    )
    least_s_CO = np.minimum(prices.bound_s_CO, prices.low_s_CO)
    low_s_CO = np.maximum(time_s_CO * np.exp(-np.hypot(low_CO, width_CO)), least_s_CO)
    return with_fields(
        prices,
        low_s_CO=np.where(known_CO, low_s_CO, prices.low_s_CO),
        high_s_CO=np.where(
            known_CO, time_s_CO * np.exp(np.hypot(high_CO, width_CO)), prices.high_s_CO
        ),
    )


def breakdown_rows(cost: StepCost, phase: str, candidate: int) -> list[dict[str, Any]]:
    """Return the breakdown of one step of one candidate, in execution order.

    Operators with the same name in different layer groups share a row; its bound is that of the
    slowest one.

    Args:
        phase: prefill or decode, or the phase of one kind of replicas.

    Returns:
        Rows of name, phase, count, time_s, share, hidden_time_s, bound, bound_time_s, energy_j,
        flop, memory_bytes, tier, calibration, stream; times, energies and work are over all
        executions of the step [s, J, FLOP, bytes], shares of the step sum to 1, hidden times come
        in addition. Energies are dynamic ones of one GPU, None without known energies.
    """
    count_O = cost.count_CO[candidate]
    energy_O = cost.operator_energy_j()[candidate]
    total_O = count_O * cost.prices.time_s_CO[candidate]
    hidden_O = count_O * cost.hidden_s_CO[candidate]
    stream_O = cost.prices.stream_O.tolist()
    step_s = float(cost.total_s()[candidate])
    rows: dict[str, dict[str, Any]] = {}
    longest: dict[str, float] = {}
    for o in np.flatnonzero(count_O > 0).tolist():
        operator = cost.operators[o]
        row = rows.setdefault(operator.name, _empty_row(operator.name, phase, stream_O[o]))
        row["count"] += float(count_O[o])
        row["time_s"] += float(total_O[o])
        row["hidden_time_s"] += float(hidden_O[o])
        row["energy_j"] += float(energy_O[o])
        row["flop"] += float(count_O[o] * cost.prices.flop_CO[candidate, o])
        row["memory_bytes"] += float(count_O[o] * cost.prices.memory_bytes_CO[candidate, o])
        row["bound_time_s"] += float(count_O[o] * cost.prices.bound_s_CO[candidate, o])
        if total_O[o] >= longest.get(operator.name, -1.0):
            longest[operator.name] = float(total_O[o])
            match = int(cost.prices.match_CO[candidate, o])
            row["bound"] = BOUND_NAMES[NAMED_BOUNDS[cost.prices.code_CO[candidate, o]]]
            row["tier"] = _tier(cost, candidate, o)
            row["calibration"] = None if match < 0 else cost.prices.matches[match].calibration.id
            if stream_O[o] == HOST:  # a published pause, whose interval is that of a transfer
                row |= {"tier": "engine profile", "calibration": None}
    host_s = float(cost.host_s_C[candidate])
    if host_s > 0:
        rows["host"] = _empty_row("host", phase, HOST) | {
            "count": 1.0,
            "time_s": host_s,
            "bound": "host",
            "tier": "engine profile",
        }
    for row in rows.values():
        row["share"] = row["time_s"] / step_s if step_s > 0 else 0.0
        row["energy_j"] = None if math.isnan(row["energy_j"]) else row["energy_j"]
    return list(rows.values())


def _empty_row(name: str, phase: str, stream: int) -> dict[str, Any]:
    return {
        "name": name,
        "phase": phase,
        "count": 0.0,
        "time_s": 0.0,
        "share": 0.0,
        "hidden_time_s": 0.0,
        "bound": "latency",
        "bound_time_s": 0.0,
        "energy_j": 0.0,
        "flop": 0.0,
        "memory_bytes": 0.0,
        "tier": "bound",
        "calibration": None,
        "stream": STREAM_NAMES[stream],
    }


def used_matches(costs: Sequence[StepCost], candidate: int) -> list[CalibrationMatch]:
    """Return the distinct calibrations that priced one candidate."""
    matches: dict[str, CalibrationMatch] = {}
    for cost in costs:
        runs = cost.count_CO[candidate] > 0
        # a set instead of np.unique, which imports masked arrays on first use
        for position in sorted(set(cost.prices.match_CO[candidate][runs].tolist())):
            if position >= 0:
                match = cost.prices.matches[position]
                matches.setdefault(match.calibration.id, match)
    return list(matches.values())


def extrapolated_note(operator: LibraryKernel, match: CalibrationMatch, candidate: int) -> str:
    """Return in which sizes a call of a library lies outside the published ones, "" if in none."""
    sizes = {
        name: float(np.broadcast_to(getattr(operator, name), operator.count.shape)[candidate])
        for name in RANGED
    }
    outside = outside_rows(match, sizes)
    return outside and f"{match.calibration.data_version}: {outside}; the time is extrapolated"


def calibration_rows(matches: Sequence[CalibrationMatch]) -> tuple[Mapping[str, Any], ...]:
    """Return the `calibrations` of the evidence."""
    return tuple(
        {
            "id": m.calibration.id,
            "rows": m.calibration.rows,
            "median_error": m.calibration.median_error,
            "p90_error": m.calibration.p90_error,
            "protocol": m.calibration.protocol,
            "data_hash": m.calibration.data_hash,
            "foreign_device": m.foreign_device,
        }
        for m in matches
    )


def tier_of(steps: Sequence[SharedSteps]) -> str:
    """Return the tier of the first candidate: physics, bound, or physics+bound if mixed."""
    (name,) = tier_names(tier_codes(steps)[:1])
    return name


def tier_codes(steps: Sequence[SharedSteps]) -> IntArray:
    """Return `tier_of` each candidate as a sum of the codes in `TIERS` (C,).

    Args:
        steps: Steps of the same candidates.
    """
    codes_C = np.bitwise_or.reduce([shared.of(StepCost.tier_codes) for shared in steps])
    codes_C = np.where(assumes_losses(steps), TIERS["physics"], codes_C)
    return np.where(codes_C == 0, TIERS["bound"], codes_C)


def bound_codes(cost: StepCost) -> IntArray:
    """Return what binds most of the time of a step of each candidate, as in `BOUND_NAMES` (C,)."""
    time_s_CO = cost.count_CO * cost.prices.time_s_CO
    named_CO = np.array(NAMED_BOUNDS)[cost.prices.code_CO]
    times_s_BC = [
        np.where(named_CO == code, time_s_CO, 0.0).sum(axis=1) for code in range(len(BOUND_NAMES))
    ]
    times_s_BC[BOUND_NAMES.index("host")] += cost.host_s_C
    codes_C: IntArray = np.argmax(times_s_BC, axis=0)
    return codes_C


def step_bounds(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what binds most of the time of each phase of a breakdown, as table columns.

    Example:
        >>> from perfatlas.answer import step_bounds
        >>> step_bounds([{"phase": "decode", "bound": "memory", "time_s": 0.1}])
        {'decode_bound': 'memory'}
    """
    times_s: dict[str, dict[str, float]] = {}
    for row in rows:
        of_phase = times_s.setdefault(row["phase"].replace(" ", "_"), {})
        of_phase[row["bound"]] = of_phase.get(row["bound"], 0.0) + row["time_s"]
    return {
        f"{phase}_bound": max(BOUND_NAMES, key=lambda name: of_bound.get(name, -1.0))
        for phase, of_bound in times_s.items()
    }


def _tier(cost: StepCost, candidate: int, operator: int) -> str:
    return tier_name(
        calibrated=bool(
            cost.prices.match_CO[candidate, operator] >= 0
            or cost.prices.exceeds_bound()[candidate, operator]
        ),
        measured=bool(cost.prices.measured_CO[candidate, operator]),
    )


def match_versions(matches: Sequence[CalibrationMatch]) -> dict[str, str]:
    """Return the measured versions behind each calibration and correction table."""
    versions = {}
    for match in matches:
        fitted = match.calibration
        versions[fitted.id] = f"{fitted.data_version} {fitted.data_hash}"
        if match.table[0]:
            versions[f"{fitted.id} rows"] = " ".join(match.table)
    return versions


def price_columns(prices: PricedOperators) -> dict[str, list[Any]]:
    """Return the common results of a single operator, one value per candidate.

    Args:
        prices: Prices of one operator (C, 1), with the intervals of their calibrations.
    """
    calibrated = (prices.match_CO[:, 0] >= 0).tolist()
    measured, machine = prices.measured_CO[:, 0].tolist(), on_any_machine(prices)
    return {
        "time_s": prices.time_s_CO[:, 0].tolist(),
        "time_s_low": machine.low_s_CO[:, 0].tolist(),
        "time_s_high": _known(machine.high_s_CO[:, 0], calibrated),
        "tabulated_low_s": prices.low_s_CO[:, 0].tolist(),
        "tabulated_high_s": _known(prices.high_s_CO[:, 0], calibrated),
        "bound": [BOUND_NAMES[NAMED_BOUNDS[code]] for code in prices.code_CO[:, 0].tolist()],
        "bound_time_s": prices.bound_s_CO[:, 0].tolist(),
        "tier": [
            tier_name(calibrated=has_interval or above, measured=is_own)
            for has_interval, is_own, above in zip(
                calibrated, measured, prices.exceeds_bound()[:, 0].tolist(), strict=True
            )
        ],
    }


def _known(high_s_C: FloatArray, calibrated: Sequence[bool]) -> list[float | None]:
    """Return upper limits; a bound is a lower limit and has none."""
    pairs = zip(high_s_C.tolist(), calibrated, strict=True)
    return [high_s if has_interval else None for high_s, has_interval in pairs]


def single_row(
    name: str, phase: str, results: Mapping[str, Any], match: CalibrationMatch | None, stream: str
) -> dict[str, Any]:
    """Return the breakdown row of a single operator."""
    return {
        "name": name,
        "phase": phase,
        "count": 1.0,
        "time_s": results["time_s"],
        "share": 1.0,
        "hidden_time_s": 0.0,
        "bound": results["bound"],
        "bound_time_s": results["bound_time_s"],
        "tier": results["tier"],
        "calibration": None if match is None else match.calibration.id,
        "stream": stream,
    }


def single_evidence(
    system: System, match: CalibrationMatch | None, assumptions: Sequence[str], tier: str
) -> Evidence:
    """Return the evidence of a single operator."""
    return Evidence(
        tier=tier,
        calibrations=() if match is None else calibration_rows([match]),
        data_versions=match_versions([] if match is None else [match]),
        assumptions=tuple(dict.fromkeys((*assumptions, *(match.notes if match else ())))),
        sources=cited_sources(system),
        support="" if match is None else _kernel_support(system.device, match),
    )


def _kernel_support(device: Device, match: CalibrationMatch) -> str:
    """Return what supports a kernel: its own rows, those of a relative or engine, or a donor's."""
    here, related, extrapolated = SUPPORT
    if match.own:
        return here
    known = (device.name, *relatives_of(device))
    return related if match.calibration.device in known else extrapolated

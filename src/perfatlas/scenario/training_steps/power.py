"""Power, energy and electricity of training steps.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import answer, energy
from perfatlas.cost import METERED, PoolPrices, hourly_usd, prices_of
from perfatlas.inference import PER_KWH, metered_nodes, unused_meter_note
from perfatlas.quantities import HOUR_S, InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import number_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.training_steps.recipe import TrainInputs
    from perfatlas.training.step import TrainingQuestion, TrainingSteps

PRICED: Final = ("usd_per_gpu_hour", "pue", "usd_per_kwh")  # fields
FACILITY: Final = ("usd_per_gpu_hour", *PER_KWH)  # fields that are columns here
MILLION: Final = 1e6
PER_OUTPUT: Final = "_per_million_output_tokens"


def broken_limit(
    question: TrainingQuestion, steps: TrainingSteps, at: int
) -> PerfatlasError | None:
    """Return the error of a step whose power limit cannot be kept, None where it is."""
    lowest_w = float(steps.power.clock.lowest_w[at])
    if math.isnan(lowest_w):
        return None
    limit_w = float(steps.power.power.cap_w[at])
    name = "power_cap_w" if limit_w == question.power_cap_w else "device.tdp"
    return InvalidSpecError(
        f"{name} = {limit_w:g} W cannot be kept: at the lowest clock, {energy.lowest_clock():g} of"
        f" the sustained one, passes draw {lowest_w:.1f} W; set {name} to {math.ceil(lowest_w)} W"
        " or more"
    )


def power_rows(
    inputs: Sequence[TrainInputs], question: TrainingQuestion, steps: TrainingSteps
) -> list[dict[str, Any]]:
    """Return power, energy and electricity of each candidate, None for what is not known."""
    columns = _energy_columns(question, steps)
    rates = {"output_tokens_per_s_per_gpu": columns["tokens_per_s_per_gpu"]}
    own = number_columns(inputs, PER_KWH)
    nodes = [system.node for system in question.systems]
    rated = {**columns, **rates, "gpus": question.layouts.gpus}
    electric = metered_nodes(rated, (nodes, question.index_C), own)
    electric = {
        name.replace(PER_OUTPUT, "_per_million_tokens"): values_C
        for name, values_C in electric.items()
    }
    electric |= _costs(inputs, question, steps, electric["node_power_w"])
    del columns["tokens_per_s_per_gpu"]
    found = []
    for at in range(question.layouts.size):
        row: dict[str, Any] = {
            name: _known(float(column_C[at])) for name, column_C in (columns | electric).items()
        }
        row["energy_parts"] = _parts(question, steps, at)
        asked = {name: float(values_C[at]) for name, values_C in own.items()}
        dropped = [name for name in electric if not _asked(name, asked)]
        found.append({name: value for name, value in row.items() if name not in dropped})
    return found


def _prices(
    inputs: Sequence[TrainInputs], question: TrainingQuestion, node_power_w: FloatArray
) -> PoolPrices:
    """Return the prices of the GPUs of each candidate.

    Args:
        node_power_w: AC power of a node (C,) [W], NaN if unknown.
    """
    systems = [question.systems[at] for at in question.index_C.tolist()]
    asked = ([getattr(train_inputs, name) for train_inputs in inputs] for name in PRICED)
    prices, place_C = prices_of([system.name for system in systems], *asked)
    devices_C = np.array([system.node.devices for system in systems], np.float64)
    found = PoolPrices(prices, place_C, busy_w=node_power_w / devices_C)
    if not any(price.is_owned for price in prices):
        return found
    on_w = [(system.node, energy.board_energy(system.device).on_w) for system in systems]
    idle_w_C = np.array([energy.node_power(node).node_w(watts) for node, watts in on_w])
    return found._replace(idle_w=idle_w_C / devices_C)


def _costs(
    inputs: Sequence[TrainInputs],
    question: TrainingQuestion,
    steps: TrainingSteps,
    node_power_w: FloatArray,
) -> dict[str, FloatArray]:
    """Return the cost per hour and per million tokens with intervals, each (C,)."""
    gpus_C = question.layouts.gpus
    pools = [_prices(inputs, question, node_power_w)]
    found: dict[str, FloatArray] = {}
    times = (("", steps.step_s_C), ("_low", steps.low_s_C), ("_high", steps.high_s_C))
    for end, (suffix, step_s_C) in enumerate(times):
        hourly_C = hourly_usd(pools, end) * gpus_C
        per_token_C = step_s_C / question.layouts.tokens_per_step / HOUR_S
        found[f"usd_per_hour{suffix}"] = hourly_C
        found[f"usd_per_million_tokens{suffix}"] = hourly_C * per_token_C * MILLION
    return found


def _asked(name: str, given: Mapping[str, float]) -> bool:
    """Return whether a result of the node or the facility is asked for."""
    for result, field in METERED.items():
        if name.startswith(result):
            return math.isfinite(given[field])
    return name.startswith(("node", "usd")) or any(math.isfinite(value) for value in given.values())


def _energy_columns(question: TrainingQuestion, steps: TrainingSteps) -> dict[str, FloatArray]:
    """Return power and energies with their intervals, each (C,), NaN for unknown ends."""
    power, limits = steps.power, steps.power.power
    gpus_C, tokens_C = question.layouts.gpus, question.layouts.tokens_per_step
    times = {"": steps.step_s_C, "_low": steps.low_s_C, "_high": steps.high_s_C}
    watts = {end: power.power_w(time_s_C) for end, time_s_C in times.items()}
    low, high = energy.power_interval(limits.low, limits.high, power.width_j_C / power.step_j())
    most_w = np.minimum(high * watts["_low"], limits.cap_w)
    joules = {
        "": power.step_j(),
        "_low": np.maximum(low * watts["_low"], limits.idle_w) * times["_low"],
        "_high": np.minimum(high * watts["_high"], limits.cap_w) * times["_high"],
    }
    columns = {
        "tokens_per_s_per_gpu": tokens_C / gpus_C / steps.step_s_C,
        "power_w": watts[""],
        "power_w_low": np.maximum(low * watts["_high"], limits.idle_w),
        "power_w_high": np.maximum(most_w, watts[""]),
        "kernel_clock_ratio": power.clock.ratio,
    }
    for end, each_j_C in joules.items():
        columns[f"energy_per_step_j{end}"] = gpus_C * each_j_C
        columns[f"energy_per_token_j{end}"] = gpus_C * each_j_C / tokens_C
    return columns


def _parts(question: TrainingQuestion, steps: TrainingSteps, at: int) -> dict[str, float] | None:
    """Return the energy of a step over all GPUs by part, None where it is not known [J]."""
    gpus = float(question.layouts.gpus[at])
    parts = {name: gpus * float(part_C[at]) for name, part_C in steps.power.parts_j.items()}
    return None if any(math.isnan(value) for value in parts.values()) else parts


def power_notes(question: TrainingQuestion, steps: TrainingSteps) -> Iterator[str]:
    """Yield what the power of the first candidate rests on."""
    system = question.systems[int(question.index_C[0])]
    device = system.device
    yield from energy.board_energy(device).notes
    if optics := energy.optics_note(system.node):
        yield optics
    locked = None if question.clock_ratio == 1.0 else question.clock_ratio
    limit_w, ratio = float(steps.power.power.cap_w[0]), float(steps.power.clock.ratio[0])
    if causes := answer.clock_causes(device, limit_w, locked, zeros=False):
        known = question.tier != "bound" and math.isfinite(limit_w)
        yield answer.clock_note(
            device, causes, f"passes {ratio:.2f}", moved=ratio != 1.0, known=known
        )


def power_remarks(
    inputs: Sequence[TrainInputs], question: TrainingQuestion, steps: TrainingSteps
) -> list[list[str]]:
    """Return the remarks on the power and the system of each candidate."""
    found: list[list[str]] = [[] for _ in range(question.layouts.size)]
    clock, power = steps.power.clock, steps.power.power
    totals, at = steps.costs.totals, steps.costs.index_C
    dynamic_j_C = clock.energy_share * totals.chip_j[at] + totals.memory_j[at]
    watts_C = steps.power.on_w_C + dynamic_j_C / totals.time_s[at]
    locked_C = np.full(watts_C.size, question.clock_ratio)
    clocks = answer.LockedClocks("passes", locked_C, watts_C, power.cap_w)
    for index in np.flatnonzero(clocks.too_high()).tolist():
        found[index].append(clocks.note(index))
    readers = {*answer.STEPS, *answer.format_readers(*question.formats.names)}
    for position, system in enumerate(question.index_C.tolist()):
        own = readers | answer.collective_readers(
            question.systems[system], question.layouts.gpus[position]
        )
        found[position] += answer.unread_overrides(question.systems[system], own)
        node, board = (
            question.systems[system].node,
            energy.board_energy(question.systems[system].device),
        )
        if unknown := math.isnan(board.on_w):
            found[position].append(board.notes[0])
        given = {name: getattr(inputs[position], name) for name in PER_KWH}
        is_given = any(value is not None for value in given.values())
        if is_given and (unknown or math.isnan(energy.node_power(node).host_w)):
            found[position].append(unused_meter_note(node, given))
        if math.isfinite(question.power_cap_w) and question.power_cap_w > board.cap_w:
            name = question.systems[system].device.name
            found[position].append(
                energy.unreached_limit_note(name, question.power_cap_w, board.cap_w)
            )
    return found


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""The latency-energy curve of a deployment: lower clocks, or lower power limits of its GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.energy import board_energy, lowest_clock
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.resolution import read_scenario
from perfatlas.verbs.estimate.answer import estimate
from perfatlas.verbs.estimate.columns import memory_of
from perfatlas.verbs.estimate.table import NOT_OF_POINTS, estimate_table, simulated_points

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.answer import Answer

OVER: Final = ("clock_ratio", "power_cap_w")
ENERGY: Final = "energy_per_output_token_j"
POINTS: Final = 33  # clocks or limits that are tried


def clock_frontier(
    over: str, fields: Mapping[str, Any], progress: Callable[[str], None] | None = None
) -> Answer:
    """Return one point per clock or power limit, from the lowest to what changes nothing.

    Args:
        over: What is swept: clock_ratio, from the lowest clock of the model to the sustained one,
            or power_cap_w, from the lowest limit that can be kept to the TDP.
        fields: A scenario, without what is swept.
        progress: Receives lines about simulated points.

    Returns:
        An answer whose `frontier` has a row per point with the results of an estimate, in
        ascending order, and the point of the least energy per output token: at an end of the
        curve, or inside.

    Raises:
        InvalidSpecError: What is swept is unknown or given, or there are two pools.
        UnsupportedError: The device has no energies, or no point has an answer.
        PerfatlasError: The scenario is invalid.
    """
    scenario = read_scenario(dict(fields))
    if over not in OVER:
        raise InvalidSpecError(f"over = {over}: a frontier is over batch, {' or '.join(OVER)}")
    if scenario.mode == "disaggregated":
        raise InvalidSpecError(
            "mode = disaggregated is not supported by frontier; use mode = static or aggregated"
        )
    if over in scenario.model_fields_set:
        raise InvalidSpecError(
            f"{over} = {getattr(scenario, over):g} has no effect: the frontier sweeps it; remove"
            f" {over}, or run a single estimate"
        )
    given = scenario.model_dump(exclude_unset=True)
    first = estimate(**given)  # raises errors of the scenario itself
    if first.results[ENERGY] is None:
        raise UnsupportedError(
            f"a frontier over {over} needs the energies of the device, which are unknown; use a"
            " device of the generations in docs/models/power.md"
        )
    rows = _points(given, over, _largest(given, over), progress)
    best = min(rows, key=lambda row: (row[ENERGY], row[over]))
    place = "inside the curve" if rows[0] is not best is not rows[-1] else "at an end of the curve"
    note = f"the least energy per output token is {place}, at {over} = {best[over]:g}"
    evidence = replace(first.evidence, assumptions=(note, *first.evidence.assumptions))
    return replace(
        first,
        command="estimate --frontier",
        scenario={name: value for name, value in first.scenario.items() if name != over},
        results={
            "frontier": rows,
            f"least_{ENERGY}": best[ENERGY],
            f"least_energy_{over}": best[over],
        },
        breakdown=[],
        evidence=evidence,
    )


def _largest(given: Mapping[str, Any], over: str) -> float:
    """Return the sustained clock, or the TDP [W]."""
    if over == "clock_ratio":
        return 1.0
    placement = evaluate_one(read_scenario(dict(given)))[0].placement
    return float(board_energy(placement.systems[int(placement.index_C[0])].device).cap_w)


def _points(
    given: Mapping[str, Any], over: str, largest: float, progress: Callable[[str], None] | None
) -> list[dict[str, Any]]:
    """Return the rows of the points that can be kept, in ascending order.

    Raises:
        UnsupportedError: No point has an answer.
    """
    step = (1.0 - lowest_clock()) / (POINTS - 1)
    tried = [round(largest * (lowest_clock() + step * number), 6) for number in range(POINTS)]
    columns = estimate_table(
        {**{name: [value] * POINTS for name, value in given.items()}, over: tried},
        None if progress is None else simulated_points(progress),
    ).columns
    rows = []
    for position, value in enumerate(tried):
        if columns["error_code"][position]:
            continue
        row = {k: v[position] for k, v in columns.items() if k not in NOT_OF_POINTS}
        memory = memory_of(row)
        rows.append({over: value} | row | {"memory": memory})
    if not rows:
        raise UnsupportedError(
            f"no point of a frontier over {over} has an answer; the last one:"
            f" {columns['error'][-1]}"
        )
    return rows

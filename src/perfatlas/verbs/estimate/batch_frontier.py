"""The throughput-latency frontier of a deployment: batches from 1 to the maximum that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import AnsweredRun, flat_results
from perfatlas.declarations import signature_of
from perfatlas.energy import board_energy, lowest_clock
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.scenario.deployments import evaluate_one, memory_of
from perfatlas.scenario.resolution import planned_scenario, read_scenario
from perfatlas.verbs.estimate.answer import estimate
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
    rows = _clock_points(given, over, _largest(given, over), progress)
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


def _clock_points(
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


SWEPT: Final = ("batch", "concurrency")
LARGEST: Final = 65536  # sequences per replica; no engine runs more concurrently
POINTS_PER_ROUND: Final = 16
ONE_PLAN: Final = (
    "all points of the frontier use the plan that estimate chooses for these GPUs; set tp for"
    " another plan, or compare plans with perfatlas search"
)


@dataclass(frozen=True, kw_only=True)
class Frontier(AnsweredRun):
    """Points of a frontier, stored as rows of `frontier` in `results`."""

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Return the points as columns, each (P,)."""
        rows = [dict(flat_results(row)) for row in self.results["frontier"]]
        return {name: [row[name] for row in rows] for name in rows[0]}


@signature_of("estimate")
def frontier(
    *,
    over: str = "batch",
    progress: Callable[[str], None] | None = None,
    **fields: Any,  # noqa: ANN401 - the vocabulary is checked
) -> Frontier:
    """Return one point per batch size, from 1 to the maximum that fits and runs concurrently.

    All points use one plan. Where only a number of GPUs is stated it is the plan that `estimate`
    chooses for the other fields, not one for each batch; `search` compares plans.

    Args:
        over: batch, or what lowers the clock: clock_ratio or power_cap_w (`clock_frontier`).
        progress: Receives lines about simulated points.
        **fields: A scenario; `batch` (static) or `concurrency` (aggregated) is swept.

    Returns:
        An answer whose `frontier` has a row per batch with the results of an estimate, its `tier`
        and what binds most of its steps (`prefill_bound`, `decode_bound`), in ascending order; the
        last row is the maximum batch that fits (static), or beyond which requests only queue
        (aggregated).

    Raises:
        InvalidSpecError: The batch is given, or there are two pools.
        InfeasibleError: Not even one sequence fits.
        PerfatlasError: The scenario is invalid.
    """
    if over != "batch":
        return Frontier(answer=clock_frontier(over, fields, progress))
    scenario = read_scenario(fields)
    if scenario.mode == "disaggregated":
        raise InvalidSpecError(
            "mode = disaggregated is not supported by frontier, which sweeps the batch of one pool;"
            " use mode = static or aggregated"
        )
    for name in SWEPT:
        if name in scenario.model_fields_set:
            raise InvalidSpecError(
                f"{name} = {getattr(scenario, name)} has no effect: the frontier sweeps the batch;"
                f" remove {name}, or run a single estimate"
            )
    swept = "batch" if scenario.mode == "static" else "concurrency"
    given = scenario.model_dump(exclude_unset=True)
    first = estimate(**given)  # raises errors of the scenario itself
    planned = planned_scenario(scenario)
    rows = _points(planned.model_dump(exclude_unset=True), swept, progress)
    fields = {name: value for name, value in first.scenario.items() if name not in SWEPT}
    notes = first.evidence.assumptions
    if planned is not scenario:
        notes = (ONE_PLAN, *notes)
    answer = replace(
        first,
        evidence=replace(first.evidence, assumptions=notes),
        command="estimate --frontier",
        scenario=fields,
        results={"frontier": rows},
        breakdown=[],
    )
    return Frontier(answer=answer)


def _points(
    given: dict[str, Any], swept: str, tell: Callable[[str], None] | None
) -> list[dict[str, Any]]:
    """Return the rows of a frontier.

    Raises:
        InfeasibleError: Not even one sequence fits.
    """
    largest = LARGEST if swept == "batch" else _most_running(given)
    octave = sorted({min(round(2.0 ** (half / 2.0)), largest) for half in range(33)})
    rows = _fitting(given, swept, octave, tell)
    if not rows:
        raise InfeasibleError("not even one sequence fits")
    while rows[-1]["batch"] < largest:
        last, bad = rows[-1]["batch"], _next_size(octave, rows[-1]["batch"])
        if bad - last <= 1:
            break
        step = max((bad - last) // POINTS_PER_ROUND, 1)
        between = _fitting(given, swept, list(range(last + step, bad, step)), tell)
        if not between:
            octave = sorted({*octave, last + step})
            continue
        octave = sorted({*octave, between[-1]["batch"] + step})
        rows.append(between[-1])
    return rows


def _most_running(given: dict[str, Any]) -> int:
    """Return the maximum number of concurrently running requests of a deployment."""
    question, evaluation = evaluate_one(read_scenario({**given, "concurrency": LARGEST}))
    return min(int(evaluation.served[0] * question.plan.dp[0]), LARGEST)


def _next_size(sizes: list[int], above: int) -> int:
    return min(s for s in sizes if s > above)


def _fitting(
    given: dict[str, Any], swept: str, sizes: list[int], tell: Callable[[str], None] | None
) -> list[dict[str, Any]]:
    """Return the rows before the first size that does not fit."""
    if not sizes:
        return []
    table = {name: [value] * len(sizes) for name, value in given.items()}
    columns = estimate_table(
        {**table, swept: sizes}, None if tell is None else simulated_points(tell)
    ).columns
    rows = []
    for position, size in enumerate(sizes):
        if columns["error_code"][position]:
            break
        row = {k: v[position] for k, v in columns.items() if k not in NOT_OF_POINTS}
        memory = memory_of(row)
        rows.append({"batch": size} | row | {"memory": memory})
    return rows

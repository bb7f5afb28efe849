"""Frontiers of a deployment: throughput and latency over batches, energy over clocks or limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import AnsweredRun, flat_results
from perfatlas.declarations import signature_of
from perfatlas.energy import board_energy, lowest_clock
from perfatlas.networks import is_graph
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.scenario.deployments import evaluate_one, memory_of
from perfatlas.scenario.resolution import planned_scenario, read_scenario
from perfatlas.verbs.estimate.answer import (
    NOT_OF_POINTS,
    estimate,
    estimate_table,
    simulated_points,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.answer import Answer
    from perfatlas.scenario.fields import Scenario

BATCH: Final = "batch"
# fields that each frontier sweeps
OVER: Final = {
    BATCH: ("batch", "concurrency"),
    "clock_ratio": ("clock_ratio",),
    "power_cap_w": ("power_cap_w",),
}
ENERGY: Final = "energy_per_output_token_j"
POINTS: Final = 33  # clocks or limits that are tried
MAX_SEQUENCES: Final = 65536  # sequences per replica; no engine runs more concurrently
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


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """What is swept of a scenario."""

    given: Mapping[str, Any]  # Its other fields
    field: str
    label: str  # Its name in the points
    tell: Callable[[str], None] | None  # Receives lines about simulated points

    def points(self, values: list[Any]) -> list[dict[str, Any]]:
        """Return the results of an estimate with each value; failed points have only an error."""
        if not values:
            return []
        table = {name: [value] * len(values) for name, value in self.given.items()}
        progress = None if self.tell is None else simulated_points(self.tell)
        columns = estimate_table({**table, self.field: values}, progress).columns
        points = []
        for index, value in enumerate(values):
            if columns["error_code"][index]:
                points.append({"error": columns["error"][index]})
                continue
            row = {k: v[index] for k, v in columns.items() if k not in NOT_OF_POINTS}
            memory = memory_of(row)
            points.append({self.label: value} | row | {"memory": memory})
        return points


@signature_of("estimate")
def frontier(
    *,
    over: str = "batch",
    progress: Callable[[str], None] | None = None,
    **fields: Any,  # noqa: ANN401 - the vocabulary is checked
) -> Frontier:
    """Return one point per batch size, clock or power limit.

    Batches go from 1 to the maximum that fits and runs concurrently, clocks from the lowest of the
    model to the sustained one, power limits from the lowest that can be kept to the TDP.

    All points use one plan. Where only a number of GPUs is stated it is the plan that `estimate`
    chooses for the other fields, not one for each batch; `search` compares plans.

    Args:
        over: batch, or what lowers the clock: clock_ratio or power_cap_w.
        progress: Receives lines about simulated points.
        **fields: A scenario, without what is swept: `batch` (static) or `concurrency` (aggregated)
            for batches.

    Returns:
        An answer whose `frontier` has a row per point with the results of an estimate, its `tier`
        and what binds most of its steps (`prefill_bound`, `decode_bound`), in ascending order. Of
        batches the last row is the maximum that fits (static), or beyond which requests only queue
        (aggregated). Of clocks and limits it also has the point of the least energy per output
        token: at an end of the curve, or inside.

    Raises:
        InvalidSpecError: What is swept is unknown or given, or there are two pools.
        InfeasibleError: Not even one sequence fits.
        UnsupportedError: The device has no energies, or no clock or limit has an answer.
        PerfatlasError: The scenario is invalid.
    """
    scenario = read_scenario(fields)
    _check(scenario, over)
    given = scenario.given
    first = estimate(**given)  # raises errors of the scenario itself
    if over != BATCH:
        sweep = _Sweep(given=given, field=over, label=over, tell=progress)
        note, results = _least_energy(sweep, first)
        return _answer(first, over, results, (note,))
    planned = planned_scenario(scenario)
    sweep = _Sweep(
        given=planned.given,
        field="batch" if scenario.mode == "static" else "concurrency",
        label=BATCH,
        tell=progress,
    )
    notes = () if planned is scenario else (ONE_PLAN,)
    return _answer(first, over, {"frontier": _batches(sweep)}, notes)


def _check(scenario: Scenario, over: str) -> None:
    """Refuse a frontier of two pools, over an unknown field, or over one that is given."""
    if over not in OVER:
        *names, last = OVER
        raise InvalidSpecError(f"over = {over}: a frontier is over {', '.join(names)} or {last}")
    if is_graph(scenario.model):
        raise UnsupportedError(
            f"{scenario.model} is a graph of operators, which has no frontier; ask a table of"
            " batches: estimate --table"
        )
    if scenario.mode == "disaggregated":
        raise InvalidSpecError(
            "mode = disaggregated is not supported by frontier, which sweeps one pool; use mode ="
            " static or aggregated"
        )
    if scenario.feed_forward_system is not None:
        raise InvalidSpecError(
            f"feed_forward_system = {scenario.feed_forward_system} is not supported by frontier,"
            " which sweeps one machine; use a table of batches"
        )
    for name in OVER[over]:
        if name in scenario.fields_set:
            swept = "the batch" if over == BATCH else "it"
            raise InvalidSpecError(
                f"{name} = {getattr(scenario, name):g} has no effect: the frontier sweeps {swept};"
                f" remove {name}, or run a single estimate"
            )


def _answer(first: Answer, over: str, results: dict[str, Any], notes: tuple[str, ...]) -> Frontier:
    """Return a frontier with the scenario and the evidence of an estimate of it."""
    evidence = replace(first.evidence, assumptions=(*notes, *first.evidence.assumptions))
    answer = replace(
        first,
        command="estimate --frontier",
        scenario={n: value for n, value in first.scenario.items() if n not in OVER[over]},
        results=results,
        breakdown=[],
        evidence=evidence,
    )
    return Frontier(answer=answer)


def _least_energy(sweep: _Sweep, first: Answer) -> tuple[str, dict[str, Any]]:
    """Return the clocks or limits that can be kept and that of the least energy, with a note."""
    over = sweep.field
    if first.results[ENERGY] is None:
        raise UnsupportedError(
            f"a frontier over {over} needs the energies of the device, which are unknown; use a"
            " device of the generations in docs/models/power.md"
        )
    largest = 1.0
    if over == "power_cap_w":
        placement = evaluate_one(read_scenario(dict(sweep.given)))[0].placement
        device = placement.systems[int(placement.index_C[0])].device
        largest = float(board_energy(device).cap_w)
    step = (1.0 - lowest_clock()) / (POINTS - 1)
    tried = [round(largest * (lowest_clock() + step * number), 6) for number in range(POINTS)]
    points = sweep.points(tried)
    rows = [point for point in points if "error" not in point]
    if not rows:
        raise UnsupportedError(
            f"no point of a frontier over {over} has an answer; the last one: {points[-1]['error']}"
        )
    best = min(rows, key=lambda row: (row[ENERGY], row[over]))
    where = "inside the curve" if rows[0] is not best is not rows[-1] else "at an end of the curve"
    note = f"the least energy per output token is {where}, at {over} = {best[over]:g}"
    least = {f"least_{ENERGY}": best[ENERGY], f"least_energy_{over}": best[over]}
    return note, {"frontier": rows, **least}


def _batches(sweep: _Sweep) -> list[dict[str, Any]]:
    """Return the batches up to the largest that fits, two to each doubling."""
    largest = MAX_SEQUENCES if sweep.field == "batch" else _most_running(sweep.given)
    octave = sorted({min(round(2.0 ** (half / 2.0)), largest) for half in range(33)})
    rows = _fitting(sweep, octave)
    if not rows:
        raise InfeasibleError("not even one sequence fits")
    while rows[-1]["batch"] < largest:
        last = rows[-1]["batch"]
        bad = min(size for size in octave if size > last)
        if bad - last <= 1:
            break
        step = max((bad - last) // POINTS_PER_ROUND, 1)
        between = _fitting(sweep, list(range(last + step, bad, step)))
        octave.append((between[-1]["batch"] if between else last) + step)
        rows += between[-1:]
    return rows


def _fitting(sweep: _Sweep, sizes: list[int]) -> list[dict[str, Any]]:
    """Return the batches before the first that does not fit."""
    return list(takewhile(lambda point: "error" not in point, sweep.points(sizes)))


def _most_running(given: Mapping[str, Any]) -> int:
    """Return the maximum number of concurrently running requests of a deployment."""
    question, evaluation = evaluate_one(read_scenario({**given, "concurrency": MAX_SEQUENCES}))
    return min(int(evaluation.served[0] * question.plan.dp[0]), MAX_SEQUENCES)

"""The throughput-latency frontier of a deployment: batches from 1 to the maximum that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import AnsweredRun, flat_results
from perfatlas.declarations import signature_of
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.resolution import planned_scenario, read_scenario
from perfatlas.verbs.estimate.answer import estimate
from perfatlas.verbs.estimate.clock_frontier import clock_frontier
from perfatlas.verbs.estimate.columns import memory_of
from perfatlas.verbs.estimate.table import NOT_OF_POINTS, estimate_table, simulated_points

if TYPE_CHECKING:
    from collections.abc import Callable

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

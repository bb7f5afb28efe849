"""`estimate`: latencies, throughput and memory of scenarios, of one with a breakdown.

Shape legend: N rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.declarations import signature_of
from perfatlas.scenario.deployments import estimate_of, table_cells
from perfatlas.scenario.fields import rows_within_disputed_ends
from perfatlas.scenario.resolution import resolve
from perfatlas.verbs.estimate.metrics import EXPLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Table = Mapping[str, Sequence[Any]]


@signature_of("estimate")
def estimate(**fields: Any) -> Answer:  # noqa: ANN401 - the vocabulary is checked by its schema
    """Return the estimate of one inference scenario.

    Args:
        **fields: Names of the vocabulary: model, system, gpus, tp, engine, format, mode, batch,
            concurrency, isl, osl and others. In mode aggregated, and disaggregated with a
            concurrency, method auto simulates if prompts wait for each other, and otherwise uses
            closed forms.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and its KV cache do not fit.
        UnsupportedError: There is no model or data for the combination.

    Example:
        >>> from perfatlas.verbs.estimate import estimate
        >>> answer = estimate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", batch=8)
        >>> answer.results["tpot_s"] > answer.results["tpot_s_low"] > 0
        True
    """
    return estimate_of(fields)


@signature_of("estimate")
def explain(
    *,
    slo_ttft_s: float | None = None,
    slo_tpot_s: float | None = None,
    slo_request_latency_s: float | None = None,
    **fields: Any,  # noqa: ANN401 - the vocabulary is checked by its schema
) -> Answer:
    """Return an estimate with its sensitivities to the hardware.

    Args:
        slo_ttft_s: TTFT for which break-even values are sought [s].
        slo_tpot_s: TPOT for which they are sought [s].
        slo_request_latency_s: Request latency for which they are sought [s]. Without any of the
            three, TTFT and TPOT 10% below the prediction.
        **fields: A scenario, as for `estimate`.

    Returns:
        The answer of `estimate` with `sensitivity` (elasticities by metric and factor),
        `next_bottleneck` and `break_even`.

    Raises:
        InvalidSpecError: A target is invalid.
        PerfatlasError: As for `estimate`.

    Example:
        >>> from perfatlas.verbs.estimate import explain
        >>> answer = explain(model="meta-llama/Llama-3.1-8B", system="h200_sxm", tier="bound")
        >>> rows = answer.results["next_bottleneck"]
        >>> next(row["field"] for row in rows if row["metric"] == "tpot_s")
        'device.memory.bandwidth'
    """
    from perfatlas.studies import explained_estimate

    targets = {
        "ttft_s": slo_ttft_s,
        "tpot_s": slo_tpot_s,
        "request_latency_s": slo_request_latency_s,
    }
    given = {name: value for name, value in targets.items() if value is not None}
    return replace(explained_estimate(fields, given), command=EXPLAIN[0])


# columns of a table that the points of a frontier do not have
NOT_OF_POINTS: Final = ("error", "error_code")


@dataclass(frozen=True, kw_only=True)
class TableAnswer(AnsweredRun):
    """Answers of a table; `results` contains row counts."""

    # Result columns, `tier`, `prefill_bound` and `decode_bound` (what binds most of the step),
    # `warnings` of each row as one text, `error_code` and `error`; failed rows contain None (N,).
    # In tier bound, times are lower limits and rates are upper limits: the other end of their
    # interval is None. Numbers are kept as arrays.
    cells: dict[str, Sequence[Any]]

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The answers of all rows as columns of plain values, each (N,)."""
        return {name: list(cells) for name, cells in self.cells.items()}


def estimate_table(
    table: Mapping[str, Sequence[Any]], progress: Callable[[int, int], None] | None = None
) -> TableAnswer:
    """Return the estimates of all rows; failed rows contain their error.

    Args:
        table: Columns by name; names of the vocabulary are read, others are ignored. None, NaN
            and empty text mean "not given".
        progress: Called before each simulated row with how many of a block are simulated, and how
            many will be.

    Raises:
        InvalidSpecError: A column is not a list, or columns differ in length.

    Limits: A row that method simulate or auto simulates takes up to seconds where its steps have
        prices of their own (another plan, clock or limit), and some milliseconds otherwise; method
        formula answers 10,000 rows in seconds.

    Example:
        >>> from perfatlas.verbs.estimate import estimate_table
        >>> rows = {"model": ["meta-llama/Llama-3.1-8B"] * 2, "system": ["h200_sxm", "h2000"]}
        >>> estimate_table(rows).columns["error_code"]
        ['', 'invalid']
    """
    resolved = resolve(table)
    cells, counts = table_cells(resolved, progress)
    cells = rows_within_disputed_ends(
        lambda part: cells if part is table else table_cells(resolve(part), progress)[0], table
    )
    failed = int(resolved.refusals.refused.sum())
    answer = Answer(
        command="estimate --table",
        scenario={},
        results={
            "rows": resolved.size,
            "answered": resolved.size - failed,
            "failed": failed,
            **counts,
        },
        breakdown=[],
        evidence=Evidence(tier=""),
    )
    return TableAnswer(answer=answer, cells=cells)


def simulated_points(tell: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return the progress of a table whose rows are the points of a frontier.

    Args:
        tell: Receives a line before each simulated point.

    Example:
        >>> from perfatlas.verbs.estimate.answer import simulated_points
        >>> simulated_points(print)(0, 33)
        simulating 33 points, as prompts queue; method = formula leaves queues out and takes seconds
    """
    started_s = time.monotonic()

    def progress(done: int, count: int) -> None:
        nonlocal started_s
        if not done:
            started_s = time.monotonic()
            tell(
                f"simulating {count} points, as prompts queue; method = formula leaves queues out"
                " and takes seconds"
            )
            return
        left_s = (time.monotonic() - started_s) * (count - done) / done
        tell(f"{done} of {count} points simulated, about {left_s:.0f} s left")

    return progress

"""`estimate` for a table: one scenario per row, answered as columns.

Shape legend: N rows, C candidates of one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.parallelism import plan_problems
from perfatlas.quantities import (
    InfeasibleError,
    InvalidSpecError,
    PerfatlasError,
    format_quantity,
    shown,
)
from perfatlas.scenario import (
    FIELD_NAMES,
    Groups,
    Scenario,
    are_pools_simulated,
    is_simulated,
    pool_load,
    read_scenario,
    resolve_scenarios,
    split_pools,
    steady_state,
)
from perfatlas.serving.closed_form import (
    MEMORY,
    Evaluation,
    PoolRates,
    evaluate,
    memory_columns,
    plain_column,
    result_columns,
)
from perfatlas.verbs.estimate.remarks import LEAVES_OUT, pool_warnings, question_warnings

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario import Priced
    from perfatlas.step import Candidates


# closed forms that tell whether prompts wait for each other
WAITED: Final = ("ttft_s", "request_latency_s")


@dataclass(frozen=True, kw_only=True)
class TableAnswer:
    """Answers of a table.

    Args:
        columns: Result columns, then `warnings` of each row in one text, `error_code` and `error`;
            a failed row holds None (N,).
        rows_priced: Operator shapes priced by physics.
        distinct_shapes: Distinct ones among them; the rest were memo hits.
    """

    columns: dict[str, list[Any]]
    rows_priced: int
    distinct_shapes: int


def estimate_table(table: Mapping[str, Sequence[Any]]) -> TableAnswer:
    """Return the estimate of every row; a row that cannot be answered carries its reason.

    Args:
        table: Columns by name; names of the vocabulary are read, others are ignored. None, NaN
            and empty text are "not given".

    Raises:
        InvalidSpecError: A column is not a list, or columns differ in length.

    Limits: what method simulate or auto simulates is simulated row by row, some milliseconds each;
        10,000 rows in seconds are method formula.

    Example:
        >>> from perfatlas.verbs.estimate import estimate_table
        >>> rows = {"model": ["meta-llama/Llama-3.1-8B"] * 2, "system": ["h200_sxm", "h2000"]}
        >>> estimate_table(rows).columns["error_code"]
        ['', 'invalid']
    """
    names = [name for name in table if name in FIELD_NAMES]
    size = _rows(table)
    sink = _Sink(size)
    groups: dict[Hashable, list[tuple[int, Scenario]]] = {}
    keys = Groups()
    columns = [list(table[name]) for name in names]
    for row, values in enumerate(zip(*columns, strict=True) if names else [()] * size):
        try:
            given = {n: v for n, v in zip(names, values, strict=True) if not _absent(v)}
            scenario = read_scenario(given)
        except PerfatlasError as error:
            sink.refuse(row, error)
        else:
            groups.setdefault(keys.key(scenario), []).append((row, scenario))
    for members in groups.values():
        rows, scenarios = zip(*members, strict=True)
        if scenarios[0].mode == "disaggregated":
            _answer_pools(rows, scenarios, sink)
        else:
            _answer_group(rows, scenarios, sink)
    return sink.answer()


def _rows(table: Mapping[str, Sequence[Any]]) -> int:
    """Return the rows of a table whose columns are lists of one length."""
    lengths: dict[str, int] = {}
    for name, column in table.items():
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise InvalidSpecError(
                f"column {name!r} is {shown(column)}: expected a list with one value per row"
            )
        lengths[name] = len(column)
    if len(set(lengths.values())) > 1:
        raise InvalidSpecError(f"columns differ in length: {lengths}")
    return next(iter(lengths.values()), 0)


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN


class _Sink:
    """Collects results by row; grows a column when a group first brings it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.columns: dict[str, FloatArray] = {}
        self.errors: dict[int, PerfatlasError] = {}
        self.warnings: dict[int, tuple[str, ...]] = {}
        self.priced: Priced = {}
        self.rows_priced = 0
        self.distinct = 0

    def refuse(self, row: int, error: PerfatlasError) -> None:
        self.errors.setdefault(row, error)  # the first error is the one a single estimate raises

    def pass_on(
        self, rows: Sequence[int], errors: Sequence[PerfatlasError | str | None]
    ) -> list[int]:
        """Refuse the rows that have an error and return the others."""
        kept = []
        for row, error in zip(rows, errors, strict=False):
            if isinstance(error, PerfatlasError):
                self.refuse(row, error)
            else:
                kept.append(row)
        return kept

    def put(self, rows: Sequence[int], columns: Mapping[str, FloatArray]) -> None:
        index = np.array(rows, np.int64)
        for name, values in columns.items():
            if name not in self.columns:
                self.columns[name] = np.full(self.size, np.nan)
            self.columns[name][index] = values

    def count(self, evaluation: Evaluation) -> None:
        costs = [evaluation.prefill, evaluation.decode]
        if evaluation.last is not evaluation.prefill:
            costs.append(evaluation.last)
        for cost in costs:
            self.rows_priced += cost.prices.rows
            self.distinct += cost.prices.distinct

    def answer(self) -> TableAnswer:
        columns = {name: plain_column(name, values) for name, values in self.columns.items()}
        codes = [""] * self.size
        texts = [""] * self.size
        for row, error in self.errors.items():
            codes[row], texts[row] = error.error_code, str(error)
        said = ["; ".join(self.warnings.get(row, ())) for row in range(self.size)]
        columns |= {"warnings": said, "error_code": codes, "error": texts}
        return TableAnswer(
            columns=columns, rows_priced=self.rows_priced, distinct_shapes=self.distinct
        )


def _evaluated(
    rows: Sequence[int], scenarios: Sequence[Scenario], sink: _Sink
) -> tuple[list[int], Candidates, Evaluation] | None:
    """Return the rows that have legal plans with their numbers; refuse the others."""
    try:
        question, problems = resolve_scenarios(scenarios)
        kept = sink.pass_on(rows, problems)
        if question is None:
            return None
        sentences = plan_problems(question.model.architecture, question.plan)
        legal = [position for position, said in enumerate(sentences) if said is None]
        kept = sink.pass_on(kept, [s and InvalidSpecError(s) for s in sentences])
        if not legal:
            return None
        question = question.take(legal)
        evaluation = evaluate(question)
    except PerfatlasError as error:
        sink.pass_on([row for row in rows if row not in sink.errors], [error] * len(rows))
        return None
    sink.count(evaluation)
    return kept, question, evaluation


def _answer_group(rows: Sequence[int], scenarios: Sequence[Scenario], sink: _Sink) -> None:
    answered = _evaluated(rows, scenarios, sink)
    if answered is None:
        return
    kept, question, evaluation = answered
    memory = memory_columns(evaluation.memory)
    sink.put(kept, {f"memory_{name}": memory[name] for name in MEMORY})
    good = np.flatnonzero(evaluation.memory.fits)
    columns = result_columns(question, evaluation)
    sink.put([kept[g] for g in good], {name: v[good] for name, v in columns.items()})
    for position in np.flatnonzero(~evaluation.memory.fits).tolist():
        sink.refuse(kept[position], shortfall(evaluation, position))
    warned = question_warnings(question, evaluation)
    by_row = dict(zip(rows, scenarios, strict=True))
    for g in good.tolist():
        sink.warnings[kept[g]] = warned[g]
        formula = {name: float(columns[name][g]) for name in WAITED}
        if is_simulated(by_row[kept[g]], question.take([g]), formula):
            _simulate(kept[g], by_row[kept[g]], sink)


def _simulate(row: int, scenario: Scenario, sink: _Sink) -> None:
    """Put what a short simulation finds in place of closed forms."""
    try:
        found = steady_state(scenario, sink.priced).results
    except PerfatlasError as error:
        sink.refuse(row, error)
        return
    sink.warnings[row] = tuple(text.replace(LEAVES_OUT, "") for text in sink.warnings[row])
    values = {name: np.nan if value is None else value for name, value in found.items()}
    sink.put([row], {name: np.array([value], np.float64) for name, value in values.items()})


def _answer_pools(rows: Sequence[int], scenarios: Sequence[Scenario], sink: _Sink) -> None:
    """Answer disaggregated rows; pools of a group need not share formats' devices or plans."""
    pools = [split_pools(scenario) for scenario in scenarios]
    parts: dict[str, dict[int, tuple[Candidates, Evaluation, int]]] = {"prefill": {}, "decode": {}}
    for role, found in parts.items():
        own = [getattr(pool, role) for pool in pools]
        answered = _evaluated(rows, own, sink)
        if answered is None:
            return
        kept, question, evaluation = answered
        for position, row in enumerate(kept):
            if evaluation.memory.fits[position]:
                found[row] = (question, evaluation, position)
            else:
                sink.refuse(row, shortfall(evaluation, position))
    both = [r for r in rows if r in parts["prefill"] and r in parts["decode"]]
    if not both:
        return
    by_row = dict(zip(rows, scenarios, strict=True))
    rates = PoolRates(
        load=pool_load([by_row[r] for r in both]),
        prefill=_take(parts["prefill"], both),
        decode=_take(parts["decode"], both),
    )
    columns = rates.columns()
    sink.put(both, columns)
    memory = memory_columns(rates.decode[1].memory)
    sink.put(both, {f"memory_{name}": memory[name] for name in MEMORY})
    simulated = [
        are_pools_simulated(by_row[row], rates.prefill[0].take([place]), rates.prompt(place))
        for place, row in enumerate(both)
    ]
    sink.warnings |= zip(both, pool_warnings(rates, simulated), strict=True)
    for row, replaced in zip(both, simulated, strict=True):
        if replaced:
            _simulate(row, by_row[row], sink)


def _take(
    found: Mapping[int, tuple[Candidates, Evaluation, int]], rows: Sequence[int]
) -> tuple[Candidates, Evaluation]:
    question, evaluation, _ = found[rows[0]]
    positions = [found[r][2] for r in rows]
    return question.take(positions), evaluation.take(positions)


def shortfall(evaluation: Evaluation, candidate: int) -> InfeasibleError:
    """Return by how much a candidate does not fit; one estimate of it says what would fit."""
    memory = evaluation.memory
    need, have = float(memory.total_bytes[candidate]), float(memory.capacity_bytes[candidate])
    return InfeasibleError(
        f"does not fit: {format_quantity(need, 'B')} needed of {format_quantity(have, 'B')} usable"
        f" per GPU; the cache holds {memory.max_sequences[candidate]:g} sequences per"
        " attention-DP rank; an estimate of this row alone says what would fit"
    )

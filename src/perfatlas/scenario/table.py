"""`estimate` for a table: one scenario per row, answered as columns.

Shape legend: N rows, C candidates of one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfatlas.operators import FloatArray
from perfatlas.parallelism import plan_problems
from perfatlas.quantities import InfeasibleError, InvalidSpecError, PerfatlasError
from perfatlas.scenario.disaggregated import PoolRates, split_pools
from perfatlas.scenario.evaluate import Evaluation, evaluate, select
from perfatlas.scenario.memory import does_not_fit
from perfatlas.scenario.question import Question, group_key, resolve_question
from perfatlas.scenario.results import MEMORY, memory_columns, result_columns
from perfatlas.scenario.vocabulary import FIELD_NAMES, Scenario, parse_scenario


@dataclass(frozen=True, kw_only=True)
class TableAnswer:
    """Answers of a table.

    Args:
        columns: Result columns, `error_code` and `error` last; a failed row holds NaN (N,).
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

    Example:
        >>> from perfatlas.scenario import estimate_table
        >>> rows = {"model": ["meta-llama/Llama-3.1-8B"] * 2, "system": ["h200_sxm", "h2000"]}
        >>> estimate_table(rows).columns["error_code"]
        ['', 'invalid']
    """
    names = [name for name in table if name in FIELD_NAMES]
    size = len(next(iter(table.values()), []))
    sink = _Sink(size)
    groups: dict[tuple[str | None, ...], list[tuple[int, Scenario]]] = {}
    columns = [list(table[name]) for name in names]
    for row, values in enumerate(zip(*columns, strict=True) if names else [()] * size):
        try:
            given = {n: v for n, v in zip(names, values, strict=True) if not _absent(v)}
            scenario = parse_scenario(given)
        except PerfatlasError as error:
            sink.refuse(row, error)
        else:
            groups.setdefault(group_key(scenario), []).append((row, scenario))
    for members in groups.values():
        rows, scenarios = zip(*members, strict=True)
        if scenarios[0].mode == "disaggregated":
            _answer_pools(rows, scenarios, sink)
        else:
            _answer_group(rows, scenarios, sink)
    return sink.answer()


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN


class _Sink:
    """Collects results by row; grows a column when a group first brings it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.columns: dict[str, FloatArray] = {}
        self.errors: dict[int, PerfatlasError] = {}
        self.rows_priced = 0
        self.distinct = 0

    def refuse(self, row: int, error: PerfatlasError) -> None:
        self.errors[row] = error

    def put(self, rows: Sequence[int], columns: Mapping[str, FloatArray]) -> None:
        index = np.array(rows, np.int64)
        for name, values in columns.items():
            if name not in self.columns:
                self.columns[name] = np.full(self.size, np.nan)
            self.columns[name][index] = values

    def count(self, evaluation: Evaluation) -> None:
        for cost in (evaluation.prefill, evaluation.decode):
            self.rows_priced += cost.rows
            self.distinct += cost.distinct

    def answer(self) -> TableAnswer:
        columns: dict[str, list[Any]] = {n: v.tolist() for n, v in self.columns.items()}
        codes = [""] * self.size
        texts = [""] * self.size
        for row, error in self.errors.items():
            codes[row], texts[row] = error.error_code, str(error)
        columns |= {"error_code": codes, "error": texts}
        return TableAnswer(
            columns=columns, rows_priced=self.rows_priced, distinct_shapes=self.distinct
        )


def _evaluated(
    rows: Sequence[int], scenarios: Sequence[Scenario], sink: _Sink
) -> Iterator[tuple[list[int], Question, Evaluation]]:
    """Yield the rows that have legal plans with their numbers; refuse the others."""
    try:
        question, problems = resolve_question(scenarios)
    except PerfatlasError as error:
        for row in rows:
            sink.refuse(row, error)
        return
    kept = []
    for row, problem in zip(rows, problems, strict=True):
        if problem is None:
            kept.append(row)
        else:
            sink.refuse(row, problem)
    if question is None:
        return
    broken = plan_problems(question.model.architecture, question.plan)
    legal = []
    for position, sentence in enumerate(broken):
        if sentence is None:
            legal.append(position)
        else:
            sink.refuse(kept[position], InvalidSpecError(sentence))
    if not legal:
        return
    question = select(question, legal)
    try:
        evaluation = evaluate(question)
    except PerfatlasError as error:
        for position in legal:
            sink.refuse(kept[position], error)
        return
    sink.count(evaluation)
    yield [kept[position] for position in legal], question, evaluation


def _answer_group(rows: Sequence[int], scenarios: Sequence[Scenario], sink: _Sink) -> None:
    for kept, question, evaluation in _evaluated(rows, scenarios, sink):
        memory = memory_columns(evaluation)
        sink.put(kept, {f"memory_{name}": memory[name] for name in MEMORY})
        fits = np.asarray(evaluation.memory.fits, dtype=np.bool_)
        good = np.flatnonzero(fits)
        columns = result_columns(question, evaluation)
        sink.put([kept[g] for g in good], {name: v[good] for name, v in columns.items()})
        for position in np.flatnonzero(~fits).tolist():
            reason = does_not_fit(question, evaluation.memory, position)
            sink.refuse(kept[position], InfeasibleError(reason))


def _answer_pools(rows: Sequence[int], scenarios: Sequence[Scenario], sink: _Sink) -> None:
    """Answer disaggregated rows; pools of a group need not share formats' devices or plans."""
    pools = [split_pools(scenario) for scenario in scenarios]
    parts: dict[str, dict[int, tuple[Question, Evaluation, int]]] = {"prefill": {}, "decode": {}}
    for role, found in parts.items():
        own = [getattr(pool, role) for pool in pools]
        for kept, question, evaluation in _evaluated(rows, own, sink):
            for position, row in enumerate(kept):
                if evaluation.memory.fits[position]:
                    found[row] = (question, evaluation, position)
                else:
                    reason = does_not_fit(question, evaluation.memory, position)
                    sink.refuse(row, InfeasibleError(f"{role} worker: {reason}"))
    both = [r for r in rows if r in parts["prefill"] and r in parts["decode"]]
    if not both:
        return
    by_row = dict(zip(rows, scenarios, strict=True))
    rates = PoolRates(
        scenarios=tuple(by_row[r] for r in both),
        prefill=_take(parts["prefill"], both),
        decode=_take(parts["decode"], both),
    )
    sink.put(both, rates.columns())


def _take(
    found: Mapping[int, tuple[Question, Evaluation, int]], rows: Sequence[int]
) -> tuple[Question, Evaluation]:
    question, evaluation, _ = found[rows[0]]
    positions = [found[r][2] for r in rows]
    return select(question, positions), evaluation.take(positions)

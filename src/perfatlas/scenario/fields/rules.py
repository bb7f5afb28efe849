"""Fields without effect by their conditions, and the rows that are refused.

Shape legend: N rows, C and R some of them.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, Rule
from perfatlas.scenario.fields.columns import distinct_rows
from perfatlas.vocabulary.fields import is_set, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perfatlas.operators import IntArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.fields.columns import BoolArray, Columns
    from perfatlas.vocabulary.fields import Field, Missing
    from perfatlas.vocabulary.fields.conditions import Facts

    Reason = Callable[[int], PerfatlasError]

IDLE_POWER_RULE: Final[Rule[Columns]] = Rule(
    lambda c: c.numbers("idle_power_w") > c.numbers("power_w"),
    "idle_power_w = {idle_power_w:g} exceeds power_w = {power_w:g}, that of a GPU that computes",
    "set power_w to at least idle_power_w",
)


def without_effect(
    columns: Columns,
    derived: Mapping[str, Sequence[str]] | None = None,
    facts: Callable[[str, Mapping[str, Any]], Facts] | None = None,
) -> dict[int, PerfatlasError]:
    """Return the error of each row that sets a field which has no effect, by its condition.

    Defaults never count. A condition is evaluated once per distinct combination of what it reads.

    Args:
        derived: The fields that facts of conditions derive from, by fact.
        facts: Returns the facts for the condition of a field from the fields that it reads.
    """
    found: dict[int, dict[Missing, list[str]]] = {}
    for name, field in columns.known.items():
        needs = field.row.needs
        if needs is None or not columns.is_set_anywhere(name):
            continue
        column = columns[name]
        asked_V = np.array([_asks(field, value) for value in column.values])
        rows = np.flatnonzero(asked_V[column.codes_N])
        keys = [key for fact in needs.reads for key in (derived or {}).get(fact, (fact,))]
        read = [key for key in dict.fromkeys(keys) if key in columns.known]
        codes = [columns[key].value_codes[rows] for key in read] or [np.zeros_like(rows)]
        for members in distinct_rows(codes).members() if rows.size else ():
            values = columns.at(int(rows[members[0]]), read)
            missing = needs.missing(values, facts(name, values) if facts else {})
            if missing is not None and not missing.is_noted:
                for row in rows[members].tolist():
                    found.setdefault(row, {}).setdefault(missing, []).append(name)
    return {
        row: InvalidSpecError(no_effect_sentence(columns.at(row, names), missing))
        for row, by_reason in found.items()
        for missing, names in [next(iter(by_reason.items()))]
    }


def refuse_unused(
    values: Mapping[str, Any],
    fields: Mapping[str, Field],
    facts: Facts | None = None,
    *,
    others: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Refuse fields that are set to a non-default value and whose condition is not met.

    Args:
        values: Typed values of all fields, by name.
        facts: Derived facts by name: each returns what is missing, or None if it holds.
        others: Values of questions to compare with; a field has an effect if one of them reads it.

    Raises:
        InvalidSpecError: A field has no effect; the message gives the reason and the remedy. Fields
            with the same reason are listed together.

    Example:
        >>> from perfatlas.scenario.fields import refuse_unused
        >>> from perfatlas.vocabulary.fields import SIMULATED, fields_of
        >>> values = {"max_replicas": None, "start_up_s": 30.0}
        >>> refuse_unused(values, fields_of(*SIMULATED))
        Traceback (most recent call last):
        perfatlas.quantities.errors.InvalidSpecError: start_up_s = 30 has no effect here:...
    """
    for sentence in _sentences(values, fields, facts or {}, others, noted=False):
        raise InvalidSpecError(sentence)


def unused_warnings(
    values: Mapping[str, Any],
    fields: Mapping[str, Field],
    facts: Facts | None = None,
) -> list[str]:
    """Return a sentence for the fields whose missing effect an answer notes.

    Args:
        values: Typed values of all fields, by name.
        facts: Derived facts by name; conditions on others count as met.

    Example:
        >>> from perfatlas.scenario.fields import unused_warnings
        >>> from perfatlas.vocabulary.fields import SparePool, fields_of
        >>> unused_warnings({"warm": True, "spares": 0}, fields_of(SparePool))
        ['warm = true has no effect here: spares = 0; set another spares, or leave warm out']
    """
    known = defaultdict(_met, facts or {})
    return list(_sentences(values, fields, known, (), noted=True))


def _met() -> Callable[[], Missing | None]:
    """Return a fact that holds."""
    return lambda: None


def _sentences(
    values: Mapping[str, Any],
    fields: Mapping[str, Field],
    facts: Facts,
    others: Sequence[Mapping[str, Any]],
    *,
    noted: bool,
) -> Iterator[str]:
    """Yield a sentence for the fields that miss the same; those noted, or those refused."""
    found: dict[Missing, dict[str, Any]] = {}
    for name, field in fields.items():
        if field.row.needs is None or (not others and values.get(name) == field.default):
            continue
        missing = _missing(field, (values, *others), facts)
        if missing is not None and missing.is_noted == noted:
            given = _first_setting(field, (values, *others)) or {}
            found.setdefault(missing, {})[name] = given.get(name)
    for missing, given in found.items():
        yield no_effect_sentence(given, missing)


def no_effect_sentence(given: Mapping[str, Any], missing: Missing) -> str:
    """Return the message that fields have no effect, with reason and remedy.

    Args:
        missing: What they miss.
    """
    listed = _listed([f"{name} = {value_text(value)}" for name, value in given.items()])
    has = "has" if len(given) == 1 else "have"
    remedy = f"{missing.remedy}, or " if missing.remedy else ""
    return f"{listed} {has} no effect here: {missing.why}; {remedy}leave {_listed(list(given))} out"


def _missing(
    field: Field,
    questions: Sequence[Mapping[str, Any]],
    facts: Facts,
) -> Missing | None:
    """Return what a field misses in every question, None if one reads it."""
    first, needs = _first_setting(field, questions), field.row.needs
    if first is None or needs is None:
        return None
    if any(needs.missing(question, facts) is None for question in questions):
        return None
    return needs.missing(first, facts)


def _first_setting(
    field: Field, questions: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the first question that sets a field to a non-default value."""
    asking = (question for question in questions if _asks(field, question.get(field.name)))
    return next(asking, None)


def _asks(field: Field, value: object) -> bool:
    return (is_set(value) or value is False) and value != field.default


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


ANSWERED: Final = 99  # stage of accepted rows


class Refusals:
    """Refused rows and their reasons.

    Each reason has a stage: the earliest counts, and the first one within a stage, so that a row
    gets the same error as a single estimate of it.
    """

    def __init__(self, size: int) -> None:
        """Start with all rows accepted."""
        self._stage_N = np.full(size, ANSWERED, np.int64)
        self._reason_N = np.zeros(size, np.int64)
        self._reasons: list[Reason] = []

    @property
    def refused(self) -> BoolArray:
        """Whether each row is refused (N,)."""
        refused_N: BoolArray = self._stage_N < ANSWERED
        return refused_N

    def kept(self, rows_C: IntArray, stage: int) -> BoolArray:
        """Return whether rows are accepted up to a stage (C,)."""
        kept_C: BoolArray = self._stage_N[rows_C] > stage
        return kept_C

    def refuse(self, rows_R: IntArray, reason: Reason, stage: int = 0) -> None:
        """Refuse rows for a reason."""
        rows_R = rows_R[self._stage_N[rows_R] > stage]
        if rows_R.size:
            self._stage_N[rows_R] = stage
            self._reason_N[rows_R] = len(self._reasons)
            self._reasons.append(reason)

    def refuse_by(
        self,
        rules: Iterable[Rule[Any]],
        rows: Any,  # noqa: ANN401 - what the rules read
        rows_C: IntArray,
        stage: int,
    ) -> None:
        """Refuse those of some rows that contradict rules.

        Args:
            rows: What the rules read, of all rows (N).
        """
        for rule in rules:
            refused_C = rows_C[rule.refused(rows)[rows_C]]
            self.refuse(refused_C, partial(rule.broken_by, rows), stage)

    def refuse_each(self, problems: Mapping[int, PerfatlasError], stage: int = 0) -> None:
        """Refuse rows for errors of their own, by row."""
        for row, problem in problems.items():
            self.refuse(np.array([row]), always(problem), stage)

    def error(self, row: int) -> PerfatlasError:
        """Return the error of a refused row."""
        reason = self._reasons[int(self._reason_N[row])]
        return reason(row)

    def raise_first(self) -> None:
        """Raise the error of the first refused row, if there is any."""
        for row in self.rows():
            raise self.error(row)

    def rows(self) -> list[int]:
        """Return the indices of the refused rows."""
        positions: list[int] = np.flatnonzero(self.refused).tolist()
        return positions


def always(error: PerfatlasError) -> Reason:
    """Return the reason of rows that share an error."""
    return lambda _: error

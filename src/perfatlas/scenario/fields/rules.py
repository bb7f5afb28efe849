"""Rules as rows: a mask over columns, a message and a remedy, and the evaluator of all of them.

Shape legend: N rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields.columns import distinct_rows
from perfatlas.scenario.fields.unused import asks, no_effect_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.fields.columns import BoolArray, Columns
    from perfatlas.vocabulary.fields import Missing

    Facts = Mapping[str, Callable[[], Missing | None]]


class Rule(NamedTuple):
    """What some rows of a table must not be."""

    applies: Callable[[Columns], BoolArray]  # Which rows break it (N,)
    # A sentence with fields to fill in, such as "prefix = {prefix}", or what makes it of the fields
    message: str | Callable[[Mapping[str, Any]], str]
    remedy: str = ""  # What to change, with fields to fill in
    error: type[PerfatlasError] = InvalidSpecError

    def broken_by(self, fields: Mapping[str, Any]) -> PerfatlasError:
        """Return the error of a row.

        Args:
            fields: Its fields by name.
        """
        if not isinstance(self.message, str):
            return self.error(self.message(fields))
        template = "; ".join(filter(None, (self.message, self.remedy)))
        return self.error(template.format_map(fields))


def broken_rules(rules: Iterable[Rule], columns: Columns) -> dict[int, PerfatlasError]:
    """Return the error of each row that breaks a rule, by the first that it breaks.

    Example:
        >>> from perfatlas.scenario.fields import Rule, Scenario, broken_rules
        >>> table = {"model": ["m"] * 2, "system": ["s"] * 2, "batch": [1, 8]}
        >>> most = Rule(lambda c: c.numbers("batch") > 4, "batch = {batch} exceeds 4")
        >>> broken_rules([most], Scenario.read_table(table)[0])
        {1: InvalidSpecError('batch = 8 exceeds 4')}
    """
    found: dict[int, PerfatlasError] = {}
    for rule in rules:
        for row in np.flatnonzero(rule.applies(columns)).tolist():
            if row not in found:
                found[row] = rule.broken_by(columns.at(row, columns.known))
    return found


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
        asked_V = np.array([asks(field, value) for value in column.values])
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
        for missing, names in list(by_reason.items())[:1]
    }

"""User input, validated against the table of fields."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from perfatlas import files, quantities
from perfatlas.hardware import slice_chips
from perfatlas.quantities import InvalidSpecError, PerfatlasError, did_you_mean, repr_for_error
from perfatlas.scenario.fields.columns import (
    Columns,
    FieldColumn,
    constant_column,
    distinct,
    distinct_cells,
    is_absent,
    read_columns,
    unset,
)
from perfatlas.scenario.fields.rules import without_effect
from perfatlas.vocabulary.fields import FeedForward, canonical_name, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.scenario.fields.columns import Table
    from perfatlas.vocabulary.fields import Field


# fields that state the GPUs, or divide a deployment, so that the name of a slice does not
GPUS_STATED: Final = frozenset(
    (
        *("gpus", "max_gpus", "nodes", "dp", "prefill_workers", "decode_workers"),
        "feed_forward_system",
    )
)


def input_rows(given: Any, name: str, wanted: str, most: int) -> tuple[Sequence[Any], str]:  # noqa: ANN401 - whatever a person wrote
    """Return unchecked rows, and a description of their origin.

    Args:
        given: A list, JSON text that starts with [ or {, or a path to CSV, Parquet or JSON Lines.
        wanted: Description of the expected value, such as "a list of events".
    """
    where, rows = name, given
    if isinstance(given, str) and given.lstrip().startswith(("[", "{")):
        try:
            rows = json.loads(given, object_pairs_hook=_each_once)
        except RecursionError:
            raise InvalidSpecError(f"{name} is JSON nested too deeply to be read") from None
        except ValueError as problem:  # including a number with too many digits
            raise InvalidSpecError(f"{name} is not JSON: {problem}") from None
    elif isinstance(given, str):
        where = given
        rows = _rows_of(given)
    if not isinstance(rows, (list, tuple)) or len(rows) > most:
        raise InvalidSpecError(
            f"{name} = {repr_for_error(str(given))}: expected a file, or {wanted}"
        )
    return rows, where


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, refused if a key is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"{twice!r} is set twice")
    return found


def _rows_of(path: str) -> Sequence[Any]:
    """Return the rows of a file, without empty cells."""
    table = files.read_table(path)
    columns = {name: table.cells(name) for name in table.columns}
    return [
        {name: cells[index] for name, cells in columns.items() if cells[index] not in (None, "")}
        for index in range(table.rows)
    ]


class InputFields:
    """Input fields of a verb; subclasses add groups of the table of fields.

    All fields are attributes: typed values, or the default of the field.
    """

    __slots__ = ("fields_set",)
    # Readers of fields that the table cannot read, by name
    readers: ClassVar[Mapping[str, Callable[[object], Any]]] = {}
    rules: ClassVar[Sequence[quantities.Rule[Columns]]] = ()  # What `ask` and `checked` refuse

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Store typed values of the fields that are set."""
        self.fields_set = frozenset(values)
        vars(self).update(_defaults((type(self),)))
        vars(self).update(values)

    @classmethod
    def fields(cls) -> Mapping[str, Field]:
        """Return the fields by name."""
        return fields_of(cls)

    @property
    def values(self) -> Mapping[str, Any]:
        """All fields with their values, by name."""
        return vars(self)

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are set, and not to None, with their values, by name."""
        values = vars(self)
        return {
            name: values[name]
            for name in _defaults((type(self),))
            if name in self.fields_set and values[name] is not None
        }

    def changed(self, **values: Any) -> Self:  # noqa: ANN401 - values of fields
        """Return the same fields with some set to other typed values."""
        found = copy(self)
        found.fields_set = self.fields_set.union(values)
        vars(found).update(values)
        return found

    @classmethod
    def completed(cls, raw: dict[str, FieldColumn], size: int) -> dict[str, FieldColumn]:
        """Return raw columns with what others imply.

        A system that names a slice, such as v5p-128, states the GPUs where no field does.

        Args:
            size: Number of rows.
        """
        if "gpus" not in cls.fields() or "system" not in raw:
            return raw
        system = raw["system"]
        chips = [_chips(name) for name in system.values]
        if not any(chips):
            return raw
        named_N = np.array([chip is not None for chip in chips])[system.codes_N]
        for name in GPUS_STATED.intersection(raw):
            named_N &= ~raw[name].is_set
        of_slice = FieldColumn(
            values=(None, *chips), codes_N=np.where(named_N, system.codes_N + 1, 0)
        )
        return {**raw, "gpus": raw.get("gpus", unset(size)).overridden_by(of_slice)}

    @classmethod
    def read_table(cls, table: Table) -> tuple[Columns, dict[int, PerfatlasError]]:
        """Return a table as typed columns, and why rows cannot be read, by row."""
        raw, size = distinct_cells(table, cls.fields())
        return read_columns(cls.completed(raw, size), size, cls.fields(), cls.readers)

    @classmethod
    def ask_table(cls, table: Table) -> tuple[Columns, dict[int, PerfatlasError]]:
        """Return a table as typed columns, and why rows cannot be answered, by row.

        Rows are refused that cannot be read, set a field without effect, or contradict a rule;
        fields that nothing knows are ignored.
        """
        columns, problems = cls.read_table(table)
        broken = quantities.broken_rules(cls.rules, columns)
        return columns, broken | without_effect(columns) | problems

    @classmethod
    def ask(cls, fields: Mapping[str, Any]) -> Self:
        """Return `read` of fields that all have an effect and contradict no other.

        Raises:
            InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another,
                or has no effect.
        """
        question = cls.read(fields)
        columns = columns_of([question])
        for problem in without_effect(columns).values():
            raise problem
        quantities.refuse_broken(cls.rules, columns)
        return question

    def checked(self) -> Self:
        """Return the same fields, which must contradict no rule."""
        quantities.refuse_broken(self.rules, columns_of([self]))
        return self

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return named fields as a table of one row; None and empty text count as unset.

        Raises:
            InvalidSpecError: A name is unknown or missing, or a value is invalid; all problems are
                listed.
        """
        known = cls.fields()
        given = {
            name: value
            for name, value in fields.items()
            if value is not None and not (isinstance(value, str) and not value.strip())
        }
        raw = cls.completed(
            {name: constant_column(1, given[name]) for name in given if name in known}, 1
        )
        columns, problems = read_columns(raw, 1, known, cls.readers)
        unknown = [_unknown_field(name, tuple(known)) for name in given if name not in known]
        if unknown:
            raise InvalidSpecError("; ".join((*map(str, problems.values()), *unknown)))
        for problem in problems.values():
            raise problem
        return cls(columns.given(0))


def columns_of(rows: Sequence[InputFields]) -> Columns:
    """Return the fields of questions of one kind as columns.

    Args:
        rows: One or more (N).
    """
    known = rows[0].fields()
    names = dict.fromkeys(name for row in rows for name in row.given)
    if len(rows) == 1:
        raw = {name: constant_column(1, getattr(rows[0], name)) for name in names}
    else:
        raw = {name: distinct([row.given.get(name) for row in rows]) for name in names}
    fields = {
        name: replace(column, values=(known[name].default, *column.values[1:]))
        for name, column in raw.items()
    }
    return Columns(len(rows), known, fields)


def _chips(system: object) -> int | None:
    """Return the chips of a slice; None for other systems, and names that are refused later."""
    with suppress(PerfatlasError):
        return slice_chips(system)
    return None


@cache
def _defaults(schema: tuple[type, ...]) -> dict[str, Any]:
    return {name: field.default for name, field in fields_of(*schema).items()}


def unknown_fields(table: Table, columns: Columns) -> dict[int, PerfatlasError]:
    """Return the error of each row that sets a field which nothing knows."""
    found: dict[int, PerfatlasError] = {}
    for name in table:
        if name not in columns.known:
            unknown = InvalidSpecError(_unknown_field(name, tuple(columns.known)))
            rows = (row for row, cell in enumerate(table[name]) if not is_absent(cell))
            found = dict.fromkeys(rows, unknown) | found
    return found


def _unknown_field(name: str, names: Sequence[str]) -> str:
    """Return that no field has a name, with what it may mean."""
    if name in fields_of(FeedForward):
        return (
            f"{name} applies only to compare, estimate and simulate: plans whose layers are split"
            " over two machines are not searched"
        )
    ours = canonical_name(name, names)
    hint = f"; perfatlas calls it {ours!r}" if ours else did_you_mean(name, names)
    return f"unknown field {name!r}{hint}"

"""Fields as columns: distinct values, read once each, and a code per row.

Shape legend: N rows, C some of them, V distinct values of a field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas import files
from perfatlas.quantities import InvalidSpecError, PerfatlasError, repr_for_error
from perfatlas.vocabulary.fields import canonical_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.vocabulary.fields import Field

BoolArray = NDArray[np.bool_]
Table = Mapping[str, Sequence[Any]]
MAX_KEYS: Final = 1 << 31  # products of two are 64-bit integers
NOT_GIVEN: Final = 0  # code of rows that do not set a field


class Distinct(NamedTuple):
    """Distinct combinations of codes."""

    first_U: IntArray  # First row of each combination, ascending (U,)
    codes_N: IntArray  # Combination of each row (N,)

    def members(self) -> list[IntArray]:
        """Return the rows of each combination, ascending."""
        if self.codes_N.size == 1:
            return [self.first_U]
        order_N = np.argsort(self.codes_N, kind="stable")
        sizes_U = np.bincount(self.codes_N, minlength=self.first_U.size)
        return np.split(order_N, np.cumsum(sizes_U)[:-1])


def distinct_rows(codes: Sequence[IntArray]) -> Distinct:
    """Return the distinct combinations of several code columns, in order of their first rows.

    Args:
        codes: Columns of codes from 0, each (N,).
    """
    if codes[0].size <= 1:
        zero = np.zeros(codes[0].size, np.int64)
        return Distinct(zero, zero)
    key_N, sizes = codes[0], int(codes[0].max()) + 1
    for more_N in codes[1:]:
        most = int(more_N.max()) + 1
        if sizes * most > MAX_KEYS:
            _, key_N = np.unique(key_N, return_inverse=True)
            sizes = int(key_N.max()) + 1
        key_N, sizes = key_N * most + more_N, sizes * most
    _, first_U, codes_N = np.unique(key_N, return_index=True, return_inverse=True)
    order_U = np.argsort(first_U)
    rank_U = np.argsort(order_U)
    return Distinct(first_U[order_U], rank_U[codes_N.reshape(-1)])


@dataclass(frozen=True, kw_only=True)
class FieldColumn:
    """One field of all rows."""

    values: tuple[Any, ...]  # Distinct values (V); the first is the default
    codes_N: IntArray  # Index of each row's value (N,)

    @cached_property
    def is_set(self) -> BoolArray:
        """Whether the field is set (N,)."""
        given_N: BoolArray = self.codes_N != NOT_GIVEN
        return given_N

    @cached_property
    def numbers(self) -> FloatArray:
        """The values as numbers (N,), NaN for None."""
        numbers_N: FloatArray = np.array(self.values, np.float64)[self.codes_N]
        return numbers_N

    def plain(self) -> list[Any]:
        """Return the value of each row (N)."""
        return [self.values[code] for code in self.codes_N.tolist()]

    @cached_property
    def value_codes(self) -> IntArray:
        """Codes (N,) that are equal for equal values, whether set or default."""
        first: dict[Any, int] = {}
        same_V = [first.setdefault(value, code) for code, value in enumerate(self.values)]
        codes_N: IntArray = np.array(same_V, np.int64)[self.codes_N]
        return codes_N

    @property
    def differs(self) -> BoolArray:
        """Whether the field has another value than its default (N,)."""
        differs_N: BoolArray = self.value_codes != NOT_GIVEN
        return differs_N

    def equals(self, word: str) -> BoolArray:
        """Return whether the field has a value (N,)."""
        equal_V = np.array([isinstance(v, str) and v == word for v in self.values])
        equal_N: BoolArray = equal_V[self.codes_N]
        return equal_N

    def overridden_by(self, own: FieldColumn) -> FieldColumn:
        """Return this column with values replaced by another column's where that is set."""
        moved_N = own.codes_N + len(self.values) - 1
        return FieldColumn(
            values=self.values + own.values[1:],
            codes_N=np.where(own.is_set, moved_N, self.codes_N),
        )


class Columns:
    """All fields of some questions as columns (N,)."""

    def __init__(
        self, size: int, known: Mapping[str, Field], fields: Mapping[str, FieldColumn]
    ) -> None:
        """Store the columns that are set; others have the defaults of the known fields."""
        self.size = size
        self.known = known
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> FieldColumn:
        """Return the column of a field."""
        if name not in self._fields:
            codes_N = np.full(self.size, NOT_GIVEN, np.int64)
            self._fields[name] = FieldColumn(values=(self.known[name].default,), codes_N=codes_N)
        return self._fields[name]

    def numbers(self, name: str, missing: float = np.nan) -> FloatArray:
        """Return a field as numbers (N,).

        Args:
            missing: Value if it is unset and has no default.
        """
        numbers_N = self[name].numbers
        filled_N: FloatArray = np.where(np.isnan(numbers_N), missing, numbers_N)
        return filled_N

    def is_set(self, name: str) -> BoolArray:
        """Return whether a field is set (N,)."""
        return self[name].is_set

    def is_set_anywhere(self, name: str) -> bool:
        """Return whether a field is set in any row."""
        column = self._fields.get(name)
        return column is not None and bool(column.is_set.any())

    def equals(self, name: str, word: str) -> BoolArray:
        """Return whether a field has a value (N,)."""
        return self[name].equals(word)

    def at(self, row: int, names: Iterable[str]) -> dict[str, Any]:
        """Return some fields of one row."""
        found = {}
        for name in names:
            column = self[name]
            value = column.values[column.codes_N[row]]
            whole = isinstance(value, float) and self.known[name].type is int
            found[name] = int(value) if whole else value
        return found

    def row(self, row: int) -> Row:
        """Return the fields of one row, each read when it is asked for."""
        return Row(self, row)

    def given(self, row: int) -> dict[str, Any]:
        """Return the fields that one row sets."""
        names = [name for name, column in self._fields.items() if column.codes_N[row] != NOT_GIVEN]
        return self.at(row, names)

    def take(self, rows_C: IntArray) -> Columns:
        """Return some rows."""
        fields = {
            name: FieldColumn(values=column.values, codes_N=column.codes_N[rows_C])
            for name, column in self._fields.items()
            if len(column.values) > 1
        }
        return Columns(rows_C.size, self.known, fields)

    def changed(self, changes: Mapping[str, FieldColumn]) -> Columns:
        """Return the same rows with some columns replaced."""
        return Columns(self.size, self.known, self._fields | dict(changes))


class Row(Mapping[str, Any]):
    """The fields of one row."""

    def __init__(self, columns: Columns, row: int) -> None:
        """Store where they are."""
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - values of every type
        """Return the value of a field."""
        return self._columns.at(self._row, (name,))[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all fields."""
        return iter(self._columns.known)

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self._columns.known)


def constant_column(size: int, value: object) -> FieldColumn:
    """Return a column with the same value in all rows."""
    return FieldColumn(values=(None, value), codes_N=np.ones(size, np.int64))


def number_column(numbers_N: FloatArray) -> FieldColumn:
    """Return a column of derived numbers; all count as set."""
    distinct_V, codes_N = np.unique(numbers_N, return_inverse=True)
    return FieldColumn(values=(None, *distinct_V.tolist()), codes_N=codes_N.reshape(-1) + 1)


def unset(size: int) -> FieldColumn:
    """Return a column that no row sets, and that has no default."""
    return FieldColumn(values=(None,), codes_N=np.full(size, NOT_GIVEN, np.int64))


def distinct_cells(table: Table, known: Mapping[str, Field]) -> tuple[dict[str, FieldColumn], int]:
    """Return the columns of a table that are fields, with raw values, and its number of rows.

    Args:
        table: Columns by name; unknown names are ignored, names of other tools are refused. None,
            NaN and empty text count as unset.
    """
    size = _rows(table)
    missing = [name for name in known if name not in table]
    for name in table:
        if name not in known and (ours := canonical_name(str(name), missing)):
            raise InvalidSpecError(f"column {name!r} would be ignored; perfatlas calls it {ours!r}")
    return {name: distinct(table[name]) for name in table if name in known}, size


def read_columns(
    raw: Mapping[str, FieldColumn],
    size: int,
    known: Mapping[str, Field],
    readers: Mapping[str, Callable[[object], Any]],
) -> tuple[Columns, dict[int, PerfatlasError]]:
    """Return the typed values of raw columns, and why rows cannot be read, by row.

    Every distinct value is read once. Invalid values are replaced by the default.

    Args:
        raw: Columns of cells that are set or not (N,).
        readers: Readers of fields that the table cannot read, by name.
    """
    problems: dict[int, list[str | PerfatlasError]] = {}
    fields = {}
    for name, field in known.items():
        set_N = raw[name].is_set if name in raw else np.zeros(size, np.bool_)
        if name in raw:
            cells = raw[name].values[1:]
            values, wrong = field.read_all(cells, readers.get(name))
            good_V = np.array([True, *(at not in wrong for at in range(len(cells)))])
            code_V = np.where(good_V, np.arange(good_V.size), NOT_GIVEN)
            fields[name] = FieldColumn(
                values=(field.default, *values), codes_N=code_V[raw[name].codes_N]
            )
            for at, rule in wrong.items():
                told: str | PerfatlasError
                if isinstance(rule, PerfatlasError):
                    told = rule
                else:
                    expected, shown = (*rule.args, cells[at])[:2]
                    told = f"{name} = {repr_for_error(shown)}: {expected}"
                for row in np.flatnonzero(raw[name].codes_N == at + 1).tolist():
                    problems.setdefault(row, []).append(told)
        if field.required and not set_N.all():
            for row in np.flatnonzero(~set_N).tolist():
                problems.setdefault(row, []).append(f"{name} is required")
    columns = Columns(size, known, fields)
    return columns, {row: _error(texts) for row, texts in problems.items()}


def _error(problems: Sequence[str | PerfatlasError]) -> PerfatlasError:
    """Return the first error that a field raises itself, else one with all problems."""
    own = (problem for problem in problems if isinstance(problem, PerfatlasError))
    return next(own, InvalidSpecError("; ".join(map(str, problems))))


def _rows(table: Table) -> int:
    """Return the number of rows of a table; its columns must be lists of equal length."""
    if not isinstance(table, Mapping):
        raise InvalidSpecError(f"a table is {repr_for_error(table)}: expected columns by name")
    lengths: dict[str, int] = {}
    for name, column in table.items():
        single = isinstance(column, str | bytes | Mapping) or getattr(column, "ndim", 1) != 1
        if single or not hasattr(column, "__len__"):
            raise InvalidSpecError(
                f"column {name!r} is {repr_for_error(column)}: expected a list with one value per"
                " row"
            )
        lengths[name] = len(column)
    if len(set(lengths.values())) > 1:
        raise InvalidSpecError(f"columns differ in length: {lengths}")
    return next(iter(lengths.values()), 0)


def is_absent(value: object) -> bool:
    """Return whether a table cell is unset: None, NaN or empty text."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN


def distinct(cells: Sequence[Any]) -> FieldColumn:
    """Return the distinct raw cells, and the code of each row.

    Cells are equal if type and value are: True is not 1, and "8" is not 8.
    """
    if isinstance(cells, files.DictionaryCells):
        few = distinct(cells.values)
        return FieldColumn(values=few.values, codes_N=few.codes_N[cells.codes_N])
    cells = list(cells)
    kinds = set(map(type, cells))
    keys: list[Any] = cells
    if len(kinds) > 1:
        keys = list(zip(map(type, cells), cells, strict=True))
    try:
        first = dict(zip(keys, cells, strict=True))
    except TypeError:  # unhashable cells such as lists are treated as distinct
        keys = list(map(id, cells))
        first = dict(zip(keys, cells, strict=True))
    place = dict(zip(first, count(), strict=False))
    places_N = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    if kinds <= {int, bool}:  # none is absent
        return FieldColumn(values=(None, *first.values()), codes_N=places_N + 1)
    given_V = np.array([not is_absent(value) for value in first.values()], np.bool_)
    code_V = np.where(given_V, np.cumsum(given_V), NOT_GIVEN)
    given = (value for value in first.values() if not is_absent(value))
    return FieldColumn(values=(None, *given), codes_N=code_V[places_N])

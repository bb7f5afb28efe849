"""Fields of scenarios as columns: distinct values, parsed once each, and a code per row.

Shape legend: N rows, C some of them, V distinct values of a field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas import files
from perfatlas.hardware import slice_chips
from perfatlas.networks import default_osl, is_graph
from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.scenario.fields import (
    FIELD_NAMES,
    GPUS_STATED,
    ONE_PASS,
    WORKER_POOLS,
    Scenario,
    default_engines,
)
from perfatlas.vocabulary.fields import canonical_name

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray

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


class ScenarioColumns:
    """All fields as columns (N,)."""

    def __init__(self, size: int, fields: Mapping[str, FieldColumn]) -> None:
        """Store the columns that are set; others have the defaults."""
        self.size = size
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> FieldColumn:
        """Return the column of a field."""
        if name not in self._fields:
            codes_N = np.full(self.size, NOT_GIVEN, np.int64)
            self._fields[name] = FieldColumn(values=(_default(name),), codes_N=codes_N)
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

    def at(self, row: int, names: Sequence[str]) -> dict[str, Any]:
        """Return some fields of one row."""
        columns = {name: self[name] for name in names}
        return {name: column.values[column.codes_N[row]] for name, column in columns.items()}

    def take(self, rows_C: IntArray) -> ScenarioColumns:
        """Return some rows."""
        fields = {
            name: replace(column, codes_N=column.codes_N[rows_C])
            for name, column in self._fields.items()
        }
        return ScenarioColumns(rows_C.size, fields)

    def changed(self, changes: Mapping[str, FieldColumn]) -> ScenarioColumns:
        """Return the same rows with some columns replaced."""
        return ScenarioColumns(self.size, self._fields | dict(changes))


def constant_column(size: int, value: object) -> FieldColumn:
    """Return a column with the same value in all rows."""
    return FieldColumn(values=(None, value), codes_N=np.ones(size, np.int64))


def number_column(numbers_N: FloatArray) -> FieldColumn:
    """Return a column of derived numbers; all count as set."""
    distinct_V, codes_N = np.unique(numbers_N, return_inverse=True)
    return FieldColumn(values=(None, *distinct_V.tolist()), codes_N=codes_N.reshape(-1) + 1)


def columns_of(scenarios: Sequence[Scenario]) -> ScenarioColumns:
    """Return scenarios as columns.

    Args:
        scenarios: One per row (N).
    """
    if len(scenarios) == 1:
        return _one_row(scenarios[0])
    names = {name for scenario in scenarios for name in scenario.fields_set}
    fields = {}
    for name in names:
        raw = _distinct([getattr(scenario, name) for scenario in scenarios])
        fields[name] = replace(raw, values=(_default(name), *raw.values[1:]))
    return ScenarioColumns(len(scenarios), fields)


def _one_row(scenario: Scenario) -> ScenarioColumns:
    """Return one scenario as columns of one row, without a search for distinct values."""
    set_1, unset_1 = np.ones(1, np.int64), np.full(1, NOT_GIVEN, np.int64)
    fields = {}
    for name in scenario.fields_set:
        value, default = getattr(scenario, name), _default(name)
        absent = is_absent(value)
        values = (default,) if absent else (default, value)
        fields[name] = FieldColumn(values=values, codes_N=unset_1 if absent else set_1)
    return ScenarioColumns(1, fields)


def read_columns(table: Table) -> tuple[ScenarioColumns, BoolArray]:
    """Return the columns of a table, and which rows have an invalid value (N,).

    Every distinct value is parsed once. Invalid values are replaced by the default.

    Args:
        table: Columns by name; unknown names are ignored, names of other tools are refused. None,
            NaN and empty text count as unset.
    """
    size = _rows(table)
    _refuse_other_names(table)
    raw = {name: _distinct(table[name]) for name in table if name in FIELD_NAMES}
    if {"mode", "prefill_system", "decode_system"} <= raw.keys():
        raw["system"] = _system_of_pools(raw)
    if "system" in raw and any(map(slice_chips, raw["system"].values)):
        raw["gpus"] = _gpus_of_slices(raw, size)
    if "model" in raw and any(map(is_graph, raw["model"].values)):
        raw |= _one_pass(raw, size)
    if {"model", "system"} <= raw.keys():
        raw |= _default_engines(raw, size)
    broken_N = np.zeros(size, np.bool_)
    fields = {}
    for name, column in raw.items():
        fields[name], wrong_N = _typed(name, column)
        broken_N |= wrong_N
    columns = ScenarioColumns(size, fields)
    broken_N |= ~columns.is_set("model") | ~columns.is_set("system")
    return columns, broken_N


def _refuse_other_names(table: Table) -> None:
    """Refuse columns that other tools call otherwise: none is read."""
    missing = [name for name in FIELD_NAMES if name not in table]
    for name in table:
        if name not in FIELD_NAMES and (ours := canonical_name(str(name), missing)):
            raise InvalidSpecError(f"column {name!r} would be ignored; perfatlas calls it {ours!r}")


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


def _distinct(cells: Sequence[Any]) -> FieldColumn:
    """Return the distinct raw cells, and the code of each row.

    Cells are equal if type and value are: True is not 1, and "8" is not 8.
    """
    if isinstance(cells, files.DictionaryCells):
        few = _distinct(cells.values)
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


def _system_of_pools(raw: Mapping[str, FieldColumn]) -> FieldColumn:
    """Return the column of systems; it may be unset if both pools set their own."""
    prefill, decode = raw["prefill_system"], raw["decode_system"]
    none = FieldColumn(values=(None,), codes_N=np.zeros_like(prefill.codes_N))
    system = raw.get("system", none)
    named_N = raw["mode"].equals("disaggregated") & prefill.is_set & decode.is_set
    codes_N = np.where(named_N & ~system.is_set, prefill.codes_N, NOT_GIVEN)
    return system.overridden_by(replace(prefill, codes_N=codes_N))


def _gpus_of_slices(raw: Mapping[str, FieldColumn], size: int) -> FieldColumn:
    """Return the column of GPUs, with the chips of slices where no field states them."""
    system, unset_N = raw["system"], np.full(size, NOT_GIVEN, np.int64)
    chips = [slice_chips(name) for name in system.values]
    stated = [raw[name].is_set for name in GPUS_STATED if name in raw]
    named_N = np.array([chip is not None for chip in chips])[system.codes_N]
    free_N = named_N & ~np.logical_or.reduce([np.zeros(size, np.bool_), *stated])
    given = raw.get("gpus", FieldColumn(values=(None,), codes_N=unset_N))
    of_slice = FieldColumn(
        values=(None, *chips), codes_N=np.where(free_N, system.codes_N + 1, NOT_GIVEN)
    )
    return given.overridden_by(of_slice)


def _one_pass(raw: Mapping[str, FieldColumn], size: int) -> dict[str, FieldColumn]:
    """Return the columns of fields that graphs of operators have other defaults of."""
    model, unset_N = raw["model"], np.full(size, NOT_GIVEN, np.int64)
    graph_N = np.array([is_graph(name) for name in model.values])[model.codes_N]
    own = {
        "isl": [ONE_PASS["isl"] for _ in model.values],
        "osl": [default_osl(name) if is_graph(name) else 1 for name in model.values],
    }
    found = {}
    for name, values in own.items():
        given = raw.get(name, FieldColumn(values=(None,), codes_N=unset_N))
        codes_N = np.where(graph_N & ~given.is_set, model.codes_N + 1, NOT_GIVEN)
        defaults = FieldColumn(values=(None, *values), codes_N=codes_N)
        found[name] = given.overridden_by(defaults)
    return found


def _default_engines(raw: Mapping[str, FieldColumn], size: int) -> dict[str, FieldColumn]:
    """Return the columns of engines with what `default_engines` adds to each distinct row."""
    pools = ("", *(f"{pool}_" for pool in WORKER_POOLS))
    names = ("model", *(f"{pool}{name}" for pool in pools for name in ("system", "engine")))
    columns = {name: raw[name] for name in names if name in raw}
    distinct = distinct_rows([column.codes_N for column in columns.values()])
    first = [
        {name: column.values[column.codes_N[row]] for name, column in columns.items()}
        for row in distinct.first_U.tolist()
    ]
    added = [default_engines(fields) for fields in first]
    found = {}
    for name in dict.fromkeys(name for engines in added for name in engines):
        code_U = np.array([u + 1 if name in added[u] else NOT_GIVEN for u in range(len(added))])
        values = (None, *(engines.get(name) for engines in added))
        given = raw.get(name, FieldColumn(values=(None,), codes_N=np.full(size, NOT_GIVEN)))
        defaults = FieldColumn(values=values, codes_N=code_U[distinct.codes_N])
        found[name] = given.overridden_by(defaults)
    return found


def _typed(name: str, raw: FieldColumn) -> tuple[FieldColumn, BoolArray]:
    """Return a column of typed values, and which rows are invalid (N,)."""
    values, good = Scenario.fields()[name].read_all(raw.values[1:])
    code_V = np.where([True, *good], np.arange(len(good) + 1), NOT_GIVEN)
    wrong_N: BoolArray = ~np.array([True, *good])[raw.codes_N]
    typed = FieldColumn(values=(_default(name), *values), codes_N=code_V[raw.codes_N])
    return typed, wrong_N


def _default(name: str) -> Any:  # noqa: ANN401 - values of every type of the vocabulary
    """Return the default of a field, None if it has none."""
    return Scenario.fields()[name].default

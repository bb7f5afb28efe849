"""Parsing of trace cells: vectorised if possible, otherwise one by one to locate invalid ones.

Shape legend: B rows of a block, H hashes of its prompts.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from perfatlas.files import Number, load_arrow
from perfatlas.quantities import did_you_mean, repr_for_error
from perfatlas.serving.requests import MAX_TOKENS
from perfatlas.serving.traces.blocks import refuse
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from perfatlas.serving.traces.blocks import Block

Kind = Literal["tokens", "whole", "number", "pause", "stamp", "label", "labels", "hashes"]
_GAPS: Final = ("label", "labels", "pause")  # kinds of cells that may be missing in single rows
NO_LABEL: Final = np.iinfo(np.int64).min
_INT64: Final = np.iinfo(np.int64)
_SEPARATOR: Final = re.compile(r"[\s,;]+")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# date, time to the second, fraction, zone; datetime itself keeps only six digits of the fraction
_STAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)


@dataclass(frozen=True, kw_only=True)
class TraceField:
    """A column of a trace."""

    name: str  # Name in the file
    # tokens (integer within the length limit), whole (any 64-bit integer), number (finite), stamp
    # (date and time in nanoseconds), label (number or text used as an identifier), labels (a list
    # of these), hashes (a list of integers), pause (number or none, as NaN)
    kind: Kind
    low: float = -math.inf  # Minimum of tokens and numbers
    required: bool = True  # Whether the file must have it


_ANY: Final = TraceField(name="ids", kind="labels")


def arrow_types(fields: Sequence[TraceField]) -> dict[str, pa.DataType]:
    """Return the Arrow type of each field."""
    pa = load_arrow()
    types = {"number": pa.float64(), "stamp": pa.timestamp("ns"), "label": pa.string()}
    types |= {
        "hashes": pa.list_(pa.int64()),
        "labels": pa.list_(pa.string()),
        "pause": pa.float64(),
    }
    return {field.name: types.get(field.kind, pa.int64()) for field in fields}


def csv_schema(fields: Sequence[TraceField]) -> tuple[dict[str, pa.DataType], list[str]]:
    """Return the Arrow types of fields and the names that a file must have, for `csv_blocks`."""
    return arrow_types(fields), [field.name for field in fields if field.required]


class CellError(ValueError):
    """A cell is invalid; the message for the user still needs the location."""


class Columns(NamedTuple):
    """Validated cells of the rows of a block."""

    row_word: str  # Word for a row in messages: line or row
    number_B: NDArray[np.int64]  # Number of each row (B,)
    # Cells by field (B,): float64 for numbers and pauses, tuples for labels, int64 for others;
    # stamps in ns
    cells: dict[str, NDArray[Any]]
    hash_H: NDArray[np.int64]  # Hashes of all rows (H,)
    count_B: NDArray[np.int64]  # Number of hashes of each row (B,)

    def only(self, keep_B: NDArray[np.bool_]) -> Columns:
        """Return the selected rows."""
        if keep_B.all():
            return self
        return Columns(
            row_word=self.row_word,
            number_B=self.number_B[keep_B],
            cells={name: column[keep_B] for name, column in self.cells.items()},
            hash_H=self.hash_H[np.repeat(keep_B, self.count_B)],
            count_B=self.count_B[keep_B],
        )


def read_columns(path: str | Path, block: Block, fields: Sequence[TraceField]) -> Columns:
    """Return the validated cells of a block.

    Args:
        fields: Columns to read; optional ones are skipped if the first row lacks them.
    """
    table = block.table()
    if table is not None:
        columns = _from_table(block, table, fields)
        if columns is not None:
            return columns
    return _from_rows(path, block, fields)


def label_of(text: str) -> int:
    """Return a 64-bit hash of a text.

    Limits: Two of n texts collide with probability n^2 / 2^65.

    Example:
        >>> from perfatlas.serving.traces.fields import label_of
        >>> label_of("a") != label_of("b")
        True
    """
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _from_table(block: Block, table: pa.Table, fields: Sequence[TraceField]) -> Columns | None:
    cells: dict[str, NDArray[Any]] = {}
    hash_H, count_B = np.zeros(0, np.int64), np.zeros(table.num_rows, np.int64)
    for field in fields:
        if field.name not in table.column_names:
            if field.required:
                return None
            continue
        column = table.column(field.name)
        if column.null_count == len(column) and not field.required:
            continue
        if field.kind == "hashes":
            lists = _lists(column)
            if lists is None:
                return None
            hash_H, count_B = lists
            continue
        values = _values(column, field)
        if values is None:
            return None
        cells[field.name] = values
    number_B = np.arange(block.first, block.first + table.num_rows, dtype=np.int64)
    return Columns(block.row_word, number_B, cells, hash_H, count_B)


def _values(column: pa.ChunkedArray, field: TraceField) -> NDArray[Any] | None:
    """Return the cells of an Arrow column; None if one is missing, invalid or of another type."""
    pa = load_arrow()
    if field.kind == "label":
        return _labels(column)
    if field.kind in {"labels", "pause"}:
        return None
    kind = {"number": pa.float64(), "stamp": pa.timestamp("ns")}.get(field.kind, pa.int64())
    stamped = pa.types.is_timestamp(column.type)
    if column.null_count or stamped != (field.kind == "stamp") or pa.types.is_boolean(column.type):
        return None
    try:
        values: NDArray[Any] = column.cast(kind).to_numpy()
    except pa.ArrowException:
        return None
    values = values.view(np.int64) if stamped else values
    high = {"tokens": MAX_TOKENS, "number": np.finfo(np.float64).max}.get(field.kind, np.inf)
    return values if _within(values, field.low, high) else None


def _within(values: NDArray[Any], low: float, high: float) -> bool:
    """Return whether all values are in a range; NaN is not."""
    return bool(np.all((values >= low) & (values <= high)))


def _labels(column: pa.ChunkedArray) -> NDArray[np.int64] | None:
    pa = load_arrow()
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        values: NDArray[np.int64] = column.cast(pa.int64()).fill_null(-1).to_numpy()
        return np.where(values < 0, NO_LABEL, values)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    coded = column.fill_null("").combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    label_L = np.array([label_of(name) if name else NO_LABEL for name in names], np.int64)
    place_B: NDArray[np.int64] = coded.indices.to_numpy()
    return label_L[place_B]


def _lists(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the values of all lists and the length of each; None if one is not plain."""
    pa = load_arrow()
    pc = load_arrow("compute")
    try:
        if pa.types.is_string(column.type):
            inner = pc.utf8_trim(column, characters="[] ")
            column = pc.split_pattern_regex(inner, pattern=_SEPARATOR.pattern)
        column = column.cast(pa.list_(pa.int64()))
    except pa.ArrowException:
        return None
    if column.null_count:
        return None
    values = column.combine_chunks().flatten()
    if values.null_count:
        return None
    count_B = pc.list_value_length(column).to_numpy().astype(np.int64)
    return values.to_numpy().astype(np.int64), count_B


def _from_rows(path: str | Path, block: Block, fields: Sequence[TraceField]) -> Columns:
    numbers: list[int] = []
    cells: dict[str, list[Any]] = {f.name: [] for f in fields if _has(f, {})}
    hashes: list[int] = []
    counts: list[int] = []
    for number, row in block.rows():
        if not numbers:
            cells = {f.name: [] for f in fields if _has(f, row)}
        numbers.append(number)
        counts.append(0)
        for field in fields:
            try:
                if field.name not in cells:
                    _check_absent(field, row)
                    continue
                cell = _cell(field, row)
            except CellError as problem:
                raise refuse(path, f"{block.row_word} {number}", str(problem)) from problem
            if field.kind == "hashes" and isinstance(cell, list):
                hashes += cell
                counts[-1] = len(cell)
            else:
                cells[field.name].append(cell)
    types = {"number": np.float64, "pause": np.float64}
    kinds = {f.name: types.get(f.kind, np.int64) for f in fields}
    ragged = {f.name for f in fields if f.kind in {"hashes", "labels"}}
    lists = {
        f.name: np.fromiter(map(tuple, cells[f.name]), object, len(numbers))
        for f in fields
        if f.kind == "labels"
    }
    return Columns(
        row_word=block.row_word,
        number_B=np.array(numbers, np.int64),
        cells={n: np.array(c, kinds[n]) for n, c in cells.items() if n not in ragged} | lists,
        hash_H=np.array(hashes, np.int64),
        count_B=np.array(counts, np.int64),
    )


def _has(field: TraceField, row: Mapping[str, object]) -> bool:
    """Return whether the column of a field is read; some may be missing in single rows."""
    return field.required or field.kind in _GAPS or row.get(field.name) not in (None, "")


def _check_absent(field: TraceField, row: Mapping[str, object]) -> None:
    if row.get(field.name) not in (None, ""):
        raise CellError(
            f"{field.name} is present here but not in previous rows; it must be in all or none"
        )


def _cell(field: TraceField, row: Mapping[str, object]) -> float | list[int]:
    """Return a parsed cell, or raise CellError with a message for the user."""
    if field.name not in row and field.kind not in _GAPS:
        hint = did_you_mean(field.name, [str(name) for name in row])
        raise CellError(f"missing {field.name!r}{hint}")
    return _READERS[field.kind](field, row.get(field.name))


def _token_count(field: TraceField, value: object) -> int:
    count = _whole(field, value)
    if problem := Number(least=field.low, most=MAX_TOKENS).problem(count):
        remedy = "; remove the row if it is not a request" if count < field.low else ""
        raise _wrong(field, value, f"{problem}{remedy}")
    return count


def _wrong(field: TraceField, value: object, problem: str) -> CellError:
    """Return the error for a cell, worded as by the reader of fields from files."""
    return CellError(f"{field.name} = {repr_for_error(value)}{problem}")


def _whole(field: TraceField, value: object) -> int:
    number: object = value
    if isinstance(value, str):
        text = value.strip()
        digits = text.removeprefix("-")
        plain = digits.isascii() and digits.isdigit() and len(digits) <= 20
        number = int(text) if plain else _float(text)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        raise _wrong(field, value, ": expected a whole number")
    if not _INT64.min < number <= _INT64.max:
        raise _wrong(field, value, " does not fit in 64 bits")
    return number


def _number(field: TraceField, value: object) -> float:
    number = None
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        number = _float(value)
    if number is None or not math.isfinite(number):
        raise _wrong(field, value, " is not a number")
    if problem := Number(least=field.low).problem(number):
        raise _wrong(field, value, problem)
    return number


def _float(value: float | str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf


def _label(field: TraceField, value: object) -> int:
    if value is None or value == "":
        return int(NO_LABEL)
    if isinstance(value, str):
        return label_of(value)
    if not isinstance(value, (int, float)):
        raise _wrong(field, value, ": expected text or a whole number")
    number = _whole(field, value)
    return number if number >= 0 else int(NO_LABEL)


def _pause(field: TraceField, value: object) -> float:
    pause = math.nan if value is None or value == "" else _number(field, value)
    if pause > MAX_S:
        raise _wrong(field, value, f" exceeds {MAX_S:g} s")
    return pause


def list_items(value: object) -> list[object]:
    """Return the items of a valid cell of ids."""
    items = [] if value is None or value == "" else _items(_ANY, value)
    return items if isinstance(items, list) else []


def _label_list(field: TraceField, value: object) -> list[int]:
    if value is None or value == "":
        return []
    items = value if isinstance(value, list) else _items(field, value)
    if not isinstance(items, list):
        raise CellError(f"{field.name} = {repr_for_error(value)} is not a list of ids")
    labels = [_label(field, item) for item in items]
    if NO_LABEL in labels:
        raise CellError(f"{field.name} = {repr_for_error(value)} contains an empty or negative id")
    return labels


def _stamp_ns(field: TraceField, value: object) -> int:
    if isinstance(value, dt.datetime):
        value = value.isoformat(sep=" ")
    parts = _STAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    if parts is None:
        raise CellError(
            f"{field.name} = {repr_for_error(value)} is not a time like 2023-11-16 18:17:03.9799600"
        )
    day, clock, fraction, zone = parts.groups()
    try:
        moment = dt.datetime.fromisoformat(f"{day}T{clock}{zone or '+00:00'}")
    except ValueError as problem:
        raise CellError(f"{field.name} = {repr_for_error(value)}: {problem}") from problem
    whole_s = (moment - _EPOCH) // dt.timedelta(seconds=1)
    stamp = whole_s * 10**9 + int((fraction or "0").ljust(9, "0"))
    if not _INT64.min < stamp <= _INT64.max:
        raise CellError(f"{field.name} = {repr_for_error(value)}; supported years are 1678 to 2261")
    return stamp


def _items(field: TraceField, value: object) -> object:
    """Return the items of a list that may be text, such as "1 2" or "[1, 2]"."""
    if not isinstance(value, str):
        return value
    try:
        items = json.loads(value) if "[" in value else _SEPARATOR.split(value.strip())
    except (ValueError, RecursionError) as problem:
        expected = "integers, such as 1 2 or [1, 2]"
        if field.kind == "labels":
            expected = 'ids, such as 1 2, [1, 2] or ["a", "b"]'
        raise CellError(
            f"{field.name} = {repr_for_error(value)} is not a list of {expected}"
        ) from problem
    return [] if items == [""] else items


def _hash_list(field: TraceField, value: object) -> list[int]:
    items = _items(field, value)
    if not isinstance(items, list):
        raise CellError(f"{field.name} = {repr_for_error(value)} is not a list of integers")
    return [_hash(field, item) for item in items]


def _hash(field: TraceField, item: object) -> int:
    """Return a hash; unsigned 64-bit hashes become signed numbers with the same bits."""
    unsigned = isinstance(item, int) and _INT64.max < item < 2**64
    return item - 2**64 if unsigned and isinstance(item, int) else _whole(field, item)


_READERS: Final[Mapping[Kind, Callable[[TraceField, object], float | list[int]]]] = {
    "hashes": _hash_list,
    "label": _label,
    "labels": _label_list,
    "number": _number,
    "pause": _pause,
    "stamp": _stamp_ns,
    "tokens": _token_count,
    "whole": _whole,
}

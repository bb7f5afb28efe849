"""How arguments are passed to compiled code: one address of 64-bit words.

A named tuple of fifty arrays passed by value is about a hundred arguments per call. Here a call
passes one address. An integer or a float is one word; an array is its address and shape; a tuple,
named or not, is the words of its items; a list of named tuples is the address of their addresses
and their count. A text in a named tuple has no words, and compiled code does not read it. The
layout of a field is everything but its value, and all that the compiler needs to know.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Layout: TypeAlias = "str | ArrayLayout | ColumnsLayout | TupleLayout | RowsLayout | Settled"

Value = TypeVar("Value")
Row = TypeVar("Row", bound="tuple[Any, ...]")
INTEGER: Final = "int64"
FLOAT: Final = "float64"
FLAG: Final = "bool"


class UnreadyArrayError(TypeError):
    """Compiled code cannot read and write an array where it is; a copy can be passed."""


class ArrayLayout(NamedTuple):
    """A contiguous array."""

    dtype: np.dtype[Any]  # Type of its items
    ndim: int  # Number of axes


class Settled(NamedTuple):
    """A number that is constant for a unit; code for other values is not compiled."""

    kind: str  # Layout of the number
    value: int | float


class ColumnsLayout(NamedTuple):
    """Consecutive named fields, of which compiled code holds the address."""

    fields: tuple[tuple[str, Layout], ...]


class TupleLayout(NamedTuple):
    """Consecutive items."""

    items: tuple[Layout, ...]


class RowsLayout(NamedTuple):
    """A sequence of named tuples of one layout."""

    item: Layout


_NO_WORDS: Final = TupleLayout(())


def named_row(kind: type[Row], row: NDArray[Any]) -> Row:
    """Return the items of one row of a table as a named tuple, in Python and in compiled code.

    Args:
        kind: The named tuple, whose fields are the columns of the table.
        row: The row, with one item per field.
    """
    return kind._make(row)  # type: ignore[attr-defined,no-any-return] # of named tuples


def words_of(layout: Layout) -> int:
    """Return the size of a value in words."""
    if isinstance(layout, ArrayLayout):
        return 1 + layout.ndim
    if isinstance(layout, TupleLayout):
        return sum(map(words_of, layout.items))
    if isinstance(layout, ColumnsLayout):
        return sum(words_of(field) for _, field in layout.fields)
    return 2 if isinstance(layout, RowsLayout) else 1


def layout_of(value: Any, *, settles: bool = True) -> Layout:  # noqa: ANN401 - any argument
    """Return the layout of a value.

    Args:
        value: A number, an array, a tuple, a named tuple or a sequence of those. A named tuple
            may have a method `settled` that returns fields and their values; the unit is then
            compiled for these values only. "limits.draft_tokens" is a field of a field.
        settles: Whether the method `settled` is used.

    Example:
        >>> from perfatlas.compiled.columns import layout_of
        >>> layout_of((1, 2.0))
        TupleLayout(items=('int64', 'float64'))
    """
    if isinstance(value, np.ndarray):
        return _array_layout(value)
    plain = _SCALAR_KINDS.get(type(value))
    if plain is not None:
        return plain
    if isinstance(value, Held):
        return value.layout
    if _is_rows(value):
        return _rows(value)
    if isinstance(value, tuple):
        named = hasattr(value, "_fields")
        items = tuple(
            [
                _array_layout(item)
                if isinstance(item, np.ndarray)
                else _NO_WORDS
                if named and isinstance(item, str)
                else layout_of(item, settles=settles)
                for item in value
            ]
        )
        return _columns(value, items, settles=settles) if named else TupleLayout(items)
    for kinds_of_number, name in _NUMBERS:
        if isinstance(value, kinds_of_number):
            return name
    raise TypeError(f"compiled code cannot receive {type(value).__name__} {value!r:.80}")


def is_ready(array: NDArray[Any]) -> bool:
    """Return whether compiled code can read and write an array where it is."""
    return array.flags.carray and _layout_in_place(array.dtype, array.ndim) is not None


@cache
def _layout_in_place(dtype: np.dtype[Any], ndim: int) -> ArrayLayout | None:
    """Return the layout of arrays that can be read and written in place, None for others."""
    ready = ndim > 0 and dtype.isnative and _holds_numbers(dtype)
    return ArrayLayout(dtype, ndim) if ready else None


def _holds_numbers(dtype: np.dtype[Any]) -> bool:
    """Return whether items are numbers, truth values or records, and no Python objects."""
    return dtype.kind in "biufcV" and not dtype.hasobject


def _array_layout(value: NDArray[Any]) -> ArrayLayout:
    """Return the layout of an array that compiled code can read and write where it is."""
    layout = _layout_in_place(value.dtype, value.ndim)
    if layout is not None and value.flags.carray:
        return layout
    flags, dtype, way = value.flags, value.dtype, "pass a copy of it"
    if not _holds_numbers(dtype):
        fault, way = f"holds {dtype!s:.40}", "pass numbers"
    elif not value.ndim:
        fault, way = "has no axis", "pass its item() or reshape(1)"
    elif not dtype.isnative:
        fault = f"is not in the byte order of this machine ({dtype.str})"
        way = "pass astype(dtype.newbyteorder('='))"
    elif not flags.writeable:
        fault = "is read-only, and compiled code may write to it"
    else:
        fault = "is strided or unaligned"
    raise UnreadyArrayError(
        f"compiled code cannot receive an array that {fault}; {way}: {value!r:.80}"
    )


def address_of(array: Any) -> int:  # noqa: ANN401 - an array, whose buffer is not typed
    """Return the address of the first item of an array that compiled code can write to.

    Args:
        array: The array; `layout_of` accepted it.
    """
    # the third of the time that array.ctypes.data takes
    return ctypes.addressof(_NO_BYTES.from_buffer(array))


def _columns(value: Any, items: tuple[Layout, ...], *, settles: bool) -> ColumnsLayout:  # noqa: ANN401 - a named tuple
    """Return the layout of a named tuple."""
    columns = ColumnsLayout(tuple(zip(value._fields, items, strict=True)))
    if settles and hasattr(value, "settled"):
        for path, number in value.settled().items():
            columns = _settle(columns, path.split("."), number)
    return columns


def _settle(columns: ColumnsLayout, path: Sequence[str], number: float) -> ColumnsLayout:
    """Return a layout whose field at a path has one value."""
    fields, (name, *inner) = dict(columns.fields), path
    field = fields[name]
    if isinstance(field, ColumnsLayout):
        fields[name] = _settle(field, inner, number)
    else:
        fields[name] = Settled(str(field), number)
    return ColumnsLayout(tuple(fields.items()))


def _is_rows(value: Any) -> bool:  # noqa: ANN401 - any argument
    """Return whether a value is a list or a plain tuple of named tuples."""
    plain = isinstance(value, list) or (isinstance(value, tuple) and not hasattr(value, "_fields"))
    if not plain or not value or type(value[0]) in _SCALAR_KINDS:
        return False
    return all(hasattr(item, "_fields") for item in value)


def _rows(value: Sequence[Any]) -> RowsLayout:
    """Return the layout of a list of named tuples; nothing is settled where they differ."""
    for settles in (True, False):
        kinds = {layout_of(item, settles=settles) for item in value}
        if len(kinds) == 1:
            return RowsLayout(kinds.pop())
    raise TypeError(f"compiled code cannot receive {len(value)} values of {len(kinds)} layouts")


_NO_BYTES: Final = ctypes.c_char * 0
_SCALAR_KINDS: Final[dict[type, str]] = {bool: FLAG, int: INTEGER, float: FLOAT}
_NUMBERS: Final = (
    ((bool, np.bool_), FLAG),
    ((int, np.integer), INTEGER),
    ((float, np.floating), FLOAT),
)


class PackedArguments:
    """Arguments packed into words; keeps everything they point to alive.

    Args:
        values: The arguments; each has a layout.

    Attributes:
        words: The words of the arguments.
        address: Address of the first word.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        """Pack the words."""
        self._kept: list[object] = []
        self.words = self._words(values)
        self.address = self._keep(self.words)

    def _words(self, values: Iterable[Any]) -> list[int | float]:
        """Return values as words."""
        words: list[int | float] = []
        for value in values:
            if isinstance(value, np.ndarray):  # most of them
                self._kept.append(value)
                words.append(address_of(value))
                words += value.shape
            else:
                self._append(words, value)
        return words

    def _keep(self, words: list[int | float]) -> int:
        try:
            # the array refuses floats
            whole: array[int] = array("q", cast("list[int]", words))
        except TypeError:
            kinds = "".join(["d" if isinstance(word, float) else "q" for word in words])
            whole = array("q", struct.pack(kinds, *words))
        self._kept.append(whole)
        return whole.buffer_info()[0]

    def _append(self, words: list[int | float], value: Any) -> None:  # noqa: ANN401 - any argument
        """Append the words of a value that is no array."""
        if type(value) in _SCALAR_KINDS:
            words.append(value)
        elif isinstance(value, Held):
            words += value.packed.words
        elif _is_rows(value):
            words += [self._keep([self._keep(self._words(item)) for item in value]), len(value)]
        elif isinstance(value, tuple):
            words += self._words(value)
        elif not isinstance(value, str):
            words.append(float(value) if isinstance(value, float | np.floating) else int(value))


class Held:
    """An argument of many calls that is packed once.

    Args:
        value: The argument; its arrays are read and written in place.
    """

    def __init__(self, value: Any) -> None:  # noqa: ANN401 - any argument
        """Pack the words."""
        self.layout = layout_of(value)
        self.packed = PackedArguments((value,))


def hold(value: Value) -> Value:
    """Return an argument for calls of entries that is packed only once.

    Args:
        value: Named columns, or a list of them.
    """
    return cast("Value", Held(value))

"""Numba types of columns, with their attributes and items. Imports the compiler.

Uses the compiler's extension interface, so that `direct_way` and `public_way` share it.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from llvmlite import ir
from numba import from_dtype, types
from numba.core.typing.templates import AttributeTemplate  # what infer_getattr takes
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    type_callable,
)

from perfatlas.compiled.columns import (
    FLAG,
    FLOAT,
    INTEGER,
    ArrayLayout,
    ColumnsLayout,
    RowsLayout,
    Settled,
    TupleLayout,
    named_row,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.compiled.columns import Layout

_WORD: Final = ir.IntType(64)
_WORDS: Final = ir.PointerType(_WORD)
_NOWHERE: Final = ir.Constant(ir.PointerType(ir.IntType(8)), None)
_NUMBERS: Final = {INTEGER: types.int64, FLOAT: types.float64, FLAG: types.boolean}


class Columns(types.Type):  # type: ignore[misc] # untyped
    """Consecutive named fields, as their address.

    Args:
        number: Identifies the type; spelling out the fields would make symbol names huge.

    Attributes:
        fields: First word and layout of each, by name.
        size: Size of all words [bytes].
        settled: Fields that are constant for all calls of the unit.
    """

    def __init__(self, number: int, layout: ColumnsLayout) -> None:
        """Lay the fields out."""
        self.fields: dict[str, tuple[int, Layout]] = {}
        self.settled: dict[str, int | float] = {}
        index = 0
        for name, settled in layout.fields:
            self.fields[name] = (index, settled)
            if isinstance(settled, Settled):
                self.settled[name] = settled.value
            index += words_of(settled)
        self.size = 8 * index
        super().__init__(f"Columns{number}")


class Rows(types.Type):  # type: ignore[misc] # untyped
    """A sequence of columns of one type, accessed by index."""

    def __init__(self, item: Columns) -> None:
        """Store the item type."""
        self.item = item
        super().__init__(f"Rows{item.name}")


_TYPES: Final[dict[Layout, Any]] = {}


def type_of(layout: Layout) -> Any:  # noqa: ANN401 - a type of the compiler, untyped
    """Return the numba type of a value."""
    if isinstance(layout, Settled):
        layout = layout.kind
    if isinstance(layout, str):
        return _NUMBERS[layout]
    if layout not in _TYPES:
        _TYPES[layout] = _new_type(layout)
    return _TYPES[layout]


def _new_type(layout: Layout) -> Any:  # noqa: ANN401 - a type of the compiler, untyped
    if isinstance(layout, ArrayLayout):
        return types.Array(_item_type(layout.dtype), layout.ndim, "C")
    if isinstance(layout, TupleLayout):
        return types.Tuple([type_of(item) for item in layout.items])
    if isinstance(layout, RowsLayout):
        return Rows(type_of(layout.item))
    return Columns(len(_TYPES), cast("ColumnsLayout", layout))


@cache
def _item_type(dtype: Any) -> Any:  # noqa: ANN401 - a type of the compiler, untyped
    return from_dtype(dtype)


@register_model(Columns)
class _ColumnsModel(models.PrimitiveModel):  # type: ignore[misc] # untyped
    def __init__(self, manager: Any, kind: Columns) -> None:  # noqa: ANN401 - untyped
        super().__init__(manager, kind, _WORDS)


@register_model(Rows)
class _RowsModel(models.StructModel):  # type: ignore[misc] # untyped
    def __init__(self, manager: Any, kind: Rows) -> None:  # noqa: ANN401 - untyped
        members = [("first", types.CPointer(types.int64)), ("count", types.int64)]
        super().__init__(manager, kind, members)


@infer_getattr
class _ColumnsAttribute(AttributeTemplate):  # type: ignore[misc] # untyped
    key = Columns

    def generic_resolve(self, columns: Columns, name: str) -> Any:  # noqa: ANN401 - untyped
        """Return the type of a field, None where there is no such field."""
        return type_of(columns.fields[name][1]) if name in columns.fields else None


@lower_getattr_generic(Columns)
def _attribute(context: Any, builder: Any, columns: Columns, words: Any, name: str) -> Any:  # noqa: ANN401 - as the compiler calls it
    return _load(context, builder, words, *columns.fields[name])


def _word(builder: Any, words: Any, index: Any, kind: Any = _WORD) -> Any:  # noqa: ANN401 - untyped
    """Return a word; words are invariant while compiled code runs and are loaded once."""
    where = index if isinstance(index, ir.Value) else ir.Constant(_WORD, index)
    address = builder.bitcast(builder.gep(words, [where]), ir.PointerType(kind))
    loaded = builder.load(address)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _address(builder: Any, words: Any, index: Any, columns: Columns) -> Any:  # noqa: ANN401 - untyped
    """Return the address of columns, marked as dereferenceable."""
    loaded = _word(builder, words, index, _WORDS)
    for name, count in (("dereferenceable", columns.size), ("align", 8)):
        loaded.set_metadata(name, builder.module.add_metadata([ir.Constant(_WORD, count)]))
    return loaded


def _load(context: Any, builder: Any, words: Any, index: int, layout: Layout) -> Any:  # noqa: ANN401 - untyped
    """Return the value whose first word is at a position."""
    if isinstance(layout, ArrayLayout):
        return _array(context, builder, words, index, layout)
    if isinstance(layout, TupleLayout):
        items = []
        for item in layout.items:
            items.append(_load(context, builder, words, index, item))
            index += words_of(item)
        return context.make_tuple(builder, type_of(layout), items)
    if isinstance(layout, RowsLayout):
        rows = ir.Constant(context.get_value_type(type_of(layout)), ir.Undefined)
        rows = builder.insert_value(rows, _word(builder, words, index, _WORDS), 0)
        return builder.insert_value(rows, _word(builder, words, index + 1), 1)
    if isinstance(layout, ColumnsLayout):
        return builder.gep(words, [ir.Constant(_WORD, index)])
    if isinstance(layout, Settled):
        return context.get_constant(type_of(layout), layout.value)
    return _number(builder, words, index, layout)


def _number(builder: Any, words: Any, index: int, layout: str) -> Any:  # noqa: ANN401 - untyped
    """Return the number at a position."""
    if layout == FLAG:
        return builder.icmp_unsigned("!=", _word(builder, words, index), ir.Constant(_WORD, 0))
    return _word(builder, words, index, ir.DoubleType() if layout == FLOAT else _WORD)


def _array(context: Any, builder: Any, words: Any, index: int, layout: ArrayLayout) -> Any:  # noqa: ANN401 - untyped
    """Return the array whose data and shape are at a position; it has no reference count."""
    model = context.data_model_manager[type_of(layout)]
    item = context.get_data_type(type_of(layout).dtype)
    shape = [_word(builder, words, index + 1 + axis) for axis in range(layout.ndim)]
    strides = [ir.Constant(_WORD, layout.dtype.itemsize)]
    count = shape[-1]
    for length in shape[-2::-1]:
        strides.insert(0, builder.mul(strides[0], shape[len(shape) - len(strides)]))
        count = builder.mul(count, length)
    values = {
        "meminfo": _NOWHERE,
        "parent": _NOWHERE,
        "nitems": count,
        "itemsize": ir.Constant(_WORD, layout.dtype.itemsize),
        "data": _word(builder, words, index, ir.PointerType(item)),
    }
    array = ir.Constant(model.get_value_type(), ir.Undefined)
    for name, value in values.items():
        array = builder.insert_value(array, value, model.get_field_position(name))
    for name, lengths in (("shape", shape), ("strides", strides)):
        for axis in range(layout.ndim):
            path = [model.get_field_position(name), axis]
            array = builder.insert_value(array, lengths[axis], path)
    return array


@type_callable(operator.getitem)
def _type_of_row(_: object) -> Callable[..., Any]:
    def typer(rows: Any, index: Any) -> Any:  # noqa: ANN401 - untyped
        whole = isinstance(rows, Rows) and isinstance(types.unliteral(index), types.Integer)
        return rows.item if whole else None

    return typer


@lower_builtin(operator.getitem, Rows, types.Integer)
def _row(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401 - untyped
    index = context.cast(builder, args[1], signature.args[1], types.int64)
    first = builder.extract_value(args[0], 0)
    return _address(builder, first, index, signature.return_type)


@type_callable(len)
def _type_of_len(_: object) -> Callable[..., Any]:
    def typer(rows: Any) -> Any:  # noqa: ANN401 - untyped
        return types.int64 if isinstance(rows, Rows) else None

    return typer


@lower_builtin(len, Rows)
def _len(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401 - untyped
    return builder.extract_value(args[0], 1)


@type_callable(named_row)
def _type_of_named_row(_: object) -> Callable[..., Any]:
    def typer(kind: Any, row: Any) -> Any:  # noqa: ANN401 - untyped
        if not isinstance(kind, types.NamedTupleClass) or not isinstance(row, types.Array):
            return None
        named = kind.instance_class
        return types.NamedUniTuple(row.dtype, len(named._fields), named)

    return typer


@lower_builtin(named_row, types.NamedTupleClass, types.Array)
def _named_row(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401 - untyped
    kind = signature.args[1]
    row = context.make_array(kind)(context, builder, args[1])
    first = builder.bitcast(row.data, ir.PointerType(ir.IntType(8)))
    stride, pointer = builder.extract_value(row.strides, 0), context.get_data_type(kind.dtype)
    items = []
    for index in range(signature.return_type.count):
        offset = builder.mul(stride, ir.Constant(_WORD, index))
        address = builder.bitcast(builder.gep(first, [offset]), ir.PointerType(pointer))
        items.append(context.unpack_value(builder, kind.dtype, address))
    return context.make_tuple(builder, signature.return_type, items)


def spread(columns: Any) -> Any:  # noqa: ANN401 - untyped
    """Return the fields of columns as a tuple; can be called only from compiled code."""
    raise TypeError(f"only compiled code can spread {columns!r:.80}")


@type_callable(spread)
def _type_of_spread(_: object) -> Callable[..., Any]:
    def typer(columns: Any) -> Any:  # noqa: ANN401 - untyped
        if not isinstance(columns, Columns):
            return None
        return types.Tuple([type_of(field) for _, field in columns.fields.values()])

    return typer


@lower_builtin(spread, Columns)
def _spread(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401 - untyped
    fields = signature.args[0].fields.values()
    items = [_load(context, builder, args[0], *field) for field in fields]
    return context.make_tuple(builder, signature.return_type, items)

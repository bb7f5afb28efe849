"""Compile a function for a layout of its arguments, with its parts bound to their names.

Imports the compiler.
"""

from __future__ import annotations

import atexit
import gc
from types import CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numba
from numba import cfunc, njit, types

from perfatlas.compiled.column_types import spread, type_of
from perfatlas.compiled.machine_code import NATIVE, load
from perfatlas.compiled.reach import PARTS, enclosed_values, reached
from perfatlas.compiled.unit_files import write_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.compiled.columns import ColumnsLayout
    from perfatlas.compiled.machine_code import Native

OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy"}


_KEPT: Final[list[Any]] = []  # they own the code


KNOWN: Final = ("0.68.",)  # versions of numba whose answers were compared


def part(function: FunctionType, *, inline: bool = False) -> Any:  # noqa: ANN401 - untyped
    """Return a part that code compiled by `native` can call."""
    return njit(forceinline=inline, **OPTIONS)(function)


def native(function: FunctionType, signature: Any) -> Native:  # noqa: ANN401 - untyped
    """Return the compiled function.

    Args:
        function: Takes the addresses of arguments and result and returns 0; its parts are bound.
    """
    compiled = cfunc(signature, **OPTIONS)(function)
    _KEPT.append(compiled)
    return NATIVE(compiled.address)


def fits(version: str = numba.__version__) -> bool:
    """Return whether the internal classes of this numba version are known."""
    return version.startswith(KNOWN)


# The compiler leaves millions of objects in reference cycles. Collecting them when the process
# exits would take more than a tenth of the compilation time.
atexit.register(gc.freeze)


def build(function: FunctionType, layout: ColumnsLayout, key: str, speed_level: int) -> Native:
    """Return the compiled function, and cache its machine code on disk where possible.

    Args:
        function: Takes arguments of the layout and returns a number or nothing; its parts are
            marked.
    """
    returns = function.__annotations__.get("return") != "None"
    signature = types.int32(type_of(layout), types.CPointer(types.int64))
    if fits():
        from perfatlas.compiled import direct_way  # another version may lack what it imports

        called = _called(bound(function, direct_way.part), returns=returns)
        unit = direct_way.machine_code(called, signature, f"perfatlas_{key[:16]}", speed_level)
        loaded = load(unit)
        if loaded is not None:
            write_unit(key, unit)
            return loaded
    called = _called(bound(function, part), returns=returns)
    return native(called, signature)


def _called(target: Any, *, returns: bool) -> Any:  # noqa: ANN401 - untyped
    """Return a wrapper that unpacks the arguments at an address and calls a function."""

    def number(arguments: Any, result: Any) -> int:  # noqa: ANN401 - addresses
        result[0] = int(target(*spread(arguments)))
        return 0

    def nothing(arguments: Any, _result: Any) -> int:  # noqa: ANN401 - addresses
        target(*spread(arguments))
        return 0

    return number if returns else nothing


def bound(function: FunctionType, part: Callable[..., Any]) -> Any:  # noqa: ANN401 - untyped
    """Return a function that compiled code can call, with all parts it reaches bound."""
    callees = reached(function)
    copies = {callee.function: _copy(callee.function) for callee in callees}
    parts = {plain: part(copy, inline=PARTS.get(plain, False)) for plain, copy in copies.items()}
    for callee in callees:
        copied = copies[callee.function]
        names, enclosed = copied.__globals__, copied.__code__.co_freevars
        for name, value in callee.values.items():
            called = parts.get(value, value) if isinstance(value, FunctionType) else value
            module, _, attribute = name.rpartition(".")
            if name in enclosed:
                _cells(copied)[name].cell_contents = called
            elif not module:
                names[name] = called
            elif called is not value:
                _attributes(names, module)[attribute] = called
    return parts[function]


def _copy(function: FunctionType) -> FunctionType:
    """Return a copy of a function with globals of its own."""
    cells = tuple(CellType(value) for value in enclosed_values(function).values())
    code, names = function.__code__, dict(function.__globals__)
    copied = FunctionType(code, names, function.__name__, function.__defaults__, cells)
    copied.__module__, copied.__qualname__ = function.__module__, function.__qualname__
    return copied


def _cells(function: FunctionType) -> dict[str, CellType]:
    """Return the cells with what a function reads of the function around it, by name."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


class _Bound(ModuleType):
    """A copy of a module whose parts are bound."""


def _attributes(names: dict[str, Any], module: str) -> dict[str, Any]:
    """Return the names that one function reads from a module that holds parts."""
    if not isinstance(names[module], _Bound):
        copied = _Bound(names[module].__name__)
        copied.__dict__.update(names[module].__dict__)
        names[module] = copied
    attributes: dict[str, Any] = vars(names[module])
    return attributes

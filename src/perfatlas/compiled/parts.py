"""Compiled functions: parts are called by compiled code, entries by Python.

Nothing is compiled and the compiler is not imported until an entry is called whose machine code is
not in the cache on disk, where it is stored under a digest of everything it depends on.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import threading
from functools import cache, update_wrapper
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from perfatlas.compiled.columns import ColumnsLayout, Packed, layout_of
from perfatlas.compiled.listeners import compilation
from perfatlas.compiled.machine_code import host, load
from perfatlas.compiled.reach import PARTS, code_text, digest
from perfatlas.compiled.unit_files import read_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FunctionType

    from perfatlas.compiled.columns import Layout
    from perfatlas.compiled.machine_code import Native

Function = TypeVar("Function", bound="Callable[..., Any]")
_COMPILER: Final = (
    *("building", "column_types", "columns", "direct_way"),
    *("emission", "machine_code", "settling"),
)
_RESULTS: Final[Mapping[str, Callable[[int], Any]]] = {
    "int": int,
    "bool": bool,
    "None": lambda _: None,
}
_LOCK: Final = threading.RLock()


def part(function: Function) -> Function:
    """Return a function unchanged, registered as callable from compiled code.

    Args:
        function: Arithmetic on numbers, records, arrays and columns; it allocates nothing.
    """
    PARTS[cast("FunctionType", function)] = False
    return function


def inlined(function: Function) -> Function:
    """Return a function unchanged, registered as a part that is always inlined into its callers.

    Args:
        function: As for `part`; a function on the hot path.
    """
    PARTS[cast("FunctionType", function)] = True
    return function


class Entry:
    """A function compiled at its first call; machine code is shared by all processes.

    Args:
        function: Takes numbers, arrays, tuples, named tuples of them and lists of named tuples;
            returns an integer, a boolean or nothing. Functions it calls are marked `part`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function; nothing is compiled yet."""
        self.function = cast("FunctionType", function)
        self._names = tuple(inspect.signature(function).parameters)
        self._result = _RESULTS[str(function.__annotations__["return"])]
        self._loaded: dict[ColumnsLayout, Native] = {}
        self._last: tuple[tuple[Layout, ...], Native] | None = None
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - as the function
        """Return what the function returns.

        Raises:
            TypeError: Compiled code cannot receive an argument.
            RuntimeError: Compiled code raised an error.
        """
        layouts, last = tuple(map(layout_of, args)), self._last
        if last is None or last[0] != layouts:  # comparing is faster than the hash of many fields
            last = self._last = layouts, self._found(layouts)
        native, packed, result = last[1], Packed(args), ctypes.c_int64()
        if native(packed.address, ctypes.addressof(result)):
            raise RuntimeError(f"{self.function.__qualname__} failed in compiled code")
        return self._result(result.value)

    def _found(self, layouts: tuple[Layout, ...]) -> Native:
        """Return the machine code for the layouts of arguments."""
        layout = ColumnsLayout(tuple(zip(self._names, layouts, strict=True)))
        native = self._loaded.get(layout)
        if native is None:
            with _LOCK:
                native = self._loaded[layout] = self._native(layout)
        return native

    def layout(self, args: tuple[Any, ...]) -> ColumnsLayout:
        """Return the layout of arguments.

        Args:
            args: The arguments.
        """
        return ColumnsLayout(tuple(zip(self._names, map(layout_of, args), strict=True)))

    def key(self, layout: ColumnsLayout) -> str:
        """Return a digest of everything that the machine code depends on.

        Args:
            layout: Layout of the arguments.
        """
        told = (digest(self.function), layout, _surroundings())
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _native(self, layout: ColumnsLayout) -> Native:
        """Return machine code from disk, compiled first where it is missing."""
        key = self.key(layout)
        unit = read_unit(key)
        loaded = None if unit is None else load(unit)
        if loaded is not None:
            return loaded
        with compilation():
            from perfatlas.compiled.building import build

            return build(self.function, layout, key)


def entry(function: Callable[..., Any]) -> Entry:
    """Return a compiled function that Python can call; decorator form of `Entry`.

    Args:
        function: As `Entry` takes it.
    """
    return Entry(function)


@cache
def _surroundings() -> Mapping[str, Any]:
    """Return what all machine code depends on: processor, compiler and compiler options."""
    told: dict[str, Any] = {"host": host()}
    for package in ("numba", "llvmlite", "numpy"):
        told[package] = version(package)
    for name in _COMPILER:
        spec = find_spec(f"perfatlas.compiled.{name}")
        if spec is not None and spec.loader is not None:
            told[name] = code_text(spec.loader.get_code(spec.name))  # type: ignore[attr-defined] # of files
    return told

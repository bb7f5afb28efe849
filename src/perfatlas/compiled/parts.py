"""Compiled functions: parts are called by compiled code, entries by Python.

Nothing is compiled and the compiler is not imported until an entry is called whose machine code is
not in the cache on disk, where it is stored under a digest of everything it depends on.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import struct
import threading
from functools import cache, update_wrapper
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import numpy as np

from perfatlas.compiled.columns import (
    ArrayLayout,
    ColumnsLayout,
    PackedArguments,
    address_of,
    layout_of,
    words_of,
)
from perfatlas.compiled.listeners import compilation
from perfatlas.compiled.machine_code import host, load
from perfatlas.compiled.reach import PARTS, code_text, digest
from perfatlas.compiled.unit_files import one_at_a_time, read_unit
from perfatlas.quantities import UnsupportedError

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


class CompilerOffError(UnsupportedError):
    """The compiler is switched off, and no machine code is kept of what is called."""


class Entry:
    """A function compiled at its first call; machine code is shared by all processes.

    Args:
        function: Takes numbers, arrays, tuples, named tuples of them and lists of named tuples;
            returns an integer, a boolean or nothing. Functions it calls are marked `part`.
        speed_level: LLVM's optimization level, if it is large: from 1 to 3.
    """

    def __init__(self, function: Callable[..., Any], speed_level: int = 1) -> None:
        """Keep the function; nothing is compiled yet."""
        self.function = cast("FunctionType", function)
        self._speed_level = speed_level
        self._names = tuple(inspect.signature(function).parameters)
        self._result = _RESULTS[str(function.__annotations__["return"])]
        self._loaded: dict[ColumnsLayout, Native] = {}
        self._last: tuple[tuple[Layout, ...], Native] | None = None
        self._arrays: _ArrayCall | None = None
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401 - as the function
        """Return what the function returns."""
        arrays, result = self._arrays, ctypes.c_int64()
        words = None if arrays is None else arrays.words(args)
        if arrays is not None and words is not None:
            failed = arrays.native(words, ctypes.addressof(result))
        else:
            layouts, last = tuple(map(layout_of, args)), self._last
            if last is None or last[0] != layouts:  # faster than the hash of many fields
                last = self._last = layouts, self._compiled(layouts)
                self._arrays = _ArrayCall.of(*last)
            packed = PackedArguments(args)
            failed = last[1](packed.address, ctypes.addressof(result))
        if failed:
            raise RuntimeError(f"{self.function.__qualname__} failed in compiled code")
        return self._result(result.value)

    def _compiled(self, layouts: tuple[Layout, ...]) -> Native:
        """Return the machine code for the layouts of arguments."""
        layout = ColumnsLayout(tuple(zip(self._names, layouts, strict=True)))
        native = self._loaded.get(layout)
        if native is None:
            with _LOCK:
                native = self._loaded[layout] = self._native(layout)
        return native

    def layout(self, args: tuple[Any, ...]) -> ColumnsLayout:
        """Return the layout of arguments."""
        return ColumnsLayout(tuple(zip(self._names, map(layout_of, args), strict=True)))

    def key(self, layout: ColumnsLayout) -> str:
        """Return a digest of everything that the machine code depends on."""
        key = (digest(self.function), self._speed_level, layout, _surroundings())
        return hashlib.sha256(repr(key).encode()).hexdigest()

    def _native(self, layout: ColumnsLayout) -> Native:
        """Return machine code from disk, compiled first where it is missing."""
        key = self.key(layout)
        unit = read_unit(key)
        loaded = None if unit is None else load(unit)
        return self._built(layout, key) if loaded is None else loaded

    def _built(self, layout: ColumnsLayout, key: str) -> Native:
        """Return machine code compiled now, or by another process while this one waited for it."""
        _check_compiler()
        with one_at_a_time(key):
            unit = read_unit(key)  # another process may have compiled it meanwhile
            loaded = None if unit is None else load(unit)
            if loaded is not None:
                return loaded
            with compilation():
                from perfatlas.compiled.building import build

                return build(self.function, layout, key, self._speed_level)


def _check_compiler() -> None:
    """Refuse to compile where the compiler's own switch forbids it."""
    from numba import config

    if config.DISABLE_JIT:
        raise CompilerOffError(
            "NUMBA_DISABLE_JIT is set, and simulations run as compiled code only; "
            "unset NUMBA_DISABLE_JIT and repeat the command"
        )


class _ArrayCall(NamedTuple):
    """The short way into machine code whose arguments are arrays alone, as prices call it."""

    native: Native
    pack: Callable[..., bytes]  # From words to bytes
    # Type of items and number of axes of each argument
    kinds: tuple[tuple[np.dtype[Any], int], ...]

    @classmethod
    def of(cls, layouts: tuple[Layout, ...], native: Native) -> _ArrayCall | None:
        """Return the short way for arguments of given layouts, None where one is no array."""
        arrays = [array_layout for array_layout in layouts if isinstance(array_layout, ArrayLayout)]
        if len(arrays) < len(layouts):
            return None
        words = struct.Struct("q" * sum(map(words_of, arrays)))
        return cls(native, words.pack, tuple((array.dtype, array.ndim) for array in arrays))

    def words(self, args: tuple[Any, ...]) -> bytes | None:
        """Return the words of arguments, None where they are of another layout."""
        if len(args) != len(self.kinds):
            return None
        words: list[int] = []
        for arg, (dtype, ndim) in zip(args, self.kinds, strict=True):
            if type(arg) is not np.ndarray or arg.dtype is not dtype:
                return None
            if arg.ndim != ndim or not arg.flags.carray:
                return None
            words.append(address_of(arg))
            words += arg.shape
        return self.pack(*words)


def entry(function: Callable[..., Any]) -> Entry:
    """Return a compiled function that Python can call; decorator form of `Entry`.

    Args:
        function: As `Entry` takes it.
    """
    return Entry(function)


def optimized_entry(function: Callable[..., Any]) -> Entry:
    """Return an entry whose loops gain more from LLVM's second level than it takes to compile.

    Args:
        function: As `Entry` takes it.
    """
    return Entry(function, speed_level=2)


@cache
def _surroundings() -> Mapping[str, Any]:
    """Return what all machine code depends on: processor, compiler and compiler options."""
    from importlib.metadata import version

    identity: dict[str, Any] = {"host": host()}
    for package in ("numba", "llvmlite", "numpy"):
        identity[package] = version(package)
    for name in _COMPILER:
        spec = find_spec(f"perfatlas.compiled.{name}")
        if spec is not None and spec.loader is not None:
            identity[name] = code_text(spec.loader.get_code(spec.name))  # type: ignore[attr-defined] # of files
    return identity

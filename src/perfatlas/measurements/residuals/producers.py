"""Digest of the code that produces a cached result: the functions it reaches and nothing else.

A cached result is recomputed when one of these functions changes, but not for a change of a
comment, a docstring or another function in the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.compiled import code_text
from perfatlas.files import content_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PACKAGE_PREFIX: Final = "perfatlas."
_SCALAR_TYPES: Final = (bool, int, float, str, bytes, type(None), np.generic, np.dtype, slice)


def producers_hash(*producers: Callable[..., Any], by_value: tuple[Any, ...] = ()) -> str:
    """Return a digest of functions, of everything they reach, and of the data files those read.

    Args:
        by_value: Functions that are not followed, as their results are part of the key elsewhere.

    Limits: Functions looked up by a name computed at run time are not found; pass them as
        producers.

    Example:
        >>> from perfatlas.measurements.residuals.producers import producers_hash
        >>> producers_hash(producers_hash) == producers_hash(producers_hash)
        True
    """
    walk = _Walk(by_value)
    text_of = [walk.text_of(producer) for producer in producers]
    while walk.ahead:
        text_of.append(walk.inside(walk.ahead.pop()))
    data = Path(__file__).parents[1] / "data"
    lists = [data / name for name in sorted(walk.files) if (data / name).is_file()]
    return content_hash(repr((text_of, [content_hash(path.read_bytes()) for path in lists])))


class _Walk:
    """Functions and classes found so far.

    Args:
        by_value: Functions that are not followed.

    Attributes:
        ahead: Found but not followed yet.
        files: Names of data files that they read.
    """

    def __init__(self, by_value: tuple[Any, ...]) -> None:
        """Start empty."""
        self._number: dict[int, int] = {}
        self._by_value = by_value
        self.ahead: list[Any] = []
        self.files: set[str] = set()

    def text_of(self, value: Any) -> str:  # noqa: ANN401 - any global
        """Return the value of a name as text that is stable across processes."""
        if any(value is function for function in self._by_value):
            return "by value"
        value = getattr(value, "__wrapped__", value)
        if isinstance(value, str) and value.endswith(".toml"):
            self.files.add(Path(value).name)
        if isinstance(value, FunctionType | type):
            return self._met(value)
        if isinstance(value, np.ndarray):
            return f"array {value.dtype} {value.shape} {value.tobytes().hex()}"
        if isinstance(value, Mapping | tuple | list | set | frozenset):
            return f"{type(value).__name__} {self._items(value)}"
        if isinstance(value, Enum) or not isinstance(value, _SCALAR_TYPES):
            return f"{type(value).__name__} {getattr(value, '__qualname__', '')}"
        return f"{type(value).__name__} {value!r}"

    def _items(self, value: Any) -> list[str]:  # noqa: ANN401 - a collection
        """Return the items of a collection as text."""
        if isinstance(value, Mapping):
            return [f"{self.text_of(key)}: {self.text_of(value[key])}" for key in value]
        items = [self.text_of(item) for item in value]
        return sorted(items) if isinstance(value, set | frozenset) else items

    def _met(self, value: Any) -> str:  # noqa: ANN401 - a function or a class
        """Return the number of a function or class of perfatlas, the name of another."""
        if not f"{value.__module__}.".startswith(_PACKAGE_PREFIX):
            return f"{value.__module__}.{value.__qualname__}"
        if id(value) not in self._number:
            self._number[id(value)] = len(self._number)
            self.ahead.append(value)
        return f"number {self._number[id(value)]}"

    def inside(self, value: Any) -> str:  # noqa: ANN401 - a function or a class
        """Return the definition of a function or class of perfatlas as text."""
        if isinstance(value, type):
            names = sorted(name for name in vars(value) if not name.startswith("__"))
            members = [(name, self._member(vars(value)[name])) for name in names]
            return f"class {[self.text_of(base) for base in value.__bases__]} {members}"
        cells = [self.text_of(cell.cell_contents) for cell in value.__closure__ or ()]
        read = [(name, self.text_of(read_value)) for name, read_value in self._globals(value)]
        defaults = self.text_of((value.__defaults__, value.__kwdefaults__))
        return f"function {code_text(value.__code__)} {defaults} {cells} {sorted(read)}"

    def _member(self, value: Any) -> str:  # noqa: ANN401 - of a class
        """Return a member of a class as text."""
        return self.text_of(getattr(value, "__func__", getattr(value, "fget", None) or value))

    def _globals(self, function: FunctionType) -> Iterator[tuple[str, Any]]:
        """Yield the global names of a function, module attributes it uses, and its imports."""
        names: set[str] = set()
        for code in _codes(function.__code__):
            names.update(code.co_names)
            texts = (co_const for co_const in code.co_consts if isinstance(co_const, str))
            self.files.update(Path(text).name for text in texts if text.endswith(".toml"))
        values = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
        values |= {name: import_module(name) for name in names if name.startswith(_PACKAGE_PREFIX)}
        for name, value in values.items():
            if not isinstance(value, ModuleType):
                yield name, value
            elif value.__name__.startswith(_PACKAGE_PREFIX):
                yield from (
                    (f"{name}.{key}", getattr(value, key)) for key in names & set(vars(value))
                )


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and its nested functions and comprehensions."""
    yield code
    for co_const in code.co_consts:
        if isinstance(co_const, CodeType):
            yield from _codes(co_const)

"""Compile through numba's public interface only; slower, and nothing is cached on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import cfunc, njit

from perfatlas.compiled.machine_code import NATIVE

if TYPE_CHECKING:
    from types import FunctionType

    from perfatlas.compiled.machine_code import Native

OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy"}
_KEPT: Final[list[Any]] = []  # they own the code


def part(function: FunctionType, *, inline: bool = False) -> Any:  # noqa: ANN401 - untyped
    """Return a part that code compiled by `native` can call."""
    return njit(forceinline=inline, **OPTIONS)(function)


def native(function: FunctionType, signature: Any) -> Native:  # noqa: ANN401 - untyped
    """Return the compiled function.

    Args:
        function: Takes the addresses of arguments and result and returns 0; its parts are bound.
    """
    made = cfunc(signature, **OPTIONS)(function)
    _KEPT.append(made)
    return NATIVE(made.address)

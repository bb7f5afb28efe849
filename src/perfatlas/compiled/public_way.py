"""The long way through the compiler, by its public interface alone; nothing is kept on disk."""

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
    """Return what callers compiled by `native` call.

    Args:
        function: A function whose own parts are bound.
        inline: It is copied into its callers.
    """
    return njit(forceinline=inline, **OPTIONS)(function)


def native(function: FunctionType, signature: Any) -> Native:  # noqa: ANN401 - untyped
    """Return a function compiled.

    Args:
        function: From the addresses of arguments and result to 0; its parts are bound.
        signature: Types of those.
    """
    made = cfunc(signature, **OPTIONS)(function)
    _KEPT.append(made)
    return NATIVE(made.address)

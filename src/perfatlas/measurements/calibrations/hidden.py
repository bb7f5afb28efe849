"""Devices treated as if they had not been measured, for validation."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HIDDEN: ContextVar[frozenset[str]] = ContextVar("_HIDDEN", default=frozenset())


def hidden_devices() -> frozenset[str]:
    """Return the devices whose calibrations are not used.

    Example:
        >>> from perfatlas.measurements.calibrations.hidden import hidden_devices, without_devices
        >>> with without_devices(["b200_sxm"]):
        ...     sorted(hidden_devices())
        ['b200_sxm']
    """
    return _HIDDEN.get()


@contextmanager
def without_devices(names: Iterable[str]) -> Iterator[None]:
    """Price as if some devices had not been measured; their rows lend nothing.

    Args:
        names: Catalog names.
    """
    token = _HIDDEN.set(frozenset(names))
    try:
        yield
    finally:
        _HIDDEN.reset(token)

"""Listeners that are notified of compilations and how long they took."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Listener(Protocol):
    """Notified of every compilation, in the compiling thread."""

    def started(self) -> None:
        """Compilation starts, as no machine code was found on disk."""

    def ended(self, seconds: float) -> None:
        """Compilation ended.

        Args:
            seconds: Time it took [s].
        """

    def not_saved(self, folder: str, reason: str) -> None:
        """Machine code could not be written, so that the next process compiles again."""


_LISTENERS: Final[list[Listener]] = []


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Notify a listener of compilations while the block runs."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def report_not_saved(folder: str, reason: str) -> None:
    """Notify all listeners that machine code could not be written."""
    for listener in tuple(_LISTENERS):
        listener.not_saved(folder, reason)


@contextlib.contextmanager
def compilation() -> Iterator[None]:
    """Notify all listeners that the block compiles."""
    began = time.monotonic()
    for listener in tuple(_LISTENERS):
        listener.started()
    try:
        yield
    finally:
        for listener in tuple(_LISTENERS):
            listener.ended(time.monotonic() - began)

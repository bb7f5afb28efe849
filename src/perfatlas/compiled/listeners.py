"""Who wants to know that something compiles, and how long it took."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Listener(Protocol):
    """Hears of every compilation, in the thread that compiles."""

    def started(self) -> None:
        """Nothing was found on disk: compilation starts."""

    def ended(self, seconds: float) -> None:
        """Compilation ended.

        Args:
            seconds: What it took.
        """


_LISTENERS: Final[list[Listener]] = []


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a listener hear of compilations while the block runs.

    Args:
        listener: Who listens.
    """
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


@contextlib.contextmanager
def compilation() -> Iterator[None]:
    """Tell all listeners that the block compiles."""
    began = time.monotonic()
    for listener in tuple(_LISTENERS):
        listener.started()
    try:
        yield
    finally:
        for listener in tuple(_LISTENERS):
            listener.ended(time.monotonic() - began)

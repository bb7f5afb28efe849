"""Why a command takes long, said on stderr once it does."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOW_S: Final = 1.5
COMPILING: Final = "perfatlas: compiling the simulator, once; later runs start at once"


class _Timer:
    """Does something after a while, unless it is stopped before.

    Args:
        act: What to do, in a thread of its own.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        """Keep what is to be done."""
        self._act = act
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Begin to wait."""
        self._timer = threading.Timer(SLOW_S, self._act)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()


class CompileNotice:
    """One line about all that a command compiles, if that takes long, and how long it took.

    Args:
        other: What else is said of a slow command; it waits while something compiles.
    """

    def __init__(self, other: _Timer | None = None) -> None:
        """Nothing compiles yet."""
        self._other = other
        self._timer = _Timer(self._say)
        self._lock = threading.Lock()
        self._compiles = self._said = False
        self._seconds = 0.0

    def started(self) -> None:
        """Begin to wait as a compilation starts."""
        if self._other is not None:
            self._other.stop()
        self._compiles = True
        self._timer.start()

    def ended(self, seconds: float) -> None:
        """Add what a compilation took.

        Args:
            seconds: What it took.
        """
        with self._lock:
            self._timer.stop()
            self._compiles = False
        self._seconds += seconds
        if self._other is not None:
            self._other.start()

    def close(self) -> None:
        """End the line, before anything else is said."""
        if self._said and self._seconds:
            sys.stderr.write(f" (took {self._seconds:.1f} s)\n")
            self._said, self._seconds = False, 0.0

    def _say(self) -> None:
        with self._lock:
            if self._compiles and not self._said:
                self._said = True
                sys.stderr.write(COMPILING)
                sys.stderr.flush()


@contextlib.contextmanager
def told_if_slow(why: str) -> Iterator[None]:
    """Say why it takes long, if it does, and what compiles meanwhile.

    Args:
        why: In a sentence without its end.
    """
    from perfatlas.compiled import listening

    said = threading.Event()

    def say() -> None:
        if not said.is_set():
            said.set()
            notice.close()
            sys.stderr.write(f"perfatlas: {why}\n")

    timer = _Timer(say)
    notice = CompileNotice(timer)
    timer.start()
    try:
        with listening(notice):
            yield
    finally:
        timer.stop()
        notice.close()

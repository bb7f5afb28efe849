"""Notices on stderr about commands that take long."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOW_S: Final = 1.5
COMPILING: Final = "perfatlas: compiling the simulator (once; later runs start immediately)"


class _Timer:
    """Calls a function after a delay, unless stopped before.

    Args:
        act: The function, called in its own thread.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        """Store the function."""
        self._act = act
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Start the delay."""
        self._timer = threading.Timer(SLOW_S, self._act)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Cancel the call."""
        if self._timer is not None:
            self._timer.cancel()


class CompileNotice:
    """One line about all compilation of a command, if it takes long, with its duration.

    Args:
        other: Notice about a slow command, suspended while code compiles.
    """

    def __init__(self, other: _Timer | None = None) -> None:
        """Start without a compilation."""
        self._other = other
        self._timer = _Timer(self._say)
        self._lock = threading.Lock()
        self._compiles = self._said = False
        self._seconds = 0.0

    def started(self) -> None:
        """Start the delay when a compilation starts."""
        if self._other is not None:
            self._other.stop()
        self._compiles = True
        self._timer.start()

    def ended(self, seconds: float) -> None:
        """Add the duration of a compilation.

        Args:
            seconds: Duration [s].
        """
        with self._lock:
            self._timer.stop()
            self._compiles = False
        self._seconds += seconds
        if self._other is not None:
            self._other.start()

    def close(self) -> None:
        """End the line before other output."""
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
def notice_if_slow(why: str) -> Iterator[None]:
    """Print a notice if a command is slow, and about compilation meanwhile.

    Args:
        why: The notice, without a full stop.
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

"""Why a command takes long, said on stderr once it does."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_S: Final = 1.5
COMPILING: Final = "perfatlas: compiling the simulator, once; later runs start at once"


class _Timer:
    """Says something after a while, unless it is stopped before."""

    def __init__(self, text: str) -> None:
        """Keep what is to be said."""
        self._text = text
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self.said = False

    def start(self) -> None:
        """Begin to wait."""
        self._timer = threading.Timer(SLOW_S, self._say)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> bool:
        """Wait no more, and return whether it was said."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
        return self.said

    def _say(self) -> None:
        with self._lock:
            if self._timer is not None:
                self.said = True
                sys.stderr.write(self._text)
                sys.stderr.flush()


class CompileNotice:
    """One line of what compiles long: that it does, and when it is done how long it took.

    Args:
        other: What else is said of a slow command; it waits while something compiles.
    """

    def __init__(self, other: _Timer | None = None) -> None:
        """Nothing compiles yet."""
        self._other = other
        self._line = _Timer(COMPILING)

    def started(self) -> None:
        """Begin to wait as a compilation starts."""
        if self._other is not None:
            self._other.stop()
        self._line = _Timer(COMPILING)
        self._line.start()

    def ended(self, seconds: float) -> None:
        """End the line.

        Args:
            seconds: What the compilation took.
        """
        if self._line.stop():
            sys.stderr.write(f" (took {seconds:.1f} s)\n")
        if self._other is not None and not self._other.said:
            self._other.start()


@contextlib.contextmanager
def told_if_slow(why: str) -> Iterator[None]:
    """Say why it takes long, if it does, and what compiles meanwhile.

    Args:
        why: In a sentence without its end.
    """
    from perfatlas.compiled import listening

    timer = _Timer(f"perfatlas: {why}\n")
    timer.start()
    try:
        with listening(CompileNotice(timer)):
            yield
    finally:
        timer.stop()

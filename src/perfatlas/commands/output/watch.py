"""Progress of long simulations, and handling of Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from typing import Any, Final, Self

from perfatlas.commands.output.waiting import CompileNotice

SILENT_S: Final = 0.5  # minimum time between progress updates
BAR: Final = 30  # characters


class Progress:
    """Shows progress of a simulation on stderr, and stops it at the next check after Ctrl-C.

    The first Ctrl-C during a simulation is deferred to the next check, so that results so far are
    kept; one before there are results, and a second one, terminate immediately.

    Attributes:
        stopped: Whether Ctrl-C was pressed during the simulation.
    """

    def __init__(self) -> None:
        """Start without a simulation."""
        self._told = time.monotonic()
        self._shown = False
        self._running = False
        self.stopped = False
        self._before: Any = None
        self._notice = CompileNotice()
        self._listening = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Install the handlers of Ctrl-C and of the compiler."""
        from perfatlas.compiled import listening

        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        self._listening.enter_context(listening(self._notice))
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handler of Ctrl-C."""
        self._listening.close()
        self.clear()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def clear(self) -> None:
        """Remove the progress bar."""
        self._notice.close()
        if self._shown:
            sys.stderr.write("\r\033[K")
        self._shown = False

    def _interrupt(self, number: int, _: object) -> None:
        if self.stopped or not self._running:
            raise KeyboardInterrupt(number)
        self.stopped = True

    def look(self, share: float) -> bool:
        """Update the progress bar, and return whether to stop the simulation.

        Args:
            share: Completed fraction.
        """
        self._running = True
        self._notice.close()
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._told >= SILENT_S:
            self._told, self._shown = now, True
            bar = "#" * round(BAR * share)
            sys.stderr.write(f"\r[{bar:.<{BAR}}] {share:4.0%}; Ctrl-C keeps results so far ")
            sys.stderr.flush()
        return self.stopped

"""What a person sees of a simulation that takes long, and what Ctrl-C does to it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from typing import Any, Final, Self

from perfatlas.commands.output.waiting import CompileNotice

SILENT_S: Final = 0.5  # between two looks at how far a simulation is
BAR: Final = 30  # characters


class Watch:
    """What says on stderr that a simulation compiles or runs, and stops it at a look after Ctrl-C.

    A first Ctrl-C while it runs is kept until the next look, so that whatever is done is kept; one
    before there is anything to keep, and a second one, end at once.

    Attributes:
        stopped: Ctrl-C came while it ran.
    """

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._told = time.monotonic()
        self._shown = False
        self._running = False
        self.stopped = False
        self._before: Any = None
        self._notice = CompileNotice()
        self._listening = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Listen to Ctrl-C and to the compiler."""
        from perfatlas.compiled import listening

        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        self._listening.enter_context(listening(self._notice))
        return self

    def __exit__(self, *_: object) -> None:
        """Leave Ctrl-C as it was."""
        self._listening.close()
        self.clear()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def clear(self) -> None:
        """Take the bar away."""
        self._notice.close()
        if self._shown:
            sys.stderr.write("\r\033[K")
        self._shown = False

    def _interrupt(self, number: int, _: object) -> None:
        if self.stopped or not self._running:
            raise KeyboardInterrupt(number)
        self.stopped = True

    def look(self, share: float) -> bool:
        """Show how far a simulation is, now and then, and return whether to stop it.

        Args:
            share: Of its work that is done.
        """
        self._running = True
        self._notice.close()
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._told >= SILENT_S:
            self._told, self._shown = now, True
            bar = "#" * round(BAR * share)
            sys.stderr.write(f"\r[{bar:.<{BAR}}] {share:4.0%}; Ctrl-C keeps what is done ")
            sys.stderr.flush()
        return self.stopped

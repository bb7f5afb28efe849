"""Notices on stderr about commands that take long."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

from perfatlas.files import home_variable
from perfatlas.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SILENT_S: Final = 0.5  # minimum time between progress updates


BAR: Final = 30  # characters


SLOW_S: Final = 1.5
QUIET_S: Final = 1.0  # before lines of progress are written
CLEARED: Final = "\r\033[K"  # of a line on a terminal
COMPILING: Final = "perfatlas: compiling the simulator (once; later runs start immediately)"
NOT_KEPT: Final = (
    "compiled code cannot be kept in '{}' ({}), so each run compiles again: set XDG_CACHE_HOME or"
    " {} to a folder that can be written"
)


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


def _write_line(text: str) -> None:
    """Write a line to stderr, on a terminal in place of a line of progress."""
    sys.stderr.write(f"{CLEARED if sys.stderr.isatty() else ''}{printable(text)}\n")
    sys.stderr.flush()


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
        self._compiles = self._printed = False
        self._seconds = 0.0
        self._not_kept: tuple[str, str] | None = None
        self._told_not_kept = False

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

    def not_saved(self, folder: str, reason: str) -> None:
        """Remember why machine code could not be written, to be said once.

        Args:
            reason: The operating system's reason.
        """
        self._not_kept = (folder, reason)

    def close(self) -> None:
        """End the line before other output."""
        if self._not_kept and not self._told_not_kept:
            self._told_not_kept = True
            (folder, reason), home = self._not_kept, home_variable()
            self._printed = False
            sys.stderr.write(printable(f"perfatlas: {NOT_KEPT.format(folder, reason, home)}\n"))
        if self._printed and self._seconds:
            _write_line(f"perfatlas: compiled in {self._seconds:.1f} s")
            self._printed, self._seconds = False, 0.0

    def _say(self) -> None:
        with self._lock:
            if self._compiles and not self._printed:
                self._printed = True
                _write_line(COMPILING)


@contextlib.contextmanager
def notice_if_slow(why: str) -> Iterator[None]:
    """Print a notice if a command is slow, and about compilation meanwhile.

    Args:
        why: The notice, without a full stop.
    """
    from perfatlas.compiled import listening

    printed = threading.Event()

    def say() -> None:
        if not printed.is_set():
            printed.set()
            notice.close()
            _write_line(f"perfatlas: {why}")

    timer = _Timer(say)
    notice = CompileNotice(timer)
    timer.start()
    try:
        with listening(notice):
            yield
    finally:
        timer.stop()
        notice.close()


@contextlib.contextmanager
def late_lines(every_s: float = 0.0) -> Iterator[Callable[[str], None]]:
    """Give a function that tells progress on stderr once a command takes more than a second.

    On a terminal it renews one line, which is removed at the end; elsewhere it writes lines.

    Args:
        every_s: Least time between two lines [s]; those between are left out.
    """
    last_line_s = time.monotonic() + QUIET_S - every_s  # the first line is due after QUIET_S
    renewed = False

    def tell(line: str) -> None:
        nonlocal last_line_s, renewed
        if time.monotonic() - last_line_s <= every_s:
            return
        last_line_s = time.monotonic() if every_s else last_line_s
        text = printable(f"perfatlas: {line}")
        if sys.stderr.isatty():
            renewed = True
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"{CLEARED}{text[:width]}")
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        if renewed:
            sys.stderr.write(CLEARED)
            sys.stderr.flush()

"""Why a command takes long, said on stderr once it does."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_S: Final = 1.5


@contextlib.contextmanager
def told_if_slow(why: str) -> Iterator[None]:
    """Say why it takes long, if it does.

    Args:
        why: In a sentence without its end.
    """
    timer = threading.Timer(SLOW_S, sys.stderr.write, [f"perfatlas: {why}\n"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

"""Functions for other processes, which import nothing else."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def squared_once(text: str, number: int) -> int:
    """Return the square; the first process that is asked for 3 is killed."""
    mark = Path(text) / "killed"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def killed(_text: str, _number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0

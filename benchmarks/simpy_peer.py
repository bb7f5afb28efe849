"""Running SimPy scripts in a separate environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def asked_of_simpy(python: str, script: str, *words: str, stdin: str = "") -> dict[str, Any] | str:
    """Return the JSON output of a script of this folder, or why it did not run.

    Args:
        script: Name of the script.
        words: Arguments of its command line.
        stdin: Its standard input.
    """
    command = [python, str(Path(__file__).with_name(script)), *words]
    try:
        done = subprocess.run(  # noqa: S603 - an interpreter the caller names
            command, check=False, capture_output=True, text=True, input=stdin
        )
    except OSError as error:
        return f"not run: {error}"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"not run: {last[:200]}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found

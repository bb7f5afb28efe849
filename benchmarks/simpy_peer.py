"""Asking SimPy: it runs in an environment of its own, which the caller names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def asked_of_simpy(python: str, script: str, *words: str, stdin: str = "") -> dict[str, Any] | str:
    """Return what a script of this folder prints as JSON, or why it did not run.

    Args:
        python: Interpreter that has SimPy.
        script: Name of the script.
        words: Of its command line.
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

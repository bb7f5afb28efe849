"""Shell completion: print or install it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from perfatlas.cli.app import app
from perfatlas.quantities import InvalidSpecError, UsageError, printable

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell, /) -> int:
    """Print a completion script; return the exit code.

    Args:
        shell: Name of the shell, as in: source <(perfatlas completion bash).
    """
    sys.stdout.write(app.generate_completion(shell=shell))
    return 0


def install_completion(*, shell: Shell | None = None, output: Path | None = None) -> int:
    """Install completion; return the exit code.

    Args:
        shell: Name of the shell; $SHELL by default.
        output: Write the script to this file and leave the startup file unchanged.
    """
    wanted = shell or Path(os.environ.get("SHELL", "")).name
    if wanted not in ("bash", "zsh", "fish"):
        raise UsageError(f"unknown shell {wanted!r}: use --shell bash, zsh or fish")
    try:
        place = app.install_completion(
            shell=wanted,  # type: ignore[arg-type] # checked above
            output=output,
            add_to_startup=output is None,
        )
    except (OSError, RuntimeError) as problem:  # RuntimeError: there is no home folder
        named = f" in '{output}'" if output is not None else " in your home folder"
        reason = getattr(problem, "strerror", None) or problem
        raise InvalidSpecError(
            f"completion for {wanted} cannot be installed{named}: {reason}; write it to another"
            f" file with --output FILE, or print it with `perfatlas completion {wanted}`"
        ) from problem
    sys.stdout.write(printable(f"completion for {wanted} installed in {place}\n"))
    return 0

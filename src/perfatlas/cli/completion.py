"""Shell completion: print or install it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from perfatlas.cli.app import app
from perfatlas.quantities import UsageError

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
    place = app.install_completion(
        shell=wanted,  # type: ignore[arg-type] # checked above
        output=output,
        add_to_startup=output is None,
    )
    sys.stdout.write(f"completion for {wanted} installed in {place}\n")
    return 0

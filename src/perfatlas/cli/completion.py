"""Shell completion, printed or installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from perfatlas.cli.app import app
from perfatlas.quantities import UsageError

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell, /) -> int:
    """Return the exit code of printing a completion script.

    Args:
        shell: For which shell; for example: source <(perfatlas completion bash).
    """
    sys.stdout.write(app.generate_completion(shell=shell))
    return 0


def install_completion(*, shell: Shell | None = None, output: Path | None = None) -> int:
    """Return the exit code of installing completion.

    Args:
        shell: For which shell; by default the one in $SHELL.
        output: Write the script here, and leave the start-up file alone.
    """
    wanted = shell or Path(os.environ.get("SHELL", "")).name
    if wanted not in ("bash", "zsh", "fish"):
        raise UsageError(f"shell {wanted!r}: name one with --shell bash, zsh or fish")
    place = app.install_completion(
        shell=wanted,  # type: ignore[arg-type] # checked above
        output=output,
        add_to_startup=output is None,
    )
    sys.stdout.write(f"completion for {wanted} installed in {place}\n")
    return 0

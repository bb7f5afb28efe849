"""The text answer of a sweep."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from perfatlas.report.text import print_line, print_plain, print_study_summary, reproduce_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console


def print_sweep(
    console: Console,
    answer: Mapping[str, Any],
    *,
    study: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """Write the summary of a sweep.

    Args:
        output: The file with all rows, if one was written.
        verbose: Whether to list all best rows and reasons.
    """
    results = answer["results"]
    print_study_summary(console, results, answer["scenario"]["study"]["verb"], verbose=verbose)
    for text in answer["warnings"]:
        print_line(console, text)
    if output is not None:
        print_line(console, f"rows: {output}")
    line = reproduce_line("sweep", {"output": None if output is None else str(output)})
    words = line.split(" ", 2)
    words.insert(2, shlex.quote(study))
    print_plain(console, f"reproduce: {' '.join(words)}", style="dim", wrap=False)

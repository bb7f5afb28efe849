"""What every answer ends with: evidence, warnings, and the command that gives it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.report.text.evidence import calibration_table, evidence_headline, evidence_lines
from perfatlas.report.text.rows import print_labelled
from perfatlas.report.text.terminal import print_line, print_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


def print_closing(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, method: str = ""
) -> None:
    """Write evidence, warnings and the command of an answer, each after an empty line.

    Args:
        console: From `open_terminal`.
        answer: The `--json` object of a computing verb.
        reproduce: The command line that gives it again.
        method: How it was computed; by default the tier and its calibrations tell.

    Example:
        >>> import sys
        >>> from perfatlas.report.text import open_terminal, print_closing
        >>> answer = {"evidence": {"tier": "exact"}, "warnings": ["few replicas"]}
        >>> print_closing(open_terminal(sys.stdout), answer, reproduce="...", method="closed form")
        <BLANKLINE>
        confidence: closed form
        <BLANKLINE>
        warning: few replicas
        <BLANKLINE>
        reproduce: ...
    """
    if evidence := answer.get("evidence"):
        console.print()
        print_line(console, f"confidence: {method or evidence_headline(evidence)}", style="bold")
        if calibrations := evidence.get("calibrations"):
            print_plain(console, calibration_table(calibrations, width=console.width))
        print_labelled(console, evidence_lines(evidence, width=console.width))
    warnings = answer.get("warnings") or []
    if warnings:
        console.print()
    for warning in warnings:
        print_line(console, f"warning: {warning}", style="yellow")
    console.print()
    # Not wrapped: it is there to be copied.
    print_plain(console, f"reproduce: {reproduce}", style="dim", wrap=False)

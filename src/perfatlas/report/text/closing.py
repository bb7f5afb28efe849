"""End of every answer: confidence, warnings, and the command that reproduces it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import BOTTLENECK
from perfatlas.report.text.evidence import (
    calibration_table,
    confidence_lines,
    evidence_headline,
    evidence_left_out,
    evidence_lines,
)
from perfatlas.report.text.quantities import format_value
from perfatlas.report.text.rows import print_labelled
from perfatlas.report.text.terminal import print_line, print_plain
from perfatlas.report.text.typesetting import typeset
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

INDENT: Final = 2
COST_NOTE: Final = "cost: "  # begins what names a price
MAX_LINES: Final = 6  # of warnings of a brief answer; the first are the gravest


def print_closing(
    console: Console,
    answer: Mapping[str, Any],
    *,
    reproduce: str,
    method: str = "",
    covered: str = "",
    verbose: bool = False,
) -> None:
    """Write confidence, warnings and the command of an answer.

    Args:
        method: Description of the method; derived from tier and calibrations by default.
        covered: What its intervals cover, if the method is set.

    Example:
        >>> import sys
        >>> from perfatlas.report.text import open_terminal, print_closing
        >>> answer = {"evidence": {"tier": "exact"}, "warnings": ["few replicas"]}
        >>> print_closing(open_terminal(sys.stdout), answer, reproduce="...", method="closed form")
        <BLANKLINE>
        confidence: closed form
        warning: few replicas
        reproduce: ...
    """
    if answer.get("evidence"):
        console.print()
        if verbose:
            evidence = answer["evidence"]
            print_line(
                console, f"confidence: {method or evidence_headline(evidence)}", style="bold"
            )
            if calibrations := evidence.get("calibrations"):
                print_plain(console, calibration_table(calibrations, width=console.width))
            versions = (
                [("version", f"perfatlas {answer['version']}")] if "version" in answer else []
            )
            print_labelled(console, [*evidence_lines(evidence, width=console.width), *versions])
            whole = METRICS["parts_usd_per_million_output_tokens"]
            parts = (answer.get("results") or {}).get(whole.name)
            if parts:
                shown = (
                    f"{label} {format_value(whole.name, parts[name])}"
                    for name, label in whole.parts.items()
                    if parts[name] or name == "gpu"
                )
                print_line(console, f"{whole.label} (per million): {', '.join(shown)}")
        else:
            lines = [method, typeset(covered)] if method else confidence_lines(answer)
            first, *rest = [line for line in lines if line]
            print_line(console, f"confidence: {first}", style="bold")
            for line in rest:
                for part in textwrap.wrap(line, console.width - INDENT):
                    print_line(console, f"{' ' * INDENT}{part}")
    _print_warnings(console, answer, verbose=verbose)
    if verbose:
        console.print()
    for price in () if verbose else _prices(answer):
        print_line(console, price, style="dim")
    if not verbose and (left_out := evidence_left_out(answer)):
        print_line(console, left_out, style="dim")
    # not wrapped, so that it can be copied
    print_plain(console, f"reproduce: {reproduce}", style="dim", wrap=False)


def _prices(answer: Mapping[str, Any]) -> list[str]:
    """Return what GPUs cost as one line, shorter for several systems; empty without a price."""
    notes = answer.get("evidence", {}).get("assumptions") or ()
    prices = [note.partition(";")[0] for note in notes if note.startswith(COST_NOTE)]
    if len(prices) > 1:
        each = (price.removeprefix(COST_NOTE).partition(" per GPU-hour")[0] for price in prices)
        prices = [f"cost per GPU-hour: {'; '.join(each)}"]
    return [typeset(price) for price in prices]


def _print_warnings(console: Console, answer: Mapping[str, Any], *, verbose: bool) -> None:
    texts = [str(warning) for warning in answer.get("warnings") or []]
    warnings = [typeset(text) for text in texts if not text.startswith(BOTTLENECK)]
    if warnings and verbose:
        console.print()
    lines = 0
    for number, warning in enumerate(warnings):
        text = f"warning: {warning}"
        lines += -(-len(text) // console.width)
        if number and lines > MAX_LINES and not verbose:
            remaining = len(warnings) - number
            print_line(console, f"warning: {remaining:,} more, shown by --verbose", style="yellow")
            break
        print_line(console, text, style="yellow")

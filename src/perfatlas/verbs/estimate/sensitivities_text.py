"""Text of an explained estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.report.text import print_closing, print_question
from perfatlas.studies import print_sensitivities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


def print_explanation(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write the sensitivities of an estimate.

    Args:
        console: From `open_terminal`.
        answer: The `--json` object of `estimate --explain`.
        reproduce: The command line that reproduces it.
        verbose: Whether to print all factors, metrics and evidence.
    """
    print_question(console, answer)
    print_sensitivities(console, answer["results"], verbose=verbose)
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)

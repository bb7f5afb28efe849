"""Components of text answers: rows, results, breakdowns, evidence."""

from __future__ import annotations

from perfatlas.report.text.answer import headline, print_answer, subheadline
from perfatlas.report.text.breakdown import rows_by_phase
from perfatlas.report.text.evidence import evidence_headline, evidence_lines
from perfatlas.report.text.latencies import STATISTICS, distributions, tail_title, tails
from perfatlas.report.text.quantities import (
    format_interval,
    format_number,
    format_share,
    format_value,
)
from perfatlas.report.text.replica_kinds import kind_rows, kinds_of
from perfatlas.report.text.reproduce import reproduce_line
from perfatlas.report.text.results import Shown, shown_results
from perfatlas.report.text.rows import label_of, print_facts, print_labelled, print_rows
from perfatlas.report.text.sourced import print_sourced, profile_values, system_values
from perfatlas.report.text.terminal import open_terminal, print_line, print_plain, speaks_unicode

__all__ = [
    "STATISTICS",
    "Shown",
    "distributions",
    "evidence_headline",
    "evidence_lines",
    "format_interval",
    "format_number",
    "format_share",
    "format_value",
    "headline",
    "kind_rows",
    "kinds_of",
    "label_of",
    "open_terminal",
    "print_answer",
    "print_facts",
    "print_labelled",
    "print_line",
    "print_plain",
    "print_rows",
    "print_sourced",
    "profile_values",
    "reproduce_line",
    "rows_by_phase",
    "shown_results",
    "speaks_unicode",
    "subheadline",
    "system_values",
    "tail_title",
    "tails",
]

"""What commands write: answers, tables, refusals, progress."""

from __future__ import annotations

from perfatlas.cli.output.answers import print_json, require, show_answer
from perfatlas.cli.output.envelope import envelope
from perfatlas.cli.output.refusal import (
    refusal_text,
    shortfall_of,
    unknown_option_text,
    unused_words_text,
    usage_text,
)
from perfatlas.cli.output.table_run import answer_rows, answer_table, show_summary, wants_table
from perfatlas.cli.output.waiting import told_if_slow
from perfatlas.cli.output.watch import Watch

__all__ = [
    "Watch",
    "answer_rows",
    "answer_table",
    "envelope",
    "print_json",
    "refusal_text",
    "require",
    "shortfall_of",
    "show_answer",
    "show_summary",
    "told_if_slow",
    "unknown_option_text",
    "unused_words_text",
    "usage_text",
    "wants_table",
]

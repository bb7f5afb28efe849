"""Answers for people and for other tools: text, charts, traces; computes nothing of its own."""

from __future__ import annotations

from perfatlas.report.reproduce import reproduce_line
from perfatlas.report.terminal import open_terminal
from perfatlas.report.text import print_answer, print_facts, print_rows

__all__ = ["open_terminal", "print_answer", "print_facts", "print_rows", "reproduce_line"]

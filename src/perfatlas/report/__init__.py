"""Answers for people and for other tools: text, charts, traces; computes nothing of its own."""

from __future__ import annotations

from perfatlas.report.fleet_page import fleet_page, history_page
from perfatlas.report.fleet_text import kind_text, print_fitted
from perfatlas.report.frontier import print_frontier
from perfatlas.report.goodput_page import goodput_page
from perfatlas.report.goodput_text import print_goodput
from perfatlas.report.lifetime_text import print_lifetimes
from perfatlas.report.reproduce import reproduce_line
from perfatlas.report.requests_trace import requests_trace_text
from perfatlas.report.rows import print_facts, print_rows
from perfatlas.report.schedule_page import schedule_page
from perfatlas.report.schedule_text import print_schedule
from perfatlas.report.sourced import print_sourced, profile_values, system_values
from perfatlas.report.terminal import open_terminal
from perfatlas.report.text import print_answer
from perfatlas.report.trace import chrome_trace, chrome_trace_text
from perfatlas.report.traffic_page import SimulatedRun, traffic_page

__all__ = [
    "SimulatedRun",
    "chrome_trace",
    "chrome_trace_text",
    "fleet_page",
    "goodput_page",
    "history_page",
    "kind_text",
    "open_terminal",
    "print_answer",
    "print_facts",
    "print_fitted",
    "print_frontier",
    "print_goodput",
    "print_lifetimes",
    "print_rows",
    "print_schedule",
    "print_sourced",
    "profile_values",
    "reproduce_line",
    "requests_trace_text",
    "schedule_page",
    "system_values",
    "traffic_page",
]

"""Timelines in the Trace Event format, which ui.perfetto.dev opens."""

from __future__ import annotations

from perfatlas.report.traces.requests import requests_trace_text
from perfatlas.report.traces.step import chrome_trace_text

__all__ = [
    "chrome_trace_text",
    "requests_trace_text",
]

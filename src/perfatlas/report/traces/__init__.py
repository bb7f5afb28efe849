"""Timelines in the Trace Event format, which ui.perfetto.dev opens."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.report.traces.pipeline import pipeline_trace_text
    from perfatlas.report.traces.profiled import profile_trace_text
    from perfatlas.report.traces.requests import requests_trace_text
    from perfatlas.report.traces.step import chrome_trace_text
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

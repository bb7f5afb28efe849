"""Readers of request traces, a module per format."""

from __future__ import annotations

from perfatlas.serving.traces.formats import read_requests
from perfatlas.serving.traces.reading import Window
from perfatlas.serving.traces.servegen import Span, generate_servegen

__all__ = [
    "Span",
    "Window",
    "generate_servegen",
    "read_requests",
]

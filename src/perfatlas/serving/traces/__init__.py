"""Readers of request traces, one module per format."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.traces.formats import read_requests
    from perfatlas.serving.traces.reading import TraceWindow
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

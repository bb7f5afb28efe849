"""Readers of request traces, one module per format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.traces.formats import read_requests as read_requests
    from perfatlas.serving.traces.reading import Window as Window
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

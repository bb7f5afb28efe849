"""Timelines in the Trace Event format, which ui.perfetto.dev opens."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Operators as columns of shapes, with their FLOP and bytes; independent of devices."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

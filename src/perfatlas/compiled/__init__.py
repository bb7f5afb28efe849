"""What is compiled: parts, entries and loops, and the machine code kept of them on disk."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

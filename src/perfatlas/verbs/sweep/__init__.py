"""Any verb over lists, ranges and samples of its names and of hardware, kept as a run."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

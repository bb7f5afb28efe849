"""Energy of operators and power of boards: joules per event, idle power, caps and clocks."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

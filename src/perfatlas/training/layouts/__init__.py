"""Layouts of a training job: parallel sizes and batches as columns, and their rules."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

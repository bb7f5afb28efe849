"""Time of choosing the best-scored keys of every query."""

from __future__ import annotations

from perfatlas.kernels.key_selection.physics import KEY_SELECTION_SHAPE

__all__ = [
    "KEY_SELECTION_SHAPE",
]

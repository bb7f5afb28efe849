"""Time of the scores by which a sparse attention chooses its keys."""

from __future__ import annotations

from perfatlas.kernels.key_scores.physics import KEY_SCORES_DECODE_SHAPE

__all__ = [
    "KEY_SCORES_DECODE_SHAPE",
]

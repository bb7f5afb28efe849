"""Time of latent attention over selected keys."""

from __future__ import annotations

from perfatlas.kernels.sparse_attention.physics import SPARSE_MLA_PREFILL_SHAPE

__all__ = [
    "SPARSE_MLA_PREFILL_SHAPE",
]

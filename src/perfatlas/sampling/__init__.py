"""Seeded draws and sample quantiles; knows nothing of what is sampled."""

from __future__ import annotations

from perfatlas.sampling.draws import five_quantiles, seeded_subset

__all__ = ["five_quantiles", "seeded_subset"]

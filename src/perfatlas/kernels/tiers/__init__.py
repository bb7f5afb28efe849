"""Operators and devices in, time with its bound and evidence out, in three tiers."""

from __future__ import annotations

from perfatlas.kernels.tiers.measured import holds_quantization
from perfatlas.kernels.tiers.pricing import PricedOperators, Tier, price_operators

__all__ = [
    "PricedOperators",
    "Tier",
    "holds_quantization",
    "price_operators",
]

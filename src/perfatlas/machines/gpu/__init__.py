"""GPUs: times of kernels, with bounds, in several tiers."""

from __future__ import annotations

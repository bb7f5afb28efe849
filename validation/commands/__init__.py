"""Commands of several subjects: kernels, blocks, capacity, steps and plans."""

from __future__ import annotations

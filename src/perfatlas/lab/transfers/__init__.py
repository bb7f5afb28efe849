"""How calibrations carry over between devices, engines, sizes and ranks."""

from __future__ import annotations

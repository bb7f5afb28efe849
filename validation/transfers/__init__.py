"""Transfer errors of calibrations between devices, engines, sizes and ranks."""

from __future__ import annotations

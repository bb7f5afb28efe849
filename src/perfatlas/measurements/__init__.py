"""Measured rows, their readers and the calibrations fitted to them."""

from __future__ import annotations

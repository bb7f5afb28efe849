"""Fitting of calibrations to measured tables, and validation against them."""

from __future__ import annotations

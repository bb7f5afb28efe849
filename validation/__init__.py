"""Validation of perfatlas against measurements, and the fits of its shipped data."""

from __future__ import annotations

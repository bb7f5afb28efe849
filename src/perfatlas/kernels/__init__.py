"""Operator x device x clock to time with its bound, in tiers behind one face."""

from __future__ import annotations

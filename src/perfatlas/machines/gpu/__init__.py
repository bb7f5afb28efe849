"""Times of operators on devices, with bounds, in several tiers behind one interface."""

from __future__ import annotations

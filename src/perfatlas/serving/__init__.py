"""Traffic through engines: arrivals, schedulers, caches, one compiled event loop."""

from __future__ import annotations

"""Simulation of serving traffic: arrivals, schedulers, KV caches, one compiled event loop."""

from __future__ import annotations

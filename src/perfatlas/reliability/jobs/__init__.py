"""Scheduling of many jobs on one cluster: queueing, placement and node failures."""

from __future__ import annotations

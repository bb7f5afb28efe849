"""Training: operators of a step on every rank, communication, memory and pipeline schedules."""

from __future__ import annotations

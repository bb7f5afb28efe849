"""Statically scheduled SRAM dataflow: times are those of a schedule without contention."""

from __future__ import annotations

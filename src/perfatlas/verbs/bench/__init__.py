"""Benchmarks of this machine: suites, its hardware file, and runs compared."""

from __future__ import annotations

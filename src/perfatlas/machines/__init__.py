"""Machines: what prices the operators of a rank, one folder each."""

from __future__ import annotations

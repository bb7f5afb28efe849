"""Systolic machines: matrix units fed from vector memory, which software manages."""

from __future__ import annotations

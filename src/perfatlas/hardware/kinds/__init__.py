"""Kinds of machines as hardware files describe them, one module each, found by its row `KIND`."""

from __future__ import annotations

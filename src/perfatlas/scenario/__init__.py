"""scenario."""

from __future__ import annotations

"""The vocabulary, and the one path from a scenario to its answer."""

from __future__ import annotations

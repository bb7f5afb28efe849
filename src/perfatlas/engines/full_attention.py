"""Models with sliding windows that an engine runs without them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FullAttention:
    """Models whose layers attend to the whole cache in an engine, and keep it."""

    model_types: tuple[str, ...]  # Types of models as in config.json
    source: str  # Reference

"""Steps, traffic, plans and memory of serving against measured runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.serving.capacity import validate_capacity
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

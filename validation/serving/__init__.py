"""Steps, traffic, plans and memory of serving against measured runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.serving.capacity import validate_capacity as validate_capacity
    from validation.serving.steps import validate_steps as validate_steps
    from validation.serving.traffic import validate_traffic as validate_traffic
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

"""The failure simulator against closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.fleet.study import validate_fleet
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

"""Statically scheduled machines against published decode speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.machines.schedules import (
        validate_machines as validate_machines,
        write_schedules as write_schedules,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

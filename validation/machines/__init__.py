"""Machines that are not NVIDIA GPUs against published speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.machines.accelerators import validate_accelerators, write_accelerators
    from validation.machines.amd import validate_amd, write_amd
    from validation.machines.amd_services import validate_services
    from validation.machines.schedules import validate_machines, write_schedules
    from validation.machines.tpu import validate_tpu, write_tpu
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

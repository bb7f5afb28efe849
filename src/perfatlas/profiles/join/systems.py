"""The system of the catalog that a profiler's device name means."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from perfatlas.files import shipped_table

_DATA: Final = "data/profiles/devices.toml"


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(row["name"], re.IGNORECASE), row["system"])
        for row in shipped_table(_DATA)["device"]
    )


def system_of(device: str) -> str:
    """Return the name of the system with a device, "" if the catalog has none.

    Args:
        device: Name of the device as a profiler gives it.

    Example:
        >>> from perfatlas.profiles.join import system_of
        >>> system_of("NVIDIA H100 80GB HBM3"), system_of("AMD Radeon Graphics")
        ('h100_sxm', '')
    """
    return next((system for pattern, system in _patterns() if pattern.search(device)), "")

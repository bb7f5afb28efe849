"""Which card stood behind measured tables, where it is not the catalog's device of that name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from perfatlas.hardware import resolve_system

if TYPE_CHECKING:
    from perfatlas.hardware import Device


def measured_device(name: str) -> Device:
    """Return the device whose kernels the measured tables of a name hold.

    Args:
        name: Catalog name.

    Raises:
        InvalidSpecError: The catalog does not know it.

    Example:
        >>> from perfatlas.measurements.tables import measured_device
        >>> measured_device("rtx_pro_6000_server").memory_bandwidth
        1792000000000.0
    """
    changes = _cards().get(name, {}).get("changes", {})
    listed = ", ".join(f"{field}={value}" for field, value in changes.items())
    return resolve_system(f"{name}{{{listed}}}" if listed else name).device


def other_card(name: str) -> str:
    """Return what differs between the measured card and the catalog's device, "" for nothing.

    Args:
        name: Catalog name.
    """
    changes = _cards().get(name, {}).get("changes", {})
    return ", ".join(f"{field} {value}" for field, value in changes.items())


@cache
def _cards() -> dict[str, dict[str, Any]]:
    text = resources.files("perfatlas").joinpath("data/measured_cards.toml").read_text("utf-8")
    return tomllib.loads(text)

"""The cards of measured tables that differ from the catalog's device of that name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from perfatlas.hardware import resolve_system

if TYPE_CHECKING:
    from perfatlas.hardware import Device


def measured_device(name: str) -> Device:
    """Return the device on which the measured tables of a name were collected.

    Args:
        name: Catalog name.

    Raises:
        InvalidSpecError: The name is not in the catalog.

    Example:
        >>> from perfatlas.measurements.tables import measured_device
        >>> measured_device("rtx_pro_6000_server").memory_bandwidth
        1792000000000.0
    """
    changes = _cards().get(name, {}).get("changes", {})
    listed = ", ".join(f"{field}={value}" for field, value in changes.items())
    return resolve_system(f"{name}{{{listed}}}" if listed else name).device


def other_card(name: str) -> str:
    """Return the differences of the measured card from the catalog's device, "" for none.

    Args:
        name: Catalog name.
    """
    changes = _cards().get(name, {}).get("changes", {})
    return ", ".join(f"{field} {value}" for field, value in changes.items())


@cache
def _cards() -> dict[str, dict[str, Any]]:
    text = resources.files("perfatlas").joinpath("data/measured_cards.toml").read_text("utf-8")
    return tomllib.loads(text)

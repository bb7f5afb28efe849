"""The cards of measured tables that differ from the catalog's device of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system

if TYPE_CHECKING:
    from perfatlas.hardware import Device


def measured_device(name: str) -> Device:
    """Return the device on which the measured tables of a name were collected.

    Raises:
        InvalidSpecError: The name is not in the catalog.

    Example:
        >>> from perfatlas.measurements.tables import measured_device
        >>> measured_device("rtx_pro_6000_server").memory_bandwidth
        1792000000000.0
    """
    changes = shipped_table("data/measured_cards.toml").get(name, {}).get("changes", {})
    listed = ", ".join(f"{field}={value}" for field, value in changes.items())
    return resolve_system(f"{name}{{{listed}}}" if listed else name).device


def other_card(name: str) -> str:
    """Return the differences of the measured card from the catalog's device, "" for none."""
    changes = shipped_table("data/measured_cards.toml").get(name, {}).get("changes", {})
    return ", ".join(f"{field} {value}" for field, value in changes.items())

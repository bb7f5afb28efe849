"""Hardware fields as sliders: a factor on the value of the catalog, kept as an override."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.hardware import unit_of
from perfatlas.quantities import UNITS, InvalidSpecError, format_quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "slider."  # of the inputs of a form
SLIDERS: Final = {  # what an architect changes first, where a system states it
    "device.memory.bandwidth": "memory bandwidth",
    "device.memory.capacity": "memory capacity",
    "device.sm_count": "streaming multiprocessors",
    "device.scale_up.bandwidth": "scale-up bandwidth",
    "device.scale_up.latency": "scale-up latency",
    "device.tdp": "power limit",
}
OCTAVES: Final = 2  # that a slider moves up and down
NO_CHANGE: Final = 0.05  # octaves from the middle within which the catalog's value holds
ROUNDING: Final = 0.005  # octaves that the digits of an override lose


class Slider(NamedTuple):
    """A slider of a form."""

    name: str  # Of the input
    label: str
    position: float  # Octaves from the value of the catalog
    value: str  # With its unit
    catalog: str  # The value of the catalog

    @property
    def id(self) -> str:
        """Id of the input."""
        return self.name.replace(".", "-")


def sliders_of(system: str, catalog: Mapping[str, str]) -> list[Slider]:
    """Return the sliders of a system.

    Args:
        system: Its name, with overrides in braces or without.
        catalog: Values of the catalog as text, by field.
    """
    changes, found = _overrides(system)[1], []
    for path, label in SLIDERS.items():
        if (base := _number(path, catalog.get(path, ""))) is None or base <= 0.0:
            continue
        value = _number(path, changes.get(path, "")) or base
        octaves = min(max(math.log2(value / base), -OCTAVES), OCTAVES)
        shown = changes.get(path) or catalog[path]
        found.append(Slider(f"{PREFIX}{path}", label, round(octaves, 3), shown, catalog[path]))
    return found


def moved(values: Mapping[str, str], catalog: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a form without its sliders, which become overrides of the system.

    Args:
        values: Values by input; sliders have their position in octaves.
        catalog: Values of the catalog of the system as text, by field.

    Raises:
        InvalidSpecError: A slider is unknown, or its position is no number in its range.

    Example:
        >>> from perfatlas.web.sliders import moved
        >>> moved({"system": "h100_sxm", "slider.device.tdp": "1"}, {"device.tdp": "700 W"})
        {'system': 'h100_sxm{device.tdp=1.4kW}'}
    """
    kept = {name: text for name, text in values.items() if not name.startswith(PREFIX)}
    positions = {
        name.removeprefix(PREFIX): text for name, text in values.items() if name.startswith(PREFIX)
    }
    if not positions or not kept.get("system", "").strip():
        return kept
    name, changes = _overrides(kept["system"])
    for path, text in positions.items():
        base = _number(path, catalog.get(path, "")) if path in SLIDERS else None
        if base is None:
            raise InvalidSpecError(f"{PREFIX}{path}: the system has no such slider")
        try:
            octaves = float(text)
        except ValueError:
            octaves = math.nan
        if not abs(octaves) <= OCTAVES:
            raise InvalidSpecError(
                f"{PREFIX}{path} = {text!r}: expected a number from -{OCTAVES} to {OCTAVES}"
            )
        if abs(octaves) < NO_CHANGE:
            changes.pop(path, None)
        elif abs(octaves - _octaves(path, changes.get(path, ""), base)) >= ROUNDING:
            changes[path] = _value_text(path, base * 2.0**octaves)
    inside = ",".join(f"{path}={value}" for path, value in changes.items())
    return {**kept, "system": f"{name}{{{inside}}}" if inside else name}


def _octaves(path: str, text: str, base: float) -> float:
    value = _number(path, text)
    return math.log2(value / base) if value else math.inf


def _overrides(system: str) -> tuple[str, dict[str, str]]:
    """Return the name of a system, and its overrides as text by field."""
    name, _, inside = system.strip().partition("{")
    pairs = (part.partition("=") for part in inside.rstrip().removesuffix("}").split(","))
    return name.strip(), {path.strip(): value.strip() for path, _, value in pairs if path.strip()}


def _number(path: str, text: str) -> float | None:
    """Return a value of a field [SI], None if it is none."""
    unit = unit_of(path)
    dimension = next((name for name, units in UNITS.items() if units.get(unit) == 1.0), "count")
    try:
        return parse_quantity(text, dimension) if text else None
    except InvalidSpecError:
        return None


def _value_text(path: str, value: float) -> str:
    """Return a value with three digits and its unit, as an override states it."""
    unit = unit_of(path)
    rounded = float(f"{value:.3g}")
    return format_quantity(rounded, unit).replace(" ", "") if unit else f"{round(value)}"

"""The containment tree of components in a fleet's TOML file, with their lifetimes.

```toml
unit = "rack"            # unit of allocation and replacement
system = "gb200"         # default counts: hosts per rack, GPUs and NICs per host, NVLinks per GPU

[[component]]
kind = "rack"

[[component]]
kind = "host"
within = "rack"
lifetime = { law = "exponential", events = 12, exposure = "3e6 h" }

[[component]]
kind = "nvswitch_tray"
within = "rack"
count = 9
lifetime = { law = "exponential", rate = "5000 FIT" }
takes_down = "rack"
```
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.files import Field, Number, Text, sub_tables
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model.cause_file import CAUSE, cause_fields
from perfatlas.reliability.fleet.model.components import KINDS, Component, causes_of, counts_in
from perfatlas.reliability.fleet.model.file_fields import NAME, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.reliability.fleet.model.model import Cause

_PLACE: Final[dict[str, Field[Any]]] = {
    "kind": Field(Text(choices=KINDS), required=True),
    "within": Field(NAME),
    "count": Field(Number()),
    "takes_down": Field(NAME),
}
_FROM_TREE: Final = ("name", "per_unit", "shared", "units")  # determined by the tree
_FIELDS: Final = {
    **{
        key: replace(field, required=False) for key, field in CAUSE.items() if key not in _FROM_TREE
    },
    **_PLACE,
}


class Tree(NamedTuple):
    """The containment tree of a file.

    Args:
        causes: What its components cause.
        unit: Kind that a job is allocated in.
        gpus: GPUs of a unit; None where the tree has no GPUs in units.
    """

    causes: tuple[Cause, ...]
    unit: str
    gpus: float | None


def component_tree(table: Mapping[str, Any], origin: str) -> Tree:
    """Return the containment tree of a file, with counts of its system where it has none.

    Args:
        table: The parsed file, with `component`, `unit` and optionally `system`.
        origin: File name for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, a count is unknown, or the tree is invalid.
    """
    if "unit" not in table:
        raise InvalidSpecError(
            f"{origin}: unit is missing: set it to the component that a job is allocated in,"
            ' such as unit = "rack"'
        )
    unit = name_of(table, origin, "unit")
    known: dict[tuple[str, str], int] = {}
    if "system" in table:
        from perfatlas.hardware import resolve_system

        known = counts_in(resolve_system(name_of(table, origin, "system")))
    rows = sub_tables(table["component"], f"{origin}: component")
    components = tuple(_component(row, origin, known) for row in rows)
    causes = causes_of(components, unit=unit)
    return Tree(causes, unit, _gpus_in(components, unit))


def _component(
    table: Mapping[str, Any], origin: str, known: Mapping[tuple[str, str], int]
) -> Component:
    kind = name_of(table, f"{origin}: component", "kind")
    where = f"{origin}: component {kind!r}"
    given = cause_fields(table, _FIELDS, where)
    place = {key: given.pop(key) for key in _PLACE if key in given}
    within = place.setdefault("within", "")
    count = place.setdefault("count", known.get((kind, within)))
    if within and count is None:
        told = ", ".join(f"{part} in {holder}" for part, holder in known) or "none; set system"
        raise InvalidSpecError(
            f"{where}: count is missing, the number per {within} (known from system: {told})"
        )
    place["count"] = 1.0 if count is None else float(count)
    lifetime = given.pop("lifetime", None)
    if given and lifetime is None:
        raise InvalidSpecError(f"{where}: {', '.join(given)} requires lifetime")
    return Component(lifetime=lifetime, cause=given, **place)


def _gpus_in(components: tuple[Component, ...], unit: str) -> float | None:
    """Return the GPUs of a unit in the tree; None where it has none."""
    tree = {component.kind: component for component in components}
    kind, number = "gpu", 1.0
    while kind in tree and kind != unit:
        number *= tree[kind].count
        kind = tree[kind].within
    return number if "gpu" in tree and kind == unit else None

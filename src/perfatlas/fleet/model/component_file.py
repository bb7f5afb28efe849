"""The containment tree of a fleet's TOML file: what sits in what, and how often it fails.

```toml
unit = "rack"            # what a job loses and gets as a whole
system = "gb200"         # counts that are not given: GPUs and NICs of a host, NVLinks of a GPU

[[component]]
kind = "rack"

[[component]]
kind = "host"
within = "rack"
count = 18
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
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import Field, Number, Text, sub_tables
from perfatlas.fleet.model.cause_file import CAUSE, cause_fields
from perfatlas.fleet.model.components import KINDS, Component, causes_of, counts_in
from perfatlas.fleet.model.file_fields import NAME, name_of
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.fleet.model.model import Cause

_PLACE: Final[dict[str, Field[Any]]] = {
    "kind": Field(Text(choices=KINDS), required=True),
    "within": Field(NAME),
    "count": Field(Number()),
    "takes_down": Field(NAME),
}
_OWN: Final = ("name", "per_unit", "shared", "units")  # the tree says these
_FIELDS: Final = {
    **{key: replace(field, required=False) for key, field in CAUSE.items() if key not in _OWN},
    **_PLACE,
}


def causes_of_tree(table: Mapping[str, Any], origin: str, gpus_per_unit: int) -> tuple[Cause, ...]:
    """Return what fails in the tree of a file.

    Args:
        table: The file, with `component`, `unit` and perhaps `system`.
        origin: Where it was read, for messages.
        gpus_per_unit: GPUs of a unit, which the tree has to say too.

    Raises:
        InvalidSpecError: A key is unknown or missing, a count is not known, the tree is none.
    """
    if "unit" not in table:
        raise InvalidSpecError(
            f"{origin}: unit is missing: what a job loses as a whole, one of the kinds of the"
            ' tree, such as unit = "rack"'
        )
    unit = name_of(table, origin, "unit")
    known: dict[tuple[str, str], int] = {}
    if "system" in table:
        from perfatlas.hardware import resolve_system

        known = counts_in(resolve_system(name_of(table, origin, "system")))
    rows = sub_tables(table["component"], f"{origin}: component")
    components = tuple(_component(row, origin, known) for row in rows)
    causes = causes_of(components, unit=unit)
    _check_gpus(components, unit, gpus_per_unit, origin)
    return causes


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
        told = ", ".join(f"{part} in {holder}" for part, holder in known) or "none; give system"
        raise InvalidSpecError(
            f"{where}: count is missing, how many a {within} holds (a system tells: {told})"
        )
    place["count"] = 1.0 if count is None else float(count)
    lifetime = given.pop("lifetime", None)
    if given and lifetime is None:
        raise InvalidSpecError(f"{where}: {', '.join(given)} of what never fails: give lifetime")
    return Component(lifetime=lifetime, cause=given, **place)


def _check_gpus(
    components: tuple[Component, ...], unit: str, gpus_per_unit: int, origin: str
) -> None:
    """Refuse a tree whose units hold other GPUs than the file says."""
    tree = {component.kind: component for component in components}
    kind, number = "gpu", 1.0
    while kind in tree and kind != unit:
        number *= tree[kind].count
        kind = tree[kind].within
    if "gpu" in tree and kind == unit and number != gpus_per_unit:
        raise InvalidSpecError(
            f"{origin}: gpus_per_unit = {gpus_per_unit}, and the tree puts {number:g} GPUs into a"
            f" {unit}: make them the same"
        )

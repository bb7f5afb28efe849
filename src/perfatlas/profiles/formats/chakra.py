"""Chakra execution traces as JSON: durations of the operators of devices."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from perfatlas.profiles.events import OperatorCall, Profile, profile_of_cases
from perfatlas.profiles.formats.lines import DAMAGED, json_values
from perfatlas.quantities import MICROSECOND_S, InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT_NAME: Final = "chakra"
# one object with a graph, or objects one after another as chakra_jsonizer writes them
_BEGINNING: Final = re.compile(r'\s*\{\s*"workload_graph"|\s*\{[^{}]*\}\s*\{\s*"')


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    return _BEGINNING.match(head) is not None or '"workload_graph"' in head


def read(path: str | Path) -> Profile:
    """Return the operators of devices with their durations."""
    shown = printable(str(path))
    try:
        values = list(json_values(path))
        graphs = [value["workload_graph"] for value in values if "workload_graph" in value]
        nodes = list(chain(*graphs)) if graphs else values[1:]  # after the metadata
        kernels = [
            (str(_member(node, "name")), _time_us(node)) for node in nodes if _on_device(node)
        ]
    except DAMAGED as error:
        raise InvalidSpecError(
            f"profile {shown!r} is no complete Chakra trace ({type(error).__name__}"
            f" {printable(str(error))[:80]}); write it again with chakra_jsonizer"
        ) from error
    timed = [(name, time_us) for name, time_us in kernels if time_us is not None]
    if not timed:
        raise InvalidSpecError(f"profile {shown!r} has no operator of a device with a duration")
    notes = [
        "durations are whole microseconds, and operators have no shapes",
        f"{counted(len(nodes) - len(kernels), 'operator')} of the host left out",
    ]
    if untimed := len(kernels) - len(timed):
        notes.append(f"{counted(untimed, 'operator')} of devices without a duration left out")
    names = tuple(name for name, _ in timed)
    times_s = [time_us * MICROSECOND_S for _, time_us in timed]
    return profile_of_cases(
        path, FORMAT_NAME, [OperatorCall(name) for name in names], times_s, notes
    )


def _member(node: Mapping[str, Any], name: str) -> object:
    return node[name] if name in node else node[name.capitalize()]


def _on_device(node: Mapping[str, Any]) -> bool:
    """Return whether a node ran on a device; one that does not say so did."""
    if "is_cpu_op" in node:
        return not node["is_cpu_op"]
    attributes = node.get("attr") or ()
    return not any(row.get("boolVal") for row in attributes if row["name"] == "is_cpu_op")


def _time_us(node: Mapping[str, Any]) -> float | None:
    """Return the duration of a node, None without one [µs]."""
    value = node.get("runtime", node.get("durationMicros"))
    time_us = None if value is None else float(value)
    return time_us if time_us is not None and 0.0 <= time_us < float("inf") else None

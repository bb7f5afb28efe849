"""How many of each component were watched, and when: from nodes and a window to watches."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.telemetry.history.survival_intervals import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.telemetry.history.history import History

OF_GPUS: Final = ("gpu", "hbm", "nvlink")  # told of a GPU: as many as there are GPUs
OF_NODES: Final = ("host", "node")
JOB: Final = "job"


def watches_of(
    history: History,
    *,
    nodes: int,
    gpus_per_node: int,
    window_s: tuple[float, float],
    units: Mapping[str, int],
) -> dict[str, Watch]:
    """Return a watch for every component of a history.

    Args:
        history: The history.
        nodes: Nodes of the fleet.
        gpus_per_node: GPUs of a node.
        window_s: Begin and end of the watch [s since 1970-01-01 UTC].
        units: Component to how many there are, where they are neither of a GPU nor of a node.

    Raises:
        InvalidSpecError: A count is below 1, the window is empty, or a component has no count.
    """
    counts = _counts(nodes, gpus_per_node, units)
    if not window_s[1] > window_s[0]:
        raise InvalidSpecError(
            f"the watch ends at {utc(window_s[1])}, not after its start at {utc(window_s[0])}"
        )
    found = {}
    for component in sorted(set(history.component.text()) | {"gpu"}):
        if component not in counts:
            raise InvalidSpecError(
                f"the history has events of component {component!r}: say how many of it there are,"
                f" --units {component}=NUMBER"
            )
        found[component] = Watch(start_s=window_s[0], end_s=window_s[1], units=counts[component])
    return found


def parts_per_node(
    component: str, *, nodes: int, gpus_per_node: int, units: Mapping[str, int]
) -> float:
    """Return how many parts of a component a node holds, on average.

    Args:
        component: Its name.
        nodes: Nodes of the fleet.
        gpus_per_node: GPUs of a node.
        units: Component to how many there are, where they are neither of a GPU nor of a node.

    Raises:
        InvalidSpecError: A count is below 1, or the component has none.
    """
    counts = _counts(nodes, gpus_per_node, units)
    if component not in counts:
        raise InvalidSpecError(
            f"component {component!r}: say how many of it the fleet has, --units"
            f" {component}=NUMBER; known without it: {', '.join(counts)}"
        )
    return counts[component] / nodes


def _counts(nodes: int, gpus_per_node: int, units: Mapping[str, int]) -> dict[str, int]:
    for name, count in {"nodes": nodes, "gpus_per_node": gpus_per_node, **units}.items():
        if count < 1:
            raise InvalidSpecError(f"{name} = {count}: expected 1 or more")
    counts = dict.fromkeys(OF_GPUS, nodes * gpus_per_node) | dict.fromkeys(OF_NODES, nodes)
    return counts | {JOB: 1, **units}


def utc(time_s: float) -> str:
    """Return a time as ISO 8601 text in UTC, to the second.

    Args:
        time_s: The time [s since 1970-01-01 UTC].

    Example:
        >>> from perfatlas.telemetry.history import utc
        >>> utc(0.0)
        '1970-01-01T00:00:00Z'
    """
    return dt.datetime.fromtimestamp(time_s, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

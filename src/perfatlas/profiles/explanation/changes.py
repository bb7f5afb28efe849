"""What changed between two profiles."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def compared(results: Mapping[str, Any], against: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes of classes and operators, the largest first.

    Args:
        results: Results of `explain`.
        against: Results of the profile that it is compared with.

    Returns:
        `classes` and `operators`: each with its times and counts in both, `change_s`, and for
        operators `change`: changed, added or removed.
    """
    classes = _changes(results["classes"], against["classes"], ("class",), "kernels")
    operators = _changes(
        results["operators"], against["operators"], ("name", "class", "shape"), "count"
    )
    return {
        "device": against["device"],
        "wall_s": against["wall_s"],
        "busy_s": against["busy_s"],
        "idle_s": against["idle_s"],
        "classes": classes,
        "operators": operators,
    }


def _changes(
    rows: Iterable[Mapping[str, Any]],
    others: Iterable[Mapping[str, Any]],
    key: tuple[str, ...],
    count: str,
) -> list[dict[str, Any]]:
    pairs: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(lambda: [{}, {}])
    for side, listed in enumerate((rows, others)):
        for row in listed:
            pairs[tuple(row[name] for name in key)][side] = row
    changes = [
        {
            **dict(zip(key, names, strict=True)),
            "time_s": now.get("time_s", 0.0),
            "against_time_s": before.get("time_s", 0.0),
            "change_s": now.get("time_s", 0.0) - before.get("time_s", 0.0),
            count: now.get(count, 0),
            f"against_{count}": before.get(count, 0),
            "change": "changed" if now and before else "added" if now else "removed",
        }
        for names, (now, before) in pairs.items()
    ]
    return sorted(changes, key=lambda row: -abs(row["change_s"]))

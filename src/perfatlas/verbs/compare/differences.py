"""Which operators make the difference between the steps of two estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def step_differences(
    label: str,
    base: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    steps: tuple[float, float] = (1.0, 1.0),
) -> list[dict[str, Any]]:
    """Return the difference of each operator of each phase, the largest first.

    Args:
        label: The compared scenario.
        base: Breakdown of the base.
        other: Breakdown of the compared scenario.
        steps: Prefill steps of both, whose sizes may differ.

    Returns:
        Rows of `label`, `phase`, `name`, `base_time_s` and `time_s` (of one decode step and of all
        prefill steps, 0 where the operator does not run), `difference_s`, `base_bound` and `bound`.
        The differences of a phase sum to that of its steps.

    Limits: All prefill steps are taken as full ones.

    Example:
        >>> from perfatlas.verbs.compare.differences import step_differences
        >>> one = [{"phase": "decode", "name": "attention", "time_s": 2.0, "bound": "memory"}]
        >>> two = [{"phase": "decode", "name": "attention", "time_s": 1.5, "bound": "memory"}]
        >>> step_differences("h200", one, two)[0]["difference_s"]
        -0.5
    """
    before, after = _by_operator(base, steps[0]), _by_operator(other, steps[1])
    rows = []
    for key in dict.fromkeys((*before, *after)):
        first, second = before.get(key, {}), after.get(key, {})
        rows.append(
            {
                "label": label,
                "phase": key[0],
                "name": key[1],
                "base_time_s": first.get("time_s", 0.0),
                "time_s": second.get("time_s", 0.0),
                "difference_s": second.get("time_s", 0.0) - first.get("time_s", 0.0),
                "base_bound": first.get("bound"),
                "bound": second.get("bound"),
            }
        )
    phases = list(dict.fromkeys(row["phase"] for row in rows))
    return sorted(rows, key=lambda row: (phases.index(row["phase"]), -abs(row["difference_s"])))


def _by_operator(
    rows: Iterable[Mapping[str, Any]], steps: float
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return time and bound by (phase, name); rows of one name are added."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault((row["phase"], row["name"]), {"time_s": 0.0, "bound": None})
        time_s = row["time_s"] * (steps if row["phase"] == "prefill" else 1.0)
        if time_s >= known["time_s"]:
            known["bound"] = row["bound"]
        known["time_s"] += time_s
    return found

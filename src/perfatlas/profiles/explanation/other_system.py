"""A profile re-timed on another system, its dependencies kept.

Shape legend: N activities, E estimates (expected, low, high).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.profiles.classes import class_codes
from perfatlas.profiles.explanation.changes import compared
from perfatlas.profiles.explanation.results import explain, mean_times
from perfatlas.profiles.join import RATIOS, retiming
from perfatlas.profiles.timeline import Replay, device_times
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.profiles.classes import Rule
    from perfatlas.profiles.events import Profile

    IntArray = NDArray[np.int64]

TIMES: Final = (
    *("wall_s", "busy_s", "idle_s", "idle_host_s", "idle_device_s", "idle_unknown_s"),
    *("communication_s", "exposed_communication_s"),
)


def on_system(
    profiles: Sequence[Profile], rules: Sequence[Rule], results: Mapping[str, Any], system: str
) -> dict[str, Any]:
    """Return a profile re-timed on another system, as `on` of the results.

    Args:
        profiles: Profiles of one run, a file for each rank; each is re-timed alone.
        rules: Rules that give kernels a class.
        results: Results of `explain`.
        system: System of the catalog, with or without overrides.

    Raises:
        InvalidSpecError: The device of the profiles is not in the catalog, they have no timeline,
            or the system is unknown.
    """
    new, named = resolve_system(system), results["system"]
    if named is None:
        device = printable(results["device"])
        why = (
            f"whose device {device!r} is not in the catalog" if device else "which names no device"
        )
        raise InvalidSpecError(
            f"--on compares prices of two systems, and needs that of the profile, {why}: set"
            " --system (`perfatlas catalog systems` lists all)"
        )
    if results["wall_s"] is None:
        raise InvalidSpecError(
            "--on needs a timeline with activity of a GPU: pass a Kineto trace or an Nsight Systems"
            " profile that has it"
        )
    old, classes = resolve_system(named), [class_codes(profile, rules) for profile in profiles]
    retimed = [
        retiming(profile, class_N, old, new)
        for profile, class_N in zip(profiles, classes, strict=True)
    ]
    replays = [Replay(profile) for profile in profiles]
    runs = [
        [replay.run(replay.profile.activities.time_s_N * ratio_N) for ratio_N in ratios.ratio_EN]
        for replay, ratios in zip(replays, retimed, strict=True)
    ]
    expected, *ends = ([run.profile for run in estimate] for estimate in zip(*runs, strict=True))
    explained = explain(expected, rules, named)
    changes = compared(explained, results)
    low_s, high_s = (
        mean_times(
            [times for pair in zip(end, classes, strict=True) for times in device_times(*pair)]
        )["wall_s"]
        for end in ends
    )
    has_interval = all(ratios.has_interval for ratios in retimed)
    return {
        "system": system,
        **{name: explained[name] for name in TIMES},
        "wall_s_low": low_s if has_interval else None,
        "wall_s_high": high_s if has_interval else None,
        "speedup": results["wall_s"] / explained["wall_s"] if explained["wall_s"] else None,
        "critical_path": explained["critical_path"],
        **_shares(results, profiles, [ratios.of_N for ratios in retimed]),
        "classes": changes["classes"],
        "operators": changes["operators"],
    }


def _shares(
    results: Mapping[str, Any], profiles: Sequence[Profile], ratio_kinds: Sequence[IntArray]
) -> dict[str, float]:
    """Return the shares of the measured device time by what its ratio is of.

    Returns:
        `kept_share`, `class_share` and `operator_share`, and `doubtful_share`: that of operators
        measured outside the interval of their price.
    """
    time_s = np.concatenate([profile.activities.time_s_N for profile in profiles])
    total_s = float(time_s.sum()) or 1.0
    by_ratio = np.bincount(np.concatenate(ratio_kinds), time_s, len(RATIOS)) / total_s
    doubtful_s = sum(
        row["time_s"]
        for row in results["operators"]
        if row["predicted_s_high"] is not None
        and not row["predicted_s_low"] <= row["time_s"] <= row["predicted_s_high"]
    )
    shares = dict(zip((f"{name}_share" for name in RATIOS), by_ratio.tolist(), strict=True))
    return {**shares, "doubtful_share": doubtful_s / total_s}

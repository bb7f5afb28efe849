"""A profile re-timed on another system, its dependencies kept.

Shape legend: N activities, E estimates (expected, low, high).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.profiles.classes import CLASSES, COPIES, class_codes
from perfatlas.profiles.explanation.results import mean_times
from perfatlas.profiles.join import (
    KEPT,
    OF_CLASS,
    OF_OPERATOR,
    copy_ratio,
    grouped_operators,
    retiming,
    system_of,
    with_interval,
)
from perfatlas.profiles.timeline import Replay, device_times
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import System
    from perfatlas.profiles.classes import Rule
    from perfatlas.profiles.events import Profile
    from perfatlas.profiles.join import MeasuredOperator
    from perfatlas.profiles.timeline import Replayed

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

EXPECTED, LOW, HIGH = range(3)
SHARES: Final = {"operator_share": OF_OPERATOR, "class_share": OF_CLASS, "kept_share": KEPT}


@dataclass(frozen=True, kw_only=True)
class _Retimed:
    """One profile on another system.

    Args:
        measured_N: Recorded durations (N,) [s].
        class_N: Class of each activity (N,).
        operators: Its operators, with the index of each activity among them (`group_N`).
        time_EN: Durations on the system (E, N) [s].
        of_N: What each duration is of: KEPT, OF_CLASS or OF_OPERATOR (N,).
        is_doubtful_N: Whether the price of its operator does not fit the measured time (N,).
        replayed: The timeline: as recorded, and with each of the durations.
    """

    measured_N: FloatArray
    class_N: IntArray
    operators: Sequence[MeasuredOperator]
    group_N: IntArray
    time_EN: FloatArray
    of_N: IntArray
    is_doubtful_N: NDArray[np.bool_]
    has_interval: bool
    recorded: Replayed
    replayed: Sequence[Replayed]


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
    new = resolve_system(system)
    named = system_of(results["device"])
    if not named:
        raise InvalidSpecError(
            f"--on compares prices of two devices, and that of the profile,"
            f" {printable(results['device'] or 'which it does not name')!r}, is not in the catalog:"
            " pass a profile of a device that `perfatlas catalog systems` lists"
        )
    if results["wall_s"] is None:
        raise InvalidSpecError(
            f"--on needs a timeline, which {results['format']} does not have: pass a Kineto trace"
            " or an Nsight Systems profile"
        )
    parts = [_retimed(one, rules, resolve_system(named), new) for one in profiles]
    expected, low, high = (
        mean_times(
            [
                times
                for part in parts
                for times in device_times(part.replayed[estimate].profile, part.class_N)
            ]
        )
        for estimate in (EXPECTED, LOW, HIGH)
    )
    has_interval = all(part.has_interval for part in parts)
    wall_s = expected["wall_s"] or 0.0
    path, before = _critical(parts, on_system=True), _critical(parts, on_system=False)
    total_s = sum(float(part.measured_N.sum()) for part in parts)
    doubtful_s = sum(float(part.measured_N[part.is_doubtful_N].sum()) for part in parts)
    return {
        "system": system,
        **expected,
        "wall_s_low": low["wall_s"] if has_interval else None,
        "wall_s_high": high["wall_s"] if has_interval else None,
        "speedup": results["wall_s"] / wall_s if wall_s else None,
        "bound_by": max(path, key=lambda name: path[name]),
        "critical_path": [
            {"part": name, "share": path[name], "measured_share": before[name]}
            for name in sorted(path, key=lambda name: -path[name])
            if path[name] or before[name]
        ],
        **{
            name: sum(float(part.measured_N[part.of_N == of].sum()) for part in parts) / total_s
            for name, of in SHARES.items()
        },
        "doubtful_share": doubtful_s / total_s,
        "classes": _classes(parts),
        "operators": _operators(parts),
    }


def _retimed(profile: Profile, rules: Sequence[Rule], old: System, new: System) -> _Retimed:
    of, class_N = profile.activities, class_codes(profile, rules)
    operators, group_N = grouped_operators(profile, class_N)
    ratios = retiming(operators, old, new)
    ratio_EN, of_N = ratios.ratio_EG[:, group_N], ratios.of_G[group_N]
    copies = np.flatnonzero(class_N == COPIES)
    ratio_EN[:, copies] = with_interval(
        np.array([copy_ratio(profile.names[at], old, new) for at in of.name_N[copies]])
    )
    of_N[copies] = OF_CLASS
    time_EN = of.time_s_N * ratio_EN
    replay = Replay(profile)
    return _Retimed(
        measured_N=of.time_s_N,
        class_N=class_N,
        operators=operators,
        group_N=group_N,
        time_EN=time_EN,
        of_N=of_N,
        is_doubtful_N=ratios.is_doubtful_G[group_N],
        has_interval=ratios.has_interval,
        recorded=replay.run(of.time_s_N),
        replayed=[replay.run(time_s_N) for time_s_N in time_EN],
    )


def _critical(parts: Sequence[_Retimed], *, on_system: bool) -> dict[str, float]:
    """Return the share of the critical paths by class, of the host, and of launches."""
    found: dict[str, float] = dict.fromkeys((*CLASSES, "host", "launch"), 0.0)
    for part in parts:
        path = (part.replayed[EXPECTED] if on_system else part.recorded).critical_path()
        by_class = np.bincount(part.class_N, path.time_s_N, len(CLASSES))
        for name, time_s in zip(found, (*by_class, path.host_s, path.launch_s), strict=True):
            found[name] += float(time_s)
    total_s = sum(found.values())
    return {name: time_s / total_s if total_s else 0.0 for name, time_s in found.items()}


def _classes(parts: Sequence[_Retimed]) -> list[dict[str, Any]]:
    """Return the time of each class on the system and as measured, the longest first."""
    sums = np.zeros((2, len(CLASSES)))
    for part in parts:
        for side, time_s_N in enumerate((part.time_EN[EXPECTED], part.measured_N)):
            sums[side] += np.bincount(part.class_N, time_s_N, len(CLASSES))
    rows = [
        {"class": name, "time_s": time_s, "measured_s": measured_s}
        for name, time_s, measured_s in zip(CLASSES, *sums.tolist(), strict=True)
        if measured_s
    ]
    return sorted(rows, key=lambda row: -row["time_s"])


def _operators(parts: Sequence[_Retimed]) -> list[dict[str, Any]]:
    """Return the time of each operator on the system and as measured, the largest change first."""
    sums: dict[tuple[str, str, str], FloatArray] = defaultdict(lambda: np.zeros(4))
    retimed: dict[tuple[str, str, str], int] = {}
    for part in parts:
        times = (*part.time_EN, part.measured_N)
        columns = [np.bincount(part.group_N, one, len(part.operators)) for one in times]
        of_G = np.zeros(len(part.operators), np.int64)
        of_G[part.group_N] = part.of_N
        for one, row, of in zip(part.operators, np.stack(columns, axis=1), of_G, strict=True):
            key = one.name, CLASSES[one.code], one.shape
            sums[key] += row
            retimed[key] = int(of)
    has_interval = all(part.has_interval for part in parts)
    rows = [
        {
            "name": name,
            "class": code,
            "shape": shape,
            "time_s": float(row[EXPECTED]),
            "time_s_low": float(row[LOW]) if has_interval else None,
            "time_s_high": float(row[HIGH]) if has_interval else None,
            "measured_s": float(row[3]),
            "change_s": float(row[EXPECTED] - row[3]),
            "ratio_of": ("kept", "class", "operator")[retimed[name, code, shape]],
        }
        for (name, code, shape), row in sums.items()
    ]
    return sorted(rows, key=lambda row: -abs(row["change_s"]))

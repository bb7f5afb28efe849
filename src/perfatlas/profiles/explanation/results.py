"""The results of `profile`: classes, operators, busy and idle time, integrity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.profiles.classes import CLASSES, COPIES, class_codes
from perfatlas.profiles.join import (
    NO_PREDICTION,
    measured_operators,
    predictions,
    system_of,
)
from perfatlas.profiles.timeline import PARTS, Replay, device_times, integrity_notes, waiting
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.profiles.classes import Rule
    from perfatlas.profiles.events import Profile
    from perfatlas.profiles.join import MeasuredOperator, Prediction
    from perfatlas.profiles.timeline import DeviceTimes


class OperatorRow(NamedTuple):
    """An operator with one shape and class; times are those of all its executions [s]."""

    measured: MeasuredOperator
    prediction: Prediction  # One execution as predicted

    def total_s(self, time_s: float | None) -> float | None:
        """Return the time of all executions, None if that of one is unknown [s]."""
        return None if time_s is None else time_s * self.measured.executions

    @property
    def excess_s(self) -> float:
        """Time above the prediction, 0 inside its interval [s]."""
        predicted_s = self.total_s(self.prediction.time_s)
        high_s = self.total_s(self.prediction.high_s)
        if predicted_s is None or high_s is None or self.measured.time_s <= high_s:
            return 0.0
        return self.measured.time_s - predicted_s

    def facts(self) -> dict[str, Any]:
        """Return the row of the results."""
        prediction = self.prediction
        return {
            "name": self.measured.name,
            "class": CLASSES[self.measured.code],
            "shape": self.measured.shape,
            "count": self.measured.executions,
            "time_s": self.measured.time_s,
            "predicted_s": self.total_s(prediction.time_s),
            "predicted_s_low": self.total_s(prediction.low_s),
            "predicted_s_high": self.total_s(prediction.high_s),
            "roofline_s": self.total_s(prediction.roofline_s),
        }


def explain(
    profiles: Sequence[Profile], rules: Sequence[Rule], system: str | None = None
) -> dict[str, Any]:
    """Return where the time of profiles went, as the results of `profile`.

    Args:
        profiles: Profiles of one run, a file for each rank, or of measured cases.
        rules: Rules that give kernels a class.
        system: System with the device, for profiles that do not name one of the catalog.

    Raises:
        InvalidSpecError: The files have several formats or devices, or name another one.
    """
    format_name = _only("formats", {profile.format for profile in profiles})
    device = _only("devices", {profile.device for profile in profiles if profile.device})
    classes = [class_codes(profile, rules) for profile in profiles]
    measured = measured_operators(profiles, classes)
    notes = integrity_notes(profiles)
    system = _system(device, system)
    predicted, unpriced = _predicted(measured, device, system)
    rows = [OperatorRow(*pair) for pair in zip(measured, predicted, strict=True)]
    times = [
        device_time
        for profile, class_N in zip(profiles, classes, strict=True)
        for device_time in device_times(profile, class_N)
    ]
    kernels = [profile.activities.are_kernels() for profile in profiles]
    return {
        "format": format_name,
        "device": device,
        "system": system or None,
        "devices": len(times) or None,
        **mean_times(times),
        "kernel_s": sum(
            float(profile.activities.time_s_N[is_kernel_N].sum())
            for profile, is_kernel_N in zip(profiles, kernels, strict=True)
        ),
        "kernels": sum(
            int(profile.activities.counts()[is_kernel_N].sum())
            for profile, is_kernel_N in zip(profiles, kernels, strict=True)
        ),
        "launches": sum(int(profile.launches.is_kernel_L.sum()) for profile in profiles),
        "orphans": sum(
            int((profile.activities.launch_N[is_kernel_N] < 0).sum()) if profile.has_timeline else 0
            for profile, is_kernel_N in zip(profiles, kernels, strict=True)
        ),
        **waiting(profiles, classes),
        "classes": _class_rows(profiles, classes),
        "critical_path": _critical_path(profiles, classes) if times else None,
        **_against_prediction(rows, times),
        "integrity": [*notes, *unpriced],
        "operators": [row.facts() for row in rows],
    }


def _only(what: str, names: set[str]) -> str:
    """Return the one name that all files have, "" if none has one."""
    if len(names) > 1:
        raise InvalidSpecError(
            f"the files have several {what} ({', '.join(map(printable, sorted(names)))}): pass the"
            " files of one run together, and others with --against"
        )
    return next(iter(names), "")


def _system(device: str, system: str | None) -> str:
    """Return the system that prices a profile, "" if there is none."""
    named = system_of(device)
    if system and named and system.split("{")[0] != named.split("{")[0]:
        raise InvalidSpecError(
            f"system = {printable(system)!r}, but the profile names its device,"
            f" {printable(device)!r}: {named}; --on {printable(system)} re-times it on another"
        )
    return system or named


def _predicted(
    measured: Sequence[MeasuredOperator], device: str, system: str
) -> tuple[list[Prediction], list[str]]:
    """Return predictions, and why there are none."""
    if not system:
        named = (
            f"the device {printable(device)!r} is not in the catalog"
            if device
            else ("the profile does not name its device")
        )
        return [NO_PREDICTION] * len(measured), [
            f"{named}: no operator has a prediction; --system names the system of the device"
        ]
    return predictions(measured, resolve_system(system))


def mean_times(times: Sequence[DeviceTimes]) -> dict[str, float | None]:
    """Return the mean times of a device, None without a timeline [s]."""

    def mean(field: Callable[[DeviceTimes], float]) -> float | None:
        return sum(field(time) for time in times) / len(times) if times else None

    return {
        "wall_s": mean(lambda times: times.wall_s),
        "busy_s": mean(lambda times: times.busy_s),
        "idle_s": mean(lambda times: times.idle_s),
        "idle_host_s": mean(lambda times: times.idle_host_s),
        "idle_device_s": mean(lambda times: times.idle_device_s),
        "idle_unknown_s": mean(lambda times: times.idle_unknown_s),
        "communication_s": mean(lambda times: times.communication_s),
        "exposed_communication_s": mean(lambda times: times.exposed_communication_s),
    }


def _critical_path(profiles: Sequence[Profile], classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the shares of what the last activities waited for, the largest first.

    Its parts are classes, "host" (in and between its calls) and "launch" (latencies and gaps).
    """
    time_s = np.zeros(len(PARTS))
    for profile, class_N in zip(profiles, classes, strict=True):
        if len(class_N):
            recorded = Replay(profile).run(profile.activities.time_s_N)
            time_s += recorded.critical_path(class_N)
    share = time_s / (time_s.sum() or 1.0)
    order = np.argsort(-share, kind="stable").tolist()
    return [{"part": PARTS[part], "share": float(share[part])} for part in order if share[part]]


def _class_rows(profiles: Sequence[Profile], classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return time and number of the activities of each class, the longest first."""
    rows = []
    pairs = list(zip(profiles, classes, strict=True))
    total_s = sum(float(profile.activities.time_s_N.sum()) for profile in profiles)
    for code, name in enumerate(CLASSES):
        count = sum(int(profile.activities.counts()[c == code].sum()) for profile, c in pairs)
        time_s = sum(float(profile.activities.time_s_N[c == code].sum()) for profile, c in pairs)
        if count:
            share = time_s / total_s if total_s else 0.0
            rows.append({"class": name, "time_s": time_s, "share": share, "kernels": count})
    return sorted(rows, key=lambda row: -row["time_s"])


def _against_prediction(
    rows: Sequence[OperatorRow], times: Sequence[DeviceTimes]
) -> dict[str, Any]:
    """Return how much of the kernel time has a prediction, and what is lost above it.

    Nothing is lost above a lower limit: the excess is None where no prediction has an interval.
    """
    kernels = [row for row in rows if row.measured.code != COPIES]
    kernel_s = sum(row.measured.time_s for row in kernels)
    priced_s = sum(row.measured.time_s for row in kernels if row.prediction.time_s is not None)
    judged = any(row.prediction.high_s is not None for row in rows)
    excess_s = sum(row.excess_s for row in rows)
    wall_s = sum(time.wall_s for time in times)
    return {
        "predicted_share": priced_s / kernel_s if kernel_s else None,
        "excess_s": excess_s if judged else None,
        "shorter_share": min(excess_s / wall_s, 1.0) if judged and wall_s else None,
    }

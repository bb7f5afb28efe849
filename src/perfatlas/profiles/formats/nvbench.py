"""Results of nvbench as JSON: a case for each state that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.profiles.events import OperatorCall, Profile, profile_of_cases
from perfatlas.profiles.formats.lines import DAMAGED, json_values
from perfatlas.quantities import InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FORMAT_NAME: Final = "nvbench"
# Mean GPU time of runs in isolation, else of a batch; tags of newer and older versions.
_TIMES: Final = (
    "nv/cold/time/gpu/mean",
    "nv/batch/time/gpu/mean",
    "Average GPU Time (Cold)",
    "Average GPU Time (Batch)",
    "Average GPU Time (Hot)",
)


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    return head.lstrip().startswith("{") and '"nvbench"' in head


def read(path: str | Path) -> Profile:
    """Return the mean GPU time of each state."""
    shown = printable(str(path))
    try:
        results = next(json_values(path))
        devices = {device["id"]: str(device["name"]) for device in results["devices"]}
        cases = list(_cases(results, devices))
    except DAMAGED as error:
        raise InvalidSpecError(
            f"profile {shown!r} is no complete result of nvbench ({type(error).__name__}"
            f" {printable(str(error))[:80]}); write it again with --json FILE"
        ) from error
    timed = [(call, time_s) for call, time_s in cases if time_s is not None]
    if not timed:
        raise InvalidSpecError(f"profile {shown!r} has no state with a GPU time")
    skipped = len(cases) - len(timed)
    notes = [f"{counted(skipped, 'state')} skipped or without a GPU time"] if skipped else []
    if len(devices) > 1:
        notes.append(f"measured on {', '.join(devices.values())}: each case names its device")
    device = next(iter(devices.values()), "")
    times_s = [time_s for _, time_s in timed]
    calls = [call for call, _ in timed]
    return profile_of_cases(path, FORMAT_NAME, calls, times_s, notes, device)


def _cases(
    results: Mapping[str, Any], devices: Mapping[int, str]
) -> Iterator[tuple[OperatorCall, float | None]]:
    for benchmark in results["benchmarks"]:
        for state in benchmark["states"]:
            axes = [f"{axis['name']}={axis['value']}" for axis in state.get("axis_values") or ()]
            device = devices.get(state.get("device"), "")
            words = [*axes, *([device] if len(devices) > 1 else [])]
            name = str(benchmark["name"])
            time_s = None if state.get("is_skipped") else _time_s(state.get("summaries") or ())
            yield OperatorCall(name, case=printable(", ".join(words))), time_s


def _time_s(summaries: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the mean GPU time, None without one [s]."""
    time_of_tag = {
        key: float(value["value"])
        for summary in summaries
        for key in (summary.get("tag"), summary.get("name"))
        for value in summary.get("data") or ()
        if value["name"] == "value" and key in _TIMES
    }
    times_s = (time_of_tag.get(tag, -1.0) for tag in _TIMES)
    return next((time_s for time_s in times_s if 0.0 <= time_s < float("inf")), None)

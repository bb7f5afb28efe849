"""Nsight Compute reports as CSV, with any text around the table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.profiles.events import OperatorCall, Profile, profile_of_cases
from perfatlas.profiles.formats.lines import table_rows
from perfatlas.quantities import InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT_NAME: Final = "ncu"
DURATIONS: Final = ("Duration", "gpu__time_duration.sum", "gpu__time_duration.avg")
UNITS_S: Final = {
    **dict.fromkeys(("ns", "nsecond", "nanosecond"), 1e-9),
    **dict.fromkeys(("us", "usecond", "µs", "microsecond"), 1e-6),
    **dict.fromkeys(("ms", "msecond", "millisecond"), 1e-3),
    **dict.fromkeys(("s", "second"), 1.0),
}
_HEADER: Final = re.compile(r'^"ID",.*"Kernel Name"', re.MULTILINE)


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    return _HEADER.search(head) is not None or "==PROF==" in head


def read(path: str | Path) -> Profile:
    """Return the kernels of a report with their durations."""
    times_s: dict[str, float] = {}
    names: dict[str, str] = {}
    sizes: dict[str, str] = {}
    unreadable = 0
    for row in table_rows(path, ("ID", "Kernel Name"), '"'):
        key = row["ID"]
        names.setdefault(key, row["Kernel Name"])
        sizes.setdefault(key, f"grid {row.get('Grid Size', '')}, block {row.get('Block Size', '')}")
        try:
            time_s = _duration_s(row)
        except ValueError:
            unreadable += 1
            continue
        if time_s is not None:
            times_s[key] = time_s
    if not times_s:
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} has no durations of kernels; write it with"
            " ncu --csv --page details --section SpeedOfLight PROGRAM"
        )
    notes = [f"{counted(unreadable, 'duration')} could not be read"] if unreadable else []
    if missing := len(names) - len(times_s):
        notes.append(f"{counted(missing, 'kernel')} without a duration were left out")
    notes.append(
        "Nsight Compute runs kernels one by one, at a fixed clock and with cold caches unless told"
        " otherwise: shares of classes are those of kernels alone"
    )
    calls = [OperatorCall(names[key], case=sizes[key]) for key in times_s]
    return profile_of_cases(path, FORMAT_NAME, calls, list(times_s.values()), notes)


def _duration_s(row: Mapping[str, str]) -> float | None:
    """Return the duration in a row, None for a row of another metric [s]."""
    if "Metric Name" in row:  # a row for each metric
        if row["Metric Name"] not in DURATIONS:
            return None
        value, unit = row["Metric Value"], row["Metric Unit"]
    else:  # --page raw: a column for each metric, whose first row has the units
        name = next((duration for duration in DURATIONS if duration in row), None)
        if name is None or not row["ID"]:
            return None
        value, unit = row[name], "ns"
    if unit not in UNITS_S:
        raise ValueError
    time_s = float(value.replace(",", "")) * UNITS_S[unit]
    if not 0.0 <= time_s < float("inf"):
        raise ValueError
    return time_s

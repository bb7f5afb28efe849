"""Tables of the CUTLASS profiler: a case for each kernel and problem that ran."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.profiles.events import OperatorCall, Profile, profile_of_cases
from perfatlas.profiles.formats.lines import table_rows
from perfatlas.quantities import InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT_NAME: Final = "cutlass"
COLUMNS: Final = ("Provider", "Operation", "Disposition", "Status", "Runtime")
MILLISECOND_S: Final = 1e-3
_HEADER: Final = re.compile(r"^(?:.*,)?Provider,OperationKind,Operation,Disposition,", re.MULTILINE)
_PROBLEM: Final = re.compile(r"[a-z_]+_kind$|[A-Za-z]$|batch_count$")  # arguments of a problem
_TYPES: Final = {
    "bf16": "c10::BFloat16",
    "f16": "c10::Half",
    "e4m3": "c10::Float8_e4m3fn",
    "fe4m3": "c10::Float8_e4m3fn",
    "s8": "signed char",
    "f32": "float",
}


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    return _HEADER.search(head) is not None


def read(path: str | Path) -> Profile:
    """Return the mean time of each kernel and problem."""
    calls: list[OperatorCall] = []
    times_s: list[float] = []
    failed = 0
    for row in table_rows(path, COLUMNS):
        time_s = _time_s(row)
        if time_s is None:
            failed += 1
        else:
            calls.append(_call(row))
            times_s.append(time_s)
    if not calls:
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} has no kernel of the CUTLASS profiler that ran;"
            " write it again with --output=FILE"
        )
    notes = [f"{counted(failed, 'kernel')} that did not run or have no time"] if failed else []
    notes.append("the CUTLASS profiler does not name the device, and runs with warm caches")
    return profile_of_cases(path, FORMAT_NAME, calls, times_s, notes)


def _time_s(row: Mapping[str, str]) -> float | None:
    """Return the time in a row, None if its kernel did not run [s]."""
    try:
        time_s = float(row["Runtime"]) * MILLISECOND_S
    except ValueError:
        return None
    return time_s if row["Status"] == "success" and 0.0 < time_s < float("inf") else None


def _call(row: Mapping[str, str]) -> OperatorCall:
    """Return the kernel with the shapes of its product, or with the arguments of its problem."""
    try:
        m, n, k, batch = (int(row[name]) for name in ("m", "n", "k", "batch_count"))
        types = [_TYPES[row[name].split(":")[0]] for name in ("A", "B")]
    except (KeyError, ValueError):
        problem = [f"{name}={row[name]}" for name in row if _PROBLEM.match(name) and row[name]]
        return OperatorCall(row["Operation"], case=printable(" ".join(problem)))
    group = (batch,) if batch > 1 else ()
    return OperatorCall(row["Operation"], ((*group, m, k), (*group, k, n)), tuple(types))

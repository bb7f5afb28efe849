"""Two runs of suites compared: which cases changed, by a test of significance.

Shape legend: P pairs of records of one case and arm.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import read_table
from perfatlas.lab.harness.statistics import SIGNIFICANCE, different
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from pathlib import Path

# Medians of two runs differ by less without a change: a process places its data anew, and others
# of the machine share caches and memory.
MIN_CHANGE: Final = {"compute": 0.05}
MIN_OTHER: Final = 0.25
CRITERION: Final = "5% or more where compute bounds, else 25%; p < 0.01"
NEEDED: Final = ("case", "kernel", "samples_s", "time_s", "bound", "error")


def compare_runs(first: Path, second: Path) -> dict[str, Any]:
    """Return the changes from one run to another, the largest slowdown first.

    A case is slower or faster if its medians differ by 5% or more, 25% where memory or network
    bounds, and its samples differ significantly (p < 0.01).

    Args:
        first: Records of `bench run`.
        second: Records of another run.

    Raises:
        InvalidSpecError: A file has no such records, they share no case, or a time is no positive
            number.
    """
    runs = [_records(path) for path in (first, second)]
    shared = [key for key in runs[0] if key in runs[1]]
    if not shared:
        raise InvalidSpecError(f"{first} and {second} share no case: run the same suite twice")
    measured = [key for key in shared if all(run[key]["samples_s"] for run in runs)]
    pairs_P = [tuple(_samples(run[key]) for run in runs) for key in measured]
    p_values = different([(old, new) for old, new in pairs_P])
    changes = [
        _change(*(run[key] for run in runs), p_value=p_value)
        for key, p_value in zip(measured, p_values, strict=True)
    ]
    failed = [
        {"case": key[0], "kernel": key[1], "error": runs[1][key]["error"]}
        for key in shared
        if runs[0][key]["samples_s"] and not runs[1][key]["samples_s"]
    ]
    return {
        "cases": len(shared),
        "slower": sum(change["verdict"] == "slower" for change in changes),
        "faster": sum(change["verdict"] == "faster" for change in changes),
        "criterion": CRITERION,
        "failed": failed,
        "only_in_first": sorted(" / ".join(key) for key in runs[0].keys() - runs[1].keys()),
        "only_in_second": sorted(" / ".join(key) for key in runs[1].keys() - runs[0].keys()),
        "changes": sorted(changes, key=lambda change: -change["ratio"]),
    }


def _change(row: dict[str, Any], two: dict[str, Any], *, p_value: float) -> dict[str, Any]:
    first_s, second_s = (_seconds(run["time_s"], run["case"]) for run in (row, two))
    ratio = second_s / first_s
    least = MIN_CHANGE.get(str(row["bound"]), MIN_OTHER)
    clear = p_value < SIGNIFICANCE and abs(ratio - 1.0) >= least
    verdict = "same"
    if clear:
        verdict = "slower" if ratio > 1.0 else "faster"
    return {
        "case": row["case"],
        "kernel": row["kernel"],
        "first_s": first_s,
        "second_s": second_s,
        "ratio": ratio,
        "p_value": p_value,
        "verdict": verdict,
    }


def _records(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    table = read_table(path)
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise InvalidSpecError(
            f"{path} has no column {missing[0]!r}: it is not an --output of perfatlas bench run"
        )
    cells = {name: list(table.cells(name)) for name in NEEDED}
    rows = [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]
    return {(str(row["case"]), str(row["kernel"])): row for row in rows}


def _samples(record: dict[str, Any]) -> list[float]:
    return [_seconds(word, record["case"]) for word in str(record["samples_s"]).split()]


def _seconds(value: object, case: object) -> float:
    """Return a time of a record, positive and finite."""
    try:
        time_s = float(str(value))
    except ValueError:
        time_s = math.nan
    if not 0.0 < time_s < math.inf:
        raise InvalidSpecError(f"case {case}: {value!r} is not a time in seconds")
    return time_s

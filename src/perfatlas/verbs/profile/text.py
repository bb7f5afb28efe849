"""Text output of a profile: time, classes, operators, integrity, changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text import (
    format_interval,
    format_share,
    format_value,
    print_labelled,
    print_line,
    print_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    Facts = Mapping[str, Any]

MAX_OPERATORS: Final = 8  # of a brief answer
MAX_SHAPE: Final = 30  # characters
MAX_NAME: Final = 34
IDLE: Final = {
    "  host late": "idle_host_s",
    "  launch latency, dependency": "idle_device_s",
    "  cause not recorded": "idle_unknown_s",
}
RETIMED: Final = {
    "operator_share": "of the device time by prices of its operators",
    "class_share": "by its class",
    "kept_share": "kept as measured",
    "doubtful_share": "measured outside the interval of its price",
}
MAX_PARTS: Final = 4  # of a critical path
PARTS: Final = {"host": "the host", "launch": "launch latency"}
NAMES: Final = {
    "kineto": "Kineto trace",
    "nsys": "Nsight Systems profile",
    "ncu": "Nsight Compute report",
    "nvbench": "nvbench results",
    "nccl_tests": "nccl-tests results",
    "rocprof": "rocprofv3 trace",
    "cutlass": "CUTLASS profiler results",
    "chakra": "Chakra trace",
}


def print_profile(console: Console, results: Facts, *, verbose: bool = False) -> None:
    """Write where the time of a profile went."""
    print_line(console, profile_title(results), style="bold")
    print_labelled(console, time_lines(results))
    if rows := class_rows(results):
        other = sum(row["share"] for row in results["classes"] if row["class"] == "other")
        print_rows(console, rows, title=f"\nclasses ({format_share(other)} unclassified)")
    _print_operators(console, results["operators"], verbose=verbose)
    print_labelled(console, prediction_lines(results))
    if results["integrity"]:
        print_line(console, "integrity", style="bold")
        for note in results["integrity"]:
            print_line(console, f"- {note}")


def profile_title(results: Facts) -> str:
    """Return the format, the device and the system that prices it."""
    device = results["device"] or "unnamed device"
    system = f", priced as {results['system']}" if results["system"] else ""
    number = f", {counted(results['devices'], 'GPU')}" if results["devices"] else ""
    name = NAMES.get(results["format"], results["format"])
    return f"{name} of {device}{number}{system}"


def class_rows(results: Facts) -> list[dict[str, Any]]:
    """Return the classes as cells by title."""
    return [
        {
            "class": row["class"],
            "time": _time(row["time_s"]),
            "share": format_share(row["share"]),
            "kernels": row["kernels"],
        }
        for row in results["classes"]
    ]


def time_lines(results: Facts) -> list[tuple[str, str]]:
    """Return lines of busy, idle and exposed time."""
    launched = f"{counted(results['launches'], 'launch').replace('launchs', 'launches')}"
    kernels = counted(results["kernels"], "kernel")
    if results["wall_s"] is None:
        total_s = sum(row["time_s"] for row in results["classes"])
        if not results["kernels"]:
            return [("kernels", "none recorded")]
        cases = f"{counted(results['kernels'], 'case')}, {_time(total_s)} in all"
        return [("measured", f"{cases}; no timeline")]
    wall_s = results["wall_s"]
    mean = " (mean of the GPUs)" if (results["devices"] or 0) > 1 else ""
    lines = [
        ("kernels", f"{kernels}, {launched}, {results['orphans']:,} without a launch record"),
        ("first to last activity", f"{_time(wall_s)}{mean}"),
        ("busy", _part(results["busy_s"], wall_s)),
        ("idle", _part(results["idle_s"], wall_s)),
    ]
    lines += [(label, _part(results[key], wall_s)) for label, key in IDLE.items() if results[key]]
    if results["communication_s"]:
        exposed = _part(results["exposed_communication_s"], wall_s)
        lines.append(("communication", _part(results["communication_s"], wall_s)))
        lines.append(("  exposed", f"{exposed}, no other kernel at the same time"))
    if results["communication_transfer_s"] is not None:
        waited_s, moved_s = results["communication_wait_s"], results["communication_transfer_s"]
        told = f"{_part(waited_s, wall_s)}; transfer {_time(moved_s)}"
        lines.append(("  wait for the latest rank", told))
    lines.append(("critical path", _path(results)))
    return lines


def _path(results: Facts) -> str:
    """Return the largest parts of the critical path."""
    return ", ".join(
        f"{PARTS.get(row['part'], row['part'])} {format_share(row['share'])}"
        for row in results["critical_path"][:MAX_PARTS]
    )


def _part(time_s: float, wall_s: float) -> str:
    return f"{_time(time_s)} ({format_share(time_s / wall_s if wall_s else 0.0)})"


def _print_operators(console: Console, operators: Sequence[Facts], *, verbose: bool) -> None:
    shown = operators if verbose else operators[:MAX_OPERATORS]
    rows = operator_rows(shown, roofline=verbose)
    if not rows:
        return
    print_rows(console, rows, title="\noperators")
    if len(operators) > len(shown):
        rest_s = sum(row["time_s"] for row in operators[len(shown) :])
        count = len(operators) - len(shown)
        print_line(console, f"{count:,} more, {_time(rest_s)}; --verbose lists them")


def operator_rows(operators: Sequence[Facts], *, roofline: bool) -> list[dict[str, Any]]:
    """Return operators as cells by title, without columns that have nothing.

    Args:
        roofline: Whether the roofline stands beside the prediction.
    """
    rows = [
        {
            "operator": _operator(row),
            "class": row["class"],
            "count": row["count"],
            "time": _time(row["time_s"]),
            "predicted": _predicted_cell(row),
            "roofline": "" if row["roofline_s"] is None else _time(row["roofline_s"]),
        }
        for row in operators
    ]
    priced = any(row["predicted"] for row in rows)
    left_out = set() if priced and roofline else {"roofline"}
    left_out |= set() if priced else {"predicted"}
    return [{key: row[key] for key in row if key not in left_out} for row in rows]


def _operator(row: Facts) -> str:
    """Return name and shape of an operator, each cut."""
    shown = []
    for text, length in ((row["name"], MAX_NAME), (row["shape"], MAX_SHAPE)):
        shown.append(text if len(text) <= length else text[: length - 2] + "..")
    return " ".join(filter(None, shown))


def _time(time_s: float) -> str:
    return format_value("time_s", time_s)


def _predicted_cell(row: Facts) -> str:
    """Return the prediction with its interval, and whether the measurement is slower."""
    if row["predicted_s"] is None:
        return ""
    if row["predicted_s_high"] is None:
        return f"at least {_time(row['predicted_s'])}"
    ends = format_interval("time_s", row["predicted_s_low"], row["predicted_s_high"])
    slower = ", slower" if row["time_s"] > row["predicted_s_high"] else ""
    return f"{_time(row['predicted_s'])} [{ends}]{slower}"


def prediction_lines(results: Facts) -> list[tuple[str, str]]:
    """Return lines about the prediction."""
    if not results["predicted_share"]:
        return []
    told = f"{format_share(results['predicted_share'])} of the kernel time has a prediction"
    lines = [("prediction", f"{told}; {_slower(results)}")]
    if results["shorter_share"]:
        shorter = _part(results["shorter_share"] * results["wall_s"], results["wall_s"])
        told = f"the profile is up to {shorter} shorter"
        lines.append(("at the prediction", f"{told}, if nothing ran beside these kernels"))
    return lines


def _slower(results: Facts) -> str:
    """Return how many operators are slower than predicted, or that no interval tells it."""
    if results["excess_s"] is None:
        return "all are lower limits, so that none is called slower"
    slower = sum(
        row["predicted_s_high"] is not None and row["time_s"] > row["predicted_s_high"]
        for row in results["operators"]
    )
    interval = "its interval" if slower == 1 else "their intervals"
    return f"{counted(slower, 'operator')} slower than {interval}"


def print_changes(console: Console, changes: Facts, *, verbose: bool = False) -> None:
    """Write what changed against another profile."""
    print_line(console, f"against {changes['device'] or 'unnamed device'}", style="bold")
    _print_changes(console, changes, "against", verbose=verbose)


def _print_changes(console: Console, changes: Facts, label: str, *, verbose: bool) -> None:
    print_rows(console, class_changes(changes, label), title="\nclasses")
    rows = change_rows(changes, label, None if verbose else MAX_OPERATORS)
    if rows:
        print_rows(console, rows, title="\noperators, the largest change first")


def class_changes(changes: Facts, label: str) -> list[dict[str, str]]:
    """Return changes of classes as cells by title.

    Args:
        label: Title of the other time.
    """
    return [{"class": row["class"], **_change(row, label)} for row in changes["classes"]]


def change_rows(changes: Facts, label: str, most: int | None) -> list[dict[str, str]]:
    """Return changes of operators as cells by title, the largest first.

    Args:
        label: Title of the other time.
        most: How many; None for all.
    """
    moved = [row for row in changes["operators"] if row["change_s"]]
    is_mixed = any(row["change"] != "changed" for row in moved)
    return [
        {
            "operator": _operator(row),
            **({"": row["change"]} if is_mixed else {}),
            **_change(row, label),
        }
        for row in moved[:most]
    ]


def print_on_system(console: Console, results: Facts, *, verbose: bool = False) -> None:
    """Write how long a profile takes on another system."""
    on = results["on"]
    print_line(console, f"re-timed on {on['system']}", style="bold")
    print_labelled(console, retimed_lines(results))
    _print_changes(console, on, "was", verbose=verbose)


def retimed_lines(results: Facts) -> list[tuple[str, str]]:
    """Return lines of the times on another system."""
    on = results["on"]
    wall_s, interval = on["wall_s"], ""
    if on["wall_s_low"] is not None:
        interval = f" [{format_interval('time_s', on['wall_s_low'], on['wall_s_high'])}]"
    return [
        ("first to last activity", f"{_time(wall_s)}{interval}, was {_time(results['wall_s'])}"),
        ("speedup", f"{on['speedup'] or 1.0:.3g}x"),
        ("busy", f"{_part(on['busy_s'], wall_s)}, was {_time(results['busy_s'])}"),
        ("idle", f"{_part(on['idle_s'], wall_s)}, was {_time(results['idle_s'])}"),
        *((label, _part(on[key], wall_s)) for label, key in IDLE.items() if on[key]),
        ("critical path", f"{_path(on)}; was {_path(results)}"),
        ("re-timed", "; ".join(f"{format_share(on[key])} {of}" for key, of in RETIMED.items())),
    ]


def _change(row: Facts, label: str) -> dict[str, str]:
    sign = "+" if row["change_s"] >= 0.0 else "-"
    return {
        label: _time(row["against_time_s"]),
        "time": _time(row["time_s"]),
        "change": f"{sign}{_time(abs(row['change_s']))}",
    }

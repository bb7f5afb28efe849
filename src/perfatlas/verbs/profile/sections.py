"""A profile in a terminal and as a page: times, classes and operators beside the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.charts import BLUE, ORANGE, Axis, BarPart, StackedBars
from perfatlas.report.pages import Page, Section, Table, Value, print_blocks, print_sections
from perfatlas.report.text import (
    format_interval,
    format_share,
    format_value,
    print_line,
)
from perfatlas.version import __version__

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
MAX_BARS: Final = 12  # operators in the chart
MAX_ROWS: Final = 200  # of a table on a page
TEXTS: Final = ("operator", "class", "", "predicted")


def print_profile(console: Console, results: Facts, *, verbose: bool = False) -> None:
    """Write where the time of a profile went."""
    print_line(console, profile_title(results), style="bold")
    time, *sections = _sections(results, brief=not verbose)
    print_blocks(console, time.blocks)
    print_sections(console, sections, verbose=verbose)
    console.print()


def profile_page(results: Facts, *, reproduce: str) -> Page:
    """Return the results of `profile` as an HTML page."""
    return Page(
        command="profile",
        title=profile_title(results),
        values=[
            Value(label=label, value=format_value("time_s", results[name]))
            for name, label in (("wall_s", "first to last activity"), ("busy_s", "busy"))
            if results[name] is not None
        ],
        sections=_sections(results, most=MAX_ROWS),
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _sections(results: Facts, *, brief: bool = False, most: int | None = None) -> list[Section]:
    """Return times, classes, operators, changes, and what is doubtful."""
    sections = [
        Section(title="Time", blocks=[_pairs(time_lines(results) + _prediction_lines(results))])
    ]
    if classes := results["classes"]:
        other = sum(row["share"] for row in classes if row["class"] == "other")
        figure = _bars([row["class"] for row in classes], classes, ("measured",))
        table = Table.of(classes, CLASS_COLUMNS, TEXTS)
        note = f"{format_share(other)} unclassified"
        sections.append(Section.charted("Time by class", figure, table, note))
    if operators := results["operators"]:
        sections.append(_operators(operators, brief=brief, most=most))
    if "against" in results:
        title = f"Against {results['against']['device'] or 'unnamed device'}"
        sections.append(_changes(title, results["against"], "against", most))
    if "on" in results:
        title = f"Re-timed on {results['on']['system']}"
        lines = _pairs(_retimed_lines(results))
        sections.append(_changes(title, results["on"], "was", most, lines))
    if results["integrity"]:
        sections.append(Section(title="Integrity", blocks=results["integrity"]))
    return sections


def _pairs(lines: Sequence[tuple[str, str]]) -> Table:
    return Table(head=("", ""), rows=lines, text_columns=(0, 1))


def profile_title(results: Facts) -> str:
    """Return the format, the device and the system that prices it."""
    device = results["device"] or "unnamed device"
    system = f", priced as {results['system']}" if results["system"] else ""
    number = f", {counted(results['devices'], 'GPU')}" if results["devices"] else ""
    name = NAMES.get(results["format"], results["format"])
    return f"{name} of {device}{number}{system}"


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
        text = f"{_part(waited_s, wall_s)}; transfer {_time(moved_s)}"
        lines.append(("  wait for the latest rank", text))
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


def _bars(names: Sequence[str], rows: Sequence[Facts], sides: Sequence[str]) -> StackedBars:
    """Return the times of rows as bars, a bar for each side of a row."""
    keys = {"measured": ("time_s", BLUE), "predicted": ("predicted_s", ORANGE)}
    parts = []
    for side in sides:
        key, colour = keys[side]
        times = [row[key] if side == text else 0.0 for row in rows for text in sides]
        texts = [_time(row[key]) for row in rows for _ in sides]
        parts.append(BarPart(side, times, texts, colour))
    labels = [
        f"{name} ({text})" if text == "predicted" else name for name in names for text in sides
    ]
    return StackedBars(labels, parts, Axis("time", "s"))


def _operators(operators: Sequence[Facts], *, brief: bool, most: int | None) -> Section:
    """Return operators beside their predictions, without columns that have nothing."""
    priced = [row for row in operators[:most] if row["predicted_s"] is not None]
    left_out = {"roofline"} if brief or not priced else set()
    left_out |= set() if priced else {"predicted"}
    columns = {title: cell for title, cell in OPERATOR_COLUMNS.items() if title not in left_out}
    blocks: list[Any] = [Table.of(operators[:most], columns, TEXTS)]
    if most is not None and len(operators) > most:
        blocks.append(f"The longest {most} of {len(operators):,}.")
    drawn = [row for row in operators if row["predicted_s"]][:MAX_BARS]
    if not drawn:
        return Section(title="Operators", blocks=blocks, most=MAX_OPERATORS)
    names = [f"{row['name'][:34]} {row['shape'][:40]}".strip() for row in drawn]
    figure = _bars(names, drawn, ("measured", "predicted"))
    title = "Operators beside their predictions"
    return Section.charted(title, figure, *blocks, most=MAX_OPERATORS)


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


def _prediction_lines(results: Facts) -> list[tuple[str, str]]:
    """Return lines about the prediction."""
    if not results["predicted_share"]:
        return []
    text = f"{format_share(results['predicted_share'])} of the kernel time has a prediction"
    lines = [("prediction", f"{text}; {_slower(results)}")]
    if results["shorter_share"]:
        shorter = _part(results["shorter_share"] * results["wall_s"], results["wall_s"])
        text = f"the profile is up to {shorter} shorter"
        lines.append(("at the prediction", f"{text}, if nothing ran beside these kernels"))
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


def _changes(title: str, changes: Facts, label: str, most: int | None, *before: Table) -> Section:
    """Return what changed against another profile, or on another system.

    Args:
        most: Operators, the largest change first; None for all.
    """
    columns: dict[str, Any] = {
        label: "against_time_s",
        "time": "time_s",
        "change": lambda row: (
            f"{'+' if row['change_s'] >= 0.0 else '-'}{_time(abs(row['change_s']))}"
        ),
    }
    moved = [row for row in changes["operators"] if row["change_s"]][:most]
    is_mixed = any(row["change"] != "changed" for row in moved)
    operators = {"operator": _operator, **({"": "change"} if is_mixed else {}), **columns}
    tables = [
        Table.of(rows, named, TEXTS)
        for rows, named in ((changes["classes"], {"class": "class", **columns}), (moved, operators))
        if rows
    ]
    return Section(title=title, blocks=[*before, *tables], most=MAX_OPERATORS)


def _retimed_lines(results: Facts) -> list[tuple[str, str]]:
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


CLASS_COLUMNS: Final[Mapping[str, Any]] = {
    "class": "class",
    "time": "time_s",
    "share": lambda row: format_share(row["share"]),
    "kernels": "kernels",
}
OPERATOR_COLUMNS: Final[Mapping[str, Any]] = {
    "operator": _operator,
    "class": "class",
    "count": "count",
    "time": "time_s",
    "predicted": _predicted_cell,
    "roofline": lambda row: "" if row["roofline_s"] is None else _time(row["roofline_s"]),
}

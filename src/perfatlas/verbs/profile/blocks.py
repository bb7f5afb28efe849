"""What a profile shows: times, classes and operators beside the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report import pages, text
from perfatlas.report.charts import BLUE, ORANGE, Axis, BarPart, StackedBars
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
SUMMARIES: Final = {
    "nsys_stats": "nsys stats summary",
    "torch_table": "torch.profiler table",
    "rocprof_stats": "rocprof statistics",
}
NAMES: Final = SUMMARIES | {
    "kineto": "Kineto trace",
    "nsys": "Nsight Systems profile",
    "ncu": "Nsight Compute report",
    "nvbench": "nvbench results",
    "nccl_tests": "nccl-tests results",
    "rocprof": "rocprof trace",
    "cutlass": "CUTLASS profiler results",
    "chakra": "Chakra trace",
}
MAX_BARS: Final = 12  # operators in the chart
MAX_ROWS: Final = 200  # of a table on a page
TEXTS: Final = ("operator", "class", "", "predicted")


def profile_page(answer: Facts, *, reproduce: str) -> pages.Page:
    """Return the answer of `profile`: times, classes, operators, changes, and what is doubtful."""
    results = answer["results"]
    sections = [
        pages.Section(
            title="Time", blocks=[_pairs(time_lines(results) + _prediction_lines(results))]
        )
    ]
    if classes := results["classes"]:
        other = sum(row["share"] for row in classes if row["class"] == "other")
        figure = _bars([row["class"] for row in classes], classes, ("measured",))
        table = pages.Table.of(classes, CLASS_COLUMNS, TEXTS)
        note = f"{text.format_share(other)} unclassified"
        sections.append(pages.Section.charted("Time by class", figure, table, note))
    if operators := results["operators"]:
        sections.append(_operators(operators, has_means=results["format"] in SUMMARIES))
    if against := results.get("against"):
        title = f"Against {against['device'] or 'unnamed device'}"
        sections.append(_changes(title, against, "against"))
    if on := results.get("on"):
        lines = _pairs(_retimed_lines(results))
        sections.append(_changes(f"Re-timed on {on['system']}", on, "was", lines))
    if results["integrity"]:
        sections.append(pages.Section(title="Integrity", blocks=results["integrity"]))
    return pages.Page(
        command="profile",
        title=profile_title(results),
        values=[
            text.Value(label, text.format_value("time_s", results[name]))
            for name, label in (("wall_s", "first to last activity"), ("busy_s", "busy"))
            if results[name] is not None
        ],
        sections=sections,
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _pairs(lines: Sequence[tuple[str, str]]) -> pages.Table:
    return pages.Table(head=("", ""), rows=lines, text_columns=(0, 1))


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
        unit = "execution" if results["format"] in SUMMARIES else "case"
        cases = f"{counted(results['kernels'], unit)}, {_time(total_s)} in all"
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
        waited = f"{_part(waited_s, wall_s)}; transfer {_time(moved_s)}"
        lines.append(("  wait for the latest rank", waited))
    lines.append(("critical path", _path(results)))
    return lines


def _path(results: Facts) -> str:
    """Return the largest parts of the critical path."""
    return ", ".join(
        f"{PARTS.get(row['part'], row['part'])} {text.format_share(row['share'])}"
        for row in results["critical_path"][:MAX_PARTS]
    )


def _part(time_s: float, wall_s: float) -> str:
    return f"{_time(time_s)} ({text.format_share(time_s / wall_s if wall_s else 0.0)})"


def _bars(names: Sequence[str], rows: Sequence[Facts], sides: Sequence[str]) -> StackedBars:
    """Return the times of rows as bars, a bar for each side of a row."""
    keys = {"measured": ("time_s", BLUE), "predicted": ("predicted_s", ORANGE)}
    parts = []
    for side in sides:
        key, colour = keys[side]
        times = [row[key] if side == one else 0.0 for row in rows for one in sides]
        texts = [_time(row[key]) for row in rows for _ in sides]
        parts.append(BarPart(side, times, texts, colour))
    # one line, so that the operator above has three; each with other spaces, as a row of its own
    labels = [
        f"predicted{' ' * row}" if one == "predicted" else name
        for row, name in enumerate(names)
        for one in sides
    ]
    return StackedBars(labels, parts, Axis("time", "s"))


def _operators(operators: Sequence[Facts], *, has_means: bool) -> pages.Section:
    """Return operators beside their predictions, without columns that have nothing."""
    priced = any(row["predicted_s"] is not None for row in operators)
    left_out = (*(() if has_means else ("mean",)), *(() if priced else ("predicted", "roofline")))
    columns = {title: cell for title, cell in OPERATOR_COLUMNS.items() if title not in left_out}
    table = pages.Table.of(operators, columns, TEXTS, details=("roofline",), most_on_page=MAX_ROWS)
    drawn = [row for row in operators if row["predicted_s"]][:MAX_BARS]
    if not drawn:
        return pages.Section(title="Operators", blocks=[table], most=MAX_OPERATORS)
    names = [f"{row['name'][:34]} {row['shape'][:40]}".strip() for row in drawn]
    figure = _bars(names, drawn, ("measured", "predicted"))
    title = "Operators beside their predictions"
    return pages.Section.charted(title, figure, table, most=MAX_OPERATORS)


def _operator(row: Facts) -> str:
    """Return name and shape of an operator, each cut."""
    shown = []
    for words, length in ((row["name"], MAX_NAME), (row["shape"], MAX_SHAPE)):
        shown.append(words if len(words) <= length else words[: length - 2] + "..")
    return " ".join(filter(None, shown))


def _time(time_s: float) -> str:
    return text.format_value("time_s", time_s)


def _predicted_cell(row: Facts) -> str:
    """Return the prediction with its interval, and whether the measurement is slower."""
    if row["predicted_s"] is None:
        return ""
    if row["predicted_s_high"] is None:
        return f"at least {_time(row['predicted_s'])}"
    ends = text.format_interval("time_s", row["predicted_s_low"], row["predicted_s_high"])
    slower = ", slower" if row["time_s"] > row["predicted_s_high"] else ""
    return f"{_time(row['predicted_s'])} [{ends}]{slower}"


def _prediction_lines(results: Facts) -> list[tuple[str, str]]:
    """Return lines about the prediction."""
    if not results["predicted_share"]:
        return []
    share = text.format_share(results["predicted_share"])
    known = f"{share} of the kernel time has a prediction; {_slower(results)}"
    lines = [("prediction", known)]
    if results["shorter_share"]:
        shorter = _part(results["shorter_share"] * results["wall_s"], results["wall_s"])
        saved = f"the profile is up to {shorter} shorter, if nothing ran beside these kernels"
        lines.append(("at the prediction", saved))
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


def _changes(title: str, changes: Facts, label: str, *before: pages.Block) -> pages.Section:
    """Return what changed against another profile, or on another system, the largest first."""
    columns: dict[str, Any] = {
        label: "against_time_s",
        "time": "time_s",
        "change": lambda row: (
            f"{'+' if row['change_s'] >= 0.0 else '-'}{_time(abs(row['change_s']))}"
        ),
    }
    moved = [row for row in changes["operators"] if row["change_s"]]
    is_mixed = any(row["change"] != "changed" for row in moved)
    operators = {"operator": _operator, **({"": "change"} if is_mixed else {}), **columns}
    tables = [
        pages.Table.of(rows, named, TEXTS, most_on_page=MAX_ROWS)
        for rows, named in ((changes["classes"], {"class": "class", **columns}), (moved, operators))
        if rows
    ]
    return pages.Section(title=title, blocks=[*before, *tables], most=MAX_OPERATORS)


def _retimed_lines(results: Facts) -> list[tuple[str, str]]:
    """Return lines of the times on another system."""
    on = results["on"]
    wall_s, interval = on["wall_s"], ""
    if on["wall_s_low"] is not None:
        interval = f" [{text.format_interval('time_s', on['wall_s_low'], on['wall_s_high'])}]"
    return [
        ("first to last activity", f"{_time(wall_s)}{interval}, was {_time(results['wall_s'])}"),
        ("speedup", f"{on['speedup'] or 1.0:.3g}x"),
        ("busy", f"{_part(on['busy_s'], wall_s)}, was {_time(results['busy_s'])}"),
        ("idle", f"{_part(on['idle_s'], wall_s)}, was {_time(results['idle_s'])}"),
        *((label, _part(on[key], wall_s)) for label, key in IDLE.items() if on[key]),
        ("critical path", f"{_path(on)}; was {_path(results)}"),
        (
            "re-timed",
            "; ".join(f"{text.format_share(on[key])} {of}" for key, of in RETIMED.items()),
        ),
    ]


CLASS_COLUMNS: Final[Mapping[str, Any]] = {
    "class": "class",
    "time": "time_s",
    "share": lambda row: text.format_share(row["share"]),
    "kernels": "kernels",
}
OPERATOR_COLUMNS: Final[Mapping[str, Any]] = {
    "operator": _operator,
    "class": "class",
    "count": "count",
    "time": "time_s",
    "mean": lambda row: _time(row["time_s"] / row["count"]),
    "predicted": _predicted_cell,
    "roofline": lambda row: "" if row["roofline_s"] is None else _time(row["roofline_s"]),
}

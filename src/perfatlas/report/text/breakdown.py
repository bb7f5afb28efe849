"""Time breakdown with bounds, one table per phase."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text.quantities import MISSING, format_share, format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

BOUND_STYLES: Final = {
    "compute": "green",
    "memory": "blue",
    "network": "magenta",
    "latency": "yellow",
    "host": "red",
}
# Rows below this share of their phase are combined into one line.
MIN_SHARE: Final = 0.005
MIN_BOUND: Final = 0.01
LARGE_SHARE: Final = 0.1  # of a phase, from which an operator far from its roofline is named
MAX_ROOFLINES: Final = 4.0  # times of its roofline that are usual of kernels
WIDE_COLUMNS: Final = 100
NARROW_COLUMNS: Final = 78
NAME_WIDTH: Final = 28  # leaves the other columns their room in NARROW_COLUMNS
OTHERS_WIDTH: Final = 26  # time, share and bound with their gaps, and the indentation
BREAKS: Final = re.compile(r"([_./])")
OPERATOR: Final = "  operator"
ROOFLINE: Final = "roofline"
ENERGY: Final = "energy"
HIDDEN: Final = "hidden"
NUMERIC: Final = frozenset(("count", "time", HIDDEN, ENERGY, "share", ROOFLINE))


def rows_by_phase(
    breakdown: Sequence[Mapping[str, Any]],
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each phase, phases and rows in order of appearance."""
    phases: dict[str, list[Mapping[str, Any]]] = {}
    for row in breakdown:
        phases.setdefault(str(row.get("phase") or ""), []).append(row)
    return phases


def phases_of(breakdown: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each phase, phases in order of appearance, rows slowest first."""
    return {
        phase: sorted(rows, key=lambda row: float(row.get("time_s") or 0.0), reverse=True)
        for phase, rows in rows_by_phase(breakdown).items()
    }


def bound_summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return "memory 71%, network 20%": the time of a phase by bound.

    Example:
        >>> from perfatlas.report.text.breakdown import bound_summary
        >>> bound_summary([{"bound": "memory", "time_s": 3.0}, {"bound": "host", "time_s": 1.0}])
        'memory 75%, host 25%'
    """
    times: dict[str, float] = {}
    for row in rows:
        bound = str(row.get("bound") or "unknown")
        times[bound] = times.get(bound, 0.0) + float(row.get("time_s") or 0.0)
    total = sum(times.values())
    if total <= 0:
        return "no time"
    ranked = sorted(times.items(), key=lambda item: item[1], reverse=True)
    shares = [(bound, time / total) for bound, time in ranked if time / total >= MIN_BOUND]
    return ", ".join(f"{bound} {format_share(share)}" for bound, share in shares)


def phase_title(phase: str, rows: Sequence[Mapping[str, Any]], *, width: int) -> str:
    """Return "decode step 10.3 ms, bound by memory 71%, network 20%".

    Args:
        width: Maximum width; "bound by" is omitted if it does not fit.
    """
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    step = phase if phase == "pass" else f"{phase} step"
    start = f"{step} {format_value('time_s', time_s)}".lstrip()
    summary = bound_summary(rows)
    line = f"{start}, bound by {summary}"
    return line if len(line) <= width else f"{start}: {summary}"


def far_from_roofline(phases: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the large operators that take many times their own roofline; "" if none does.

    Operators bound by latency are left out: their bound says so.

    Example:
        >>> from perfatlas.report.text.breakdown import far_from_roofline
        >>> experts = {"name": "experts", "bound": "memory", "time_s": 9e-4, "bound_time_s": 1e-4}
        >>> far_from_roofline({"decode": [{**experts, "share": 0.6}]})
        'far above their own roofline: experts (decode, 9.0 times)'
    """
    operators = [
        f"{row['name']} ({phase}, {row['time_s'] / row['bound_time_s']:.1f} times)"
        for phase, rows in phases.items()
        for row in rows
        if row.get("bound") in ("compute", "memory", "network")
        and float(row.get("share") or 0.0) >= LARGE_SHARE
        and 0.0 < MAX_ROOFLINES * float(row.get("bound_time_s") or 0.0) < float(row["time_s"])
    ]
    return f"far above their own roofline: {', '.join(operators)}" if operators else ""


def hidden_summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how much of the overlapped communication of a phase is hidden; "" if none is.

    Example:
        >>> from perfatlas.report.text.breakdown import hidden_summary
        >>> dispatch = {"name": "experts_dispatch", "time_s": 1e-3, "hidden_time_s": 3e-3}
        >>> hidden_summary([{**dispatch, "stream": "communication"}])
        'hidden by overlap: 75% of experts_dispatch (3.00 ms)'
    """
    sent = [row for row in rows if row.get("stream") == "communication"]
    if not _hides(sent):
        return ""
    overlapped = [row for row in sent if row.get("hidden_time_s")]
    hidden_s = sum(float(row["hidden_time_s"]) for row in overlapped)
    whole_s = hidden_s + sum(float(row.get("time_s") or 0.0) for row in overlapped)
    names = ", ".join(str(row["name"]) for row in overlapped)
    share = format_share(hidden_s / whole_s)
    return f"hidden by overlap: {share} of {names} ({format_value('time_s', hidden_s)})"


def phase_table(
    rows: Sequence[Mapping[str, Any]], *, width: int, max_rows: int | None = None
) -> Table:
    """Return a table of one phase's operators; small ones share one line.

    Args:
        width: Maximum width; the calibration is shown if it fits, and the count, the roofline
            time and the tier are omitted if they do not.
        max_rows: Operators with their own row; by default all that are not small, with their energy
            on one GPU if it is known. Time hidden by overlap is shown where it is not small.
    """
    from rich.table import Table

    with_energy = max_rows is None and any(row.get("energy_j") for row in rows)
    names = _columns(width, with_energy=with_energy, with_hidden=_hides(rows))
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2 if width >= WIDE_COLUMNS else 1, 0, 0),
        show_edge=False,
    )
    for name in names:
        table.add_column(
            name,
            justify="right" if name in NUMERIC else "left",
            no_wrap=name != "calibration",
            overflow="fold",
            style="dim" if name == "calibration" else "",
            header_style="dim",
        )
    whole_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    shown = [row for row in rows if _is_large(row, whole_s)] or rows[:1]
    shown = shown if max_rows is None else shown[:max_rows]
    if len(rows) == len(shown) + 1:
        shown = list(rows)
    cells = [_cells(row, width=width) for row in shown]
    if folded := [row for row in rows if not any(row is record for record in shown)]:
        cells.append(_folded(folded, "small operators" if max_rows is None else "others"))
    for row_cells in cells:
        table.add_row(*(row_cells.get(name, "") for name in names))
    return table


def _hides(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an operator of a phase has a hidden time that is not small."""
    least_s = MIN_SHARE * sum(float(row.get("time_s") or 0.0) for row in rows)
    return any(float(row.get("hidden_time_s") or 0.0) > least_s for row in rows)


def _is_large(row: Mapping[str, Any], whole_s: float) -> bool:
    """Return whether the share of an operator, or its hidden time, is not small."""
    hidden_s = float(row.get("hidden_time_s") or 0.0)
    return float(row.get("share") or 0.0) >= MIN_SHARE or hidden_s > MIN_SHARE * whole_s


def _columns(width: int, *, with_energy: bool, with_hidden: bool) -> tuple[str, ...]:
    """Return the columns that fit a terminal; columns are never truncated."""
    if width < NARROW_COLUMNS:
        return (OPERATOR, "time", "share", "bound")
    hidden = (HIDDEN,) if with_hidden else ()
    energy = (ENERGY,) if with_energy and (width >= WIDE_COLUMNS or not hidden) else ()
    everything = (
        *(OPERATOR, "count", "time", *hidden, *energy, "share"),
        *("bound", ROOFLINE, "tier", "calibration"),
    )
    return everything if width >= WIDE_COLUMNS else everything[:-1]


def _cells(row: Mapping[str, Any], *, width: int) -> dict[str, Any]:
    from rich.text import Text

    bound = str(row.get("bound") or MISSING)
    count = row.get("count")
    share = row.get("share")
    room = (
        WIDE_COLUMNS
        if width >= WIDE_COLUMNS
        else NAME_WIDTH
        if width >= NARROW_COLUMNS
        else width - OTHERS_WIDTH
    )
    return {
        OPERATOR: break_name(str(row.get("name", MISSING)), room),
        "count": MISSING if count is None else f"{count:,.0f}" if count >= 1 else f"{count:.2g}",
        "time": format_value("time_s", row.get("time_s")),
        HIDDEN: format_value("time_s", row.get("hidden_time_s") or None),
        ENERGY: format_value("energy_j", row.get("energy_j") or None),
        "share": MISSING if share is None else format_share(float(share)),
        "bound": Text(bound, style=BOUND_STYLES.get(bound, "")),
        ROOFLINE: _roofline(row),
        "tier": str(row.get("tier") or MISSING).split()[0],  # "engine profile": "engine"
        "calibration": str(row.get("calibration") or MISSING),
    }


def _roofline(row: Mapping[str, Any]) -> str:
    """Return the roofline time; operators without device memory traffic have none."""
    if row.get("bound") == "memory" and row.get("bound_time_s") == 0:
        return "in L2"
    return format_value("time_s", row.get("bound_time_s") or None)


def break_name(name: str, width: int) -> str:
    """Return an indented name, broken after an underscore, dot or slash if it is too long.

    Args:
        name: Name of an operator, a calibration or a field.

    Example:
        >>> from perfatlas.report.text.breakdown import break_name
        >>> print(break_name("output_projection_all_reduce", 20))
          output_projection_
            all_reduce
    """
    lines: list[str] = []
    line = ""
    for word in BREAKS.sub(r"\1 ", name).split():
        if line and len(line) + len(word) > width - 2 * bool(lines):
            lines.append(line)
            line = ""
        line += word
    return "  " + "\n    ".join([*lines, line])


def _folded(rows: Sequence[Mapping[str, Any]], noun: str) -> dict[str, Any]:
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    share = sum(float(row.get("share") or 0.0) for row in rows)
    energy_j = sum(float(row.get("energy_j") or 0.0) for row in rows)
    hidden_s = sum(float(row.get("hidden_time_s") or 0.0) for row in rows)
    return {
        OPERATOR: f"  {len(rows)} {noun}",
        "time": format_value("time_s", time_s),
        HIDDEN: format_value("time_s", hidden_s or None),
        ENERGY: format_value("energy_j", energy_j or None),
        "share": format_share(share),
    }

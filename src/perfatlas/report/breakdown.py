"""What takes the time and what bounds it, as a table per phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.quantities_text import MISSING, format_share, format_value

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
# Rows below this share of their phase are folded into one line.
SMALLEST_SHARE: Final = 0.005
SMALLEST_BOUND: Final = 0.01
WIDE: Final = 100
NAME_WIDTH: Final = 30  # leaves the other columns their room in 80


def rows_by_phase(
    breakdown: Sequence[Mapping[str, Any]],
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each phase, phases and rows in order of appearance.

    Args:
        breakdown: The `breakdown` of an answer.
    """
    phases: dict[str, list[Mapping[str, Any]]] = {}
    for row in breakdown:
        phases.setdefault(str(row.get("phase") or ""), []).append(row)
    return phases


def phases_of(breakdown: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each phase, phases in order of appearance, rows slowest first.

    Args:
        breakdown: The `breakdown` of an answer.
    """
    return {
        phase: sorted(rows, key=lambda row: float(row.get("time_s") or 0.0), reverse=True)
        for phase, rows in rows_by_phase(breakdown).items()
    }


def bound_summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return "memory 71 %, network 20 %": the time of a phase by what bounds it.

    Args:
        rows: Breakdown rows of one phase.

    Example:
        >>> from perfatlas.report.breakdown import bound_summary
        >>> bound_summary([{"bound": "memory", "time_s": 3.0}, {"bound": "host", "time_s": 1.0}])
        'memory 75 %, host 25 %'
    """
    times: dict[str, float] = {}
    for row in rows:
        bound = str(row.get("bound") or "unknown")
        times[bound] = times.get(bound, 0.0) + float(row.get("time_s") or 0.0)
    total = sum(times.values())
    if total <= 0:
        return "no time"
    ranked = sorted(times.items(), key=lambda item: item[1], reverse=True)
    told = [(bound, time / total) for bound, time in ranked if time / total >= SMALLEST_BOUND]
    return ", ".join(f"{bound} {format_share(share)}" for bound, share in told)


def phase_title(phase: str, rows: Sequence[Mapping[str, Any]], *, width: int) -> str:
    """Return "decode step 10.3 ms, bound by memory 71 %, network 20 %".

    Args:
        phase: Its name.
        rows: Its breakdown rows.
        width: Columns to fit in; "bound by" is left out where there is no room for it.
    """
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    start = f"{phase} step {format_value('time_s', time_s)}".lstrip()
    summary = bound_summary(rows)
    line = f"{start}, bound by {summary}"
    return line if len(line) <= width else f"{start}: {summary}"


def phase_table(rows: Sequence[Mapping[str, Any]], *, width: int) -> Table:
    """Return a table of one phase's operators, the small ones folded into one line.

    Args:
        rows: Breakdown rows of one phase, slowest first.
        width: Columns to fit in; the calibration is shown where there is room.
    """
    from rich.table import Table

    wide = width >= WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0), show_edge=False)
    table.add_column("  operator", no_wrap=True, header_style="dim")
    for name in ("count", "time", "share"):
        table.add_column(name, justify="right", no_wrap=True, header_style="dim")
    table.add_column("bound", no_wrap=True, header_style="dim")
    table.add_column("at bound", justify="right", no_wrap=True, header_style="dim")
    table.add_column("tier", no_wrap=True, header_style="dim")
    if wide:
        table.add_column("calibration", overflow="fold", style="dim", header_style="dim")
    shown = [row for row in rows if float(row.get("share") or 0.0) >= SMALLEST_SHARE] or rows[:1]
    if len(rows) == len(shown) + 1:
        shown = list(rows)
    for row in shown:
        table.add_row(*_cells(row, width=width))
    hidden = rows[len(shown) :]
    if hidden:
        table.add_row(*_folded(hidden))
    return table


def _cells(row: Mapping[str, Any], *, width: int) -> list[Any]:
    from rich.text import Text

    bound = str(row.get("bound") or MISSING)
    count = row.get("count")
    share = row.get("share")
    cells: list[Any] = [
        _name_lines(str(row.get("name", MISSING)), NAME_WIDTH if width < WIDE else WIDE),
        MISSING if count is None else f"{count:,.0f}",
        format_value("time_s", row.get("time_s")),
        MISSING if share is None else format_share(float(share)),
        Text(bound, style=BOUND_STYLES.get(bound, "")),
        format_value("time_s", row.get("bound_time_s") or None),
        str(row.get("tier") or MISSING),
    ]
    if width >= WIDE:
        cells.append(str(row.get("calibration") or MISSING))
    return cells


def _name_lines(name: str, width: int) -> str:
    """Return an operator's name, broken after an underscore where it is too long."""
    lines, line = [], ""
    for word in name.replace("_", "_ ").split():
        if line and len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line += word
    return "  " + "\n    ".join([*lines, line])


def _folded(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    share = sum(float(row.get("share") or 0.0) for row in rows)
    return [
        f"  {len(rows)} small operators",
        "",
        format_value("time_s", time_s),
        format_share(share),
    ]

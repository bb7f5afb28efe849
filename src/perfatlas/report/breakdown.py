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
WIDE: Final = 100


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
    return ", ".join(f"{bound} {format_share(time / total)}" for bound, time in ranked if time > 0)


def phase_table(rows: Sequence[Mapping[str, Any]], *, width: int) -> Table:
    """Return a table of one phase's operators, the small ones folded into one line.

    Args:
        rows: Breakdown rows of one phase, slowest first.
        width: Columns to fit in; the calibration is shown where there is room.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("  operator", overflow="fold", header_style="dim")
    for name in ("count", "time", "share"):
        table.add_column(name, justify="right", no_wrap=True, header_style="dim")
    table.add_column("bound", no_wrap=True, header_style="dim")
    table.add_column("at bound", justify="right", no_wrap=True, header_style="dim")
    table.add_column("tier", no_wrap=True, header_style="dim")
    if width >= WIDE:
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
        f"  {row.get('name', MISSING)}",
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


def _folded(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    share = sum(float(row.get("share") or 0.0) for row in rows)
    return [
        f"  {len(rows)} small operators",
        "",
        format_value("time_s", time_s),
        format_share(share),
    ]

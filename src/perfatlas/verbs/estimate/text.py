"""Terminal chart of throughput versus interactivity, with one point per batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import significant
from perfatlas.report.text import (
    format_value,
    interval_text,
    limited_text,
    limits_of,
    line_chart,
    print_closing,
    print_line,
    print_plain,
    print_question,
    speaks_unicode,
)
from perfatlas.studies import print_sensitivities
from perfatlas.verbs.estimate.frontiers import ONE_PLAN
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
ENERGY: Final = "energy_per_output_token_j"
MILLISECONDS: Final = 1e3  # per second
HEIGHT: Final = 16
CHART_LINES: Final = 8  # lines of the chart of a brief answer
TABLE_ROWS: Final = 16
FEW_ROWS: Final = 6  # of a brief answer
ROOMY: Final = 92
WIDE_COLUMNS: Final = 76
NARROW_COLUMNS: Final = 60
NARROWEST: Final = 46
BOUND_TITLE: Final = "decode bound"
REDUNDANT_RATIO: Final = 1.05  # batches closer than this ratio are redundant


def frontier_chart(
    rows: Sequence[Mapping[str, Any]], *, width: int, unicode: bool, height: int = HEIGHT
) -> str:
    """Return a chart of output tokens/s per GPU over those per user, labelled with batches.

    Args:
        rows: Points with `batch`, `output_tokens_per_s_per_gpu`, `output_tokens_per_s_per_user`.
        height: Lines between the axes.

    Example:
        >>> from perfatlas.verbs.estimate.text import frontier_chart
        >>> rows = [{"batch": 1, "output_tokens_per_s_per_gpu": 10.0,
        ...          "output_tokens_per_s_per_user": 80.0}]
        >>> frontier_chart(rows, width=40, unicode=False).splitlines()[0]
        '  output tokens/s per GPU, by batch'
    """
    return line_chart(
        [(float(r[X]), float(r[Y]), str(r["batch"])) for r in rows if r.get(X) and r.get(Y)],
        titles=(METRICS[X].label, f"{METRICS[Y].label}, by {METRICS['frontier.batch'].label}"),
        width=width,
        unicode=unicode,
        height=height,
    )


def print_frontier(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write the chart, the points as a table, and the common end of answers."""
    points = answer["results"]["frontier"]
    gpus = {"gpus": points[0]["gpus"]} if "gpus" in points[0] else {}
    print_question(console, {**answer, "results": gpus})
    rows = distinct(points)
    chart = frontier_chart(
        rows,
        width=console.width,
        unicode=speaks_unicode(console),
        height=HEIGHT if verbose else CHART_LINES,
    )
    print_plain(console, chart + "\n")
    most = TABLE_ROWS if verbose else FEW_ROWS
    print_plain(console, _points_table(_thinned(rows, most), width=console.width))
    if ONE_PLAN in (answer.get("evidence") or {}).get("assumptions", ()):
        print_line(console, ONE_PLAN)
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def print_clock_frontier(
    console: Console,
    answer: Mapping[str, Any],
    over: str,
    *,
    reproduce: str,
    verbose: bool = False,
) -> None:
    """Write energy against latency at lower clocks or power limits, and where energy is least."""
    results = answer["results"]
    rows = results["frontier"]
    print_question(console, {**answer, "results": {"gpus": rows[0]["gpus"]}})
    title = METRICS[f"frontier.{over}"].label
    chart = line_chart(
        [
            (row["tpot_s"] * MILLISECONDS, row[ENERGY], f"{significant(row[over], 4)}")
            for row in rows
            if row.get("tpot_s")
        ],
        titles=("TPOT [ms]", f"{METRICS[ENERGY].label} [J], by {title}"),
        width=console.width,
        unicode=speaks_unicode(console),
        height=HEIGHT if verbose else CHART_LINES,
    )
    print_plain(console, chart + "\n")
    names = (ENERGY, "power_w", "ttft_s", "tpot_s", Y)
    at = results[f"least_energy_{over}"]
    shown = _thinned(rows, TABLE_ROWS if verbose else FEW_ROWS)
    shown = [row for row in rows if row in shown or row[over] == at]
    print_plain(console, _clock_table(shown, over, names, width=console.width))
    least = next(row for row in rows if row[over] == at)
    print_line(
        console,
        f"least energy: {marked_value(least, ENERGY)} per output token at {over} = {at:g};"
        f" {marked_value(rows[-1], ENERGY)} at {rows[-1][over]:g}",
    )
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def _clock_table(
    rows: Sequence[Mapping[str, Any]], over: str, names: Sequence[str], *, width: int
) -> Table:
    """Return a table of points over clocks or power limits, with what binds decode steps."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in (
        METRICS[f"frontier.{over}"].label,
        *(METRICS[name].short_label for name in names),
    ):
        table.add_column(title, justify="right", header_style="dim")
    if has_bounds := width >= WIDE_COLUMNS:
        table.add_column(BOUND_TITLE, no_wrap=True, header_style="dim")
    for row in rows:
        bound = [str(row.get("decode_bound") or "")] if has_bounds else []
        table.add_row(
            f"{significant(row[over], 4)}", *(marked_value(row, name) for name in names), *bound
        )
    return table


def marked_value(row: Mapping[str, Any], name: str) -> str:
    """Return a result of a point; a limit has "≥" or "≤" before it.

    Args:
        row: The point, with its `tier`.
    """
    limit = limits_of({name: row.get(name)}, tier=str(row.get("tier") or "")).get(name, "")
    return limited_text(format_value(name, row.get(name)), limit)


def _points_table(rows: Sequence[Mapping[str, Any]], *, width: int) -> Table:
    """Return a table of points with what binds decode steps.

    Limits say so in the titles if all points are limits, else in each cell; others have their
    interval.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    first, *others = dict.fromkeys(str(row.get("tier") or "") for row in rows)
    limits = {} if others else limits_of(rows[0], tier=first)
    names = ["batch", Y, X, *(["ttft_s"] if width >= NARROWEST else []), "tpot_s"]
    shown = {
        name: _title(name, limits.get(name, ""), narrow=width < NARROW_COLUMNS) for name in names
    }
    for title in shown.values():
        table.add_column(title, justify="right", no_wrap=True, header_style="dim")
    has_intervals = width >= WIDE_COLUMNS and not limits and f"{Y}_low" in rows[0]
    if has_intervals:
        title = f"{METRICS[Y].short_label}, 90%"
        table.add_column(title, justify="right", no_wrap=True, header_style="dim")
    has_bounds = width >= (ROOMY if has_intervals else WIDE_COLUMNS) and "decode_bound" in rows[0]
    if has_bounds:
        table.add_column(BOUND_TITLE, no_wrap=True, header_style="dim")
    for row in rows:
        bound = [str(row["decode_bound"] or "")] if has_bounds else []
        cells = [
            marked_value(row, name) if others else format_value(name, row.get(name))
            for name in shown
        ]
        table.add_row(*cells, *([interval_text(row, Y)] if has_intervals else []), *bound)
    return table


def _title(name: str, limit: str, *, narrow: bool) -> str:
    """Return the title of a column; of a limit, "at least" or "at most" in a line below."""
    if name == "batch":
        return f"  {METRICS['frontier.batch'].label}"
    label = METRICS[name].short_label
    title = label.replace("/s/", "/s\nper ") if narrow else label
    return f"{title}\n{limit}" if limit else title


def distinct(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows without those whose batch is close to the next one; the maximum is kept.

    Args:
        rows: Points in ascending order of batch.

    Example:
        >>> from perfatlas.verbs.estimate.text import distinct
        >>> [row["batch"] for row in distinct([{"batch": b} for b in (1, 2, 1180, 1184)])]
        [1, 2, 1184]
    """
    kept: list[Mapping[str, Any]] = []
    for row in reversed(rows):
        if not kept or kept[-1]["batch"] >= REDUNDANT_RATIO * row["batch"]:
            kept.append(row)
    return kept[::-1]


def _thinned(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return at most `most` rows, evenly spaced, including the first and last."""
    if len(rows) <= most:
        return list(rows)
    picked = {round(i * (len(rows) - 1) / (most - 1)) for i in range(most)}
    return [rows[i] for i in sorted(picked)]


def print_explanation(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write the sensitivities of an estimate."""
    print_question(console, answer)
    print_sensitivities(console, answer["results"], verbose=verbose)
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)

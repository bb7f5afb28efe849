"""Goodput in a terminal and as a page: useful time, lost time, possible improvements."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import without_defaults
from perfatlas.quantities import DAY_S, counted
from perfatlas.report import charts
from perfatlas.report.pages import Chart, Section, Table, print_blocks, print_sections, results_page
from perfatlas.report.text import (
    MAX_BUCKETS,
    METHODS,
    Shown,
    format_interval,
    job_field,
    job_value,
    line_chart,
    print_closing,
    print_line,
    print_plain,
    print_shown,
    share_text,
    speaks_unicode,
    time_text,
)
from perfatlas.scenario.interrupted_jobs import SpareNodes
from perfatlas.verbs.goodput.answer import pool_of
from perfatlas.verbs.goodput.groups import FRONTIER
from perfatlas.vocabulary.metrics import HIGH_ENDING, JOB_TIME, LOW_ENDING, METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from perfatlas.report.pages import Page

    Answered = Mapping[str, Any]

FACTORS: Final = METRICS["factors"].parts
# omitted in a headline; the method is in the line of confidence
OMITTED_FIELDS: Final = (
    "half_width",
    "seed",
    "what_if",
    "more_spares",
    "verify_s",
    "method",
    "gpus",
)
MAX_CHANGES: Final = 3
DETAILS: Final = frozenset((
    *("interruptions", "gpu_hours", "spares_held", "replicas", "closed_form_goodput"),
    *("interruptions_per_day", "checkpoint_bytes", "seed"),
))  # fmt: skip
# results that are said elsewhere or are fields
HIDDEN: Final = ("gpus", "duration_s", "finish_by_s", "unfinished")
MAX_BINS: Final = 40
MIN_WAIT: Final = 1e-6  # share of the time that is drawn
MIN_SPARES: Final = 4  # that a chart of spares spans
MAX_POINTS: Final = 200  # of that chart
PRICE: Final = "usd_per_useful_gpu_hour"
STRATEGY_COLUMNS: Final[Mapping[str, Any]] = {
    "GPUs held": "gpus_held",
    "spares": "spares",
    "policy": "response",
    "levels": "checkpoint_levels",
    "every": "checkpoint_interval_s",
    "goodput": lambda row: (
        f"{share_text(row['goodput'])} ± {100.0 * row['goodput_half_width']:.1g}"
    ),
    "of held": lambda row: share_text(row["useful_share_of_held"]),
}
LEGEND: Final = (
    "goodput: with the half-width of its 90% interval in points; of held: useful share of the"
    " GPU-hours of job and spares"
)
HEIGHT: Final = 6


def print_goodput(
    console: Console, answer: Answered, *, reproduce: str, verbose: bool = False
) -> None:
    """Write an answer of any form of goodput to a console.

    Args:
        verbose: Whether to print all results, factors and changes, and all evidence.
    """
    results = answer["results"]
    print_line(console, goodput_headline(answer), style="bold")
    console.print()
    print_shown(console, result_lines(results, brief=not verbose))
    print_sections(console, _sections(answer), verbose=verbose)
    method = METHODS[answer["evidence"]["tier"]]
    if "replicas" in results:
        method = f"{method}, {counted(results['replicas'], 'replica')}"
    # what the interval covers, as the assumptions say
    notes = [text for text in answer["evidence"]["assumptions"] if "interval" in text]
    print_closing(
        console,
        answer,
        reproduce=reproduce,
        method=method,
        covered=next((text for text in notes if "optimal" not in text), ""),
        verbose=verbose,
    )


def goodput_page(
    answer: Answered,
    columns: Mapping[str, Sequence[float]] | None = None,
    *,
    reproduce: str,
) -> Page:
    """Return goodput as an HTML page.

    Args:
        columns: Replicas: goodput, ended_s; None for a closed form.
    """
    if FRONTIER in answer["results"]:
        return results_page(answer, sections=[_strategies(answer)], reproduce=reproduce)
    return results_page(
        answer,
        title=goodput_headline(answer),
        lines=result_lines(answer["results"]),
        sections=[
            *_sections(answer),
            *([_spread(answer["results"], columns)] if columns else []),
        ],
        reproduce=reproduce,
    )


def spares_page(answer: Answered, *, reproduce: str) -> Page:
    """Return spares as an HTML page: the share of time that a job waits, by their number."""
    results = answer["results"]
    known = SpareNodes.fields()
    asked = {
        name: one for name, one in answer["scenario"].items() if name in known and one is not None
    }
    pool = pool_of(SpareNodes.read(asked))
    most = 2 * int(results["spares"]) + MIN_SPARES
    waits = {
        number: share
        for number in range(0, most, -(-most // MAX_POINTS))
        if (share := pool.blocked(number)) > MIN_WAIT
    }
    numbers = list(waits)
    lines = [
        charts.Line("by number of spares", numbers, list(waits.values()), charts.BLUE),
        charts.Line(
            "these spares",
            [results["spares"]],
            [results["blocked_probability"]],
            charts.RED,
            "mark",
        ),
    ]
    if target := answer["scenario"].get("target"):
        lines.append(
            charts.Line("target", [numbers[0], numbers[-1]], [1.0 - target] * 2, charts.GREEN)
        )
    waiting = charts.Axis("share of the time that the job waits", "%", log=True)
    chart = charts.LineChart(lines, charts.Axis("spare nodes", "count"), waiting)
    return results_page(
        answer,
        sections=[Section.charted("Waiting time by spares", chart)] if waits else (),
        reproduce=reproduce,
    )


def goodput_headline(answer: Answered) -> str:
    """Return the scenario in one line.

    Example:
        >>> from perfatlas.verbs.goodput.sections import goodput_headline
        >>> goodput_headline({"command": "goodput", "results": {"duration_s": 86400.0},
        ...     "scenario": {"gpus": 16, "mtti_s": 7200.0, "restart_s": 300.0}})
        'goodput of 16 GPUs in 1 d: MTTI 2 h, restart 5 min'
    """
    scenario = without_defaults(answer["command"], answer["scenario"])
    gpus, period_s = scenario.get("gpus"), answer["results"].get("duration_s")
    words = [
        job_field(name, PurePath(str(value)).name if name == "fleet" else value)
        for name, value in scenario.items()
        if value is not False and name not in OMITTED_FIELDS
    ]
    of = f" of {counted(gpus, 'GPU')}" if isinstance(gpus, int) else ""
    if period_s is not None and not {"duration_s", "work_s"} & set(scenario):
        of += f" in {time_text(period_s)}"
    return f"{answer['command']}{of}: {', '.join(words)}"


def result_lines(results: Answered, *, brief: bool = False) -> list[Shown]:
    """Return every scalar result with its label and interval.

    Args:
        results: The `results` of an answer.
        brief: Without details.
    """
    left_out = {*HIDDEN, *(DETAILS if brief else ())}
    left_out |= {"spares"} if brief and "gpus_held" in results else set()
    interval_s = results.get("checkpoint_interval_s")
    optimal = interval_s is not None and interval_s == results["optimal_checkpoint_interval_s"]
    left_out |= {"checkpoint_interval_s"} if optimal else set()
    lines = []
    for name, value in results.items():
        metric = METRICS.get(name)
        if name in left_out or value is None or metric is None:
            continue
        if metric.holds not in ("number", "count"):
            continue
        label, interval = metric.label, _interval(results, name)
        if name == "interruptions":
            label += f" in {time_text(results['duration_s'])}"
        if name == "late_probability":
            label += f" of {time_text(results['finish_by_s'])}"
        if isinstance(value, dict) and interval:
            label += ", 90% of runs"
        shown = job_value(name, value["mean"] if isinstance(value, dict) else value)
        lines.append(Shown(label, shown, interval))
    return lines


def _interval(results: Answered, name: str) -> str:
    """Return the interval of a result, or the range of 90% of runs, "" for none."""
    value = results[name]
    low, high = (results.get(f"{name}{end}") for end in (LOW_ENDING, HIGH_ENDING))
    if isinstance(value, dict):
        low, high = value["p5"], value["p95"]
    if low is None or high is None or job_value(name, low) == job_value(name, high):
        return ""
    return format_interval(name, low, high)


def _sections(answer: Answered) -> list[Section]:
    """Return where the time goes, the decomposition and the gains of changes."""
    results, sections = answer["results"], []
    changes = results.get("changes") or []
    if rows := answer["breakdown"]:
        figure = charts.Waterfall(rows, JOB_TIME, [share_text(row["share"]) for row in rows])
        most = MAX_BUCKETS - 2 * bool(changes)
        product = _product_line(results.get("factors") or {})
        title = "Where the time goes"
        sections.append(Section.charted(title, figure, *product, most=most))
    if factors := results.get("factors"):
        sections.append(_factors(factors))
    return [*sections, *(_changes(changes) if changes else [])]


def _product_line(factors: Mapping[str, float]) -> list[str]:
    """Return the decomposition in a line, factors of 100% left out; empty for less than two."""
    texts = [
        f"{FACTORS[name].partition(':')[0]} {share_text(value)}"
        for name, value in factors.items()
        if name != "product" and share_text(value) != share_text(1.0)
    ]
    if len(texts) < 2:
        return []
    of = "peak" if "mfu" in factors else "time"
    return [f"share of the {of}: {' x '.join(texts)} = {share_text(factors['product'])}"]


def _factors(factors: Mapping[str, float]) -> Section:
    bars, cells, left = [], [], 1.0
    for name, value in factors.items():
        is_product = name == "product"
        left = value if is_product else left * value
        share = share_text(value)
        bars.append(
            charts.Bar(FACTORS[name], value, share, charts.PURPLE if is_product else charts.BLUE)
        )
        cells.append((FACTORS[name], share, "" if is_product else share_text(left)))
    of = "peak" if "mfu" in factors else "time"
    title = METRICS["factors"].label.capitalize()
    chart = Chart(figure=charts.BarChart(bars, charts.Axis("share", "%", top=1.0)), title=title)
    table = Table(head=("", f"share of the {of}", "leaves"), rows=cells)
    return Section(title=title, blocks=[chart, table], is_detail=True)


def _changes(changes: Sequence[Answered]) -> list[Section]:
    """Return what single changes gain, and what they assume."""
    bars = [
        charts.Bar(
            str(row["name"]), gained, colour=charts.GREEN, interval=(gained - width, gained + width)
        )
        for row in changes
        for gained, width in [(row["gained_gpu_hours"], row["gained_gpu_hours_half_width"])]
    ]
    columns: dict[str, Any] = {
        "change": "name",
        "GPU-hours, ± 90%": lambda row: (
            f"{row['gained_gpu_hours']:+,.0f} ± {row['gained_gpu_hours_half_width']:,.0f}"
        ),
    }
    if "gained_usd" in changes[0]:
        columns["USD net"] = lambda row: f"{row['gained_usd'] - row['added_usd']:+,.0f}"
    if any(row["added_gpu_hours"] for row in changes):
        columns["holds"] = lambda row: (
            f"{row['added_gpu_hours']:+,.0f}" if row["added_gpu_hours"] else ""
        )
    figure = charts.BarChart(bars, charts.Axis("useful GPU-hours gained, with 90% intervals"))
    table = Table.of(changes, columns, ("change",))
    notes = [(row["name"], row["assumes"]) for row in changes if row["assumes"]]
    assumed = Table(head=("", ""), rows=notes, text_columns=(0, 1))
    return [
        Section.charted("Gain from single changes", figure, table, most=MAX_CHANGES),
        Section(title="Assumptions of the changes", blocks=[assumed], is_detail=True),
    ]


def _spread(results: Answered, columns: Mapping[str, Sequence[float]]) -> Section:
    """Return the spread of replicas: of their end times or their goodput.

    Bins are counted here to keep the page small. Replicas save whole segments of work, so that bins
    as narrow as a segment would show a comb.
    """
    if "finish_s" in results:
        title, axis = "Distribution of the time to finish", charts.Axis("time to finish [days]")
        values = [value / DAY_S for value in columns["ended_s"]]
    else:
        title, axis = "Distribution of the goodput", charts.Axis("goodput of a simulated run", "%")
        values = list(columns["goodput"])
    centres, shares = charts.shares_of_bins(values, MAX_BINS)
    figure = charts.Histogram(centres, shares, axis, charts.Axis("share of simulated runs", "%"))
    return Section.charted(title, figure)


def print_strategies(
    console: Console, answer: Answered, *, reproduce: str, verbose: bool = False
) -> None:
    """Write the frontier of recovery strategies to a console.

    Args:
        verbose: Whether to print why combinations were skipped, and all evidence.
    """
    results = answer["results"]
    print_line(console, goodput_headline({**answer, "command": "goodput"}), style="bold")
    console.print()
    print_blocks(console, _strategies(answer).blocks)
    rows = results[FRONTIER]
    if len(rows) > 1:
        console.print()
        lost = [
            (row["gpus_held"] - results["gpus"], 100.0 * (1.0 - row["goodput"]), "") for row in rows
        ]
        chart = line_chart(
            lost,
            titles=(
                "GPUs held beside the job",
                "lost time [%], best strategy at each number of GPUs held",
            ),
            width=console.width,
            unicode=speaks_unicode(console),
            height=HEIGHT,
        )
        print_plain(console, chart)
    skipped = results["strategies_skipped"]
    left_out = sum(row["count"] for row in skipped)
    print_line(
        console,
        f"{results['strategies']:,} strategies simulated,"
        f" {results['strategies_dominated']:,} dominated; {left_out:,} combinations do not apply",
    )
    for row in skipped if verbose else skipped[:2]:
        print_line(console, f"  {row['count']:,}: {row['reason']}")
    method = f"{METHODS['simulate']}, at most {counted(results['replicas'], 'replica')} each"
    print_closing(console, answer, reproduce=reproduce, method=method, verbose=verbose)


def _strategies(answer: Answered) -> Section:
    """Return the strategies that no other exceeds: goodput over the GPUs that they hold."""
    results = answer["results"]
    rows, best = results[FRONTIER], results["best_strategy"]
    held, goodput = ([row[name] for row in rows] for name in ("gpus_held", "goodput"))
    names = [f"{row['response']}, {counted(row['spares'], 'spare')}" for row in rows]
    lines = [
        charts.Line("not exceeded by another", held, goodput, charts.BLUE, "dots", texts=names),
        charts.Line(
            "best per GPU-hour held", [best["gpus_held"]], [best["goodput"]], charts.RED, "mark"
        ),
    ]
    chart = charts.LineChart(lines, charts.Axis("GPUs held", "count"), charts.Axis("goodput", "%"))
    columns = {**STRATEGY_COLUMNS, **({"useful hour": PRICE} if PRICE in rows[0] else {})}
    interval = time_text(best["checkpoint_interval_s"])
    return Section.charted(
        "Recovery strategies",
        chart,
        Table.of(rows, columns, ("policy", "levels")),
        LEGEND,
        f"best per GPU-hour held: {best['response']}, {counted(best['spares'], 'spare')},"
        f" {best['checkpoint_levels']} every {interval}",
        f"why: {results['why']}",
    )

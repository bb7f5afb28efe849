"""What goodput shows: useful time, lost time, possible improvements."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import without_defaults
from perfatlas.quantities import DAY_S, counted
from perfatlas.report import charts, pages, text
from perfatlas.scenario.interrupted_jobs import SpareNodes
from perfatlas.verbs.goodput.answer import pool_of
from perfatlas.verbs.goodput.groups import FRONTIER
from perfatlas.vocabulary.metrics import HIGH_ENDING, JOB_TIME, LOW_ENDING, METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
        f"{text.share_text(row['goodput'])} ± {100.0 * row['goodput_half_width']:.1g}"
    ),
    "of held": lambda row: text.share_text(row["useful_share_of_held"]),
}
LEGEND: Final = (
    "goodput: with the half-width of its 90% interval in points; of held: useful share of the"
    " GPU-hours of job and spares"
)
HEIGHT: Final = 6
FEW_REASONS: Final = 2  # of a brief text
STRATEGY_VALUES: Final = ("gpus_held", "goodput", "checkpoint_interval_s")


def goodput_page(
    answer: Answered,
    columns: Mapping[str, Sequence[float]] | None = None,
    *,
    reproduce: str,
) -> pages.Page:
    """Return an answer of any form of goodput.

    Args:
        columns: Replicas: goodput, ended_s; None for a closed form.
    """
    results = answer["results"]
    if FRONTIER in results:
        return _strategies_page(answer, reproduce=reproduce)
    return _page(
        answer,
        *_sections(answer),
        *([_spread(results, columns)] if columns else []),
        reproduce=reproduce,
    )


def _page(
    answer: Answered,
    *sections: pages.Section,
    on_page: Callable[[], Iterable[pages.Section]] = tuple,
    reproduce: str,
) -> pages.Page:
    """Return an answer with its results and sections."""
    results = answer["results"]
    method = text.METHODS[answer["evidence"]["tier"]]
    if "replicas" in results:
        method = f"{method}, {counted(results['replicas'], 'replica')}"
    # what the interval covers, as the assumptions say
    notes = [one for one in answer["evidence"]["assumptions"] if "interval" in one]
    shown = pages.Values(all=result_lines(results), brief=result_lines(results, brief=True))
    return pages.results_page(
        answer,
        *sections,
        on_page=on_page,
        shown=shown,
        title=goodput_headline(answer),
        lines=(),
        reproduce=reproduce,
        method=method,
        covered=next((one for one in notes if "optimal" not in one), ""),
    )


def spares_page(answer: Answered, *, reproduce: str) -> pages.Page:
    """Return spares: on a page the share of time that a job waits, by their number."""
    return _page(answer, on_page=lambda: _waiting(answer), reproduce=reproduce)


def _waiting(answer: Answered) -> list[pages.Section]:
    results, known = answer["results"], SpareNodes.fields()
    given = {name: v for name, v in answer["scenario"].items() if name in known and v is not None}
    pool = pool_of(SpareNodes.read(given))
    most = 2 * int(results["spares"]) + MIN_SPARES
    waits = {
        number: share
        for number in range(0, most, -(-most // MAX_POINTS))
        if (share := pool.blocked(number)) > MIN_WAIT
    }
    if not waits:
        return []
    numbers, blocked = list(waits), results["blocked_probability"]
    lines = [
        charts.Line("by number of spares", numbers, list(waits.values()), charts.BLUE),
        charts.Line("these spares", [results["spares"]], [blocked], charts.RED, "mark"),
    ]
    if target := answer["scenario"].get("target"):
        ends = [numbers[0], numbers[-1]]
        lines.append(charts.Line("target", ends, [1.0 - target] * 2, charts.GREEN))
    up = charts.Axis("share of the time that the job waits", "%", log=True)
    figure = charts.LineChart(lines, charts.Axis("spare nodes", "count"), up)
    return [pages.Section.charted("Waiting time by spares", figure)]


def goodput_headline(answer: Answered) -> str:
    """Return the scenario in one line.

    Example:
        >>> from perfatlas.verbs.goodput.blocks import goodput_headline
        >>> goodput_headline({"command": "goodput", "results": {"duration_s": 86400.0},
        ...     "scenario": {"gpus": 16, "mtti_s": 7200.0, "restart_s": 300.0}})
        'goodput of 16 GPUs in 1 d: MTTI 2 h, restart 5 min'
    """
    scenario = without_defaults(answer["command"], answer["scenario"])
    gpus, period_s = scenario.get("gpus"), answer["results"].get("duration_s")
    words = [
        text.job_field(name, PurePath(str(value)).name if name == "fleet" else value)
        for name, value in scenario.items()
        if value is not False and name not in OMITTED_FIELDS
    ]
    of = f" of {counted(gpus, 'GPU')}" if isinstance(gpus, int) else ""
    if period_s is not None and not {"duration_s", "work_s"} & set(scenario):
        of += f" in {text.time_text(period_s)}"
    return f"{answer['command']}{of}: {', '.join(words)}"


def result_lines(results: Answered, *, brief: bool = False) -> list[text.Value]:
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
            label += f" in {text.time_text(results['duration_s'])}"
        if name == "late_probability":
            label += f" of {text.time_text(results['finish_by_s'])}"
        if isinstance(value, dict) and interval:
            label += ", 90% of runs"
        shown = text.job_value(name, value["mean"] if isinstance(value, dict) else value)
        lines.append(text.Value(label, shown, interval))
    return lines


def _interval(results: Answered, name: str) -> str:
    """Return the interval of a result, or the range of 90% of runs, "" for none."""
    value = results[name]
    low, high = (results.get(f"{name}{end}") for end in (LOW_ENDING, HIGH_ENDING))
    if isinstance(value, dict):
        low, high = value["p5"], value["p95"]
    if low is None or high is None or text.job_value(name, low) == text.job_value(name, high):
        return ""
    return text.format_interval(name, low, high)


def _sections(answer: Answered) -> list[pages.Section]:
    """Return where the time goes, the decomposition and the gains of changes."""
    results, sections = answer["results"], []
    changes = results.get("changes") or []
    if rows := answer["breakdown"]:
        figure = charts.Waterfall(rows, JOB_TIME, [text.share_text(row["share"]) for row in rows])
        most = text.MAX_BUCKETS - 2 * bool(changes)
        product = _product_line(results.get("factors") or {})
        title = "Where the time goes"
        sections.append(pages.Section.charted(title, figure, *product, most=most))
    if factors := results.get("factors"):
        sections.append(_factors(factors))
    return [*sections, *(_changes(changes) if changes else [])]


def _product_line(factors: Mapping[str, float]) -> list[str]:
    """Return the decomposition in a line, factors of 100% left out; empty for less than two."""
    texts = [
        f"{FACTORS[name].partition(':')[0]} {text.share_text(value)}"
        for name, value in factors.items()
        if name != "product" and text.share_text(value) != text.share_text(1.0)
    ]
    if len(texts) < 2:
        return []
    of = "peak" if "mfu" in factors else "time"
    return [f"share of the {of}: {' x '.join(texts)} = {text.share_text(factors['product'])}"]


def _factors(factors: Mapping[str, float]) -> pages.Section:
    bars, cells, left = [], [], 1.0
    for name, value in factors.items():
        is_product = name == "product"
        left = value if is_product else left * value
        share = text.share_text(value)
        bars.append(
            charts.Bar(FACTORS[name], value, share, charts.PURPLE if is_product else charts.BLUE)
        )
        cells.append((FACTORS[name], share, "" if is_product else text.share_text(left)))
    of = "peak" if "mfu" in factors else "time"
    title = METRICS["factors"].label.capitalize()
    chart = pages.Chart(
        figure=charts.BarChart(bars, charts.Axis("share", "%", top=1.0)), title=title
    )
    table = pages.Table(head=("", f"share of the {of}", "leaves"), rows=cells)
    return pages.Section(title=title, blocks=[chart, table], is_detail=True)


def _changes(changes: Sequence[Answered]) -> list[pages.Section]:
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
    table = pages.Table.of(changes, columns, ("change",))
    notes = [(row["name"], row["assumes"]) for row in changes if row["assumes"]]
    assumed = pages.Table(head=("", ""), rows=notes, text_columns=(0, 1))
    return [
        pages.Section.charted("Gain from single changes", figure, table, most=MAX_CHANGES),
        pages.Section(title="Assumptions of the changes", blocks=[assumed], is_detail=True),
    ]


def _spread(results: Answered, columns: Mapping[str, Sequence[float]]) -> pages.Section:
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
    return pages.Section.charted(title, figure)


def _strategies_page(answer: Answered, *, reproduce: str) -> pages.Page:
    """Return the frontier of recovery strategies, and what is not on it."""
    results = answer["results"]
    rows, skipped = results[FRONTIER], results["strategies_skipped"]
    lines = [f"  {row['count']:,}: {row['reason']}" for row in skipped]
    left_out = (
        f"{results['strategies']:,} strategies simulated,"
        f" {results['strategies_dominated']:,} dominated;"
        f" {sum(row['count'] for row in skipped):,} combinations do not apply"
    )
    held = [row["gpus_held"] - results["gpus"] for row in rows]
    lost = [100.0 * (1.0 - row["goodput"]) for row in rows]
    replicas = counted(results["replicas"], "replica")
    curve = charts.Line("best strategy at each number of GPUs held", held, lost, charts.BLUE)
    figure = charts.LineChart(
        [curve], charts.Axis("GPUs held beside the job"), charts.Axis("lost time [%]")
    )
    chart = pages.Chart(figure=figure, title="Lost time", lines=HEIGHT)
    return pages.answer_page(
        answer,
        [
            _strategies(answer),
            *([pages.Section(blocks=[chart], on="terminal")] if rows[1:] else []),
            pages.Section(
                title="Other strategies",
                blocks=[
                    left_out,
                    *lines[:FEW_REASONS],
                    *(pages.Note(line) for line in lines[FEW_REASONS:]),
                ],
            ),
        ],
        title=goodput_headline({**answer, "command": "goodput"}),
        lines=(),
        values=pages.key_values(results["best_strategy"], STRATEGY_VALUES),
        reproduce=reproduce,
        method=f"{text.METHODS['simulate']}, at most {replicas} each",
    )


def _strategies(answer: Answered) -> pages.Section:
    """Return the strategies that no other exceeds: goodput over the GPUs that they hold."""
    results = answer["results"]
    rows, best = results[FRONTIER], results["best_strategy"]
    held, goodput = ([row[name] for row in rows] for name in ("gpus_held", "goodput"))
    names = [f"{row['response']}, {counted(row['spares'], 'spare')}" for row in (*rows, best)]
    lines = [
        charts.Line(
            "not exceeded by another", held, goodput, charts.BLUE, "dots", texts=names[:-1]
        ),
        charts.Line(
            "best per GPU-hour held",
            [best["gpus_held"]],
            [best["goodput"]],
            charts.RED,
            "mark",
            texts=names[-1:],
        ),
    ]
    chart = charts.LineChart(lines, charts.Axis("GPUs held", "count"), charts.Axis("goodput", "%"))
    columns = {**STRATEGY_COLUMNS, **({"useful hour": PRICE} if PRICE in rows[0] else {})}
    interval = text.time_text(best["checkpoint_interval_s"])
    return pages.Section.charted(
        "Recovery strategies",
        chart,
        pages.Table.of(rows, columns, ("policy", "levels")),
        LEGEND,
        f"best per GPU-hour held: {best['response']}, {counted(best['spares'], 'spare')},"
        f" {best['checkpoint_levels']} every {interval}",
        f"why: {results['why']}",
    )

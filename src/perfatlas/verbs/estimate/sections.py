"""Estimates and frontiers in a terminal and as a page: operators, throughput and speed, energy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import resolve_system
from perfatlas.machines import device_peak
from perfatlas.quantities import significant
from perfatlas.report import pages, text
from perfatlas.report.charts import BLUE, ORANGE, Axis, Line, LineChart
from perfatlas.scenario.resolution import format_of
from perfatlas.studies import print_sensitivities
from perfatlas.verbs.estimate.frontiers import ONE_PLAN
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    Row = Mapping[str, Any]
    Rows = Sequence[Row]

ENERGY: Final = "energy_per_output_token_j"
SPEED: Final = "output_tokens_per_s_per_user"
RATE: Final = "output_tokens_per_s_per_gpu"
LATENCY: Final = "tpot_s"
CLOCK: Final = "clock_ratio"
CAP: Final = "power_cap_w"
POINTS: Final = ("batch", SPEED, LATENCY, "ttft_s", RATE)
POINTS_OF_CLOCKS: Final = (ENERGY, "power_w", "ttft_s", LATENCY, RATE)
TEXTS: Final = {"decode_bound": "decode bound", "prefill_bound": "prefill bound", "tier": "tier"}
VALUES: Final = (
    *(LATENCY, "ttft_s", SPEED, RATE),
    *("latency_s", "throughput_per_s_per_gpu", "energy_per_item_j", "usd_per_million_items"),
)
MAX_VALUES: Final = 4
SIZES: Final = ("tp", "pp", "cp", "attention_dp", "dp")
FORMATS: Final = ("gemm_format", "moe_format", "attention_format")
STEPS: Final = "{} by operator"
NOT_POINTS: Final = "Operators without arithmetic, such as transfers, are not points."
AXES: Final = {
    LATENCY: Axis("time per output token", unit="s"),
    CLOCK: Axis("clock over the sustained clock"),
    CAP: Axis("power limit of a GPU", "W"),
}
JOULES: Final = Axis("energy per output token", "J")
WATTS: Final = Axis("power of a GPU", "W")
OPERATOR_COLUMNS: Final[Mapping[str, Any]] = {
    "operator": "name",
    "step": "phase",
    "bound": "bound",
    "time": "time_s",
    "share": lambda row: text.share_text(row["share"]),
}
MILLISECONDS: Final = 1e3  # per second
HEIGHT: Final = 16
CHART_LINES: Final = 8  # lines of the chart of a brief answer
TABLE_ROWS: Final = 16
FEW_ROWS: Final = 6  # of a brief answer
REDUNDANT_RATIO: Final = 1.05  # batches closer than this ratio are redundant


def frontier_chart(rows: Rows, *, width: int, unicode: bool, height: int = HEIGHT) -> str:
    """Return a chart of output tokens/s per GPU over those per user, labelled with batches.

    Args:
        rows: Points with `batch`, `output_tokens_per_s_per_gpu`, `output_tokens_per_s_per_user`.
        height: Lines between the axes.

    Example:
        >>> from perfatlas.verbs.estimate.sections import frontier_chart
        >>> rows = [{"batch": 1, "output_tokens_per_s_per_gpu": 10.0,
        ...          "output_tokens_per_s_per_user": 80.0}]
        >>> frontier_chart(rows, width=40, unicode=False).splitlines()[0]
        '  output tokens/s per GPU, by batch'
    """
    return text.line_chart(
        [
            (float(r[SPEED]), float(r[RATE]), str(r["batch"]))
            for r in rows
            if r.get(SPEED) and r.get(RATE)
        ],
        titles=(
            METRICS[SPEED].label,
            f"{METRICS[RATE].label}, by {METRICS['frontier.batch'].label}",
        ),
        width=width,
        unicode=unicode,
        height=height,
    )


def print_frontier(console: Console, answer: Row, *, reproduce: str, verbose: bool = False) -> None:
    """Write the chart, the points as a table, and the common end of answers."""
    points = answer["results"]["frontier"]
    gpus = {"gpus": points[0]["gpus"]} if "gpus" in points[0] else {}
    text.print_question(console, {**answer, "results": gpus})
    rows = distinct(points)
    chart = frontier_chart(
        rows,
        width=console.width,
        unicode=text.speaks_unicode(console),
        height=HEIGHT if verbose else CHART_LINES,
    )
    text.print_plain(console, chart + "\n")
    most = TABLE_ROWS if verbose else FEW_ROWS
    pages.print_blocks(console, [_points_table(_thinned(rows, most), POINTS, ("decode_bound",))])
    if ONE_PLAN in (answer.get("evidence") or {}).get("assumptions", ()):
        text.print_line(console, ONE_PLAN)
    text.print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def print_clock_frontier(
    console: Console,
    answer: Row,
    over: str,
    *,
    reproduce: str,
    verbose: bool = False,
) -> None:
    """Write energy against latency at lower clocks or power limits, and where energy is least."""
    results = answer["results"]
    rows = results["frontier"]
    text.print_question(console, {**answer, "results": {"gpus": rows[0]["gpus"]}})
    title = METRICS[f"frontier.{over}"].label
    chart = text.line_chart(
        [
            (row["tpot_s"] * MILLISECONDS, row[ENERGY], f"{significant(row[over], 4)}")
            for row in rows
            if row.get("tpot_s")
        ],
        titles=("TPOT [ms]", f"{METRICS[ENERGY].label} [J], by {title}"),
        width=console.width,
        unicode=text.speaks_unicode(console),
        height=HEIGHT if verbose else CHART_LINES,
    )
    text.print_plain(console, chart + "\n")
    at = results[f"least_energy_{over}"]
    shown = _thinned(rows, TABLE_ROWS if verbose else FEW_ROWS)
    shown = [row for row in rows if row in shown or row[over] == at]
    names = (over, *POINTS_OF_CLOCKS)
    pages.print_blocks(console, [_points_table(shown, names, ("decode_bound",))])
    least = next(row for row in rows if row[over] == at)
    text.print_line(
        console,
        f"least energy: {marked_value(least, ENERGY)} per output token at {over} = {at:g};"
        f" {marked_value(rows[-1], ENERGY)} at {rows[-1][over]:g}",
    )
    text.print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def marked_value(row: Row, name: str) -> str:
    """Return a result of a point; a limit has "≥" or "≤" before it.

    Args:
        row: The point, with its `tier`.
    """
    limit = text.limits_of({name: row.get(name)}, tier=str(row.get("tier") or "")).get(name, "")
    return text.limited_text(text.format_value(name, row.get(name)), limit)


def _points_table(
    rows: Rows, names: Sequence[str], texts: Sequence[str] = tuple(TEXTS)
) -> pages.Table:
    """Return points as a table of metrics, the interval of the rate, and texts."""
    columns: dict[str, Any] = {
        text.label_of(name, short=True): partial(marked_value, name=name) for name in names
    }
    if any(row.get(f"{RATE}_low") is not None for row in rows):
        columns[f"{text.label_of(RATE, short=True)}, 90%"] = lambda row: text.interval_text(
            row, RATE
        )
    titles = {TEXTS[name]: name for name in texts if name in rows[0]}
    columns |= {title: partial(_text_of, name) for title, name in titles.items()}
    return pages.Table.of(rows, columns, tuple(titles))


def _text_of(name: str, row: Row) -> str:
    return str(row[name] or "-")


def distinct(rows: Rows) -> list[Row]:
    """Return the rows without those whose batch is close to the next one; the maximum is kept.

    Args:
        rows: Points in ascending order of batch.

    Example:
        >>> from perfatlas.verbs.estimate.sections import distinct
        >>> [row["batch"] for row in distinct([{"batch": b} for b in (1, 2, 1180, 1184)])]
        [1, 2, 1184]
    """
    kept: list[Row] = []
    for row in reversed(rows):
        if not kept or kept[-1]["batch"] >= REDUNDANT_RATIO * row["batch"]:
            kept.append(row)
    return kept[::-1]


def _thinned(rows: Rows, most: int) -> list[Row]:
    """Return at most `most` rows, evenly spaced, including the first and last."""
    if len(rows) <= most:
        return list(rows)
    picked = {round(i * (len(rows) - 1) / (most - 1)) for i in range(most)}
    return [rows[i] for i in sorted(picked)]


def print_explanation(
    console: Console, answer: Row, *, reproduce: str, verbose: bool = False
) -> None:
    """Write the sensitivities of an estimate."""
    text.print_question(console, answer)
    print_sensitivities(console, answer["results"], verbose=verbose)
    text.print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def estimate_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return the page of an estimate, of a frontier or of sensitivities.

    Args:
        answer: The answer, whose results say which of them it is.
    """
    results = answer["results"]
    if rows := results.get("frontier"):
        over = next((name for name in (CLOCK, CAP) if rows[0].get(name) is not None), "")
        if over:
            return clock_frontier_page(answer, over, reproduce=reproduce)
        return batch_frontier_page(answer, reproduce=reproduce)
    if answer["breakdown"]:
        return operators_page(answer, reproduce=reproduce)
    return pages.results_page(answer, reproduce=reproduce)


def batch_frontier_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return throughput against speed by batch as an HTML page."""
    rows: Rows = answer["results"]["frontier"]
    known = [row for row in rows if row.get(SPEED) and row.get(RATE)]
    limits = text.limits_of(rows[0], tier=str(rows[0].get("tier") or ""))
    x, y = (
        axis._replace(title=f"{axis.title}, {limits[name]}") if name in limits else axis
        for name, axis in ((name, Axis.of(name)) for name in (SPEED, RATE))
    )
    ends = {"smallest": known[:1], "largest": known[-1:]}
    scenario = answer["scenario"]
    name = f"{scenario['model']} on {scenario['system']}, {_plan(scenario)}"
    curve = Line.of(known, SPEED, RATE, name, BLUE)._replace(
        texts=[f"batch {row['batch']:,}" for row in known],
        details=[
            text.point_details(row, _plan(scenario), ("batch", "ttft_s", LATENCY)) for row in known
        ],
    )
    title = f"{text.label_of(RATE)} over {text.label_of(SPEED)}"
    return pages.answer_page(
        answer,
        title=text.headline(answer),
        subtitle=text.subheadline(answer),
        values=[
            pages.Value(
                label=f"{text.label_of(name)}, {which} batch", value=marked_value(row, name)
            )
            for which, end in ends.items()
            for row in end
            for name in (SPEED, RATE)
        ],
        sections=[
            pages.Section.charted(title, LineChart([curve], x, y)),
            pages.Section(title="Points", blocks=[_points_table(rows, POINTS)]),
        ],
        reproduce=reproduce,
    )


def _plan(scenario: Row) -> str:
    """Return the one plan of a curve: the sizes that are not 1."""
    sizes = {name: scenario.get(name) or 1 for name in SIZES}
    named = [f"{name.replace('_', ' ')} {size}" for name, size in sizes.items() if size != 1]
    return ", ".join(named) or "tp 1"


def clock_frontier_page(answer: Row, over: str, *, reproduce: str) -> pages.Page:
    """Return the latency-energy curve as an HTML page, with its point of least energy.

    Args:
        over: What is swept: clock_ratio or power_cap_w.
    """
    rows: Rows = answer["results"]["frontier"]
    least = min(rows, key=lambda row: (row[ENERGY], row[over]))
    return pages.answer_page(
        answer,
        title=text.headline(answer),
        subtitle=text.subheadline(answer),
        values=_values(rows, least, over),
        sections=[
            _curve(rows, least, LATENCY),
            _curve(rows, least, over),
            pages.Section(title="Points", blocks=[_points_table(rows, (over, *POINTS_OF_CLOCKS))]),
        ],
        reproduce=reproduce,
    )


def _values(rows: Rows, least: Row, over: str) -> list[pages.Value]:
    names = (ENERGY, LATENCY, "power_w")
    last = rows[-1]
    return [
        pages.Value(
            label=f"least energy at {text.label_of(over)}",
            value=text.format_value(over, least[over]),
        ),
        *(
            pages.Value(
                label=text.label_of(name),
                value=f"{marked_value(least, name)} (unlimited: {marked_value(last, name)})",
            )
            for name in names
        ),
    ]


def _curve(rows: Rows, least: Row, name: str) -> pages.Section:
    """Return energy over latency, or energy and power over what is swept."""
    x = [row[name] for row in rows]
    limits = text.limits_of(rows[0], tier=str(rows[0].get("tier") or ""))

    def titled(axis: Axis, of: str) -> Axis:
        return axis._replace(title=f"{axis.title}, {limits[of]}") if of in limits else axis

    def lines(of: str) -> list[Line]:
        curve = Line(text.label_of(of), x, [row[of] for row in rows], BLUE)
        return [curve, Line("least energy", [least[name]], [least[of]], ORANGE, "dots")]

    title = f"Energy over {text.label_of(name)}"
    along = titled(AXES[name], name)
    blocks = [
        pages.Chart(figure=LineChart(lines(ENERGY), along, titled(JOULES, ENERGY)), title=title)
    ]
    if name != LATENCY:
        watts = LineChart(lines("power_w"), along, titled(WATTS, "power_w"))
        blocks.append(pages.Chart(figure=watts, title=f"Power over {text.label_of(name)}"))
    return pages.Section(title=title, blocks=blocks)


def operators_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return an estimate as an HTML page: operators, what binds them, and memory."""
    results, scenario = answer["results"], answer["scenario"]
    tier = str(answer["evidence"].get("tier") or "")
    phases = dict.fromkeys(row["phase"] for row in answer["breakdown"])
    own = {phase: [row for row in answer["breakdown"] if row["phase"] == phase] for phase in phases}
    longest = sorted(answer["breakdown"], key=lambda row: -row["time_s"])
    operators = pages.Table.of(longest, OPERATOR_COLUMNS, ("operator", "step", "bound"))
    return pages.answer_page(
        answer,
        title=text.headline(answer),
        subtitle=text.subheadline(answer),
        values=pages.key_values(results, VALUES, tier=tier)[:MAX_VALUES],
        sections=[
            *_sensitivities(results),
            *(
                pages.steps_section(STEPS.format(pages.PHASE_TITLES.get(one, one)), rows)
                for one, rows in own.items()
            ),
            *_roofline(own, scenario),
            *_memories(results),
            pages.Section(title="Operators", blocks=[operators]),
        ],
        reproduce=reproduce,
    )


def _roofline(phases: Mapping[str, Rows], scenario: Row) -> list[pages.Section]:
    """Return the operators of a scenario of one system as points below its ceilings."""
    if not scenario.get("system") or scenario.get("feed_forward_system"):
        return []
    device = resolve_system(scenario["system"]).device
    formats = dict.fromkeys(scenario[name] for name in FORMATS if scenario.get(name))
    peaks = {name: peak for name in formats if (peak := device_peak(device, format_of(name).name))}
    known = any(row["flop"] for rows in phases.values() for row in rows)
    if not peaks or not known:
        return []
    chart = pages.roofline(phases, peaks, device.memory_bandwidth)
    return [pages.Section.charted("Roofline", chart, NOT_POINTS)]


def _memories(results: Row) -> list[pages.Section]:
    """Return the memory of a GPU of each pool by kind."""
    pools = {"": "memory", "prefill ": "prefill_memory", "decode ": "decode_memory"}
    return [
        pages.memory_section(f"Memory of a {pool}GPU", results[name])
        for pool, name in pools.items()
        if (results.get(name) or {}).get("capacity_bytes")
    ]


def _sensitivities(results: Row) -> list[pages.Section]:
    """Return what each latency depends on, from the largest elasticity."""
    found = []
    for name in VALUES:
        values = (results.get("sensitivity") or {}).get(name) or {}
        better = METRICS[name].better == "higher"
        axis = Axis(f"elasticity of {text.label_of(name)}: change in percent per percent")
        if (chart := pages.tornado(values, axis, higher_is_better=better)).bars:
            found.append(pages.Section.charted(f"What {text.label_of(name)} depends on", chart))
    return found

"""HTML pages: a decode step by stage, throughput against speed, energy against latency."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import resolve_system
from perfatlas.machines import device_peak
from perfatlas.report.charts import (
    BLUE,
    ORANGE,
    Axis,
    Line,
    LineChart,
)
from perfatlas.report.pages import (
    Chart,
    Section,
    Table,
    Value,
    answer_page,
    key_values,
    memory_section,
    results_page,
    roofline,
    steps_section,
    tornado,
)
from perfatlas.report.text import (
    format_value,
    headline,
    label_of,
    limits_of,
    share_text,
    subheadline,
)
from perfatlas.scenario.resolution import format_of
from perfatlas.verbs.estimate.text import marked_value
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.report.pages import Page

    Rows = Sequence[Mapping[str, Any]]

ENERGY: Final = "energy_per_output_token_j"
SPEED: Final = "output_tokens_per_s_per_user"
RATE: Final = "output_tokens_per_s_per_gpu"
LATENCY: Final = "tpot_s"
CLOCK: Final = "clock_ratio"
CAP: Final = "power_cap_w"
COLUMNS: Final = (LATENCY, "ttft_s", RATE, "power_w", ENERGY)
TEXTS: Final = {"decode_bound": "decode bound", "prefill_bound": "prefill bound", "tier": "tier"}
VALUES: Final = (
    *(LATENCY, "ttft_s", SPEED, RATE),
    *("latency_s", "throughput_per_s_per_gpu", "energy_per_item_j", "usd_per_million_items"),
)
MOST_VALUES: Final = 4
SIZES: Final = ("tp", "pp", "cp", "attention_dp", "dp")
FORMATS: Final = ("gemm_format", "moe_format", "attention_format")
STEPS: Final = "{} by operator"
PHASES: Final = {"prefill": "Prefill", "decode": "Decode step", "pass": "Pass"}
NOT_POINTS: Final = "Operators without arithmetic, such as transfers, are not points."
AXES: Final = {
    LATENCY: Axis("time per output token", unit="s"),
    CLOCK: Axis("clock over the sustained clock"),
    CAP: Axis("power limit of a GPU [W]"),
}
JOULES: Final = Axis("energy per output token [J]")
WATTS: Final = Axis("power of a GPU [W]")


def estimate_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
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
    return results_page(answer, reproduce=reproduce)


def batch_frontier_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return throughput against speed by batch as an HTML page."""
    rows: Rows = answer["results"]["frontier"]
    known = [row for row in rows if row.get(SPEED) and row.get(RATE)]
    limits = limits_of(rows[0], tier=str(rows[0].get("tier") or ""))
    x, y = (
        Axis(f"{label_of(name)}, {limits[name]}" if name in limits else label_of(name))
        for name in (SPEED, RATE)
    )
    ends = {"smallest": known[:1], "largest": known[-1:]}
    curve = Line.of(known, SPEED, RATE, _plan(answer["scenario"]), BLUE)
    title = f"{label_of(RATE)} over {label_of(SPEED)}"
    names = ("batch", SPEED, *COLUMNS[:3])
    return answer_page(
        answer,
        title=headline(answer),
        subtitle=subheadline(answer),
        values=[
            Value(label=f"{label_of(name)}, {which} batch", value=marked_value(row, name))
            for which, end in ends.items()
            for row in end
            for name in (SPEED, RATE)
        ],
        sections=[
            Section.charted(title, LineChart([curve], x, y)),
            _points(rows, names),
        ],
        reproduce=reproduce,
    )


def _plan(scenario: Mapping[str, Any]) -> str:
    """Return the one plan of a curve: the sizes that are not 1."""
    sizes = {name: scenario.get(name) or 1 for name in SIZES}
    named = [f"{name.replace('_', ' ')} {size}" for name, size in sizes.items() if size != 1]
    return ", ".join(named) or "tp 1"


def clock_frontier_page(answer: Mapping[str, Any], over: str, *, reproduce: str) -> Page:
    """Return the latency-energy curve as an HTML page, with its point of least energy.

    Args:
        over: What is swept: clock_ratio or power_cap_w.
    """
    rows: Rows = answer["results"]["frontier"]
    least = min(rows, key=lambda row: (row[ENERGY], row[over]))
    return answer_page(
        answer,
        title=headline(answer),
        subtitle=subheadline(answer),
        values=_values(rows, least, over),
        sections=[
            _curve(rows, least, LATENCY),
            _curve(rows, least, over),
            _points(rows, (over, *COLUMNS)),
        ],
        reproduce=reproduce,
    )


def _values(rows: Rows, least: Mapping[str, Any], over: str) -> list[Value]:
    names = (ENERGY, LATENCY, "power_w")
    last = rows[-1]
    return [
        Value(label=f"least energy at {label_of(over)}", value=format_value(over, least[over])),
        *(
            Value(
                label=label_of(name),
                value=f"{marked_value(least, name)} (unlimited: {marked_value(last, name)})",
            )
            for name in names
        ),
    ]


def _curve(rows: Rows, least: Mapping[str, Any], name: str) -> Section:
    """Return energy over latency, or energy and power over what is swept."""
    x = [row[name] for row in rows]
    limits = limits_of(rows[0], tier=str(rows[0].get("tier") or ""))

    def titled(axis: Axis, of: str) -> Axis:
        return axis._replace(title=f"{axis.title}, {limits[of]}") if of in limits else axis

    def lines(of: str) -> list[Line]:
        curve = Line(label_of(of), x, [row[of] for row in rows], BLUE)
        return [curve, Line("least energy", [least[name]], [least[of]], ORANGE, "dots")]

    title = f"Energy over {label_of(name)}"
    along = titled(AXES[name], name)
    blocks = [Chart(figure=LineChart(lines(ENERGY), along, titled(JOULES, ENERGY)), title=title)]
    if name != LATENCY:
        watts = LineChart(lines("power_w"), along, titled(WATTS, "power_w"))
        blocks.append(Chart(figure=watts, title=f"Power over {label_of(name)}"))
    return Section(title=title, blocks=blocks)


def _points(rows: Rows, names: Sequence[str]) -> Section:
    """Return the points as a table of metrics and texts."""
    cells = [
        [*(marked_value(row, name) for name in names), *(str(row[name] or "-") for name in TEXTS)]
        for row in rows
    ]
    head = [*(label_of(name, short=True) for name in names), *TEXTS.values()]
    texts = tuple(range(len(names), len(head)))
    return Section(title="Points", blocks=[Table(head=head, rows=cells, text_columns=texts)])


def operators_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return an estimate as an HTML page: operators, what binds them, and memory."""
    results, scenario = answer["results"], answer["scenario"]
    tier = str(answer["evidence"].get("tier") or "")
    phases = dict.fromkeys(row["phase"] for row in answer["breakdown"])
    own = {one: [row for row in answer["breakdown"] if row["phase"] == one] for one in phases}
    return answer_page(
        answer,
        title=headline(answer),
        subtitle=subheadline(answer),
        values=key_values(results, VALUES, tier=tier)[:MOST_VALUES],
        sections=[
            *_sensitivities(results),
            *(steps_section(STEPS.format(PHASES.get(one, one)), rows) for one, rows in own.items()),
            *_roofline(own, scenario),
            *_memories(results),
            _operators(answer["breakdown"]),
        ],
        reproduce=reproduce,
    )


def _operators(breakdown: Rows) -> Section:
    """Return the operators of all phases as a table, the longest first."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "operator": itemgetter("name"),
        "step": itemgetter("phase"),
        "bound": itemgetter("bound"),
        "time": lambda row: format_value("time_s", row["time_s"]),
        "share": lambda row: share_text(row["share"]),
    }
    longest = sorted(breakdown, key=lambda row: -row["time_s"])
    return Section(
        title="Operators", blocks=[Table.of(longest, columns, ("operator", "step", "bound"))]
    )


def _roofline(phases: Mapping[str, Rows], scenario: Mapping[str, Any]) -> list[Section]:
    """Return the operators of a scenario of one system as points below its ceilings."""
    if not scenario.get("system") or scenario.get("feed_forward_system"):
        return []
    device = resolve_system(scenario["system"]).device
    formats = dict.fromkeys(scenario[name] for name in FORMATS if scenario.get(name))
    peaks = {name: peak for name in formats if (peak := device_peak(device, format_of(name).name))}
    known = any(row["flop"] for rows in phases.values() for row in rows)
    if not peaks or not known:
        return []
    chart = roofline(phases, peaks, device.memory_bandwidth)
    return [Section.charted("Roofline", chart, NOT_POINTS)]


def _memories(results: Mapping[str, Any]) -> list[Section]:
    """Return the memory of a GPU of each pool by kind."""
    pools = {"": "memory", "prefill ": "prefill_memory", "decode ": "decode_memory"}
    return [
        memory_section(f"Memory of a {pool}GPU", results[name])
        for pool, name in pools.items()
        if (results.get(name) or {}).get("capacity_bytes")
    ]


def _sensitivities(results: Mapping[str, Any]) -> list[Section]:
    """Return what each latency depends on, from the largest elasticity."""
    found = []
    for name in VALUES:
        values = (results.get("sensitivity") or {}).get(name) or {}
        better = METRICS[name].better == "higher"
        axis = Axis(f"elasticity of {label_of(name)}: change in percent per percent")
        if (chart := tornado(values, axis, higher_is_better=better)).bars:
            found.append(Section.charted(f"What {label_of(name)} depends on", chart))
    return found

"""What estimates and frontiers show: operators, throughput and speed, energy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import resolve_system
from perfatlas.machines import device_peak
from perfatlas.quantities import significant
from perfatlas.report import charts, pages, text
from perfatlas.scenario.resolution import format_of
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    LATENCY: ("time per output token", "s"),
    CLOCK: ("clock over the sustained clock", ""),
    CAP: ("power limit of a GPU", "W"),
    ENERGY: ("energy per output token", "J"),
    "power_w": ("power of a GPU", "W"),
}
OPERATOR_COLUMNS: Final[Mapping[str, Any]] = {
    "operator": "name",
    "step": "phase",
    "bound": "bound",
    "time": "time_s",
    "share": lambda row: text.share_text(row["share"]),
}
MILLISECONDS: Final = 1e3  # per second
CHART_LINES: Final = 8  # lines of the chart of a brief answer
TABLE_ROWS: Final = 16
FEW_ROWS: Final = 6  # of a brief answer
REDUNDANT_RATIO: Final = 1.05  # batches closer than this ratio are redundant


def _points_table(
    rows: Rows, names: Sequence[str], texts: Sequence[str] = tuple(TEXTS)
) -> pages.Table:
    """Return points as a table of metrics, the interval of the rate, and texts."""
    columns: dict[str, Any] = {
        text.label_of(name, short=True): partial(text.marked_value, name=name) for name in names
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
        >>> from perfatlas.verbs.estimate.blocks import distinct
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


def estimate_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return an estimate, a frontier or sensitivities, whichever the results are."""
    results = answer["results"]
    if rows := results.get("frontier"):
        over = next((name for name in (CLOCK, CAP) if rows[0].get(name) is not None), "")
        sections, values = _of_clocks(rows, over) if over else _of_batches(answer)
        gpus = {"gpus": rows[0]["gpus"]} if "gpus" in rows[0] else {}
        asked = {**answer, "results": gpus}
        return pages.answer_page(
            answer,
            sections,
            title=text.headline(asked),
            lines=text.question_lines(asked),
            values=values,
            reproduce=reproduce,
        )
    if answer["breakdown"]:
        return operators_page(answer, reproduce=reproduce)
    return pages.results_page(answer, reproduce=reproduce)


def _sketch(
    rows: Rows, x: charts.Axis, y: charts.Axis, name: str, keys: Sequence[str]
) -> pages.Section:
    """Return a curve that a terminal draws, each point with a label."""
    along, up, label = keys
    known = [row for row in rows if row.get(along) and row.get(up)]
    texts = [f"{significant(row[label], 4)}" for row in known]
    points = ([row[along] for row in known], [row[up] for row in known])
    curve = charts.Line(name, *points, charts.BLUE, texts=texts)
    chart = pages.Chart(
        figure=charts.LineChart([curve], x, y), title=f"{y.title}, {name}", lines=CHART_LINES
    )
    return pages.Section(blocks=[chart], on="terminal")


def _points(
    rows: Rows, names: Sequence[str], told: Rows, at: Row | None = None
) -> list[pages.Section]:
    """Return points as a table of a page, and some of those that are told as one of a terminal."""
    few, more = (
        _points_table([row for row in told if row in kept or row is at], names, ("decode_bound",))
        for kept in (_thinned(told, FEW_ROWS), _thinned(told, TABLE_ROWS))
    )
    return [
        pages.Section(title="Points", blocks=[_points_table(rows, names)], on="page"),
        pages.Section(blocks=[few], on="brief"),
        pages.Section(blocks=[more], on="terminal", is_detail=True),
    ]


def _of_batches(answer: Row) -> tuple[list[pages.Section], list[text.Value]]:
    """Return throughput against speed by batch."""
    from perfatlas.verbs.estimate.frontiers import ONE_PLAN

    rows: Rows = answer["results"]["frontier"]
    known = [row for row in rows if row.get(SPEED) and row.get(RATE)]
    limits = text.limits_of(rows[0], tier=str(rows[0].get("tier") or ""))
    x, y = (
        axis._replace(title=f"{axis.title}, {limits[name]}") if name in limits else axis
        for name, axis in ((name, charts.Axis.of(name)) for name in (SPEED, RATE))
    )
    scenario = answer["scenario"]
    name = f"{scenario['model']} on {scenario['system']}, {_plan(scenario)}"
    curve = charts.Line.of(known, SPEED, RATE, name, charts.BLUE)._replace(
        texts=[f"batch {row['batch']:,}" for row in known],
        details=[
            text.point_details(row, _plan(scenario), ("batch", "ttft_s", LATENCY)) for row in known
        ],
    )
    values = [
        text.Value(f"{text.label_of(name)}, {which} batch", text.marked_value(row, name))
        for which, end in {"smallest": known[:1], "largest": known[-1:]}.items()
        for row in end
        for name in (SPEED, RATE)
    ]
    told = distinct(rows)
    by = f"by {METRICS['frontier.batch'].label}"
    one_plan = ONE_PLAN in (answer.get("evidence") or {}).get("assumptions", ())
    title = f"{text.label_of(RATE)} over {text.label_of(SPEED)}"
    return [
        pages.Section.charted(title, charts.LineChart([curve], x, y), on="page"),
        _sketch(told, x, y, by, (SPEED, RATE, "batch")),
        *_points(rows, POINTS, told),
        *([pages.Section(blocks=[ONE_PLAN], on="terminal")] if one_plan else []),
    ], values


def _plan(scenario: Row) -> str:
    """Return the one plan of a curve: the sizes that are not 1."""
    sizes = {name: scenario.get(name) or 1 for name in SIZES}
    named = [f"{name.replace('_', ' ')} {size}" for name, size in sizes.items() if size != 1]
    return ", ".join(named) or "tp 1"


def _of_clocks(rows: Rows, over: str) -> tuple[list[pages.Section], list[text.Value]]:
    """Return the latency-energy curve, with its point of least energy.

    Args:
        over: What is swept: clock_ratio or power_cap_w.
    """
    least, last = min(rows, key=lambda row: (row[ENERGY], row[over])), rows[-1]
    values = [
        text.Value(f"least energy at {text.label_of(over)}", text.format_value(over, least[over])),
        *(
            text.Value(
                text.label_of(name),
                f"{text.marked_value(least, name)} (unlimited: {text.marked_value(last, name)})",
            )
            for name in (ENERGY, LATENCY, "power_w")
        ),
    ]
    energy = (
        f"least energy: {text.marked_value(least, ENERGY)} per output token at {over} ="
        f" {least[over]:g}; {text.marked_value(last, ENERGY)} at {last[over]:g}"
    )
    by = f"by {METRICS[f'frontier.{over}'].label}"
    joules = charts.Axis(f"{METRICS[ENERGY].label} [J]")
    in_ms = [{**row, LATENCY: row[LATENCY] * MILLISECONDS} for row in rows if row[LATENCY]]
    return [
        _sketch(in_ms, charts.Axis("TPOT [ms]"), joules, by, (LATENCY, ENERGY, over)),
        _curve(rows, least, LATENCY),
        _curve(rows, least, over),
        *_points(rows, (over, *POINTS_OF_CLOCKS), rows, least),
        pages.Section(blocks=[energy], on="terminal"),
    ], values


def _curve(rows: Rows, least: Row, name: str) -> pages.Section:
    """Return energy over latency, or energy and power over what is swept."""
    x = [row[name] for row in rows]
    limits = text.limits_of(rows[0], tier=str(rows[0].get("tier") or ""))

    def axis(of: str) -> charts.Axis:
        title, unit = AXES[of]
        return charts.Axis(f"{title}, {limits[of]}" if of in limits else title, unit)

    def chart(of: str, title: str) -> pages.Chart:
        curve = charts.Line(text.label_of(of), x, [row[of] for row in rows], charts.BLUE)
        mark = charts.Line("least energy", [least[name]], [least[of]], charts.ORANGE, "dots")
        figure = charts.LineChart([curve, mark], axis(name), axis(of))
        return pages.Chart(figure=figure, title=f"{title} over {text.label_of(name)}")

    blocks = [chart(ENERGY, "Energy")]
    blocks += [] if name == LATENCY else [chart("power_w", "Power")]
    return pages.Section(title=blocks[0].title, blocks=blocks, on="page")


def operators_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return an estimate: on a page its operators, what binds them, and memory."""
    results = answer["results"]
    tier = str(answer["evidence"].get("tier") or "")
    first = pages.answer_text(answer)
    if "sensitivity" in results:
        from perfatlas.studies import print_sensitivities

        explained = pages.TextOnly(write=partial(print_sensitivities, results=results))
        first = pages.Section(blocks=[explained], on="terminal")
    return pages.answer_page(
        answer,
        [first],
        on_page=lambda: _operators(answer),
        values=pages.key_values(results, VALUES, tier=tier)[:MAX_VALUES],
        reproduce=reproduce,
    )


def _operators(answer: Row) -> list[pages.Section]:
    results, rows = answer["results"], answer["breakdown"]
    phases = text.rows_by_phase(rows)
    longest = sorted(rows, key=lambda row: -row["time_s"])
    table = pages.Table.of(longest, OPERATOR_COLUMNS, ("operator", "step", "bound"))
    return [
        *_sensitivities(results),
        *(
            pages.steps_section(STEPS.format(pages.PHASE_TITLES.get(one, one)), steps)
            for one, steps in phases.items()
        ),
        *_roofline(phases, answer["scenario"]),
        *_memories(results),
        pages.Section(title="Operators", blocks=[table]),
    ]


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
        axis = charts.Axis(f"elasticity of {text.label_of(name)}: change in percent per percent")
        if (chart := pages.tornado(values, axis, higher_is_better=better)).bars:
            title = f"What {text.label_of(name)} depends on"
            found.append(pages.Section.charted(title, chart))
    return found

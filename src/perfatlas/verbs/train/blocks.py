"""What a training step and a search among layouts show: waterfall, memory, pipeline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import verb_fields, without_defaults
from perfatlas.quantities import counted
from perfatlas.report import charts, pages, text
from perfatlas.studies import rejected_text
from perfatlas.verbs.train.answer import training_power, training_timeline
from perfatlas.verbs.train.metrics import ENERGY, OF_GRAPHS, PARTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.training.step import StepTimeline

    Row = Mapping[str, Any]

COSTS_OF_SMOOTHING: Final = ("smoothing_time_share", "smoothing_energy_share")
SMOOTHING: Final = (*COSTS_OF_SMOOTHING, "floor_reached_s")
SMOOTHING_FIELDS: Final = (
    *("power_floor_w", "floor_hold_s", "ramp_up_w_per_s", "ramp_down_w_per_s", "storage_j"),
)
CHECKPOINT: Final = ("checkpoint_stall_s", "checkpoint_save_s", "checkpoint_read_s")
POWER: Final = (
    *("power_w", "energy_per_token_j", "energy_per_item_j", "facility_power_w"),
    *("electricity_usd_per_hour", "electricity_usd_per_million_tokens"),
    *("usd_per_million_tokens", "gco2_per_million_tokens"),
    *("usd_per_million_items", "gco2_per_million_items"),
)
FIRST: Final = (
    *("step_time_s", "tokens_per_s_per_gpu", "throughput_per_s", "throughput_per_s_per_gpu"),
    "mfu",
)
SIZES: Final = ("tp", "pp", "vpp", "cp", "dp", "ep", "expert_tp")
VALUES: Final = (
    *("step_time_s", "tokens_per_s_per_gpu", "throughput_per_s_per_gpu", "mfu", "hfu"),
    *("power_w", "energy_per_token_j", "energy_per_item_j"),
)
MAX_PARTS: Final = 6
MAX_PASSES: Final = 4000  # of a picture; a longer step shows its beginning and its end
MAX_ROWS: Final = 40
FIRST_STEPS: Final = "Power over the first steps"
POWER_SPREAD: Final = "Power over time"
MAX_BINS: Final = 500  # of the power over the horizon
MARGIN: Final = 0.1  # below the least power of a picture, as a share of its swing
POWER_COLUMNS: Final[Mapping[str, Any]] = {
    "scale": "scale",
    "GPUs": "gpus",
    "mean": "mean_power_w",
    "peak": "peak_power_w",
    "least": "least_power_w",
    "ramp": "ramp_w_per_s",
    "above limit": "above_limit_share",
}
LIMIT: Final = "above limit"
ENDS: Final = ("least", "peak", "ramp")
OPERATOR_COLUMNS: Final[Mapping[str, Any]] = {
    "operator": "name",
    "part": "phase",
    "bound": "bound",
    "time": "time_s",
    "share": lambda row: text.share_text(row["share"]),
}
MAX_RULES: Final = 3
OF_EXPERTS: Final = ("ep", "expert_tp", "expert_overlap")
RATE: Final = "tokens_per_s_per_gpu"


def training_page(
    answer: Mapping[str, Any],
    timeline: StepTimeline | None = None,
    *,
    reproduce: str,
) -> pages.Page:
    """Return a training step.

    Args:
        timeline: The course of the same step; found from the scenario by default.
    """
    scenario, results = answer["scenario"], answer["results"]

    def on_page() -> list[pages.Section]:
        course = timeline or training_timeline(**scenario)
        return [
            pages.memory_section(of_gpu, memory),
            pages.Section(title="Memory over the step", blocks=_memory_over_step(memory, course)),
            pages.Section(title="Passes of the pipeline", blocks=_pipeline(course)),
            *_power_charts(scenario, results),
        ]

    hfu = ("hfu",) if results["hfu"] != results["mfu"] else ()
    shown = pages.key_values(results, (*FIRST, "hfu", *POWER, *CHECKPOINT, *SMOOTHING))
    brief = pages.key_values(results, (*FIRST, *hfu, *POWER, *CHECKPOINT))
    memory = results["memory"]
    used, capacity = (
        text.format_value(f"memory.{name}", memory[name])
        for name in ("total_bytes", "capacity_bytes")
    )
    bar = pages.TextOnly(write=partial(text.print_memory_bar, memory=memory))
    of_gpu = "Memory of the fullest GPU"
    return pages.answer_page(
        answer,
        [
            pages.Section(blocks=[pages.Values(all=shown, brief=brief)], on="terminal"),
            *_wholes(results),
            *_power_over_time(results),
            _operators(answer),
            pages.Section(blocks=[f"memory of the fullest GPU: {used} of {capacity}"], on="brief"),
            pages.Section(
                title=f"{of_gpu}: {used} of {capacity}",
                blocks=[bar],
                on="terminal",
                is_detail=True,
            ),
        ],
        on_page=on_page,
        lines=(layout_line(scenario), batch_line(scenario, results)),
        values=pages.key_values(results, VALUES),
        reproduce=reproduce,
    )


def layout_line(scenario: Mapping[str, Any]) -> str:
    """Return the parallel sizes, the schedule and the sharding, in a line."""
    sizes = [f"{name} {scenario[name]:,}" for name in SIZES if scenario.get(name, 1) > 1]
    words = [", ".join(sizes) or "one GPU"]
    if scenario.get("pp", 1) > 1:
        words.append(str(scenario["pipeline_schedule"]))
    zero = scenario["zero"]
    words.append("FSDP2" if zero == "fsdp2" else f"ZeRO-{zero}")
    return f"layout: {'; '.join(words)}"


def batch_line(scenario: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    """Return the batch, the format, recomputation and the optimizer, in a line."""
    batches, item = results["micro_batches"], results.get("item")
    items = counted(scenario["global_batch"], item or "sequence")
    words = [
        items if item else f"{items} of {scenario['sequence_length']:,} tokens",
        f"{batches:,} micro-batch{'es' if batches != 1 else ''} of {scenario['micro_batch']}",
        scenario["format"],
        f"recompute {scenario['recompute']}",
        scenario["optimizer"],
    ]
    return ", ".join(words)


def _wholes(results: Row) -> list[pages.Section]:
    """Return the parts of the step, and of the energy of all GPUs as a detail where it is known."""
    labels = OF_GRAPHS if results.get("item") else PARTS
    sections = _parts("time", results["waterfall"], labels, "step", results["step_time_s"])
    if (energy := results["energy_parts"]) is not None:
        sections += _parts("energy", energy, ENERGY, "step, all GPUs", results["energy_per_step_j"])
    return sections


def _parts(
    of: str, parts: Mapping[str, float], labels: Mapping[str, str], whole: str, total: float
) -> list[pages.Section]:
    """Return the parts of a whole as a picture, and on a page as a table."""
    metric = f"{of}_s" if of == "time" else "energy_per_step_j"
    shown = {name: part for name, part in parts.items() if part > 0.0 or name == "compute"}
    rows = [{"name": name, "share": part / total} for name, part in shown.items()]
    texts = [text.share_text(part / total) for part in shown.values()]
    figure = charts.Waterfall(rows, labels, texts, charts.Axis(f"share of the {of}", unit="%"))
    cells = [
        [labels[name], text.format_value(metric, part), share]
        for (name, part), share in zip(shown.items(), texts, strict=True)
    ]
    table = pages.Table(
        head=("part", of, "share"),
        rows=[*cells, [whole, text.format_value(metric, total), "100%"]],
    )
    title, is_detail = f"Where the {of} goes", of == "energy"
    return [
        pages.Section.charted(title, figure, table, on="page"),
        pages.Section.charted(title, figure, most=MAX_PARTS, is_detail=is_detail, on="terminal"),
    ]


def _memory_over_step(memory: Mapping[str, Any], timeline: StepTimeline) -> list[pages.Block]:
    """Return the memory of the fullest rank over the step, with its high-water mark."""
    time_s, used = charts.highest_points(timeline.memory_time_s, timeline.memory_bytes, MAX_PASSES)
    mark = memory["total_bytes"]
    states = sum(memory[f"{name}_bytes"] for name in ("weights", "gradients", "optimizer"))
    high_water = f"high-water mark, {text.format_value('memory.total_bytes', mark)}"
    levels = (
        (high_water, mark, charts.ORANGE),
        ("weights, gradients and optimizer", states, charts.GREEN),
        ("memory of a GPU", memory["capacity_bytes"], charts.RED),
    )
    lines = [
        charts.Line("memory in use", time_s.tolist(), used.tolist(), charts.BLUE, "step"),
        *(
            charts.Line(name, [0.0, float(time_s[-1])], [value, value], colour)
            for name, value, colour in levels
        ),
    ]
    title = f"Memory over the step, pipeline rank {timeline.memory_rank}"
    figure = charts.LineChart(lines, charts.Axis("time", "s"), charts.Axis("memory", "B"))
    note = (
        f"Pipeline rank {timeline.memory_rank} needs most. Activations are taken by forward passes"
        " and freed at the end of their weight gradients. Gathered weights and the workspace of the"
        " loss are counted over the whole step."
    )
    return [note, pages.Chart(figure=figure, title=title)]


def _pipeline(timeline: StepTimeline) -> list[pages.Block]:
    """Return the passes of all ranks; of a long step its beginning and its end."""
    passes = timeline.passes
    title = "Passes of the pipeline"
    count = passes["start_s"].size
    if count <= MAX_PASSES:
        return [pages.Chart(figure=charts.PipelineChart(passes), title=title)]
    half = MAX_PASSES // 2
    ends = zip(("beginning", "end"), charts.first_and_last(passes, half), strict=True)
    note = (
        f"The step has {count:,} passes; the first and the last {half:,} are shown. --trace writes"
        " all of them."
    )
    return [
        note,
        *(
            pages.Chart(figure=charts.PipelineChart(some), title=f"{title}, {name} of the step")
            for name, some in ends
        ),
    ]


def _power_over_time(results: Row) -> list[pages.Section]:
    """Return the statistics of the power over time, empty where it is not set."""
    rows = results.get("power_over_time")
    if not rows:
        return []
    last = rows[-1]
    limited = last["above_limit_share"] is not None
    columns = {name: key for name, key in POWER_COLUMNS.items() if name != LIMIT or limited}
    least, peak, ramp = (text.format_value(POWER_COLUMNS[n], last[POWER_COLUMNS[n]]) for n in ENDS)
    line = f"power of the {last['scale']} over time: {least} to {peak}, ramps of {ramp}"
    if limited:
        line += f", {text.share_text(last['above_limit_share'])} of the time above the limit"
    if COSTS_OF_SMOOTHING[0] in results:
        longer, more = (text.share_text(results[name]) for name in COSTS_OF_SMOOTHING)
        line += f"; smoothing adds {longer} of time and {more} of energy"
    table = pages.Table.of(rows, columns, ("scale",))
    return [
        pages.Section(blocks=[line], on="brief"),
        pages.Section(title="Power over time", blocks=[table], on="terminal", is_detail=True),
        pages.Section(title="Power over time", blocks=[table], on="page"),
    ]


def _power_charts(scenario: Row, results: Row) -> list[pages.Section]:
    """Return the power of the first steps and of the horizon, empty where it is not set."""
    if "power_over_time" not in results:
        return []
    powers = {"": training_power(**scenario)}
    if any(scenario.get(name) is not None for name in SMOOTHING_FIELDS):
        plain = {name: value for name, value in scenario.items() if name not in SMOOTHING_FIELDS}
        powers = {"without smoothing": training_power(**plain), "smoothed": powers[""]}
    rows, limit_w = results["power_over_time"], scenario.get("trace_limit_w")
    scales = list({row["gpus"]: row["scale"] for row in rows}.values())  # a rack may be the job
    drawn = []
    for scale in scales:
        steps = {name or scale: one.first_steps(scale, MAX_PASSES) for name, one in powers.items()}
        parts = [*powers.values()][-1].spread(scale, MAX_BINS)
        drawn += [(FIRST_STEPS, scale, steps), (POWER_SPREAD, scale, parts)]
    found = []
    for title, scale, curves in drawn:
        lines = [
            charts.Line(label, *points, colour, "step")
            for (label, points), colour in zip(curves.items(), charts.COLOURS, strict=False)
        ]
        least, most = (of(of(line.y) for line in lines) for of in (min, max))
        if limit_w is not None and scale == scales[-1]:
            ends = [0.0, max(line.x[-1] for line in lines)]
            lines.append(charts.Line("limit", ends, [limit_w, limit_w], charts.RED))
            least, most = min(least, limit_w), max(most, limit_w)
        bottom = max(least - MARGIN * (most - least), 0.0)
        axis = charts.Axis(f"AC power of the {scale}", "W", bottom=bottom)
        figure = charts.LineChart(lines, charts.Axis("time", "s"), axis)
        named = f"{title}: {scenario['model']}, {scale} of {scenario['system']}"
        found.append(pages.Section.charted(named, figure))
    return found


def _operators(answer: Row) -> pages.Section:
    """Return the operators and collectives that take most time on the busiest rank."""
    rows = [row for row in answer["breakdown"] if row["phase"] != "step"]
    rows.sort(key=lambda row: -row["time_s"])
    texts = ("operator", "part", "bound")
    table = pages.Table.of(rows, OPERATOR_COLUMNS, texts, most_on_page=MAX_ROWS)
    title = "Longest operators on the busiest rank"
    return pages.Section(title=title, blocks=[table], is_detail=True)


def layouts_page(
    answer: Mapping[str, Any], *, reproduce: str, rate_per_cpu_s: float = 0.0
) -> pages.Page:
    """Return the best layouts of a training job, and why the first is best.

    Args:
        rate_per_cpu_s: Legal layouts per CPU-second; 0 where it is not shown.
    """
    scenario, results = answer["scenario"], answer["results"]
    rows = results["layouts"]
    if not rows:
        return pages.results_page(answer, reproduce=reproduce)
    bars = [
        charts.Bar(
            layout_text(row),
            row[RATE],
            text.format_value(RATE, row[RATE]),
            interval=None if None in ends else ends,
        )
        for row in rows
        for ends in [(row[f"{RATE}_low"], row[f"{RATE}_high"])]
    ]
    axis = charts.Axis(f"{text.label_of(RATE)}, with 90% intervals")
    table = pages.Table.of(rows, _layout_columns(answer), ("layout",), optional=())
    notes = (
        f"why the first: {_why(rows)}",
        pages.Note(counts_line(results, None, rate_per_cpu_s), counts_line(results, MAX_RULES)),
        f"its step: {train_command(scenario, rows[0])}",
    )
    best = pages.Section.charted("Best layouts", charts.BarChart(bars, axis), table, *notes)
    sequences = counted(scenario["global_batch"], "sequence")
    job = f"{sequences} of {scenario['sequence_length']:,} tokens"
    most = scenario.get("max_gpus")
    gpus = f"up to {most:,} GPUs" if most else counted(rows[0]["gpus"], "GPU")
    return pages.answer_page(
        answer,
        [best],
        title=f"{scenario['model']} on {gpus} of {scenario['system']}, {scenario['engine']}",
        lines=[", ".join((job, scenario["format"], scenario["optimizer"]))],
        values=pages.key_values(rows[0], VALUES),
        reproduce=reproduce,
    )


def _layout_columns(answer: Row) -> dict[str, Any]:
    """Return the columns of layouts: their number of GPUs if it differs, and effective times."""
    layouts, scenario = answer["results"]["layouts"], answer["scenario"]
    several = (
        len({layout["gpus"] for layout in layouts}) > 1 or scenario.get("max_gpus") is not None
    )
    joined = any("effective_step_time_s" in layout for layout in layouts)
    return {
        "layout": layout_text,
        **({"GPUs": "gpus"} if several else {}),
        "step time": "step_time_s",
        **({} if joined else {"tokens/s\n/GPU": RATE}),
        "MFU": "mfu",
        "90%": lambda row: text.interval_text(row, "mfu"),
        **({"goodput": "goodput", "effective": "effective_step_time_s"} if joined else {}),
        "memory": lambda row: text.format_value("memory.total_bytes", row["memory_total_bytes"]),
    }


def _why(layouts: Sequence[Mapping[str, Any]]) -> str:
    """Return the largest loss of the first layout, and how the next one is worse."""
    first = layouts[0]
    total = first["step_time_s"]
    labels = METRICS["waterfall"].parts
    lost = {name: s / total for name, s in first["waterfall"].items() if name != "compute"}
    largest = sorted(lost, key=lambda name: -lost[name])[:2]
    losses = ", ".join(
        f"{labels[name]} {text.format_share(lost[name])}" for name in largest if lost[name]
    )
    own = f"it loses {losses}" if losses else "it loses nothing"
    return f"{own}; {first['why']}" if first["why"] else f"{own}; no layout of other sizes fits"


def counts_line(results: Mapping[str, Any], most: int | None, rate_per_cpu_s: float = 0.0) -> str:
    """Return the numbers of layouts that were priced, excluded and rejected, in a line.

    Args:
        most: Rules that are told; None for all.
    """
    labels = METRICS["rejected_layouts"].parts
    words = rejected_text(results["rejected_layouts"], labels, most)
    speed = f" ({text.format_number(rate_per_cpu_s)} per CPU-second)" if rate_per_cpu_s else ""
    refused = f"; rejected: {words}" if words else ""
    return (
        f"{results['legal_layouts']:,} legal layouts{speed}: {results['priced_layouts']:,} priced,"
        f" {results['excluded_layouts']:,} excluded by a lower bound of the objective{refused}"
    )


def train_command(scenario: Mapping[str, Any], layout: Mapping[str, Any]) -> str:
    """Return the command line of `train` for a layout."""
    fields = verb_fields("train")
    asked = {
        name: value for name, value in scenario.items() if name in fields and value is not None
    }
    asked |= {name: layout[name] for name in fields if name in layout}
    if asked.get("ep", 1) * asked.get("expert_tp", 1) == 1 and not asked.get("expert_overlap"):
        asked = {name: value for name, value in asked.items() if name not in OF_EXPERTS}
    return text.reproduce_line("train", without_defaults("train", asked))


def layout_text(layout: Mapping[str, Any]) -> str:
    """Return a layout in short: sizes and micro-batch that are not 1, sharding, recomputation.

    Example:
        >>> from perfatlas.verbs.train.blocks import layout_text
        >>> layout_text({"tp": 8, "pp": 4, "vpp": 3, "dp": 2, "micro_batch": 2, "zero": "1",
        ...     "recompute": "full", "pipeline_schedule": "interleaved", "expert_overlap": False})
        'tp 8, pp 4, vpp 3, dp 2, micro-batch 2, ZeRO-1, full recompute'
    """
    words = [f"{n} {layout[n]}" for n in SIZES if layout.get(n, 1) != 1]
    schedule = str(layout["pipeline_schedule"])
    if layout.get("pp", 1) > 1 and schedule not in ("1f1b", "interleaved"):
        words.append(schedule)
    if layout["micro_batch"] > 1:
        words.append(f"micro-batch {layout['micro_batch']}")
    words.append(f"ZeRO-{layout['zero']}")
    if layout["recompute"] != "none":
        words.append(f"{layout['recompute']} recompute")
    if layout["expert_overlap"]:
        words.append("expert overlap")
    return ", ".join(words)

"""A training step and layouts in a terminal and as a page: waterfall, memory, pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import verb_fields, without_defaults
from perfatlas.quantities import counted
from perfatlas.report import pages
from perfatlas.report.charts import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    Axis,
    Bar,
    BarChart,
    Line,
    LineChart,
    PipelineChart,
    Waterfall,
    first_and_last,
    highest_points,
)
from perfatlas.report.text import (
    format_number,
    format_share,
    format_value,
    headline,
    interval_text,
    label_of,
    memory_bar,
    print_cells,
    print_closing,
    print_heading,
    print_labelled,
    print_line,
    print_plain,
    reproduce_line,
    share_text,
    speaks_unicode,
)
from perfatlas.studies import rejected_text
from perfatlas.verbs.train.answer import training_timeline
from perfatlas.verbs.train.metrics import ENERGY, OF_GRAPHS, PARTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from perfatlas.training.step import StepTimeline

    Row = Mapping[str, Any]

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
KERNELS: Final = 4
WIDEST: Final = 80  # of the memory bar
MAX_PASSES: Final = 4000  # of a picture; a longer step shows its beginning and its end
MAX_ROWS: Final = 40
OPERATOR_COLUMNS: Final[Mapping[str, Any]] = {
    "operator": "name",
    "part": "phase",
    "bound": "bound",
    "time": "time_s",
    "share": lambda row: share_text(row["share"]),
}
SHORT_NAMES: Final = {"expert_tp": "etp"}
MAX_RULES: Final = 3
OF_EXPERTS: Final = ("ep", "expert_tp", "expert_overlap")
RATE: Final = "tokens_per_s_per_gpu"


def print_training(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write a training step to a console."""
    scenario, results = answer["scenario"], answer["results"]
    print_line(
        console,
        f"{scenario['model']} on {counted(results['gpus'], 'GPU')} of {scenario['system']},"
        f" {scenario['engine']}",
        style="bold",
    )
    for line in (layout_line(scenario), batch_line(scenario, results)):
        print_line(console, line)
    console.print()
    hfu = ("hfu",) if verbose or results["hfu"] != results["mfu"] else ()
    found = pages.key_values(results, (*FIRST, *hfu, *POWER, *CHECKPOINT))
    rows = [
        (value.label, f"{value.value}  ({value.interval})".removesuffix("  ()")) for value in found
    ]
    print_labelled(console, rows)
    for section in _wholes(results):
        if verbose or not section.is_detail:
            print_heading(console, section.title.lower())
            chart, _ = section.blocks  # the table has the same shares
            pages.print_blocks(console, [chart], most=None if verbose else section.most)
    pages.print_sections(console, [_operators(answer)], verbose=verbose)
    memory = results["memory"]
    total, capacity = (
        format_value(f"memory.{name}", memory[name]) for name in ("total_bytes", "capacity_bytes")
    )
    print_heading(console, f"memory of the fullest GPU: {total} of {capacity}")
    width = min(console.width, WIDEST)
    print_plain(console, memory_bar(memory, width=width, unicode=speaks_unicode(console)))
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def training_page(
    answer: Mapping[str, Any],
    timeline: StepTimeline | None = None,
    *,
    reproduce: str,
) -> pages.Page:
    """Return a training step as an HTML page.

    Args:
        timeline: The course of the same step; found from the scenario by default.
    """
    scenario, results = answer["scenario"], answer["results"]
    timeline = timeline or training_timeline(**scenario)
    return pages.answer_page(
        answer,
        title=headline(answer),
        subtitle=f"{layout_line(scenario)}; {batch_line(scenario, results)}",
        values=pages.key_values(results, VALUES),
        sections=[
            *_wholes(results),
            pages.memory_section("Memory of the fullest GPU", results["memory"]),
            _memory_over_step(results["memory"], timeline),
            _pipeline(timeline),
            _operators(answer, MAX_ROWS),
        ],
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
    """Return the parts of the step and of the energy of all GPUs, where that is known."""
    labels = OF_GRAPHS if results.get("item") else PARTS
    sections = [_parts("time", results["waterfall"], labels, ("time_s", results["step_time_s"]))]
    if results["energy_parts"] is not None:
        whole = "energy_per_step_j", results["energy_per_step_j"]
        sections.append(_parts("energy", results["energy_parts"], ENERGY, whole))
    return sections


def _parts(
    of: str, parts: Mapping[str, float], labels: Mapping[str, str], whole: tuple[str, float]
) -> pages.Section:
    """Return the parts of a whole as a picture and a table; the text has energy as a detail.

    Args:
        of: Time or energy.
    """
    metric, total = whole
    shown = {name: part for name, part in parts.items() if part > 0.0 or name == "compute"}
    rows = [{"name": name, "share": part / total} for name, part in shown.items()]
    texts = [share_text(part / total) for part in shown.values()]
    figure = Waterfall(rows, labels, texts, Axis(f"share of the {of}", unit="%"))
    cells = [
        [labels[name], format_value(metric, part), text]
        for (name, part), text in zip(shown.items(), texts, strict=True)
    ]
    last = "step" if of == "time" else "step, all GPUs"
    table = pages.Table(
        head=("part", of, "share"), rows=[*cells, [last, format_value(metric, total), "100%"]]
    )
    title = f"Where the {of} goes"
    blocks: list[pages.Block] = [pages.Chart(figure=figure, title=title), table]
    return pages.Section(title=title, blocks=blocks, most=MAX_PARTS, is_detail=of == "energy")


def _memory_over_step(memory: Mapping[str, Any], timeline: StepTimeline) -> pages.Section:
    """Return the memory of the fullest rank over the step, with its high-water mark."""
    time_s, used = highest_points(timeline.memory_time_s, timeline.memory_bytes, MAX_PASSES)
    states = sum(memory[f"{name}_bytes"] for name in ("weights", "gradients", "optimizer"))
    ends = [0.0, float(time_s[-1])]

    def level(name: str, value: float, colour: str) -> Line:
        return Line(name, ends, [value, value], colour)

    mark = memory["total_bytes"]
    lines = [
        Line("memory in use", time_s.tolist(), used.tolist(), BLUE, "step"),
        level(f"high-water mark, {format_value('memory.total_bytes', mark)}", mark, ORANGE),
        level("weights, gradients and optimizer", states, GREEN),
        level("memory of a GPU", memory["capacity_bytes"], RED),
    ]
    title = f"Memory over the step, pipeline rank {timeline.memory_rank}"
    figure = LineChart(lines, Axis("time", "s"), Axis("memory", "B"))
    note = (
        "Activations are taken by forward passes and freed at the end of their weight gradients."
        " Gathered weights and the workspace of the loss are counted over the whole step."
    )
    return pages.Section(title=title, blocks=[note, pages.Chart(figure=figure, title=title)])


def _pipeline(timeline: StepTimeline) -> pages.Section:
    """Return the passes of all ranks; of a long step its beginning and its end."""
    passes = timeline.passes
    title = "Passes of the pipeline"
    count = passes["start_s"].size
    if count <= MAX_PASSES:
        return pages.Section.charted(title, PipelineChart(passes))
    half = MAX_PASSES // 2
    parts = zip(("beginning", "end"), first_and_last(passes, half), strict=True)
    charts = [
        pages.Chart(figure=PipelineChart(some), title=f"{title}, {name} of the step")
        for name, some in parts
    ]
    note = (
        f"The step has {count:,} passes; the first and the last {half:,} are shown. --trace writes"
        " all of them."
    )
    return pages.Section(title=title, blocks=[note, *charts])


def _operators(answer: Row, most: int | None = None) -> pages.Section:
    """Return the operators and collectives that take most time on the busiest rank.

    Args:
        most: How many; None for all.
    """
    rows = [row for row in answer["breakdown"] if row["phase"] != "step"]
    rows.sort(key=lambda row: -row["time_s"])
    table = pages.Table.of(rows[:most], OPERATOR_COLUMNS, ("operator", "part", "bound"))
    title = "Longest operators on the busiest rank"
    return pages.Section(title=title, blocks=[table], most=KERNELS)


def print_layouts(
    console: Console,
    answer: Mapping[str, Any],
    *,
    reproduce: str,
    verbose: bool = False,
    rate_per_cpu_s: float = 0.0,
) -> None:
    """Write the layouts, why the first is best, and the common end of answers.

    Args:
        verbose: Whether to print the rate, all rules and all evidence.
        rate_per_cpu_s: Legal layouts per CPU-second.
    """
    scenario, results = answer["scenario"], answer["results"]
    layouts = results["layouts"]
    print_line(
        console,
        f"{scenario['model']} on {_gpus(scenario, layouts)} of {scenario['system']},"
        f" {scenario['engine']}",
        style="bold",
    )
    print_line(
        console,
        f"{counted(scenario['global_batch'], 'sequence')} of {scenario['sequence_length']:,}"
        f" tokens, {scenario['format']}, {scenario['optimizer']}",
    )
    console.print()
    print_cells(console, layouts, _layout_columns(answer), ("layout",))
    console.print()
    print_line(console, f"why the first: {_why(layouts)}")
    print_line(console, counts_line(results, rate_per_cpu_s if verbose else None))
    print_line(console, f"its step: {train_command(scenario, layouts[0])}")
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def layouts_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return the best layouts of a training job as an HTML page."""
    rows = answer["results"]["layouts"]
    names = [layout_text(row) for row in rows]
    ends = [(row[f"{RATE}_low"], row[f"{RATE}_high"]) for row in rows]
    bars = [
        Bar(name, row[RATE], format_value(RATE, row[RATE]), interval=None if None in own else own)
        for name, row, own in zip(names, rows, ends, strict=True)
    ]
    table = pages.Table.of(rows, _layout_columns(answer), ("layout",))
    axis = Axis(f"{label_of(RATE)}, with 90% intervals")
    best = pages.Section.charted("Best layouts", BarChart(bars, axis), table)
    return pages.results_page(answer, sections=[best] if rows else (), reproduce=reproduce)


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
        "90%": lambda row: interval_text(row, "mfu"),
        **({"goodput": "goodput", "effective": "effective_step_time_s"} if joined else {}),
        "memory": lambda row: format_value("memory.total_bytes", row["memory_total_bytes"]),
    }


def _gpus(scenario: Mapping[str, Any], layouts: Sequence[Mapping[str, Any]]) -> str:
    most = scenario.get("max_gpus")
    return f"up to {most:,} GPUs" if most else counted(layouts[0]["gpus"], "GPU")


def _why(layouts: Sequence[Mapping[str, Any]]) -> str:
    """Return the largest loss of the first layout, and how the next one is worse."""
    first = layouts[0]
    total = first["step_time_s"]
    labels = METRICS["waterfall"].parts
    lost = {name: s / total for name, s in first["waterfall"].items() if name != "compute"}
    largest = sorted(lost, key=lambda name: -lost[name])[:2]
    text = ", ".join(f"{labels[name]} {format_share(lost[name])}" for name in largest if lost[name])
    own = f"it loses {text}" if text else "it loses nothing"
    return f"{own}; {first['why']}" if first["why"] else f"{own}; no layout of other sizes fits"


def counts_line(results: Mapping[str, Any], rate_per_cpu_s: float | None = None) -> str:
    """Return the numbers of layouts that were priced, excluded and rejected, in a line.

    Args:
        rate_per_cpu_s: Legal layouts per CPU-second, told with all rules; None for the brief line.
    """
    labels = METRICS["rejected_layouts"].parts
    most = MAX_RULES if rate_per_cpu_s is None else None
    words = rejected_text(results["rejected_layouts"], labels, most)
    speed = f" ({format_number(rate_per_cpu_s)} per CPU-second)" if rate_per_cpu_s else ""
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
    return reproduce_line("train", without_defaults("train", asked))


def layout_text(layout: Mapping[str, Any]) -> str:
    """Return a layout in short: sizes and micro-batch that are not 1, sharding, recomputation.

    Example:
        >>> from perfatlas.verbs.train.sections import layout_text
        >>> layout_text({"tp": 8, "pp": 4, "vpp": 3, "dp": 2, "micro_batch": 2, "zero": "1",
        ...     "recompute": "full", "pipeline_schedule": "interleaved", "expert_overlap": False})
        'tp 8, pp 4, vpp 3, dp 2, mb 2, ZeRO-1, full recompute'
    """
    words = [f"{SHORT_NAMES.get(n, n)} {layout[n]}" for n in SIZES if layout.get(n, 1) != 1]
    schedule = str(layout["pipeline_schedule"])
    if layout.get("pp", 1) > 1 and schedule not in ("1f1b", "interleaved"):
        words.append(schedule)
    if layout["micro_batch"] > 1:
        words.append(f"mb {layout['micro_batch']}")
    words.append(f"ZeRO-{layout['zero']}")
    if layout["recompute"] != "none":
        words.append(f"{layout['recompute']} recompute")
    if layout["expert_overlap"]:
        words.append("expert overlap")
    return ", ".join(words)

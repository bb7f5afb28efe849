"""HTML page of a training step: waterfall, memory over the step, and the pipeline as a picture."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

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
from perfatlas.report.pages import (
    Chart,
    Section,
    Table,
    answer_page,
    key_values,
    memory_section,
    results_page,
)
from perfatlas.report.text import (
    format_interval,
    format_value,
    headline,
    label_of,
    share_text,
)
from perfatlas.verbs.train.answer import training_timeline
from perfatlas.verbs.train.metrics import ENERGY, PARTS
from perfatlas.verbs.train.text import batch_line, layout_line, layout_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.report.pages import Page
    from perfatlas.training.step import StepTimeline


VALUES: Final = (
    *("step_time_s", "tokens_per_s_per_gpu", "throughput_per_s_per_gpu", "mfu", "hfu"),
    *("power_w", "energy_per_token_j", "energy_per_item_j"),
)
GB: Final = 1e9
MOST_PASSES: Final = 4000  # of a picture; a longer step shows its beginning and its end
MOST_ROWS: Final = 40


def training_page(
    answer: Mapping[str, Any],
    timeline: StepTimeline | None = None,
    *,
    reproduce: str,
) -> Page:
    """Return a training step as an HTML page.

    Args:
        timeline: The course of the same step; found from the scenario by default.
    """
    scenario, results = answer["scenario"], answer["results"]
    timeline = timeline or training_timeline(**scenario)
    return answer_page(
        answer,
        title=headline(answer),
        subtitle=f"{layout_line(scenario)}; {batch_line(scenario, results)}",
        values=key_values(results, VALUES),
        sections=[
            _waterfall(results),
            *_energy(results),
            memory_section("Memory of the fullest GPU", results["memory"]),
            _memory_over_step(results["memory"], timeline),
            _pipeline(timeline),
            _operators(answer),
        ],
        reproduce=reproduce,
    )


def _waterfall(results: Mapping[str, Any]) -> Section:
    """Return the parts of the step, kernels last, and a table of them."""
    shown = {k: v for k, v in results["waterfall"].items() if v > 0.0 or k == "compute"}
    return _parts("time", shown, results["waterfall"], PARTS, ("time_s", results["step_time_s"]))


def _energy(results: Mapping[str, Any]) -> list[Section]:
    """Return the parts of the energy of all GPUs, empty where they are not known."""
    if results["energy_parts"] is None:
        return []
    parts = {name: joules for name, joules in results["energy_parts"].items() if joules > 0.0}
    total = "energy_per_step_j", results["energy_per_step_j"]
    return [_parts("energy", parts, parts, ENERGY, total)]


def _parts(
    of: str,
    shown: Mapping[str, float],
    parts: Mapping[str, float],
    labels: Mapping[str, str],
    whole: tuple[str, float],
) -> Section:
    """Return the parts of a whole as a picture and a table.

    Args:
        of: Time or energy.
        whole: The result that they divide, and its value.
    """
    title, (metric, total) = f"Where the {of} goes", whole
    rows: list[dict[str, Any]] = [
        {"name": name, "share": part / total} for name, part in shown.items()
    ]
    texts = [share_text(row["share"]) for row in rows]
    figure = Waterfall(rows, labels, texts, Axis(f"share of the {of}", unit="%"))
    cells = [
        [labels[name], format_value(metric, part), share_text(part / total)]
        for name, part in parts.items()
    ]
    last = "step" if of == "time" else "step, all GPUs"
    table = Table(
        head=("part", of, "share"), rows=[*cells, [last, format_value(metric, total), "100%"]]
    )
    return Section.charted(title, figure, table)


def _memory_over_step(memory: Mapping[str, Any], timeline: StepTimeline) -> Section:
    """Return the memory of the fullest rank over the step, with its high-water mark."""
    time_s, used = highest_points(timeline.memory_time_s, timeline.memory_bytes, MOST_PASSES)
    states = sum(memory[f"{name}_bytes"] for name in ("weights", "gradients", "optimizer"))
    ends = [0.0, float(time_s[-1])]

    def level(name: str, value: float, colour: str) -> Line:
        return Line(name, ends, [value / GB, value / GB], colour)

    mark = memory["total_bytes"]
    lines = [
        Line("memory in use", time_s.tolist(), (used / GB).tolist(), BLUE, "step"),
        level(f"high-water mark, {format_value('memory.total_bytes', mark)}", mark, ORANGE),
        level("weights, gradients and optimizer", states, GREEN),
        level("memory of a GPU", memory["capacity_bytes"], RED),
    ]
    title = f"Memory over the step, pipeline rank {timeline.memory_rank}"
    figure = LineChart(lines, Axis("time", "s"), Axis("memory [GB]"))
    note = (
        "Activations are taken by forward passes and freed at the end of their weight gradients."
        " Gathered weights and the workspace of the loss are counted over the whole step."
    )
    return Section(title=title, blocks=[note, Chart(figure=figure, title=title)])


def _pipeline(timeline: StepTimeline) -> Section:
    """Return the passes of all ranks; of a long step its beginning and its end."""
    passes = timeline.passes
    title = "Passes of the pipeline"
    count = passes["start_s"].size
    if count <= MOST_PASSES:
        return Section.charted(title, PipelineChart(passes))
    half = MOST_PASSES // 2
    parts = zip(("beginning", "end"), first_and_last(passes, half), strict=True)
    charts = [
        Chart(figure=PipelineChart(some), title=f"{title}, {name} of the step")
        for name, some in parts
    ]
    note = (
        f"The step has {count:,} passes; the first and the last {half:,} are shown. --trace writes"
        " all of them."
    )
    return Section(title=title, blocks=[note, *charts])


def _operators(answer: Mapping[str, Any]) -> Section:
    """Return the operators and collectives that take most time on the busiest rank."""
    rows = sorted(answer["breakdown"], key=lambda row: -row["time_s"])[:MOST_ROWS]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "operator": itemgetter("name"),
        "part": itemgetter("phase"),
        "bound": lambda row: str(row["bound"]),
        "time": lambda row: format_value("time_s", row["time_s"]),
        "share": lambda row: share_text(row["share"]),
    }
    table = Table.of(rows, columns, ("operator", "part", "bound"))
    return Section(title="Longest operators on the busiest rank", blocks=[table])


RATE: Final = "tokens_per_s_per_gpu"
SHOWN: Final = ("step_time_s", RATE, "mfu")


def layouts_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return the best layouts of a training job as an HTML page."""
    rows = answer["results"]["layouts"]
    names = [layout_text(row) for row in rows]
    ends = [(row[f"{RATE}_low"], row[f"{RATE}_high"]) for row in rows]
    bars = [
        Bar(name, row[RATE], format_value(RATE, row[RATE]), interval=None if None in own else own)
        for name, row, own in zip(names, rows, ends, strict=True)
    ]
    cells = [
        [name, *(_cell(row, metric) for metric in SHOWN)]
        for name, row in zip(names, rows, strict=True)
    ]
    table = Table(head=("layout", *(label_of(one, short=True) for one in SHOWN)), rows=cells)
    axis = Axis(f"{label_of(RATE)}, with 90% intervals")
    best = Section.charted("Best layouts", BarChart(bars, axis), table)
    return results_page(answer, sections=[best] if rows else (), reproduce=reproduce)


def _cell(row: Mapping[str, Any], name: str) -> str:
    """Return a metric of a layout with its interval."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    shown = format_value(name, row[name])
    return shown if None in (low, high) else f"{shown} ({format_interval(name, low, high)})"

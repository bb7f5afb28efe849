"""Pages of `kernel`: one operator below the roofline; text and page of a kernel under design."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import resolve_system
from perfatlas.machines import device_peak
from perfatlas.quantities import counted
from perfatlas.report import charts, pages
from perfatlas.report.text import (
    label_of,
    print_closing,
    print_line,
    print_question,
    print_results,
    print_rows,
    share_text,
)
from perfatlas.scenario.resolution import format_of
from perfatlas.verbs.kernel.answer import kernel_columns
from perfatlas.verbs.kernel.metrics import TILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console


VALUES: Final = ("time_s", "limiting_unit", "flop_per_s", "power_w", "energy_j", "kernel_time_s")
SIZES: Final[Mapping[tuple[str, str | None], str]] = {  # what a curve varies, by operator and phase
    ("gemm", None): "m",
    ("attention", "prefill"): "kv_len",
    ("attention", "decode"): "batch",
    ("moe", None): "tokens",
    **{(name, None): "tokens" for name in ("norm", "softmax", "embedding", "elementwise")},
}
WORKS: Final = ("scores", "values", "softmax", "product", "sum")  # by color


def operator_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return an operator as an HTML page: below the ceilings of its device, and by its size."""
    scenario, results = answer["scenario"], answer["results"]
    operator = answer["command"].rpartition(" ")[2]
    size = SIZES[operator, scenario.get("phase") if operator == "attention" else None]
    asked = int(scenario[size])
    sizes = sorted({max(asked * 2**power // 2**8, 1) for power in range(17)})
    named = {name: value for name, value in scenario.items() if value is not None}
    table = {name: [value] * len(sizes) for name, value in named.items()} | {size: sizes}
    if operator == "attention" and scenario.get("q_len") == scenario["kv_len"] == asked:
        table["q_len"] = sizes
    found = kernel_columns(operator, table)
    rows = [
        {**row, size: one}
        for one, row in zip(sizes, _rows(found, len(sizes)), strict=True)
        if row["error_code"] is None
    ]
    device = resolve_system(scenario["system"]).device
    name = format_of(scenario.get("format") or "bf16").name
    peaks = {name: device_peak(device, name)}
    groups = {
        f"other {label_of(size)}": [
            _point(row, f"{row[size]:,}") for row in rows if row[size] != asked
        ]
    }
    groups["this operator"] = [_point(results, f"{operator}, {size} {asked:,}", ends=True)]
    chart = pages.roofline(groups, peaks, device.memory_bandwidth, "byte")
    axis = charts.Axis(label_of(size), log=True)
    times = [
        charts.Line.of(rows, size, "time_s", "time", charts.BLUE),
        charts.Line.of(rows, size, "bound_time_s", "roofline time", charts.GREY),
        charts.Line("this operator", [asked], [results["time_s"]], charts.RED, "mark"),
    ]
    return pages.results_page(
        answer,
        sections=[
            *([pages.Section.charted("Roofline", chart)] if results["flop"] else []),
            pages.Section.charted(
                f"Time by {size}", charts.LineChart(times, axis, charts.Axis("time", "s", log=True))
            ),
        ],
        reproduce=reproduce,
    )


def _rows(columns: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    return [{name: cells[row] for name, cells in columns.items()} for row in range(count)]


def _point(row: Mapping[str, Any], name: str, *, ends: bool = False) -> dict[str, Any]:
    """Return an operator as a point of a roofline."""
    kept = ("time_s", "flop", *(("time_s_low", "time_s_high") if ends else ()))
    moved = row["cold_bytes"] + row["activation_bytes"]
    return {"name": name, "memory_bytes": moved} | {name: row[name] for name in kept}


IN_ONE_LINE: Final = (
    *TILE.values(),
    "ctas_per_mma",
    "inner_dimension",
    "tiles",
    "tile_cycles",
    "iteration_cycles",
    "flop",
)
WHAT_IF_COLUMNS: Final[Mapping[str, Any]] = {
    "what if": "change",
    "time": "time_s",
    "speedup": lambda row: "" if row["speedup"] is None else f"{row['speedup']:.2f}x",
    "limiting unit": lambda row: row["limiting_unit"] or f"impossible: {row['reason']}",
}
WHAT_IF_TEXTS: Final = ("what if", "limiting unit")
CELLS: Final = 48  # of the line of a unit in the timeline
BUSY, IDLE = "#", "."


def print_design(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write a kernel under design to a console."""
    results = answer["results"]
    print_question(console, answer)
    hidden = {name for name, value in results.items() if isinstance(value, list)}
    hidden |= set() if verbose else set(IN_ONE_LINE)
    print_results(console, {name: results[name] for name in results if name not in hidden})
    console.print()
    print_line(console, _tile_text(results))
    busy = (f"{row['unit']} {share_text(row['share'])}" for row in results["units"])
    print_line(console, f"busy: {', '.join(busy)}")
    console.print()
    if verbose:
        _print_timeline(console, results)
    shown = [row for row in results["what_if"] if verbose or not row["reason"]]
    pages.print_blocks(console, [pages.Table.of(shown, WHAT_IF_COLUMNS, WHAT_IF_TEXTS)])
    impossible = [row["change"] for row in results["what_if"] if row["reason"]]
    if impossible and not verbose:
        print_line(console, f"impossible (--verbose says why): {', '.join(impossible)}")
    print_closing(
        console,
        answer,
        reproduce=reproduce,
        method="pipeline model: warpgroups as programs on the units of an SM",
        covered=answer["evidence"]["assumptions"][0],
        verbose=verbose,
    )


def _print_timeline(console: Console, results: Mapping[str, Any]) -> None:
    """Write a line per unit: when it works in one iteration of the main loop."""
    cycles, timeline = results["iteration_cycles"], results["timeline"]
    rows = []
    for unit in dict.fromkeys(row["unit"] for row in timeline):
        own = [(row["start_cycles"], row["end_cycles"]) for row in timeline if row["unit"] == unit]
        middles = ((cell + 0.5) * cycles / CELLS for cell in range(CELLS))
        line = (any(start <= at < end for start, end in own) for at in middles)
        rows.append(
            {
                "one iteration": unit,
                f"{cycles:,.0f} cycles": "".join(BUSY if works else IDLE for works in line),
                "busy": share_text(sum(end - start for start, end in own) / cycles),
            }
        )
    print_rows(console, rows)
    console.print()


def _tile_text(results: Mapping[str, Any]) -> str:
    """Return the tile in a line."""
    sizes = " x ".join(str(results[name]) for name in ("tile_m", "tile_n", "tile_k"))
    pair = ", 2-CTA MMA" if results["ctas_per_mma"] > 1 else ""
    schedule = results.get("inner_dimension", "whole")
    pair += "" if schedule == "whole" else f", {schedule}"
    what = "tile share" if schedule == "stream-K" else "tile"
    return (
        f"{counted(results['tiles'], what)} of {sizes}, {counted(results['stages'], 'stage')},"
        f" {counted(results['warpgroups'], 'warpgroup')}{pair}:"
        f" {results['tile_cycles']:,.0f} cycles each"
    )


def design_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return a kernel under design as an HTML page."""
    results = answer["results"]
    sizes = " x ".join(str(results[name]) for name in ("tile_m", "tile_n", "tile_k"))
    return pages.answer_page(
        answer,
        title=f"{answer['command']} on {answer['scenario']['system']}",
        subtitle=f"tile of {sizes}, {results['stages']} stages, {results['warpgroups']} warpgroups",
        values=pages.key_values(results, VALUES, short=True),
        sections=[_timeline(results), _units(results["units"]), _changes(results["what_if"])],
        reproduce=reproduce,
    )


def _timeline(results: Mapping[str, Any]) -> pages.Section:
    """Return when each unit works in one iteration, as bars of waiting and working."""
    rows = results["timeline"]
    units = list(dict.fromkeys(row["unit"] for row in rows))
    parts = []
    for at, unit in enumerate(units):
        end = 0.0
        own = (row for row in rows if row["unit"] == unit)
        for row in sorted(own, key=lambda row: float(row["start_cycles"])):
            group = "" if row["warpgroup"] is None else f", warpgroup {row['warpgroup']}"
            text = f"block {row['block']}{group}"
            colour = charts.COLOURS[WORKS.index(row["work"])]
            for name, cycles, shade in (
                ("waits", row["start_cycles"] - end, charts.CLEAR),
                (row["work"], row["end_cycles"] - row["start_cycles"], colour),
            ):
                values, texts = [0.0] * len(units), [""] * len(units)
                values[at], texts[at] = cycles, text
                parts.append(charts.BarPart(name, values, texts, shade))
            end = row["end_cycles"]
    chart = charts.StackedBars(units, parts, charts.Axis("cycles since the iteration began"))
    works = [work for work in WORKS if any(row["work"] == work for row in rows)]
    table = pages.Table(
        head=("work", "cycles of all units"),
        rows=[[work, f"{_cycles(rows, work):,.0f}"] for work in works],
        colours=[charts.COLOURS[WORKS.index(work)] for work in works],
    )
    return pages.Section.charted("One iteration of the main loop", chart, table)


def _cycles(rows: Sequence[Mapping[str, Any]], work: str) -> float:
    own = (row["end_cycles"] - row["start_cycles"] for row in rows if row["work"] == work)
    return float(sum(own))


def _units(rows: Sequence[Mapping[str, Any]]) -> pages.Section:
    columns = {
        "unit": lambda row: str(row["unit"]),
        "cycles of a tile": lambda row: f"{row['cycles']:,.0f}",
        "share of the time": lambda row: share_text(row["share"]),
    }
    return pages.Section(title="Units", blocks=[pages.Table.of(rows, columns, texts=("unit",))])


def _changes(rows: Sequence[Mapping[str, Any]]) -> pages.Section:
    bars = [
        charts.Bar(row["change"], row["speedup"], f"{row['speedup']:.2f}x")
        for row in rows
        if row["speedup"]
    ]
    table = pages.Table.of(rows, WHAT_IF_COLUMNS, WHAT_IF_TEXTS)
    return pages.Section.charted(
        "What if: speedup", charts.BarChart(bars, charts.Axis("speedup")), table
    )

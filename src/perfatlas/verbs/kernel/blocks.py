"""What `kernel` shows: an operator below the roofline and by its size, a kernel under design."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import resolve_system
from perfatlas.machines import device_peak
from perfatlas.quantities import counted
from perfatlas.report import charts, pages
from perfatlas.report.text import label_of, printed_results, share_text
from perfatlas.scenario.resolution import format_of, half_format
from perfatlas.verbs.kernel.answer import kernel_columns
from perfatlas.verbs.kernel.metrics import TILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VALUES: Final = ("time_s", "limiting_unit", "flop_per_s", "power_w", "energy_j", "kernel_time_s")
SIZES: Final[Mapping[tuple[str, str | None], str]] = {  # what a curve varies, by operator and phase
    ("gemm", None): "m",
    ("attention", "prefill"): "kv_len",
    ("attention", "decode"): "batch",
    ("moe", None): "tokens",
    **{(name, None): "tokens" for name in ("norm", "softmax", "embedding", "elementwise")},
    **{(name, None): "rows" for name in ("sort", "scan", "reduce", "histogram", "filter", "join")},
    ("group_by", None): "rows",
    ("spmv", None): "nonzeros",
    ("stencil", None): "width",
    ("fft", None): "batch",
    ("solve", None): "batch",
}
WORKS: Final = ("scores", "values", "softmax", "product", "sum")  # by color


def operator_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return an operator: on a page below the ceilings of its device, and by its size."""
    return pages.results_page(answer, on_page=lambda: _by_size(answer), reproduce=reproduce)


def _by_size(answer: Mapping[str, Any]) -> list[pages.Section]:
    scenario, results = answer["scenario"], answer["results"]
    operator = answer["command"].rpartition(" ")[2]
    size = SIZES[operator, scenario.get("phase") if operator == "attention" else None]
    asked = int(scenario[size])
    sizes = sorted({max(asked * 2**power // 2**8, 1) for power in range(17)})
    named = {name: value for name, value in scenario.items() if value is not None}
    table = {name: [value] * len(sizes) for name, value in named.items()} | {size: sizes}
    if operator == "attention" and scenario.get("q_len") == scenario["kv_len"] == asked:
        table["q_len"] = sizes
    found = {**kernel_columns(operator, table), size: sizes}
    cells = zip(*found.values(), strict=True)
    rows = [dict(zip(found, one, strict=True)) for one in cells]
    rows = [row for row in rows if row["error_code"] is None]
    device = resolve_system(scenario["system"]).device
    name = format_of(
        scenario.get("format") or half_format(scenario["system"]), arithmetic=True
    ).name
    groups = {
        f"other {label_of(size)}": [
            _point(row, f"{row[size]:,}") for row in rows if row[size] != asked
        ],
        "this operator": [_point(results, f"{operator}, {size} {asked:,}", ends=True)],
    }
    peaks = {name: device_peak(device, name)}
    roofline = pages.roofline(groups, peaks, device.memory_bandwidth, "byte")
    times = [
        charts.Line.of(rows, size, "time_s", "time", charts.BLUE),
        charts.Line.of(rows, size, "bound_time_s", "roofline time", charts.GREY),
        charts.Line("this operator", [asked], [results["time_s"]], charts.RED, "mark"),
    ]
    axes = charts.Axis(label_of(size), log=True), charts.Axis("time", "s", log=True)
    return [
        *([pages.Section.charted("Roofline", roofline)] if results["flop"] else []),
        pages.Section.charted(f"Time by {size}", charts.LineChart(times, *axes)),
    ]


def _point(row: Mapping[str, Any], name: str, *, ends: bool = False) -> dict[str, Any]:
    """Return an operator as a point of a roofline."""
    kept = ("time_s", "flop", *(("time_s_low", "time_s_high") if ends else ()))
    moved = row.get("input_output_bytes") or row["cold_bytes"] + row["activation_bytes"]
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


def design_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return a kernel under design: its tile, when its units work, and what changes do."""
    results = answer["results"]
    shown = {name: value for name, value in results.items() if not isinstance(value, list)}
    few = {name: value for name, value in shown.items() if name not in IN_ONE_LINE}
    values = pages.Values(all=printed_results(shown), brief=printed_results(few))
    busy = (f"{row['unit']} {share_text(row['share'])}" for row in results["units"])
    units = {
        "unit": lambda row: str(row["unit"]),
        "cycles of a tile": lambda row: f"{row['cycles']:,.0f}",
        "share of the time": lambda row: share_text(row["share"]),
    }
    return pages.answer_page(
        answer,
        [
            pages.Section(blocks=[values], on="terminal"),
            pages.Section(blocks=[f"busy: {', '.join(busy)}"], on="terminal"),
            *_timeline(results),
            pages.Section(
                title="Units",
                blocks=[pages.Table.of(results["units"], units, ("unit",))],
                on="page",
            ),
            *_changes(results["what_if"]),
        ],
        lines=[_tile_text(results)],
        values=pages.key_values(results, VALUES, short=True),
        reproduce=reproduce,
        method="pipeline model: warpgroups as programs on the units of an SM",
        covered=answer["evidence"]["assumptions"][0],
    )


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


def _timeline(results: Mapping[str, Any]) -> list[pages.Section]:
    """Return when each unit works in one iteration: as bars of a page, as a line of a terminal."""
    rows, length = results["timeline"], results["iteration_cycles"]
    units = list(dict.fromkeys(row["unit"] for row in rows))
    parts, lines = [], []
    for at, unit in enumerate(units):
        own = sorted(
            (row for row in rows if row["unit"] == unit), key=lambda row: float(row["start_cycles"])
        )
        middles = [(cell + 0.5) * length / CELLS for cell in range(CELLS)]
        works = (any(r["start_cycles"] <= t < r["end_cycles"] for r in own) for t in middles)
        busy = sum(row["end_cycles"] - row["start_cycles"] for row in own) / length
        lines.append([unit, "".join(".#"[one] for one in works), share_text(busy)])
        end = 0.0
        for row in own:
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
    spent = {
        work: sum(r["end_cycles"] - r["start_cycles"] for r in rows if r["work"] == work)
        for work in WORKS
        if any(row["work"] == work for row in rows)
    }
    table = pages.Table(
        head=("work", "cycles of all units"),
        rows=[[work, f"{cycles:,.0f}"] for work, cycles in spent.items()],
        colours=[charts.COLOURS[WORKS.index(work)] for work in spent],
    )
    head = ("one iteration", f"{length:,.0f} cycles", "busy")
    drawn = pages.Table(head=head, rows=lines, text_columns=(0, 1, 2))
    return [
        pages.Section(blocks=[drawn], on="terminal", is_detail=True),
        pages.Section.charted("One iteration of the main loop", chart, table, on="page"),
    ]


def _changes(rows: Sequence[Mapping[str, Any]]) -> list[pages.Section]:
    """Return what changes do; a brief text only names those that are impossible."""
    bars = [
        charts.Bar(row["change"], row["speedup"], f"{row['speedup']:.2f}x")
        for row in rows
        if row["speedup"]
    ]
    chart = charts.BarChart(bars, charts.Axis("speedup"))
    table, possible = (
        pages.Table.of(some, WHAT_IF_COLUMNS, WHAT_IF_TEXTS)
        for some in (rows, [row for row in rows if not row["reason"]])
    )
    title = "What if: speedup"
    impossible = ", ".join(row["change"] for row in rows if row["reason"])
    on_page = pages.Section.charted(title, chart, table, on="page")
    if not impossible:
        return [on_page, pages.Section(blocks=[table], on="terminal")]
    note = f"impossible (--verbose says why): {impossible}"
    return [
        on_page,
        pages.Section(blocks=[table], on="terminal", is_detail=True),
        pages.Section(blocks=[possible, note], on="brief"),
    ]

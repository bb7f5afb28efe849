"""Text of a training step: results, waterfall and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import verb_fields, without_defaults
from perfatlas.quantities import counted
from perfatlas.report.text import (
    format_number,
    format_share,
    format_value,
    interval_text,
    label_of,
    memory_bar,
    print_closing,
    print_heading,
    print_labelled,
    print_line,
    print_plain,
    print_waterfall,
    reproduce_line,
    speaks_unicode,
)
from perfatlas.studies import rejected_text
from perfatlas.verbs.train.metrics import ENERGY, PARTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table


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
MOST_PARTS: Final = 6
KERNELS: Final = 4
WIDEST: Final = 80  # of the memory bar


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
    names = [name for name in FIRST if name in results]
    names += ["hfu"] if verbose or results["hfu"] != results["mfu"] else []
    names += [name for name in POWER if results.get(name) is not None]
    names += [name for name in CHECKPOINT if name in results]
    rows = []
    for name in names:
        interval = interval_text(results, name)
        value = format_value(name, results[name])
        label = label_of(name, item=results.get("item", ""))
        rows.append((label, f"{value}  ({interval})" if interval else value))
    print_labelled(console, rows)
    print_heading(console, "where the time goes")
    total = results["step_time_s"]
    parts = [{"name": k, "share": v / total} for k, v in results["waterfall"].items()]
    shown = [row for row in parts if row["share"] > 0 or row["name"] == "compute"]
    print_waterfall(console, shown, PARTS, most=None if verbose else MOST_PARTS)
    if verbose and results["energy_parts"] is not None:
        print_heading(console, "where the energy goes")
        total_j = results["energy_per_step_j"]
        energy = [{"name": k, "share": v / total_j} for k, v in results["energy_parts"].items()]
        print_waterfall(console, [row for row in energy if row["share"] > 0.0], ENERGY, most=None)
    _print_kernels(console, answer, most=None if verbose else KERNELS)
    _print_memory(console, results["memory"])
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


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
        *([] if item else [f"recompute {scenario['recompute']}"]),
        scenario["optimizer"],
    ]
    return ", ".join(words)


def _print_kernels(console: Console, answer: Mapping[str, Any], *, most: int | None) -> None:
    """Write the kernels and collectives that take most time."""
    rows = [row for row in answer["breakdown"] if row["phase"] != "step"]
    longest = sorted(rows, key=lambda row: -row["time_s"])[:most]
    print_heading(console, "longest operators on the busiest rank")
    print_labelled(
        console,
        [
            (
                f"{row['name']}, {row['phase']}",
                f"{format_value('time_s', row['time_s'])}, {row['share']:.1%}, {row['bound']}",
            )
            for row in longest
        ],
    )


def _print_memory(console: Console, memory: Mapping[str, Any]) -> None:
    console.print()
    total = format_value("memory.total_bytes", memory["total_bytes"])
    capacity = format_value("memory.capacity_bytes", memory["capacity_bytes"])
    print_line(console, f"memory of the fullest GPU: {total} of {capacity}", style="bold")
    width = min(console.width, WIDEST)
    print_plain(console, memory_bar(memory, width=width, unicode=speaks_unicode(console)))


SHORT_NAMES: Final = {"expert_tp": "etp"}
MOST_RULES: Final = 3
OF_EXPERTS: Final = ("ep", "expert_tp", "expert_overlap")


def print_layouts(
    console: Console,
    answer: Mapping[str, Any],
    *,
    reproduce: str,
    rate_per_cpu_s: float | None = None,
) -> None:
    """Write the layouts, why the first is best, and the common end of answers.

    Args:
        rate_per_cpu_s: Legal layouts per CPU-second, to print with all rules and all evidence; None
            for the brief text.
    """
    scenario, results = answer["scenario"], answer["results"]
    verbose = rate_per_cpu_s is not None
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
    several = len({one["gpus"] for one in layouts}) > 1 or scenario.get("max_gpus") is not None
    print_plain(console, _table(layouts, gpus=several))
    console.print()
    print_line(console, f"why the first: {_why(layouts)}")
    print_line(console, counts_line(results, rate_per_cpu_s))
    print_line(console, f"its step: {train_command(scenario, layouts[0])}")
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


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
    told = ", ".join(f"{labels[name]} {format_share(lost[name])}" for name in largest if lost[name])
    own = f"it loses {told}" if told else "it loses nothing"
    return f"{own}; {first['why']}" if first["why"] else f"{own}; no layout of other sizes fits"


def counts_line(results: Mapping[str, Any], rate_per_cpu_s: float | None = None) -> str:
    """Return the numbers of layouts that were priced, excluded and rejected, in a line.

    Args:
        rate_per_cpu_s: Legal layouts per CPU-second, told with all rules; None for the brief line.
    """
    labels = METRICS["rejected_layouts"].parts
    most = MOST_RULES if rate_per_cpu_s is None else None
    words = rejected_text(results["rejected_layouts"], labels, most)
    speed = f" ({format_number(rate_per_cpu_s)} per CPU-second)" if rate_per_cpu_s else ""
    refused = f"; rejected: {words}" if words else ""
    return (
        f"{results['legal_layouts']:,} legal layouts{speed}: {results['priced_layouts']:,} priced,"
        f" {results['excluded_layouts']:,} excluded by a lower bound of the objective{refused}"
    )


def _table(layouts: Sequence[Mapping[str, Any]], *, gpus: bool) -> Table:
    """Return the layouts as a table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("layout", header_style="dim")
    joined = "effective_step_time_s" in layouts[0]
    columns = [  # title, metric, and its name in a layout
        *([("GPUs", "gpus", "gpus")] if gpus else []),
        ("step time", "step_time_s", "step_time_s"),
        *([] if joined else [("tokens/s\n/GPU", *["tokens_per_s_per_gpu"] * 2)]),
        ("MFU", "mfu", "mfu"),
        ("90%", "mfu", ""),
        *(
            (title, f"layouts.{name}", name)
            for title, name in (("goodput", "goodput"), ("effective", "effective_step_time_s"))
            if joined
        ),
        ("memory", "memory.total_bytes", "memory_total_bytes"),
    ]
    for title, _, _ in columns:
        table.add_column(title, justify="right", header_style="dim")
    for one in layouts:
        cells = (
            format_value(metric, one[name]) if name else interval_text(one, metric) or ""
            for _, metric, name in columns
        )
        table.add_row(layout_text(one), *cells)
    return table


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
        >>> from perfatlas.verbs.train.text import layout_text
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

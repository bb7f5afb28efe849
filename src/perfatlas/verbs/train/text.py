"""Text of a training step: results, waterfall and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text import (
    format_value,
    interval_text,
    memory_bar,
    print_closing,
    print_heading,
    print_labelled,
    print_line,
    print_plain,
    print_waterfall,
    speaks_unicode,
)
from perfatlas.verbs.train.metrics import ENERGY, PARTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

CHECKPOINT: Final = ("checkpoint_stall_s", "checkpoint_save_s", "checkpoint_read_s")
POWER: Final = (
    *("power_w", "energy_per_token_j", "facility_power_w"),
    *("electricity_usd_per_hour", "electricity_usd_per_million_tokens"),
    *("usd_per_million_tokens", "gco2_per_million_tokens"),
)
FIRST: Final = ("step_time_s", "tokens_per_s_per_gpu", "mfu")
SIZES: Final = ("tp", "pp", "vpp", "cp", "dp", "ep", "expert_tp")
MOST_PARTS: Final = 6
KERNELS: Final = 4
WIDEST: Final = 80  # of the memory bar


def print_training(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write a training step to a console.

    Args:
        verbose: Whether to print all parts, kernels and evidence.
    """
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
    names = [*FIRST, "hfu"] if verbose or results["hfu"] != results["mfu"] else [*FIRST]
    names += [name for name in POWER if results.get(name) is not None]
    names += [name for name in CHECKPOINT if name in results]
    rows = []
    for name in names:
        interval = interval_text(results, name)
        value = format_value(name, results[name])
        rows.append((METRICS[name].label, f"{value}  ({interval})" if interval else value))
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
    batches = results["micro_batches"]
    return (
        f"{counted(scenario['global_batch'], 'sequence')} of {scenario['sequence_length']:,}"
        " tokens,"
        f" {batches:,} micro-batch{'es' if batches != 1 else ''} of {scenario['micro_batch']},"
        f" {scenario['format']}, recompute {scenario['recompute']}, {scenario['optimizer']}"
    )


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

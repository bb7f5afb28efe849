"""An answer as text: results, bottlenecks, GPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text import latencies
from perfatlas.report.text.breakdown import (
    BOUND_STYLES,
    break_name,
    far_from_roofline,
    hidden_summary,
    phase_table,
    phase_title,
    phases_of,
)
from perfatlas.report.text.latencies import kinds_of, print_kinds
from perfatlas.report.text.quantities import MISSING, format_share, format_value
from perfatlas.report.text.results import limits_of, print_results
from perfatlas.report.text.terminal import print_line, print_plain, speaks_unicode
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    Row = Mapping[str, Any]
    from collections.abc import Mapping

    from rich.text import Text

WIDEST_BAR: Final = 100  # columns
FREE: Final = "free_bytes"  # the remainder; not a metric
# key, block character, ASCII character, colour; an answer has some of them
PARTS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("weights_bytes", "█", "W", "blue"),
    ("gradients_bytes", "▞", "G", "cyan"),
    ("optimizer_bytes", "▚", "S", "red"),
    ("kv_bytes", "▓", "K", "green"),
    ("activation_bytes", "▒", "A", "yellow"),
    ("other_bytes", "░", "O", "magenta"),
    (FREE, "·", ".", "dim"),
)


def share_cells(amounts: Sequence[float], cells: int) -> list[int]:
    """Return whole cells per amount that sum to `cells`; non-zero amounts get at least one.

    Example:
        >>> from perfatlas.report.text.answer import share_cells
        >>> share_cells([70.0, 29.9, 0.1], 10)
        [7, 2, 1]
    """
    total = sum(amounts)
    exact = [cells * amount / total for amount in amounts]
    shared = [max(int(part), 1 if part > 0 else 0) for part in exact]
    while sum(shared) != cells:
        step = 1 if sum(shared) < cells else -1
        errors = [step * (part - have) for part, have in zip(exact, shared, strict=True)]
        movable = [i for i, have in enumerate(shared) if exact[i] > 0 and have + step >= 1]
        shared[max(movable, key=errors.__getitem__)] += step
    return shared


def memory_bar(memory: Mapping[str, Any], *, width: int, unicode: bool) -> Text:
    """Return the bar and its legend.

    Args:
        memory: The `memory` object of an answer: some of the keys of `PARTS`, and capacity_bytes.
        unicode: Whether to use block characters instead of letters.
    """
    from rich.text import Text

    parts = [part for part in PARTS if part[0] in memory or part[0] == FREE]
    amounts = [float(memory.get(key) or 0.0) for key, *_ in parts[:-1]]
    capacity = float(memory.get("capacity_bytes") or 0.0)
    amounts.append(max(0.0, capacity - sum(amounts)))
    text = Text()
    if sum(amounts) > 0:
        cells = share_cells(amounts, max(width - 4, len(parts)))
        text.append("  [")
        for (_, block, letter, style), count in zip(parts, cells, strict=True):
            text.append((block if unicode else letter) * count, style=style)
        text.append("]\n")
    text.append_text(_legend(parts, amounts, width=width, unicode=unicode))
    return text


def _legend(
    parts: Sequence[tuple[str, str, str, str]],
    amounts: Sequence[float],
    *,
    width: int,
    unicode: bool,
) -> Text:
    from rich.text import Text

    text, column = Text("  "), 2
    for (key, block, letter, style), amount in zip(parts, amounts, strict=True):
        name = "free" if key == FREE else METRICS[f"memory.{key}"].label
        words = f" {name} {format_value(key, amount)}"
        if column + len(words) + 1 > width:
            text.append("\n  ")
            column = 2
        text.append(block if unicode else letter, style=style)
        text.append(words)
        text.append("   ")
        column += len(words) + 4
    text.rstrip()
    return text


def print_memory_bar(console: Console, memory: Mapping[str, Any], *, verbose: bool = False) -> None:
    """Write the memory use of a GPU as a bar, the same in a brief and a verbose text."""
    del verbose
    width = min(console.width, WIDEST_BAR)
    print_plain(console, memory_bar(memory, width=width, unicode=speaks_unicode(console)))


def memory_verdict(memory: Mapping[str, Any]) -> str:
    """Return one line: memory in use, and whether it fits or by how much it does not.

    Example:
        >>> from perfatlas.report.text.answer import memory_verdict
        >>> memory_verdict({"total_bytes": 9e10, "capacity_bytes": 8e10, "fits": False})
        '90.0 GB of 80.0 GB: DOES NOT FIT, 10.0 GB too much'
    """
    total, capacity = memory.get("total_bytes"), memory.get("capacity_bytes")
    used = f"{format_value('b_bytes', total)} of {format_value('b_bytes', capacity)}"
    if memory.get("fits") is False and total is not None and capacity is not None:
        return f"{used}: DOES NOT FIT, {format_value('b_bytes', total - capacity)} too much"
    tokens = memory.get("kv_capacity_tokens")
    cache = "" if tokens is None else f"; KV cache capacity {tokens:,.0f} tokens"
    return f"{used}: fits{cache}"


MAX_OPERATORS: Final = 5
MAX_PHASES: Final = 4
SIDE_BY_SIDE: Final = 2  # phases
MIN_WIDTH: Final = 78  # columns of two phases side by side
NAME_WIDTH: Final = 28


def print_bottlenecks(
    console: Console, breakdown: Sequence[Row], *, most: int = MAX_OPERATORS
) -> None:
    """Write the bounds of each step, then its slowest operators; the others share one row.

    Args:
        most: Number of operators with their own row; 0 for steps only.
    """
    phases = phases_of(breakdown)
    for phase, rows in list(phases.items())[:MAX_PHASES]:
        print_line(console, phase_title(phase, rows, width=console.width), style="bold")
        if hidden := hidden_summary(rows):
            print_line(console, f"  {hidden}")
        if most and (len(phases) == 1 or console.width < MIN_WIDTH):
            print_plain(console, phase_table(rows, width=console.width, max_rows=most))
    if most and len(phases) == SIDE_BY_SIDE and console.width >= MIN_WIDTH:
        print_plain(console, _both(phases, most))
    if far := far_from_roofline(phases):
        print_line(console, far)


def slowest(phases: Mapping[str, Sequence[Row]], most: int) -> list[str]:
    """Return the operators with the largest share of any phase, largest first.

    Args:
        most: Maximum number, or one more if only one would remain.

    Example:
        >>> from perfatlas.report.text.answer import slowest
        >>> rows = [{"name": "attention", "share": 0.7}, {"name": "norm", "share": 0.3}]
        >>> slowest({"prefill": rows[1:], "decode": rows}, 5)
        ['attention', 'norm']
    """
    shares: dict[str, float] = {}
    for rows in phases.values():
        for row in rows:
            name = str(row.get("name", MISSING))
            shares[name] = max(shares.get(name, 0.0), float(row.get("share") or 0.0))
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    return ranked if len(ranked) == most + 1 else ranked[:most]


def _both(phases: Mapping[str, Sequence[Row]], most: int) -> Table:
    """Return a table of the slowest operators in two phases side by side."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("  operator", no_wrap=True, header_style="dim")
    for phase in phases:
        table.add_column(phase, justify="right", no_wrap=True, header_style="dim")
        table.add_column("share", justify="right", no_wrap=True, header_style="dim")
        table.add_column("bound", no_wrap=True, header_style="dim")
    names = slowest(phases, most)
    for name in names:
        cells = [cell for rows in phases.values() for cell in _cells(_named(rows, name))]
        table.add_row(break_name(name, NAME_WIDTH), *cells)
    rest = {
        phase: [r for r in rows if r.get("name") not in names] for phase, rows in phases.items()
    }
    count = len({row.get("name") for rows in rest.values() for row in rows})
    if count:
        cells = [cell for rows in rest.values() for cell in _sums(rows)]
        table.add_row(f"  {count} others", *cells)
    return table


def _named(rows: Sequence[Row], name: str) -> Row:
    return next((row for row in rows if row.get("name") == name), {})


def _cells(row: Row) -> list[Any]:
    from rich.text import Text

    if not row:
        return [MISSING, "", ""]
    bound = str(row.get("bound") or MISSING)
    time = format_value("time_s", row.get("time_s"))
    share = format_share(float(row.get("share") or 0.0))
    return [time, share, Text(bound, style=BOUND_STYLES.get(bound, ""))]


def _sums(rows: Sequence[Row]) -> list[str]:
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    share = sum(float(row.get("share") or 0.0) for row in rows)
    return [format_value("time_s", time_s), format_share(share), ""] if rows else ["", "", ""]


MIN_OPERATORS: Final = 2  # beside warnings of many lines
FEW_ROWS: Final = 1  # a breakdown of one operator repeats the results


def print_body(console: Console, answer: Mapping[str, Any], *, verbose: bool = False) -> None:
    """Write the numbers of an answer, its memory and its breakdown.

    Example:
        >>> import sys
        >>> from perfatlas.report.text import open_terminal, print_body
        >>> results = {"time_s": 0.012, "time_s_low": 0.01, "time_s_high": 0.015}
        >>> print_body(open_terminal(sys.stdout, width=80), {"results": results})
                           90% interval
          time   12.0 ms   10.0 - 15.0 ms
    """
    (_print_all if verbose else _print_brief)(console, answer)


def _print_all(console: Console, answer: Mapping[str, Any]) -> None:
    results = answer.get("results") or {}
    limits = limits_of(results, tier=str((answer.get("evidence") or {}).get("tier") or ""))
    latencies.print_distributions(console, results, limits=limits)
    if "tail_ttft_s" in results:
        latencies.print_tail(console, results)
    print_results(console, results, limits=limits)
    print_kinds(console, results)
    for name, memory in _memories(results).items():
        console.print()
        _print_memory(console, name, memory)
    breakdown = answer.get("breakdown") or []
    if len(breakdown) <= FEW_ROWS:
        return
    for phase, rows in phases_of(breakdown).items():
        console.print()
        print_line(console, phase_title(phase, rows, width=console.width), style="bold")
        if hidden := hidden_summary(rows):
            print_line(console, f"  {hidden}")
        print_plain(console, phase_table(rows, width=console.width))


def _print_brief(console: Console, answer: Mapping[str, Any]) -> None:
    results = answer.get("results") or {}
    limits = limits_of(results, tier=str((answer.get("evidence") or {}).get("tier") or ""))
    breakdown = answer.get("breakdown") or []
    kinds = kinds_of(results)  # their table shows the bottlenecks
    simulated = "tail_ttft_s" in results  # tail latency matters more than operators
    latencies.print_distributions(console, results, limits=limits, brief=True)
    if latencies.is_printed(results):
        latencies.print_tail(console, results, brief=True)
    if line := latencies.stability_line(results, limits):
        print_line(console, line)
    print_results(console, results, limits=limits, brief=True)
    if kinds:
        print_kinds(console, results, breakdown=breakdown, brief=True)
    memories = _memories(results)
    if memories or (len(breakdown) > FEW_ROWS and not kinds):
        console.print()
    if len(memories) > 1 and all(memory.get("fits") for memory in memories.values()):
        for line in _pools_memory(memories):
            print_line(console, line)
    else:
        for name, memory in memories.items():
            _print_memory(console, name, memory, brief=memory.get("fits") is not False)
    if len(breakdown) > FEW_ROWS and not kinds:
        lines = len(memories) - 1  # the plan of each pool has a line
        lines += sum(-(-len(str(text)) // console.width) for text in answer.get("warnings") or ())
        most = 0 if simulated else max(MAX_OPERATORS - lines, MIN_OPERATORS)
        print_bottlenecks(console, breakdown, most=most)


def _pools_memory(memories: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line of GPU memory use for pools that fit, and one of their second memories."""
    rest = "attention" if "feed_forward_memory" in memories else "decode"
    names = {name: name.removesuffix("memory").strip("_").replace("_", "-") for name in memories}
    ordered = sorted(memories.items(), reverse=True)
    pools = [
        f"{names[name] or rest} {format_value('b_bytes', memory['total_bytes'])}"
        f" of {format_value('b_bytes', memory['capacity_bytes'])}"
        for name, memory in ordered
    ]
    seconds = [(names[name] or rest, _second_memory(memory)) for name, memory in ordered]
    parts = ", ".join(f"{name} {amounts}" for name, amounts in seconds if amounts)
    second = [f"second memory per GPU: {parts}"] if parts else []
    return [f"memory per GPU: {', '.join(pools)}: fits", *second]


def _second_memory(memory: Mapping[str, Any]) -> str:
    """Return what a second memory holds of its capacity, "" if nothing is offloaded."""
    held = sum(memory.get(name) or 0.0 for name in ("second_weights_bytes", "second_kv_bytes"))
    if not held:
        return ""
    return " of ".join(
        format_value("b_bytes", amount) for amount in (held, memory["second_capacity_bytes"])
    )


def _memories(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        name: value
        for name, value in results.items()
        if isinstance(value, dict) and "capacity_bytes" in value
    }


def _print_memory(
    console: Console, name: str, memory: Mapping[str, Any], *, brief: bool = False
) -> None:
    from rich.text import Text

    fits = memory.get("fits") is not False
    title = Text(f"{name.replace('_', ' ')} per GPU: ", style="bold")
    print_plain(console, title.append(memory_verdict(memory), style="" if fits else "bold red"))
    if second := _second_memory(memory):
        print_plain(console, f"second memory per GPU: {second}")
    if brief:
        return
    print_memory_bar(console, memory)

"""Text of a comparison: results side by side, and the operators that make the difference."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text import (
    format_value,
    interval_text,
    item_of,
    label_of,
    limited_text,
    limits_of,
    print_closing,
    print_line,
    print_plain,
    ratio_text,
    share_text,
)
from perfatlas.verbs.compare.metrics import ACCURACY, CARBON, FACILITY, PASSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

SHOWN: Final = ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu", "energy_per_output_token_j")
MOST_OPERATORS: Final = 3
LIMITS: Final = "  ≥ at least, ≤ at most: at the roofline, as kernels are not measured"
SOLVED: Final = "equal="  # an override whose solved value the label does not show
LABEL_WIDTH: Final = 18
BREAK: Final = re.compile(r"(?=\{)|(?<=,)")
MOST_SCENARIOS: Final = 8  # whose differences a brief answer shows


def print_comparison(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write a comparison."""
    results = answer["results"]
    rows = results["rows"]
    scenarios = answer["scenario"]["scenarios"]
    models = dict.fromkeys(str(one.get("model")) for one in scenarios)
    named = all(str(one.get("model")).partition("{")[0] in one["label"] for one in scenarios)
    about = "" if named else f"{', '.join(models)}: "
    print_line(console, f"{about}{rows[0]['label']} compared with others", style="bold")
    for one in scenarios:
        if SOLVED in one["label"]:
            print_line(console, f"{one['label']} is {one['model']}")
    console.print()
    _print_results(console, rows, PASSES if "latency_s" in rows[0] else SHOWN)
    for names in (FACILITY, CARBON, ACCURACY):
        if any(rows[0].get(name) is not None for name in names):
            console.print()
            _print_results(console, rows, names)
    if any(row.get("tier_note") for row in rows):
        print_line(console, LIMITS)
    console.print()
    others = rows[1:] if verbose else rows[1 : MOST_SCENARIOS + 1]
    most = len(results["differences"]) if verbose else MOST_OPERATORS
    for row in others:
        if row["error"] is not None:
            print_line(console, f"{row['label']}: {row['error']}")
            continue
        for line in _difference_lines(row, results["differences"], most):
            print_line(console, line)
    if len(others) < len(rows) - 1:
        print_line(console, f"--verbose shows {len(rows) - 1 - len(others)} more", style="dim")
    if "decisions" in results:
        _print_decisions(console, results, verbose=verbose)
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def _print_decisions(console: Console, results: Mapping[str, Any], *, verbose: bool) -> None:
    """Write the measurements that would most change which design is faster."""
    difference_s, deviation_s = (
        results[name] for name in ("steps_difference_s", "steps_difference_deviation_s")
    )
    faster = results["rows"][0 if difference_s > 0.0 else 1]["label"]
    size, deviation = (format_value("time_s", one) for one in (abs(difference_s), deviation_s))
    console.print()
    print_line(
        console,
        f"steps of a request: {faster} is faster by {size}, standard deviation {deviation};"
        " measurements that would most reduce it:",
    )
    for number, row in enumerate(results["decisions"], 1):
        time = f"{format_value('time_s', row['time_s'])} ({interval_text(row, 'time_s')})"
        share = share_text(row["variance_share"])
        print_line(
            console,
            f"{number}. {row['case']} on {row['system']}: {time}, {share} of variance"
            f"{_operators_text(row, verbose=verbose)}",
        )


def _operators_text(row: Mapping[str, Any], *, verbose: bool) -> str:
    """Return the operators that a kernel is, and why it is not measured."""
    texts = ([row["operators"]] if verbose else []) + ([row["reason"]] if row["reason"] else [])
    return "".join(f"; {text}" for text in texts)


def _print_results(
    console: Console, rows: Sequence[Mapping[str, Any]], shown: Sequence[str]
) -> None:
    """Write a row per scenario, each value with its ratio to the base."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("  scenario", header_style="dim", overflow="fold")
    names = [name for name in shown if rows[0].get(name) is not None]
    for name in names:
        title = label_of(name, short=True, item=item_of(rows))
        table.add_column(title, header_style="dim", justify="right", no_wrap=True)
    base = limits_of(rows[0], tier=rows[0]["tier"])
    for row in rows:
        limits = limits_of(row, tier=row.get("tier") or "")
        cells = [_broken(row["label"])]
        for name in names:
            value, limit = row.get(name), limits.get(name, "")
            text = "-" if value is None else limited_text(format_value(name, value), limit)
            if value is not None and row is not rows[0] and name not in ACCURACY:
                ratio = ratio_text(value, rows[0][name], limit=limit, base_limit=base.get(name, ""))
                text += f" {ratio}"
            cells.append(text)
        table.add_row(*cells)
    print_plain(console, table)


def _broken(label: str) -> str:
    """Return an indented label; one with overrides is broken before braces and after commas."""
    lines: list[str] = []
    for part in BREAK.split(label) if "{" in label else [label]:
        name, equals, value = part.strip().partition("=")
        whole = len(part) <= LABEL_WIDTH or not equals
        lines += [part.strip()] if whole else [name + equals, value]
    return "  " + "\n    ".join(lines)


def _difference_lines(
    compared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], most: int
) -> list[str]:
    """Return a line per phase: the step in both, and the operators that differ most."""
    lines, label = [], compared["label"]
    note = f" ({compared['tier_note']})" if compared["tier_note"] else ""
    for phase in dict.fromkeys(row["phase"] for row in rows):
        own = [row for row in rows if (row["label"], row["phase"]) == (label, phase)]
        if not own:
            continue
        before, after = (sum(row[key] for row in own) for key in ("base_time_s", "time_s"))
        parts = "; ".join(_operator_text(row) for row in own[:most] if row["difference_s"])
        change = f"{format_value('time_s', before)} -> {format_value('time_s', after)}"
        work = phase if phase in ("prefill", "pass") else f"{phase} step"
        lines.append(f"{label}, {work} {change}{note}: {parts or 'the same'}")
    return lines


def _operator_text(row: Mapping[str, Any]) -> str:
    sign = "-" if row["difference_s"] < 0 else "+"
    bounds = dict.fromkeys(one for one in (row["base_bound"], row["bound"]) if one)
    size = format_value("time_s", abs(row["difference_s"]))
    return f"{row['name']} {sign}{size} ({' -> '.join(bounds)})"

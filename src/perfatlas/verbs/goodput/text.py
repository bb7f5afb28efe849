"""Goodput for people: the share of useful time, where the rest goes, what would change it."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted, format_quantity
from perfatlas.report.text import (
    METHODS,
    SHORT,
    format_number,
    format_value,
    print_closing,
    print_line,
    print_plain,
    print_rows,
    print_waterfall,
    share_text,
    time_text,
)
from perfatlas.vocabulary.metrics import HIGH, LOW, METRICS, find_metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    Answered = Mapping[str, Any]

BUCKETS: Final = {
    "productive": "useful work",
    "checkpoint": "writing checkpoints",
    "lost_work": "work lost and redone",
    "detection": "noticing failures",
    "restart": "restarting",
    "waiting_for_spares": "waiting for nodes",
    "degraded": "running slower",
    "maintenance": "maintenance",
    "idle": "idle",
    "persistent": "waiting for GPUs always slow",
    "transient": "waiting for GPUs slow at times",
}
FACTORS: Final = METRICS["factors"].parts
UNSAID: Final = ("half_width", "seed", "what_if", "more_spares", "verify_s")  # of a headline
INDENT: Final = 2
# fields that are shares, and results that are said elsewhere or are fields
SHARES: Final = ("target", "mfu", "scheduling", "persistent_cv", "transient_cv")
HIDDEN: Final = ("gpus", "duration_s", "finish_by_s", "unfinished")


def value_text(name: str, value: Any) -> str:  # noqa: ANN401 - a field or result of any kind
    """Return a field or a result of goodput as people read it.

    Args:
        name: Its key.
        value: A number, text or None.

    Example:
        >>> from perfatlas.verbs.goodput.text import value_text
        >>> value_text("mtti_s", 7200.0), value_text("usd_per_gpu_hour", 2.5)
        ('2 h', '$2.50')
    """
    if find_metric(name) is not None or not isinstance(value, int | float):
        return format_value(name, value)
    if "bytes" in name.split("_"):
        return format_quantity(value, "B/s" if name.endswith("_per_s") else "B", exact=False)
    if name in SHARES or name.endswith("_s"):
        return (share_text if name in SHARES else time_text)(value)
    if "usd" in name.split("_"):
        return f"${value:,.2f}" if abs(value) < 1000 else f"${value:,.0f}"
    return format_number(value)


def print_goodput(console: Console, answer: Answered, *, reproduce: str) -> None:
    """Write an answer of `goodput` or `goodput spares` to a console.

    Args:
        console: From `open_terminal`.
        answer: The `--json` object.
        reproduce: The command line that gives it again.
    """
    print_line(console, goodput_headline(answer), style="bold")
    console.print()
    results = answer["results"]
    _print_results(console, results)
    if answer["breakdown"]:
        console.print()
        print_line(console, "where the time goes", style="bold")
        print_waterfall(console, answer["breakdown"], BUCKETS)
    if factors := results.get("factors"):
        _print_factors(console, factors)
    if changes := results.get("changes"):
        _print_changes(console, changes)
    if choices := results.get("choices"):
        _print_choices(console, choices)
    print_closing(console, answer, reproduce=reproduce, method=METHODS[answer["evidence"]["tier"]])


def goodput_headline(answer: Answered) -> str:
    """Return what was asked, in a line.

    Args:
        answer: The `--json` object.

    Example:
        >>> from perfatlas.verbs.goodput.text import goodput_headline
        >>> goodput_headline({"command": "goodput", "scenario": {"gpus": 16, "mtti_s": 7200.0,
        ...     "checkpoint_write_s": 60.0, "restart_s": 300.0}})
        'goodput of 16 GPUs: MTTI 2 h, checkpoint write 60 s, restart 5 min'
    """
    scenario = dict(answer["scenario"])
    gpus = scenario.pop("gpus", None)
    words = [
        _said(name, value)
        for name, value in scenario.items()
        if value is not False and name not in UNSAID
    ]
    of = f" of {counted(gpus, 'GPU')}" if isinstance(gpus, int) else ""
    return f"{answer['command']}{of}: {', '.join(words)}"


def _said(name: str, value: Any) -> str:  # noqa: ANN401 - a field of any kind
    """Return a field and its value as people say them."""
    if name == "usd_per_gpu_hour":
        return f"{value_text(name, value)} a GPU-hour"
    words = [SHORT.get(word, word) for word in _unit_left_out(name).split("_")]
    return " ".join([*words, *([] if value is True else [value_text(name, value)])])


def _unit_left_out(name: str) -> str:
    """Return a field without the unit that its value is shown with."""
    return name.removesuffix("_bytes_per_s" if name.endswith("_bytes_per_s") else "_s")


def result_lines(results: Answered) -> list[tuple[str, str, str]]:
    """Return (label, value, interval) of every result that is one number.

    Args:
        results: The `results` of an answer.
    """
    lines = []
    for name, value in results.items():
        metric = METRICS.get(name)
        if metric is None or metric.holds not in ("number", "count") or name in HIDDEN:
            continue
        if value is None:
            continue
        if name == "optimal_checkpoint_interval_s" and value == results["checkpoint_interval_s"]:
            continue
        label = metric.label
        if name == "interruptions":
            label += f" in {time_text(results['duration_s'])}"
        if name == "late_probability":
            label += f" of {time_text(results['finish_by_s'])}"
        if name == "checkpoint_interval_s" and value == results["optimal_checkpoint_interval_s"]:
            label = METRICS["optimal_checkpoint_interval_s"].label
        spread = isinstance(value, dict) and value["p5"] < value["p95"]
        shown = value_text(name, value["mean"] if isinstance(value, dict) else value)
        lines.append(
            (f"{label}, 90 % of runs" if spread else label, shown, _interval(results, name))
        )
    return lines


def _interval(results: Answered, name: str) -> str:
    """Return the interval of a result, or between which 90 % of runs are, "" where none is."""
    value = results[name]
    low, high = (results.get(f"{name}{end}") for end in (LOW, HIGH))
    if isinstance(value, dict) and value["p5"] < value["p95"]:
        low, high = value["p5"], value["p95"]
    if low is None or high is None:
        return ""
    return _ends(value_text(name, low), value_text(name, high))


def _ends(low: str, high: str) -> str:
    """Return both ends, the unit once where they share it."""
    (number, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{number} - {high}" if unit == other else f"{low} - {high}"


def _print_results(console: Console, results: Answered) -> None:
    from rich.text import Text

    lines = result_lines(results)
    names, values = (max(len(line[column]) for line in lines) for column in (0, 1))
    text = Text()
    if any(line[2] for line in lines):
        text.append(f"{' ' * (2 + names + 3 + values + 3)}90 % interval\n", "dim")
    for label, value, interval in lines:
        text.append(f"  {label:<{names}}   ")
        text.append(f"{value:>{values}}", "bold")
        text.append(f"   {interval}".rstrip() + "\n")
    text.rstrip()
    print_plain(console, text, wrap=False)


def _print_factors(console: Console, factors: Mapping[str, float]) -> None:
    console.print()
    of = "peak" if "mfu" in factors else "time"
    print_line(console, f"{METRICS['factors'].label} (share of the {of})", style="bold")
    widest = max(len(FACTORS[name]) for name in factors)
    left = 1.0
    for name, value in factors.items():
        left = value if name == "product" else left * value
        after = "" if name == "product" else f"   leaves {share_text(left)}"
        print_line(console, f"  {FACTORS[name]:<{widest}}  {share_text(value):>7}{after}")


def _print_choices(console: Console, choices: Sequence[Answered]) -> None:
    console.print()
    rows = [
        {
            METRICS[f"choices.{name}"].label: value
            if name == "needed"
            else format_value(name, value)
            for name, value in row.items()
        }
        for row in choices
    ]
    print_line(console, METRICS["choices"].label, style="bold")
    print_rows(console, rows)


def _print_changes(console: Console, changes: Sequence[Answered]) -> None:
    console.print()
    print_line(
        console,
        f"{METRICS['changes'].label}: {METRICS['changes.gained_gpu_hours'].label}, ± 90 %",
        style="bold",
    )
    widest = max(len(str(row["name"])) for row in changes)
    digits = max(*(len(f"{row['gained_gpu_hours']:+,.0f}") for row in changes), 10)
    for row in changes:
        gained, width = row["gained_gpu_hours"], row["gained_gpu_hours_half_width"]
        more = f", holds {row['added_gpu_hours']:,.0f} more" if row["added_gpu_hours"] else ""
        print_line(
            console,
            f"  {row['name']:<{widest}}  {gained:>+{digits},.0f} ± {width:,.0f}{more}",
        )
    console.print()
    print_line(console, "what they assume", style="bold")
    for row in changes:
        if row["assumes"]:
            said = f"{row['name']}: {row['assumes']}"
            for line in wrap(said, console.width - INDENT, subsequent_indent=" " * INDENT):
                print_plain(console, f"  {line}", wrap=False)

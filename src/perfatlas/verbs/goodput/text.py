"""Text output of goodput: useful time, lost time by category, possible improvements."""

from __future__ import annotations

from pathlib import PurePath
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import without_defaults
from perfatlas.quantities import HOUR_S, counted, format_quantity
from perfatlas.report.text import (
    METHODS,
    MOST_BUCKETS,
    SHORT_NAMES,
    format_number,
    format_value,
    line_chart,
    print_closing,
    print_heading,
    print_line,
    print_more,
    print_plain,
    print_rows,
    print_waterfall,
    share_text,
    speaks_unicode,
    time_text,
)
from perfatlas.verbs.goodput.groups import FRONTIER
from perfatlas.vocabulary.metrics import HIGH_ENDING, LOW_ENDING, METRICS, find_metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    Answered = Mapping[str, Any]

BUCKETS: Final = {
    "productive": "useful work",
    "checkpoint": "writing checkpoints",
    "lost_work": "recomputed work",
    "detection": "failure detection",
    "restart": "restarting",
    "waiting_for_spares": "waiting for nodes",
    "degraded": "running slower",
    "maintenance": "maintenance",
    "idle": "idle",
}
FACTORS: Final = METRICS["factors"].parts
# omitted in a headline; the method is in the line of confidence
UNSAID: Final = ("half_width", "seed", "what_if", "more_spares", "verify_s", "method")
MOST_CHANGES: Final = 3
MOST_CHOICES: Final = 8
DETAILS: Final = frozenset((
    *("interruptions", "gpu_hours", "spares_held", "replicas", "closed_form_goodput"),
    *("interruptions_per_day", "checkpoint_bytes", "seed"),
))  # fmt: skip
INDENT: Final = 2
PER_UNIT: Final = {"usd_per_gpu_hour": "GPU-hour", "usd_per_kwh": "kWh"}
WATTS: Final = {"power_w": "GPU power", "idle_power_w": "power of a waiting GPU"}
# told in Wh, as electricity is sold
ENERGIES: Final = ("job_energy_j", "lost_energy_j", "lost_work_energy_j")
# fields that are shares, and results that are said elsewhere or are fields
SHARES: Final = ("target", "mfu", "scheduling")
HIDDEN: Final = ("gpus", "duration_s", "finish_by_s", "unfinished")


def value_text(name: str, value: Any) -> str:  # noqa: ANN401 - a field or result of any kind
    """Return a field or result of goodput as text.

    Args:
        value: A number, text or None.

    Example:
        >>> from perfatlas.verbs.goodput.text import value_text
        >>> value_text("mtti_s", 7200.0), value_text("usd_per_gpu_hour", 2.5)
        ('2 h', '$2.50')
        >>> value_text("job_energy_j", 3.6e12)
        '1.00 GWh'
    """
    if name in ENERGIES and isinstance(value, int | float):
        return format_quantity(value / HOUR_S, "Wh", exact=False)
    if find_metric(name) is not None or not isinstance(value, int | float):
        return format_value(name, value)
    if "bytes" in name.split("_"):
        return format_quantity(value, "B/s" if name.endswith("_per_s") else "B", exact=False)
    if name in SHARES or name.endswith("_s"):
        return (share_text if name in SHARES else time_text)(value)
    if "usd" in name.split("_"):
        return f"${value:,.2f}" if abs(value) < 1000 else f"${value:,.0f}"
    return format_number(value)


def print_goodput(
    console: Console, answer: Answered, *, reproduce: str, verbose: bool = False
) -> None:
    """Write an answer of any form of goodput to a console.

    Args:
        verbose: Whether to print all results, factors and changes, and all evidence.
    """
    print_line(console, goodput_headline(answer), style="bold")
    console.print()
    results = answer["results"]
    lines = result_lines(results, brief=not verbose)
    _print_results(console, lines)
    if answer["breakdown"]:
        print_heading(console, f"where the time goes{_default_period(answer)}")
        most = None if verbose else MOST_BUCKETS - bool(results.get("changes"))
        print_waterfall(console, answer["breakdown"], BUCKETS, most=most)
    if factors := results.get("factors"):
        if verbose:
            _print_factors(console, factors)
        elif texts := _factors_text(factors):
            print_line(console, texts)
    if changes := results.get("changes"):
        _print_changes(console, changes if verbose else changes[:MOST_CHANGES])
        print_more(console, len(changes) - MOST_CHANGES, verbose=verbose)
    if verbose and changes:
        _print_assumed(console, changes)
    if choices := results.get("choices"):
        _print_choices(console, choices if verbose else choices[:MOST_CHOICES])
    method = METHODS[answer["evidence"]["tier"]]
    if "replicas" in results:
        method = f"{method}, {counted(results['replicas'], 'replica')}"
    print_closing(
        console,
        answer,
        reproduce=reproduce,
        method=method,
        covered=_covered(answer),
        verbose=verbose,
    )


def _covered(answer: Answered) -> str:
    """Return what the interval covers, as the assumptions say, "" where they do not."""
    notes = [text for text in answer["evidence"]["assumptions"] if "interval" in text]
    return next((text for text in notes if "optimal" not in text), "")


def _default_period(answer: Answered) -> str:
    """Return the period that is counted if the headline does not have it."""
    period_s = answer["results"].get("duration_s")
    given = without_defaults(answer["command"], answer["scenario"])
    if period_s is None or answer["command"] != "goodput" or {"duration_s", "work_s"} & set(given):
        return ""
    return f" in {time_text(period_s)}"


def goodput_headline(answer: Answered) -> str:
    """Return the scenario in one line.

    Example:
        >>> from perfatlas.verbs.goodput.text import goodput_headline
        >>> goodput_headline({"command": "goodput", "scenario": {"gpus": 16, "mtti_s": 7200.0,
        ...     "checkpoint_write_s": 60.0, "restart_s": 300.0}})
        'goodput of 16 GPUs: MTTI 2 h, checkpoint write 60 s, restart 5 min'
    """
    scenario = without_defaults(answer["command"], answer["scenario"])
    gpus = scenario.pop("gpus", None)
    words = [
        _field_text(name, value)
        for name, value in scenario.items()
        if value is not False and name not in UNSAID
    ]
    of = f" of {counted(gpus, 'GPU')}" if isinstance(gpus, int) else ""
    return f"{answer['command']}{of}: {', '.join(words)}"


def _field_text(name: str, value: Any) -> str:  # noqa: ANN401 - a field of any kind
    """Return a field and its value as text."""
    if name in PER_UNIT:
        return f"{value_text(name, value)} per {PER_UNIT[name]}"
    if name in WATTS:
        return f"{WATTS[name]} {format_value('power_w', value)}"
    if name == "fleet":
        value = PurePath(str(value)).name
    words = [SHORT_NAMES.get(word, word) for word in _unit_left_out(name).split("_")]
    return " ".join([*words, *([] if value is True else [value_text(name, value)])])


def _unit_left_out(name: str) -> str:
    """Return a field name without its unit suffix."""
    return name.removesuffix("_bytes_per_s" if name.endswith("_bytes_per_s") else "_s")


def result_lines(results: Answered, *, brief: bool = False) -> list[tuple[str, str, str]]:
    """Return (label, value, interval) of every scalar result.

    Args:
        results: The `results` of an answer.
        brief: Without details.
    """
    lines = []
    details = DETAILS | {"spares"} if "gpus_held" in results else DETAILS
    for name, value in results.items():
        metric = METRICS.get(name)
        if metric is None or metric.holds not in ("number", "count") or name in HIDDEN:
            continue
        if value is None or (brief and name in details):
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
            (f"{label}, 90% of runs" if spread else label, shown, _interval(results, name))
        )
    return lines


def _interval(results: Answered, name: str) -> str:
    """Return the interval of a result, or the range of 90% of runs, "" for none."""
    value = results[name]
    low, high = (results.get(f"{name}{end}") for end in (LOW_ENDING, HIGH_ENDING))
    if isinstance(value, dict) and value["p5"] < value["p95"]:
        low, high = value["p5"], value["p95"]
    if low is None or high is None:
        return ""
    return _ends(value_text(name, low), value_text(name, high))


def _ends(low: str, high: str) -> str:
    """Return both ends, with a common unit once; "" if rounding leaves no interval."""
    if low == high:
        return ""
    if low.endswith("%") and high.endswith("%"):
        return f"{low[:-1]} - {high}"
    (number, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{number} - {high}" if unit == other else f"{low} - {high}"


def _print_results(console: Console, lines: Sequence[tuple[str, str, str]]) -> None:
    from rich.text import Text

    names, values = (max(len(line[column]) for line in lines) for column in (0, 1))
    text = Text()
    if any(line[2] for line in lines):
        text.append(f"{' ' * (2 + names + 3 + values + 3)}90% interval\n", "dim")
    for label, value, interval in lines:
        text.append(f"  {label:<{names}}   ")
        text.append(f"{value:>{values}}", "bold")
        text.append(f"   {interval}".rstrip() + "\n")
    text.rstrip()
    print_plain(console, text, wrap=False)


def _factors_text(factors: Mapping[str, float]) -> str:
    """Return the decomposition in a line, factors of 100% left out; "" of less than two."""
    texts = [
        f"{FACTORS[name].partition(':')[0]} {share_text(value)}"
        for name, value in factors.items()
        if name != "product" and share_text(value) != share_text(1.0)
    ]
    of = "peak" if "mfu" in factors else "time"
    if len(texts) < 2:
        return ""
    return f"share of the {of}: {' x '.join(texts)} = {share_text(factors['product'])}"


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
        f"{METRICS['changes'].label}: {METRICS['changes.gained_gpu_hours'].label}, ± 90%",
        style="bold",
    )
    widest = max(len(str(row["name"])) for row in changes)
    digits = max(*(len(f"{row['gained_gpu_hours']:+,.0f}") for row in changes), 10)
    for row in changes:
        gained, width = row["gained_gpu_hours"], row["gained_gpu_hours_half_width"]
        more = f", holds {row['added_gpu_hours']:,.0f} more" if row["added_gpu_hours"] else ""
        if "gained_usd" in row:
            more = f"  {row['gained_usd'] - row['added_usd']:>+,.0f} USD net{more}"
        print_line(
            console,
            f"  {row['name']:<{widest}}  {gained:>+{digits},.0f} ± {width:,.0f}{more}",
        )


def _print_assumed(console: Console, changes: Sequence[Answered]) -> None:
    """Write what the changes assume."""
    print_heading(console, "assumptions")
    for row in changes:
        if row["assumes"]:
            notes = f"{row['name']}: {row['assumes']}"
            for line in wrap(notes, console.width - INDENT, subsequent_indent=" " * INDENT):
                print_plain(console, f"  {line}", wrap=False)


HEIGHT: Final = 6


def print_strategies(
    console: Console, answer: Answered, *, reproduce: str, verbose: bool = False
) -> None:
    """Write the frontier of recovery strategies to a console.

    Args:
        verbose: Whether to print why combinations were skipped, and all evidence.
    """
    results = answer["results"]
    rows = results[FRONTIER]
    print_line(console, goodput_headline({**answer, "command": "goodput"}), style="bold")
    console.print()
    print_rows(console, [_shown(row) for row in rows])
    legend = (
        "goodput: with the half-width of its 90% interval in points; of held: useful share of the"
        " GPU-hours of job and spares"
    )
    print_line(console, legend, style="dim")
    print_line(console, f"best per GPU-hour held: {_named(results['best_strategy'])}")
    print_line(console, f"why: {results['why']}")
    if len(rows) > 1:
        console.print()
        lost = [
            (row["gpus_held"] - results["gpus"], 100.0 * (1.0 - row["goodput"])) for row in rows
        ]
        chart = line_chart(
            [(x, y, "") for x, y in lost],
            titles=(
                "GPUs held beside the job",
                "lost time [%], best strategy at each number of GPUs held",
            ),
            width=console.width,
            unicode=speaks_unicode(console),
            height=HEIGHT,
        )
        print_plain(console, chart)
    skipped = results["strategies_skipped"]
    left_out = sum(row["count"] for row in skipped)
    print_line(
        console,
        f"{results['strategies']:,} strategies simulated,"
        f" {results['strategies_dominated']:,} dominated; {left_out:,} combinations do not apply",
    )
    for row in skipped if verbose else skipped[:2]:
        print_line(console, f"  {row['count']:,}: {row['reason']}")
    method = f"{METHODS['simulate']}, at most {counted(results['replicas'], 'replica')} each"
    print_closing(console, answer, reproduce=reproduce, method=method, verbose=verbose)


def _named(row: Answered) -> str:
    interval = time_text(row["checkpoint_interval_s"])
    return (
        f"{row['response']}, {counted(row['spares'], 'spare')}, {row['checkpoint_levels']} every"
        f" {interval}"
    )


def _shown(row: Answered) -> dict[str, str]:
    """Return a strategy as cells of a table."""
    cells = {
        "GPUs held": f"{row['gpus_held']:,}",
        "spares": f"{row['spares']:,}",
        "policy": str(row["response"]),
        "levels": str(row["checkpoint_levels"]),
        "every": time_text(row["checkpoint_interval_s"]),
        "goodput": f"{share_text(row['goodput'])} ± {100.0 * row['goodput_half_width']:.1g}",
        "of held": share_text(row["useful_share_of_held"]),
    }
    if "usd_per_useful_gpu_hour" in row:
        cells["useful hour"] = format_value(
            "usd_per_useful_gpu_hour", row["usd_per_useful_gpu_hour"]
        )
    return cells

"""The numbers of an answer, each beside its interval; never cut, however narrow the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.report.quantities_text import format_interval, format_value
from perfatlas.report.rows import label_of
from perfatlas.report.terminal import print_line, print_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

# said in the headline, the assumptions and the warnings, or twice
HIDDEN: Final = (
    *("gpus", "method", "interrupted", "kv_blocks", "prefill_kv_blocks", "seeds_simulated"),
)
SEEDS: Final = "_seed_half_width"
NARROW: Final = 64
NO_INTERVAL: Final = "no interval"


class Shown(NamedTuple):
    """A result as a line.

    Args:
        label: What it is.
        value: With its unit.
        interval: Its 90 % interval by the error of prices, "no interval", or "" where none is
            meant.
        seeds: Its half-width over seeds, "" where there is one seed.
    """

    label: str
    value: str
    interval: str
    seeds: str


def shown_results(results: Mapping[str, Any], *, short: bool = False) -> list[Shown]:
    """Return the results that are one number each, as people read them.

    Args:
        results: The `results` of an answer; `x_low` and `x_high` are the interval of `x`, null
            where there is none. Objects, such as `memory`, are left to others.
        short: With short labels.

    Example:
        >>> from perfatlas.report.results_text import shown_results
        >>> results = {"time_s": 2e-6, "time_s_low": 1e-6, "time_s_high": 3e-6}
        >>> shown_results(results)[0].interval
        '1.00 - 3.00 us'
    """
    return [
        Shown(
            label_of(name, short=short),
            format_value(name, value),
            interval_text(results, name),
            _over_seeds(results, name),
        )
        for name, value in results.items()
        if not (isinstance(value, dict) or name in HIDDEN or _is_end(results, name))
    ]


def _over_seeds(results: Mapping[str, Any], name: str) -> str:
    """Return the half-width of a result over seeds; "" of one that all seeds agree on."""
    width = results.get(f"{name}{SEEDS}")
    return f"± {format_value(name, width)}" if width else ""


def print_results(console: Console, results: Mapping[str, Any]) -> None:
    """Write results, a line each: what it is, its value, its 90 % interval, and over seeds.

    Labels are short where lines would be wider than the terminal; then what is over seeds and the
    interval are left out, and named below.

    Args:
        console: From `open_terminal`.
        results: As for `shown_results`.
    """
    from rich.text import Text

    titles = ("90 % interval", f"over {results.get('seeds_simulated', 1)} seeds, 90 %")
    short = console.width < NARROW
    if not short:
        short = _width(shown_results(results), 2, 3) > console.width
    lines = shown_results(results, short=short)
    if not lines:
        return
    gap = 2 if short else 3
    shown = 2
    while shown and _width(lines, shown, gap) > console.width:
        shown -= 1
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    titled = [any(line[column] not in ("", NO_INTERVAL) for line in lines) for column in (2, 3)]
    text, space = Text(), " " * gap
    if any(titled[:shown]):
        text.append(" " * (2 + widths[0] + gap + widths[1]), "dim")
        for title, width, has in zip(titles[:shown], widths[2:], titled, strict=False):
            text.append(space + f"{title if has else '':<{width}}", "dim")
        text.rstrip()
        text.append("\n")
    for line in lines:
        text.append(f"  {line.label:<{widths[0]}}{space}")
        text.append(f"{line.value:>{widths[1]}}", "bold")
        more = zip((line.interval, line.seeds)[:shown], widths[2:], strict=False)
        text.append("".join(f"{space}{cell:<{width}}" for cell, width in more).rstrip() + "\n")
    text.rstrip()
    print_plain(console, text, wrap=False)
    left = [title for title, has in zip(titles[shown:], titled[shown:], strict=True) if has]
    if left:
        print_line(console, f"a wider terminal or --json shows {' and '.join(left)}", style="dim")


def _width(lines: Sequence[Shown], shown: int, gap: int) -> int:
    """Return how wide lines are with so many columns beside the value."""
    columns = [max((len(line[column]) for line in lines), default=0) for column in range(2 + shown)]
    return 2 + sum(columns) + gap * sum(1 for width in columns[1:] if width)


def interval_text(results: Mapping[str, Any], name: str) -> str:
    """Return the interval of a result, "no interval" where it has none, "" where none is meant.

    Args:
        results: The `results` of an answer.
        name: A key of it.

    Example:
        >>> from perfatlas.report.results_text import interval_text
        >>> interval_text({"time_s": 2e-6, "time_s_low": 2e-6, "time_s_high": None}, "time_s")
        'no interval'
    """
    if f"{name}_low" not in results and f"{name}_high" not in results:
        return ""
    low, high = results.get(f"{name}_low"), results.get(f"{name}_high")
    if results.get(name) is None or low is None or high is None or low == high:
        return NO_INTERVAL
    return format_interval(name, low, high)


def _is_end(results: Mapping[str, Any], name: str) -> bool:
    stem = name.removesuffix("_low").removesuffix("_high").removesuffix(SEEDS)
    return stem != name and stem in results

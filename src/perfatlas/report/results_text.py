"""The numbers of an answer, each beside its interval; never cut, however narrow the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.quantities_text import format_interval, format_value
from perfatlas.report.rows import label_of
from perfatlas.report.terminal import print_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

# said in the headline, the assumptions and the warnings, or twice
HIDDEN: Final = ("gpus", "method", "interrupted", "kv_blocks", "prefill_kv_blocks")
NARROW: Final = 64
NO_INTERVAL: Final = "no interval"


def print_results(console: Console, results: Mapping[str, Any]) -> None:
    """Write results, a line each: what it is, its value, its 90 % interval.

    Args:
        console: From `open_terminal`.
        results: The `results` of an answer; `x_low` and `x_high` are the interval of `x`, null
            where there is none. Objects, such as `memory`, are left to others.
    """
    from rich.text import Text

    short = console.width < NARROW
    lines = [
        (label_of(name, short=short), format_value(name, value), interval_text(results, name))
        for name, value in results.items()
        if not (isinstance(value, dict) or name in HIDDEN or _is_end(results, name))
    ]
    if not lines:
        return
    gap = "  " if short else "   "
    names, values = (max(len(line[column]) for line in lines) for column in (0, 1))
    text = Text()
    if any(line[2] not in ("", NO_INTERVAL) for line in lines):
        text.append(f"{' ' * (2 + names + len(gap) + values + len(gap))}90 % interval\n", "dim")
    for name, value, interval in lines:
        text.append(f"  {name:<{names}}{gap}")
        text.append(f"{value:>{values}}", "bold")
        text.append(f"{gap}{interval}".rstrip() + "\n")
    text.rstrip()
    print_plain(console, text, wrap=False)


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
    stem = name.removesuffix("_low").removesuffix("_high")
    return stem != name and stem in results

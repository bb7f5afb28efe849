"""The numbers of an answer with their intervals; never truncated on narrow terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.report.text.limits import limiting_value
from perfatlas.report.text.quantities import format_interval, format_value
from perfatlas.report.text.rows import label_of
from perfatlas.report.text.terminal import print_line, print_plain
from perfatlas.vocabulary.metrics import SEEDS, find_metric, stem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

# shown in the headline, the assumptions or the warnings
HIDDEN: Final = (
    *("gpus", "item", "method", "interrupted", "kv_blocks", "prefill_kv_blocks", "seeds_simulated"),
    "image_tokens",
)
# omitted in a brief answer
DETAILS: Final = frozenset((
    *("tabulated_low_s", "tabulated_high_s"),
    *("tier", "prefill_steps", "makespan_s", "steps", "kv_capacity_tokens", "replica_time_s"),
    *("prefill_kv_capacity_tokens", "stored_bytes"),
    *("host_held_bytes", "ssd_held_bytes", "remote_held_bytes"),
    *("host_loaded_bytes", "ssd_loaded_bytes", "remote_loaded_bytes", "cache_hit.gpu"),
    *("capacity_requests_per_s", "offered_load", "stability", "warm_up_requests"),
    *("measured_requests", "precision_reached", "utilization", "stable_probability"),
    *("prefill_mfu", "prefill_mbu", "decode_mfu", "decode_mbu", "energy_per_request_j"),
    *("kv_transfer_s", "node_power_w", "electricity_usd_per_hour", "idle_energy_j"),
    *("prefill_energy_j", "decode_energy_j", "deployment_power_w", "p95_deployment_power_w"),
    *("peak_deployment_power_w", "prefill_energy_per_output_token_j"),
    *("decode_energy_per_output_token_j", "awake_energy_per_output_token_j"),
    *("bubble_energy_per_output_token_j", "bubble_energy_j"),
    *("gco2_per_hour", "usd_per_hour", "usd_per_million_input_tokens"),
    "usd_per_million_cached_input_tokens",
    "decode_usd_per_million_output_tokens",
))  # fmt: skip
OF_FLOP: Final = ("flop", "flop_per_s", "peak_share", "arithmetic_intensity")
INCOMPLETE: Final = ("requests_rejected", "requests_lost", "requests_unserved", "interrupted")
OF_SIZED: Final = (
    *("slo_attainment", "goodput_requests_per_s", "requests_per_s", "output_tokens_per_s"),
)
SIZED: Final = frozenset(("required_replicas", "required_prefill_workers", "max_sessions"))
NARROW_COLUMNS: Final = 64
INDENT, LONG_GAP, SHORT_GAP = 2, 3, 2  # columns before and between
NO_INTERVAL: Final = "no interval"


class Shown(NamedTuple):
    """A result as a line."""

    label: str
    value: str  # Value with its unit, and "at least" or "at most" for a limit
    interval: str  # 90% interval from price errors, "no interval", or "" if not applicable
    seeds: str = ""  # Half-width over seeds, "" for one seed


def printed_results(
    results: Mapping[str, Any],
    *,
    short: bool = False,
    brief: bool = False,
    limits: Mapping[str, str] | None = None,
) -> list[Shown]:
    """Return the results that are single numbers, formatted.

    Args:
        brief: Whether to omit details and zero counts.

    Example:
        >>> from perfatlas.report.text import printed_results
        >>> results = {"time_s": 2e-6, "time_s_low": 1e-6, "time_s_high": 3e-6}
        >>> printed_results(results)[0].interval
        '1.00 - 3.00 µs'
    """
    shown = dict[str, Any]()
    for name, value in results.items():
        shown[name] = value
        if (
            name == "cache_hit"
            and value
            and any(hit for tier, hit in value.items() if tier != "gpu")
        ):
            shown |= {f"{name}.{tier}": hit for tier, hit in value.items()}
    results = shown
    limits, unneeded = limits or {}, _unneeded(results)
    return [
        Shown(
            label_of(name, short=short, item=results.get("item", "")),
            _limited(results, name, limits.get(name, "")),
            "" if name in limits else interval_text(results, name),
            _over_seeds(results, name),
        )
        for name, value in results.items()
        if not (isinstance(value, dict) or name in HIDDEN or _is_end(results, name))
        and not (brief and (_is_detail(name, value) or name in unneeded))
    ]


def _limited(results: Mapping[str, Any], name: str, limit: str) -> str:
    return f"{limit} {format_value(name, limiting_value(results, name, limit))}".lstrip()


def _unneeded(results: Mapping[str, Any]) -> tuple[str, ...]:
    """Return redundant results.

    They are completed requests if all were, total tokens per second without sessions, totals of
    kinds, power of runs, rates of FLOP of operators that have none, rates of deployments sized by
    their SLOs, and of sized pools busy times, and either a share of requests of 100% or what
    follows from the share and the rate of requests.
    """
    run = ("power_w", "energy_j", "energy_per_output_token_j")
    power = run if "makespan_s" in results else ()
    complete = () if any(results.get(name) for name in INCOMPLETE) else ("requests_completed",)
    lowest = results.get("slo_attainment_low")
    all_within = results.get("slo_attainment") == 1.0 and lowest in (None, 1.0)
    goodput = "slo_attainment" if all_within else "goodput_requests_per_s"
    sized_pools = (goodput, "prefill_utilization", "decode_utilization")
    return (
        *complete,
        *(() if "session_time_s" in results else ("total_tokens_per_s_per_gpu",)),
        *power,
        *(OF_FLOP if results.get("flop") == 0.0 else ()),
        *(OF_SIZED if SIZED.intersection(results) else ()),
        *(("utilization", "output_tokens_per_s") if "kind_1" in results else ()),
        *(sized_pools if "required_prefill_workers" in results else ()),
    )


def _is_detail(name: str, value: object) -> bool:
    """Return whether a brief answer omits a result: a detail, or a zero count of problems."""
    metric = find_metric(name)
    if name in DETAILS or metric is None or value:
        return name in DETAILS
    if value is None:
        return True
    nothing_wrong = metric.holds in ("count", "flag") and metric.better == "lower"
    return nothing_wrong or metric.unit == "B" or "hit" in name


def _over_seeds(results: Mapping[str, Any], name: str) -> str:
    """Return the half-width of a result over seeds; "" if all seeds agree."""
    width = results.get(f"{name}{SEEDS}")
    return f"± {format_value(name, width)}" if width else ""


def print_results(
    console: Console,
    results: Mapping[str, Any],
    *,
    limits: Mapping[str, str] | None = None,
    brief: bool = False,
) -> None:
    """Write results, one per line: label, value, 90% interval, and half-width over seeds."""
    long, narrow = (
        printed_results(results, short=short, brief=brief, limits=limits) for short in (False, True)
    )
    print_shown(console, long, narrow, seeds=results.get("seeds_simulated", 1))


def print_shown(
    console: Console, long: Sequence[Shown], narrow: Sequence[Shown] = (), *, seeds: int = 1
) -> None:
    """Write lines of label, value, 90% interval, and half-width over seeds.

    Labels are short if lines would exceed the terminal; then half-widths and intervals are omitted,
    and named below.

    Args:
        narrow: Lines with short labels; by default the same.
        seeds: Number of simulated seeds.
    """
    from rich.text import Text

    narrow, over_seeds = narrow or long, f"over {seeds} seeds, 90%"
    titles = Shown("", "", *_titles(long, ("90% interval", over_seeds)))
    room = console.width
    short = room < NARROW_COLUMNS or _total(_widths(long, titles), LONG_GAP) > room
    lines, gap = (narrow, SHORT_GAP) if short else (long, LONG_GAP)
    if not lines:
        return
    widths = _widths(lines, titles)
    shown = [column for column in range(4) if widths[column]]
    while len(shown) > 2 and _total([widths[column] for column in shown], gap) > room:
        shown.pop()
    text = Text()
    if any(titles[column] for column in shown):
        text.append(_aligned(titles, shown, widths, gap) + "\n", "dim")
    for line in lines:
        message = _aligned(line, shown, widths, gap)
        start = INDENT + widths[0] + gap
        text.append(message[:start])
        text.append(message[start : start + widths[1]], "bold")
        text.append(message[start + widths[1] :] + "\n")
    text.rstrip()
    print_plain(console, text, wrap=False)
    omitted = [titles[column] for column in (2, 3) if titles[column] and column not in shown]
    if omitted:
        columns = " and ".join(omitted)
        print_line(console, f"a wider terminal or --json shows {columns}", style="dim")


def _titles(lines: Sequence[Shown], titles: tuple[str, str]) -> tuple[str, str]:
    """Return the titles of intervals and half-widths over seeds, "" for missing ones."""
    interval = any(line.interval not in ("", NO_INTERVAL) for line in lines)
    return titles[0] if interval else "", titles[1] if any(line.seeds for line in lines) else ""


def _widths(lines: Sequence[Shown], titles: Shown) -> list[int]:
    """Return the width of each column, 0 for an empty one."""
    return [max(len(line[column]) for line in (titles, *lines)) for column in range(4)]


def _total(widths: Sequence[int], gap: int) -> int:
    """Return the width of lines with the given columns."""
    shown = [width for width in widths if width]
    return INDENT + sum(shown) + gap * (len(shown) - 1)


def _aligned(line: Shown, shown: Sequence[int], widths: Sequence[int], gap: int) -> str:
    """Return the cells of a line side by side, with values right-aligned."""
    cells = [f"{line[c]:>{widths[c]}}" if c == 1 else f"{line[c]:<{widths[c]}}" for c in shown]
    return (" " * INDENT + (" " * gap).join(cells)).rstrip()


def interval_text(results: Mapping[str, Any], name: str) -> str:
    """Return the interval of a result, "no interval" if it has none, "" for an exact value.

    If only one end is known, that end is returned. A result that step times do not change, such as
    the throughput of a deployment that keeps up, shows none.

    Example:
        >>> from perfatlas.report.text.results import interval_text
        >>> interval_text({"time_s": 0.02, "time_s_low": 0.01, "time_s_high": None}, "time_s")
        '10.0 ms or more'
        >>> interval_text({"time_s": 0.0, "time_s_low": 0.0, "time_s_high": 0.0}, "time_s")
        ''
    """
    if f"{name}_low" not in results and f"{name}_high" not in results:
        return ""
    if name == "slo_attainment" and "attainment_probability" in results:
        return ""
    low, high = results.get(f"{name}_low"), results.get(f"{name}_high")
    if results.get(name) is None or low is high is None:
        return NO_INTERVAL
    if low == high == results[name]:
        return ""
    if low is None or high is None:
        end, side = (high, "less") if low is None else (low, "more")
        return f"{format_value(name, end)} or {side}"
    return format_interval(name, low, high)


def _is_end(results: Mapping[str, Any], name: str) -> bool:
    stem = stem_of(name)
    return stem != name and stem in results

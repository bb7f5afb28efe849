"""The numbers of an answer with their intervals, and those that are limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import two_digits
from perfatlas.report.text.quantities import format_interval, format_value
from perfatlas.report.text.rows import label_of
from perfatlas.report.text.terminal import print_line, print_plain
from perfatlas.vocabulary.metrics import (
    HIGH_ENDING,
    LOW_ENDING,
    METRICS,
    SEEDS,
    find_metric,
    stem_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

AT_LEAST: Final = "at least"
AT_MOST: Final = "at most"
BOUND: Final = "bound"
MIN_RATIO: Final = 0.01  # with two decimals
# derived from times, without an interval of their own: limits in tier bound
DERIVED: Final = {
    "bus_bandwidth_bytes_per_s": AT_MOST,
    "flop_per_s": AT_MOST,
    "bytes_per_s": AT_MOST,
    "peak_share": AT_MOST,
    "roofline_share": AT_MOST,
    "prefill_mfu": AT_MOST,
    "prefill_mbu": AT_MOST,
    "decode_mfu": AT_MOST,
    "decode_mbu": AT_MOST,
    "capacity_requests_per_s": AT_MOST,
    "offered_load": AT_LEAST,
}
SIGNS: Final = {AT_LEAST: "≥", AT_MOST: "≤", "": ""}
OPPOSITE: Final = {AT_LEAST: AT_MOST, AT_MOST: AT_LEAST, "": ""}
POWER: Final = "power_w"  # a shorter time spends the same dynamic energy at a higher power


def limits_of(results: Mapping[str, Any], *, tier: str = "") -> dict[str, str]:
    """Return the results that are limits, and their direction.

    Args:
        tier: Tier of the answer; all times and rates of tier bound are limits.

    Returns:
        Name of the result -> "at least" or "at most".

    Example:
        >>> from perfatlas.report.text.results import limits_of
        >>> limits_of({"time_s": 2e-6, "time_s_low": 2e-6, "time_s_high": None})
        {'time_s': 'at least'}
        >>> limits_of({"ttft_s": {"mean": 1.0}, "requests_per_s": 3.0, "steps": 4}, tier="bound")
        {'ttft_s': 'at least', 'requests_per_s': 'at most'}
    """
    limits = {}
    for name, value in results.items():
        metric = find_metric(name)
        if value is None or metric is None or stem_of(name) != name:
            continue
        low, high = results.get(f"{name}{LOW_ENDING}"), results.get(f"{name}{HIGH_ENDING}")
        if metric.has_interval and tier == BOUND:
            grows = metric.better == "lower" and name != POWER
            limits[name] = AT_LEAST if grows else AT_MOST
        elif name in DERIVED and tier == BOUND:
            limits[name] = DERIVED[name]
        elif high is None and low == value:
            limits[name] = AT_LEAST
        elif low is None and high == value:
            limits[name] = AT_MOST
    return limits


def limiting_value(results: Mapping[str, Any], name: str, limit: str) -> object:
    """Return what a result is at least or at most: the end of its interval, if it has one.

    Power and energy of tier bound are uncertain by more than their times.

    Args:
        limit: "at least", "at most", or "" for the result itself.

    Example:
        >>> from perfatlas.report.text.results import limiting_value
        >>> limiting_value({"power_w": 5.1e3, "power_w_high": 16.4e3}, "power_w", "at most")
        16400.0
    """
    ending = {AT_LEAST: LOW_ENDING, AT_MOST: HIGH_ENDING}.get(limit)
    end = None if ending is None else results.get(f"{name}{ending}")
    return results[name] if end is None else end


def ratio_text(value: float, base: float, *, limit: str = "", base_limit: str = "") -> str:
    """Return the ratio of two results, marked as a limit where one of them is.

    Args:
        limit: "at least" or "at most" where the result is a limit, else "".

    Returns:
        The ratio, such as x0.53; of a limit and a prediction with "≥" or "≤" before it. Of two
        limits nothing is known: the ratio is in brackets.

    Example:
        >>> from perfatlas.report.text import ratio_text
        >>> ratio_text(5.0, 10.0), ratio_text(5.0, 10.0, limit="at least")
        ('x0.50', '≥x0.50')
        >>> ratio_text(5.0, 10.0, base_limit="at least")
        '≤x0.50'
        >>> ratio_text(1.0, 800.0)
        'x0.0013'
    """
    ratio = value / base
    text = f"x{ratio:.2f}" if abs(ratio) >= MIN_RATIO else f"x{two_digits(ratio)}"
    if limit and base_limit:
        return f"({text})"
    return SIGNS[limit or OPPOSITE[base_limit]] + text


def ratio_interval(
    results: Mapping[str, Any], base: Mapping[str, Any], name: str
) -> tuple[float, float] | None:
    """Return the 90% interval of the ratio of two results, None if one has none or is not above 0.

    An end that is not known is 0 or infinite. Errors of the two are taken as independent, so that
    their logarithms add in quadrature; those that both share cancel, which narrows the interval.

    Source: variance of the difference of independent logarithms.
    Limits: An error that raises one result and lowers the other would widen the interval.

    Example:
        >>> from perfatlas.report.text import ratio_interval
        >>> one = {"time_s": 2.0, "time_s_low": 1.0, "time_s_high": 4.0}
        >>> exact = {"time_s": 1.0, "time_s_low": 1.0, "time_s_high": 1.0}
        >>> [round(end, 3) for end in ratio_interval(one, exact, "time_s")]
        [1.0, 4.0]
    """
    found = []
    for record in (results, base):
        low, value, high = (record.get(f"{name}{end}") for end in (LOW_ENDING, "", HIGH_ENDING))
        if f"{name}{LOW_ENDING}" not in record or value is None or value <= 0.0:
            return None
        high = math.inf if high is None else high
        below = math.log(value / low) if low else math.inf
        found.append((math.log(value), below, math.log(high / value)))
    (log, below, above), (base_log, base_below, base_above) = found
    difference = log - base_log
    return (
        math.exp(difference - math.hypot(below, base_above)),
        math.exp(difference + math.hypot(above, base_below)),
    )


def order_is_open(results: Mapping[str, Any], base: Mapping[str, Any], name: str) -> bool:
    """Return whether the 90% interval of the ratio of two results includes 1, or is not known."""
    low, high = ratio_interval(results, base, name) or (0.0, math.inf)
    return low <= 1.0 <= high


def shown_metrics(results: Mapping[str, Any]) -> list[str]:
    """Return the metrics of an answer that are compared: those with a better direction."""
    return [
        name
        for name, value in results.items()
        if name in METRICS
        and METRICS[name].better
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    ]


def limited_text(text: str, limit: str) -> str:
    """Return a value, marked as a limit where it is one.

    Args:
        limit: "at least", "at most" or "".

    Example:
        >>> from perfatlas.report.text import limited_text
        >>> limited_text("2.85 ms", "at least"), limited_text("6.49 ms", "")
        ('≥2.85 ms', '6.49 ms')
    """
    return SIGNS[limit] + text


# shown in the headline, the assumptions or the warnings
HIDDEN: Final = (
    *("gpus", "item", "method", "interrupted", "kv_blocks", "prefill_kv_blocks", "seeds_simulated"),
    *("image_tokens", "link_use"),
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


class Value(NamedTuple):
    """A result as a line."""

    label: str
    value: str  # Value with its unit, and "at least" or "at most" for a limit
    interval: str = ""  # 90% interval from price errors, "no interval", or "" if not applicable
    seeds: str = ""  # Half-width over seeds, "" for one seed


def printed_results(
    results: Mapping[str, Any],
    *,
    short: bool = False,
    brief: bool = False,
    limits: Mapping[str, str] | None = None,
) -> list[Value]:
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
        Value(
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

    They are results of items of a pass that generates tokens, completed requests if all were,
    total tokens per second without sessions, totals of kinds, power of runs, rates of FLOP of
    operators that have none, rates of deployments sized by their SLOs, and of sized pools busy
    times, and either a share of requests of 100% or what follows from the share and the rate of
    requests.
    """
    run = ("power_w", "energy_j", "energy_per_output_token_j")
    power = run if "makespan_s" in results else ()
    complete = () if any(results.get(name) for name in INCOMPLETE) else ("requests_completed",)
    lowest = results.get("slo_attainment_low")
    all_within = results.get("slo_attainment") == 1.0 and lowest in (None, 1.0)
    goodput = "slo_attainment" if all_within else "goodput_requests_per_s"
    generates = "pass_mfu" in results and "output_tokens_per_s_per_gpu" in results
    of_items = ("throughput_per_s_per_gpu", "energy_per_item_j", "usd_per_million_items")
    sized_pools = (goodput, "prefill_utilization", "decode_utilization")
    return (
        *complete,
        *(of_items if generates else ()),
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
    print_values(console, long, narrow, seeds=results.get("seeds_simulated", 1))


def print_values(
    console: Console, long: Sequence[Value], narrow: Sequence[Value] = (), *, seeds: int = 1
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
    titles = Value("", "", *_titles(long, ("90% interval", over_seeds)))
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


def _titles(lines: Sequence[Value], titles: tuple[str, str]) -> tuple[str, str]:
    """Return the titles of intervals and half-widths over seeds, "" for missing ones."""
    interval = any(line.interval not in ("", NO_INTERVAL) for line in lines)
    return titles[0] if interval else "", titles[1] if any(line.seeds for line in lines) else ""


def _widths(lines: Sequence[Value], titles: Value) -> list[int]:
    """Return the width of each column, 0 for an empty one."""
    return [max(len(line[column]) for line in (titles, *lines)) for column in range(4)]


def _total(widths: Sequence[int], gap: int) -> int:
    """Return the width of lines with the given columns."""
    shown = [width for width in widths if width]
    return INDENT + sum(shown) + gap * (len(shown) - 1)


def _aligned(line: Value, shown: Sequence[int], widths: Sequence[int], gap: int) -> str:
    """Return the cells of a line side by side, with values right-aligned."""
    cells = [f"{line[c]:>{widths[c]}}" if c == 1 else f"{line[c]:<{widths[c]}}" for c in shown]
    return (" " * INDENT + (" " * gap).join(cells)).rstrip()


def marked_value(row: Mapping[str, Any], name: str) -> str:
    """Return a result of a row with its `tier`; a limit has "≥" or "≤" before it."""
    limit = limits_of({name: row.get(name)}, tier=str(row.get("tier") or "")).get(name, "")
    return limited_text(format_value(name, row.get(name)), limit)


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

"""Formatting of numbers: metrics by their row, other names by their unit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import format_quantity
from perfatlas.vocabulary.metrics import find_metric

if TYPE_CHECKING:
    from perfatlas.vocabulary.metrics import Metric

# for names that are not metrics: key suffix -> unit; the longest match wins, so rates come first
SUFFIX_UNITS: Final = (
    ("_bytes_per_s", "B/s"),
    ("_flop_per_s", "FLOP/s"),
    ("_tokens_per_s", ""),
    ("_per_s_per_gpu", ""),
    ("_per_s_per_user", ""),
    ("requests_per_s", ""),
    ("_w_per_s", "W/s"),
    ("_per_s", "/s"),
    ("_bytes", "B"),
    ("_flop", "FLOP"),
    ("_hz", "Hz"),
    ("_s", "s"),
    ("_w", "W"),
    ("_j", "J"),
)
SCALED: Final = frozenset(("B/s", "FLOP/s", "B", "FLOP", "Hz", "s", "W", "J", "W/s"))
# words of a key that make its value a fraction, printed in percent
FRACTIONS: Final = frozenset(("mape", "error", "noise", "inside"))
LOGARITHM: Final = "bias"  # word of a key whose value is a mean ln(predicted / measured)
MAX_PERCENT: Final = 9999.0  # beyond it more digits say nothing
MIN_SHARE: Final = 1e-8  # below it a share is printed as a limit
SMALL_SUM: Final = 0.1  # below which cents say too little [USD]
LARGE_SUM: Final = 1000.0  # from which on cents say nothing [USD]
LONG_S: Final = 999.5  # seconds from which on they are written whole
TRILLION: Final = 1e12  # digits of ten and more of them are not read
WORDS: Final = {"mass": "g", "area": "mm²", "points": "points", "decibels": "dB"}
MISSING: Final = "-"
TIMES: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
MAX_DECIMALS: Final = 6


def unit_of(key: str) -> str:
    """Return the unit in a key, or an empty string.

    Args:
        key: A result key such as ttft_s or total_bytes_low.

    Example:
        >>> from perfatlas.report.text.quantities import unit_of
        >>> unit_of("bus_bandwidth_bytes_per_s")
        'B/s'
    """
    stem = key.removesuffix("_low").removesuffix("_high")
    return next((unit for suffix, unit in SUFFIX_UNITS if f"_{stem}".endswith(suffix)), "")


def format_number(value: float) -> str:
    """Return a number with three significant digits, integers in full, very large ones as counts.

    Example:
        >>> from perfatlas.report.text import format_number
        >>> format_number(12345.6), format_number(51.97), format_number(8.0)
        ('12,346', '52.0', '8')
        >>> format_number(15.6e12)
        '15.6 trillion'
    """
    if not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 9.9995 * TRILLION:
        return f"{value / TRILLION:,.4g} trillion"
    if abs(value) >= 999.5 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:#.3g}".removesuffix(".")


def format_value(key: str, value: object) -> str:
    """Return a value as text: metrics by their row, others by the unit in their key.

    Args:
        key: The key of a result, or another name.
        value: A number, boolean, text, None, list or mapping.

    Example:
        >>> from perfatlas.report.text import format_value
        >>> format_value("time_s", 0.0123), format_value("fits", True)
        ('12.3 ms', 'yes')

        A bias is a mean logarithm, ln(1/100) a prediction of a hundredth:

        >>> format_value("tpot_bias", -4.605), format_value("tpot_mape", 1.8e6)
        ('-99.0%', '> 9,999%')
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number_text(key, value)
    if isinstance(value, dict):
        return _mapping_text(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(format_value(key, item) for item in value)
    return str(value)


def is_empty(value: object) -> bool:
    """Return whether a value is empty: None, no text, or no items."""
    return value is None or (isinstance(value, (str, list, tuple, dict)) and not value)


def _mapping_text(facts: dict[str, object]) -> str:
    """Return "GqaAttention (num_heads 64, head_dim 128)": the kind, then the other entries."""
    values = {name: value for name, value in facts.items() if not is_empty(value)}
    kind = str(values.pop("kind", ""))
    rest = ", ".join(
        format_value(name, value)
        if isinstance(value, dict) and "kind" in value
        else f"{name} {format_value(name, value)}"
        for name, value in values.items()
    )
    return f"{kind} ({rest})" if kind and rest else kind or rest


def metric_text(metric: Metric, value: float) -> str:
    """Return the value of a metric with its unit, in the format of its row.

    Example:
        >>> from perfatlas.report.text.quantities import metric_text
        >>> from perfatlas.vocabulary.metrics import METRICS
        >>> metric_text(METRICS["mtti_s"], 7200.0), metric_text(METRICS["lost_usd"], 1234567.0)
        ('2 h', '$1,234,567')
        >>> metric_text(METRICS["lost_usd"], 0.25), metric_text(METRICS["lost_usd"], 0.01034)
        ('$0.25', '$0.0103')
        >>> metric_text(METRICS["ttft_s"], 0.0123), metric_text(METRICS["slo_attainment"], 0.98)
        ('12.3 ms', '98.0%')
    """
    match metric.shown:
        case "scaled":
            return _scaled(value, metric.unit)
        case "duration":
            return time_text(value)
        case "share":
            return share_text(value)
        case "money":
            return f"${value:,.{_cents(value)}f}"
        case "mass" | "area" | "points" | "decibels":
            return f"{format_number(value)} {WORDS[metric.shown]}"
        case _:
            return format_number(value)


def _cents(value: float) -> int:
    """Return the decimals of a sum: none of large ones, three digits of those below 10 cents."""
    if abs(value) >= LARGE_SUM:
        return 0
    return 2 if value == 0.0 or abs(value) >= SMALL_SUM else 2 - math.floor(math.log10(abs(value)))


def _number_text(key: str, value: float) -> str:
    metric = find_metric(key)
    if metric is not None:
        return metric_text(metric, value)
    words = key.split("_")
    if LOGARITHM in words:
        return _percent(math.expm1(min(value, MAX_PERCENT / 100.0)))
    if not FRACTIONS.isdisjoint(words):
        return _percent(value)
    if key.endswith("_bits"):
        return f"{value:g}"  # defined, not measured
    unit = unit_of(key)
    if unit in SCALED:
        return _scaled(value, unit)
    return f"{format_number(value)} {unit}".rstrip()


def _scaled(value: float, unit: str) -> str:
    if unit == "B" and abs(value) < 1000:
        return f"{value:g} B"  # no thousandths of a byte
    if unit == "s" and abs(value) >= LONG_S:
        return f"{format_number(value)} s"  # kiloseconds are uncommon
    text = format_quantity(float(value), unit, exact=False)
    return text.replace(" u", " µ")  # input files use u


def _percent(fraction: float) -> str:
    percent = 100 * fraction
    return f"> {MAX_PERCENT:,.0f}%" if percent > MAX_PERCENT else f"{percent:.1f}%"


def format_interval(key: str, low: float, high: float) -> str:
    """Return "12.9 - 15.8 ms"; the unit is printed once if both ends share it.

    Example:
        >>> from perfatlas.report.text import format_interval
        >>> format_interval("tpot_s", 0.0129, 0.0158), format_interval("queue_s", 0.0, 0.0)
        ('12.9 - 15.8 ms', '0 s')
        >>> format_interval("slo_attainment", 0.925, 0.98)
        '92.5 - 98.0%'
    """
    first, last = format_value(key, low), format_value(key, high)
    if first == last:
        return first
    if first.endswith("%") and last.endswith("%"):
        return f"{first[:-1]} - {last}"
    (number, _, unit), (other, _, other_unit) = first.partition(" "), last.partition(" ")
    if unit != other_unit:
        return f"{first} - {last}"
    return f"{number} - {other} {unit}".rstrip()


def format_exact_bytes(value: float) -> str:
    """Return a size in KiB, MiB or GiB if it is a whole number of them.

    Args:
        value: A size [bytes].

    Example:
        >>> from perfatlas.report.text.quantities import format_exact_bytes
        >>> format_exact_bytes(2097152), format_exact_bytes(3e6)
        ('2 MiB', '3 MB')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size and value % size == 0:
            return f"{value / size:,.0f} {unit}"
    return format_quantity(value, "B", digits=4)


def format_share(share: float) -> str:
    """Return a fraction in percent with at most one decimal.

    Example:
        >>> from perfatlas.report.text import format_share
        >>> format_share(0.0423), format_share(0.42)
        ('4.2%', '42%')
    """
    percent = 100 * share
    if percent > MAX_PERCENT:
        return f"> {MAX_PERCENT:,.0f}%"
    if 0 < percent < 0.05:
        return "<0.1%"
    return f"{percent:.0f}%" if percent >= 9.95 or percent == 0 else f"{percent:.1f}%"


def time_text(seconds: float) -> str:
    """Return a time in a suitable unit, with three significant digits.

    Args:
        seconds: A time [s].

    Example:
        >>> from perfatlas.report.text import time_text
        >>> time_text(11134.0), time_text(54 * 86400.0), time_text(60.0), time_text(0.0)
        ('3.09 h', '54 d', '60 s', '0 s')
    """
    for size, unit in TIMES:
        if seconds >= 1.5 * size or (unit in ("d", "s") and seconds >= size):
            return f"{format_number(float(f'{seconds / size:.3g}'))} {unit}"
    return f"{seconds:.3g} s"


def share_text(share: float) -> str:
    """Return a fraction in percent with three digits, or two digits of the distance to 100%.

    Example:
        >>> from perfatlas.report.text import share_text
        >>> share_text(0.92665), share_text(0.00136), share_text(0.99963), share_text(12.5)
        ('92.7%', '0.136%', '99.963%', '1,250%')
        >>> share_text(1.66e-157), share_text(3.2e7)
        ('< 0.000001%', '> 9,999%')
    """
    if 0.0 < share < MIN_SHARE:
        return "< 0.000001%"
    if 100.0 * share > MAX_PERCENT:
        return f"> {MAX_PERCENT:,.0f}%"
    if share >= 1.0:
        return f"{100.0 * share:,.0f}%"
    if share >= 0.999:
        decimals = min(1 - math.floor(math.log10(100.0 * (1.0 - share))), MAX_DECIMALS)
        return f"{100.0 * share:.{decimals}f}".rstrip("0").rstrip(".") + "%"
    return f"{100.0 * share:#.3g}".rstrip(".") + "%" if share else "0%"

"""Results that are limits: a roofline time is a minimum, a roofline rate a maximum.

A result of tier bound has at most one end of an interval, its own value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import two_digits
from perfatlas.vocabulary.metrics import HIGH_ENDING, LOW_ENDING, find_metric, stem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        >>> from perfatlas.report.text.limits import limits_of
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
        >>> from perfatlas.report.text.limits import limiting_value
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

"""Text of sensitivities: a tornado chart, the next bottleneck, break-even values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import FIELDS, unit_of
from perfatlas.quantities import format_quantity
from perfatlas.report.text import (
    format_number,
    format_value,
    print_line,
    print_plain,
    speaks_unicode,
)
from perfatlas.studies.factors import all_factors
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

SHOWN: Final = ("ttft_s", "tpot_s")
BUILDABLE: Final = 4.0  # larger ratios of one factor, such as a clock of 12 GHz, are in the JSON
MAX_FACTORS: Final = 7  # factors of a brief answer
MIN_ELASTICITY: Final = 0.005  # elasticity printed as 0.01
WIDTH: Final = 10  # of a bar of elasticity 1


def print_sensitivities(
    console: Console, results: Mapping[str, Any], *, verbose: bool = False
) -> None:
    """Write the sensitivities of a scenario: its tornado, next bottlenecks and break-even values.

    Args:
        results: Results of `estimate --explain`.
    """
    names = [name for name in SHOWN if name in results["sensitivity"]]
    _print_tornado(console, results, names, verbose=verbose)
    console.print()
    parts = (_wave_lines, _bottleneck_lines)
    for line in (
        *(text for part in parts for text in part(results, names)),
        *_target_lines(results),
    ):
        print_line(console, line)


def _print_tornado(
    console: Console, results: Mapping[str, Any], names: Sequence[str], *, verbose: bool
) -> None:
    """Write a bar per factor, the largest first: the change of a latency by 1% of the factor."""
    from rich.table import Table

    sensitivity = results["sensitivity"]
    unicode = speaks_unicode(console)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("  1% more of", header_style="dim", no_wrap=True)
    for name in names:
        title = f"{METRICS[name].short_label} {format_value(name, results[name])}"
        table.add_column(title, header_style="dim", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    factors = {factor for name in names for factor in sensitivity[name]}
    largest = {factor: max(abs(sensitivity[name][factor]) for name in names) for factor in factors}
    ranked = sorted(largest, key=lambda factor: (-largest[factor], factor))
    shown = [factor for factor in ranked if verbose or largest[factor] >= MIN_ELASTICITY]
    for factor in shown if verbose else shown[:MAX_FACTORS]:
        cells = [f"  {_labels()[factor]}"]
        for name in names:
            slope = sensitivity[name][factor]
            bar = ("█" if unicode else "#") * min(round(abs(slope) * WIDTH), WIDTH)
            cells += [_percent(slope), bar]
        table.add_row(*cells)
    print_plain(console, table)


def _labels() -> dict[str, str]:
    return {factor.name: factor.label for factor in all_factors()}


def _percent(slope: float) -> str:
    return f"{slope:+.2f}%" if abs(slope) >= MIN_ELASTICITY else "0%"


def _wave_lines(results: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return a line per count whose next unit changes a latency by more than its proportion."""
    counts = [factor for factor in all_factors() if factor.kind == "count"]
    return [
        f"{METRICS[metric].short_label} changes by more than 1% with 1% more {factor.label}: one"
        f" more {factor.unit} saves a whole wave of tiles, and the next ones save less"
        for metric in names
        for factor in counts
        if results["sensitivity"][metric].get(factor.name, 0.0) < -1.0 - MIN_ELASTICITY
    ]


def _bottleneck_lines(results: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return a line per latency: what limits it now, and after it has been improved."""
    lines = []
    for metric in names:
        rows = [row for row in results["next_bottleneck"] if row["metric"] == metric]
        label, first = METRICS[metric].short_label, _labels()[rows[0]["field"]]
        later = "; ".join(
            f"{format_number(row['ratio'])}x better: {format_value(metric, row['value'])},"
            f" then {_labels()[row['field']]}"
            for row in rows[1:]
        )
        alone = _without_effect(results, metric, rows[0])
        lines.append(f"{label} depends most on {first}; {later}")
        if alone:
            lines.append(
                f"improving {' or '.join(alone)} alone shortens {label} less: another part is"
                " equally slow"
            )
    return lines


def _without_effect(results: Mapping[str, Any], metric: str, first: Mapping[str, Any]) -> list[str]:
    """Return labels of factors with a larger elasticity than that whose improvement helps most."""
    slopes = results["sensitivity"][metric]
    improvable = [factor for factor in all_factors() if factor.improves and factor.name in slopes]
    gains = {
        factor: slopes[factor.name] * (1.0 if factor.is_latency else -1.0) for factor in improvable
    }
    own_gain = next(gain for factor, gain in gains.items() if factor.name == first["field"])
    return [factor.label for factor, gain in gains.items() if gain > own_gain + MIN_ELASTICITY]


def _target_lines(results: Mapping[str, Any]) -> list[str]:
    """Return a line per target with the values that meet it, each alone."""
    lines = []
    targets = dict.fromkeys((row["metric"], row["target"]) for row in results["break_even"])
    for metric, target in targets:
        rows = [
            row
            for row in results["break_even"]
            if (row["metric"], row["target"]) == (metric, target)
            and row["ratio"] is not None
            and 1.0 / BUILDABLE <= row["ratio"] <= BUILDABLE
        ]
        label = f"{METRICS[metric].short_label} of {format_value(metric, target)}"
        met = _closed_form(results, metric) <= target
        if not rows:
            within = f"a change of at most {BUILDABLE:g}x"
            lines.append(
                f"{label} still holds after any single factor gets {BUILDABLE:g}x worse"
                if met
                else f"no single factor reaches {label} by {within}"
            )
            continue
        values = ", or ".join(_value_text(row) for row in rows[:3])
        lines.append(f"{label} {'still holds with' if met else 'needs'} {values}")
    return lines


def _closed_form(results: Mapping[str, Any], metric: str) -> float:
    """Return a latency [s] as break-even values are sought for it, in tier physics."""
    rows = results["next_bottleneck"]
    return next(float(row["value"]) for row in rows if row["metric"] == metric)


def _value_text(row: Mapping[str, Any]) -> str:
    ratio = f"x{row['ratio']:.3g}"
    unit = unit_of(row["field"]) if row["field"] in FIELDS else ""
    if row["value"] is None or not unit:
        return f"{_labels()[row['field']]} {ratio}"
    value = format_quantity(row["value"], unit, digits=4)
    return f"{_labels()[row['field']]} {value} ({ratio})"

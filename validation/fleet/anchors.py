"""Published figures of large clusters: reproduced, deviating, or not predicted and why.

Sums of figures of the same table are arithmetic and counted separately. Where unpublished
assumptions give a range, a figure inside it is consistent, which is weaker than reproduced.

Nothing is fitted to a figure. Counts, rates and sizes stated for its cluster may be used; a figure
without the inputs that a model needs is declined.
"""

from __future__ import annotations

import csv
import io
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, Literal, get_args

from perfatlas.quantities import InvalidSpecError
from validation.fleet.anchor_rules import RULES, Figure, Found
from validation.fleet.anchor_transfers import TRANSFERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

REL_TOL: Final = 0.02  # relative, for figures printed with two or three digits
BOUNDS: Final = ("<", ">", "<=", ">=")
Status = Literal["reproduced", "consistent", "arithmetic", "missed", "declined"]
STATUSES: Final = get_args(Status)
COLUMNS: Final = ("source", "metric", "value", "value_max", "qualifier", "unit", "n_gpus")


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """A published figure and its prediction."""

    source: str  # Who published it
    metric: str  # What it is
    published: str  # The figure, as text with its unit
    status: Status  # Result of the comparison
    # Predicted value, in the unit of the figure, or the lower end of a range; None if declined
    ours: float | None
    ours_max: float | None  # Upper end of a range; None for a single value
    # ours / published - 1, by the nearest ends where either is a range; None inside a range and for
    # a bound that holds
    off: float | None
    why: str  # How it was computed, why it deviates, or why it is declined


GPU_CAUSES: Final = (
    "Faulty GPU",
    "GPU HBM3 memory",
    "GPU SRAM memory",
    "GPU system processor",
    "Silent data corruption",
    "GPU thermal interface+sensor",
)
MEMORY_CAUSES: Final = ("GPU HBM3 memory", "GPU SRAM memory")


def published_anchors(path: Path | None = None) -> list[Anchor]:
    """Return every figure of a table of published reliability figures, in its order.

    Args:
        path: CSV with columns source, metric, value, value_max, qualifier, unit and n_gpus; by
            default the shipped figures, each with its reference.

    Raises:
        InvalidSpecError: A column is missing, a value is not a number, or a figure has neither a
            rule nor a reason to decline it.
    """
    place = "published_figures.csv" if path is None else str(path)
    reader = csv.DictReader(io.StringIO(_text_of(path)))
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise InvalidSpecError(f"{place}: no column {', '.join(missing)}")
    rows = list(reader)
    sums = _sums(rows, place)
    return [_anchor(_figure(row, sums, place)) for row in rows]


def _text_of(path: Path | None) -> str:
    if path is None:
        shipped = resources.files("validation").joinpath("data/published_figures.csv")
        return shipped.read_text("utf-8")
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidSpecError(f"cannot read the figures '{path}': {problem}") from problem


def _sums(rows: Sequence[dict[str, str]], path: str) -> dict[str, float]:
    """Return sums over the rows that other rows are checked against."""
    causes = {
        row["metric"]: _number(row["value"], path)
        for row in rows
        if row["metric"].startswith("unexpected_interruptions[")
    }
    return {
        "causes": sum(causes.values()),
        "gpu_causes": _of(causes, GPU_CAUSES),
        "memory_causes": _of(causes, MEMORY_CAUSES),
        "planned": sum(
            _number(row["value"], path) for row in rows if row["metric"] == "interruptions_planned"
        ),
    }


def _of(causes: dict[str, float], names: tuple[str, ...]) -> float:
    return sum(causes.get(f"unexpected_interruptions[{name}]", 0.0) for name in names)


def _figure(row: dict[str, str], sums: dict[str, float], path: str) -> Figure:
    return Figure(
        source=row["source"],
        metric=row["metric"],
        value=_number(row["value"], path),
        value_max=_number(row["value_max"], path) if row["value_max"] else None,
        qualifier=row["qualifier"],
        unit=row["unit"],
        gpus=_number(row["n_gpus"], path) if row["n_gpus"] else 0.0,
        sums=sums,
    )


def _number(text: str, path: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidSpecError(f"{path}: {text[:60]!r} is not a number") from error


def _anchor(figure: Figure) -> Anchor:
    for (source, metric), rule in (RULES | TRANSFERS).items():
        if fnmatchcase(figure.source, source) and fnmatchcase(figure.metric, metric):
            found = rule(figure)
            if found is None:  # an input of the same metric
                break
            status = _status(figure, found)
            return Anchor(
                source=figure.source,
                metric=figure.metric,
                published=_text(figure),
                status=status,
                ours=found.ours,
                ours_max=found.ours_max,
                off=_off(figure, found, status),
                why=found.why,
            )
    for entry in _declined():
        named = fnmatchcase(figure.source, entry["source"])
        if named and fnmatchcase(figure.metric, entry["metric"]):
            return Anchor(
                source=figure.source,
                metric=figure.metric,
                published=_text(figure),
                status="declined",
                ours=None,
                ours_max=None,
                off=None,
                why=entry["reason"],
            )
    raise InvalidSpecError(
        f"{figure.source}: {figure.metric} has neither a rule nor a reason to decline it: add one "
        "to validation/data/declined.toml"
    )


def _status(figure: Figure, found: Found) -> Status:
    if not _meets(figure, found):
        return "missed"
    if found.arithmetic:
        return "arithmetic"
    # a bound that holds is weaker evidence than a reproduced value
    weak = found.ours_max is not None or figure.qualifier in BOUNDS
    return "consistent" if weak else "reproduced"


def _off(figure: Figure, found: Found, status: Status) -> float | None:
    most, last = found.ours_max or found.ours, figure.value_max or figure.value
    if found.ours_max is None and figure.value_max is None and figure.qualifier not in BOUNDS:
        return found.ours / figure.value - 1.0
    if status != "missed":
        return None
    return most / figure.value - 1.0 if most < figure.value else found.ours / last - 1.0


def _meets(figure: Figure, found: Found) -> bool:
    low, high = found.ours, found.ours if found.ours_max is None else found.ours_max
    if figure.qualifier in (">", ">="):
        return high >= figure.value
    if figure.qualifier in ("<", "<="):
        return low <= figure.value
    last = figure.value if figure.value_max is None else figure.value_max
    if found.ours_max is not None:
        return low <= last and figure.value <= high
    if figure.value_max is not None:
        return figure.value * (1 - REL_TOL) <= low <= last * (1 + REL_TOL)
    decimals = len(f"{figure.value:g}".partition(".")[2])
    rounded = abs(low - figure.value) <= 0.5 * 10.0**-decimals
    return (rounded and decimals > 0) or abs(low / figure.value - 1.0) <= REL_TOL


def _text(figure: Figure) -> str:
    end = f" to {figure.value_max:g}" if figure.value_max is not None else ""
    sign = figure.qualifier if figure.qualifier in (*BOUNDS, "~") else ""
    return f"{sign}{figure.value:g}{end} {figure.unit}"


@cache
def _declined() -> list[dict[str, str]]:
    text = resources.files("validation").joinpath("data/declined.toml").read_text("utf-8")
    found: list[dict[str, str]] = tomllib.loads(text)["declined"]
    return found

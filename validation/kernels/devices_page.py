"""The page of devices priced as if they had no tables, generated from the comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from validation.scoring import data_text, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TEMPLATE: Final = "devices_page.md"
SECTIONS: Final = (
    ("steps", "Steps of one GPU"),
    ("runs", "Published serving runs"),
    ("ratios", "Ratios of unchanged plans"),
)
HEADINGS: Final = {
    "steps": "step",
    "median_error": "median error",
    "inside_90": "in 90%",
    "width": "high/low",
    "measured_ratio": "measured ratio",
    "predicted_ratio": "predicted ratio",
    "points": "difference [points]",
    "relative": "error of the ratio",
}
PERCENT: Final = ("median_error", "inside_90", "points", "relative", "bias")


def write_devices_page(path: Path, found: Mapping[str, Any]) -> None:
    """Write the page.

    Args:
        path: The Markdown file.
        found: From `validate_devices`.

    Raises:
        InvalidSpecError: The file cannot be written.
    """
    check_writable(path)
    write_atomic(path, page_text(found))


def page_text(found: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        found: From `validate_devices`.
    """
    parts = [data_text(TEMPLATE).rstrip()]
    parts += [f"## {title}\n\n{_rows(found[name])}" for name, title in SECTIONS]
    return "\n\n".join(parts) + "\n"


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as Markdown; every row has the same fields."""
    names = list(rows[0])
    headings = [HEADINGS.get(name, name.replace("_", " ")) for name in names]
    return table(headings, [[_text(name, row[name]) for name in names] for row in rows])


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - a figure or a name
    if value is None or value == "":
        return "-"
    if isinstance(value, float) and math.isinf(value):
        return "open"
    if name in PERCENT:
        return f"{100 * value:+.1f}%" if name == "bias" else f"{100 * value:.1f}%"
    return f"{value:.2f}" if isinstance(value, float) else str(value)

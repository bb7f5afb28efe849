"""The page of published measurements that nothing is fitted to, generated from the comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from validation.scoring import SCORES, data_text, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TEMPLATE: Final = "outside_page.md"
SUMMARY: Final = {
    "measurements": "rows",
    "answered": "answered",
    "median_error": "median error",
    "bias": "bias",
    "inside_90": "in 90%",
    "width": "high/low",
    **SCORES,
}


def write_outside_page(path: Path, found: Mapping[str, Any]) -> None:
    """Write the page.

    Args:
        path: The Markdown file.
        found: From `validate_outside`.

    Raises:
        InvalidSpecError: The file cannot be written.
    """
    check_writable(path)
    write_atomic(path, page_text(found))


def page_text(found: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        found: From `validate_outside`.
    """
    text = data_text(TEMPLATE)
    worst = {"worst": "worst", "worst_error": "its error"}
    parts = (
        ("{totals}", _summaries(found["totals"], {"batch": "batch", "rows": ""})),
        (
            "{scales}",
            _summaries(found["by_scale"], {"batch": "batch", "scale": "scale", "half": "half"}),
        ),
        ("{devices}", _summaries(found["by_device"], {"device": "device", "batch": "batch"})),
        (
            "{sources}",
            _summaries(found["by_source"], {"batch": "batch", "source": "source"}, worst),
        ),
        ("{collected}", _collected(found["collected"])),
        ("{refused}", _refused(found["rows"])),
    )
    for place, part in parts:
        text = text.replace(place, part)
    return text


def _summaries(
    rows: Sequence[Mapping[str, Any]],
    before: Mapping[str, str],
    after: Mapping[str, str] | None = None,
) -> str:
    names = {**before, **SUMMARY, **(after or {})}
    return table(list(names.values()), [[_text(name, row[name]) for name in names] for row in rows])


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - a figure or a name
    if value is None or value == "":
        return "-"
    if name == "bias":
        return f"{100 * math.expm1(value):+.0f}%"
    if name == "worst_error":
        return f"{100 * value:+.0f}%"
    if name in ("median_error", "inside_90", "rescaled_error"):
        return f"{100 * value:.0f}%"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _collected(sources: Sequence[Mapping[str, Any]]) -> str:
    columns = {
        "title": "source",
        "batch": "batch",
        "date": "date",
        "url": "published in",
        "note": "read as",
    }
    return table(list(columns.values()), [[str(s[c]) for c in columns] for s in sources])


def _refused(rows: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ["measurement", "reason"],
        [[row["id"], row["refused"].replace("\n", " ")] for row in rows if row["refused"]],
    )

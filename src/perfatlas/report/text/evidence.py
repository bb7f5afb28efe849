"""How far an answer can be trusted: tiers, calibrations with their errors, assumptions, sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text.breakdown import WIDE, break_name
from perfatlas.report.text.quantities import MISSING, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

ROOFLINE: Final = "roofline"
TIERS: Final = {"bound": ROOFLINE, "physics": "analytical model", "measured": "measured tables"}
MOST_SOURCES: Final = 3
NARROW: Final = 60
NUMBERS_WIDTH: Final = 28  # of the rows and errors, with their gaps and the indentation


def evidence_headline(evidence: Mapping[str, Any]) -> str:
    """Return one line: how times were computed, the tier, and what its calibrations rest on.

    Args:
        evidence: The `evidence` of an answer.

    Example:
        >>> from perfatlas.report.text import evidence_headline
        >>> evidence_headline({"tier": "bound", "calibrations": []})
        'roofline (bound), no calibration: a lower limit on time, without an interval'
    """
    tier = str(evidence.get("tier") or MISSING)
    names = [TIERS.get(name, name) for name in tier.split("+")]
    tier = f"{' and '.join(names)} ({tier})"
    calibrations: Sequence[Mapping[str, Any]] = evidence.get("calibrations") or []
    if not calibrations:
        limit = ": a lower limit on time, without an interval" if names == [ROOFLINE] else ""
        return f"{tier}, no calibration{limit}"
    rows = sum(int(c.get("rows") or 0) for c in calibrations)
    noun = "calibration" if len(calibrations) == 1 else "calibrations"
    return f"{tier}, {len(calibrations)} {noun} on {rows:,} measured rows"


def calibration_table(calibrations: Sequence[Mapping[str, Any]], *, width: int) -> Table:
    """Return the calibrations used, each with its rows and errors.

    Args:
        calibrations: `evidence.calibrations` of an answer.
        width: Columns to fit in.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("  calibration", overflow="fold", header_style="dim")
    for name in ("rows", "median error" if width >= NARROW else "median", "p90"):
        table.add_column(name, justify="right", no_wrap=True, header_style="dim")
    for calibration in calibrations:
        table.add_row(
            break_name(str(calibration.get("id", MISSING)), max(width - NUMBERS_WIDTH, 16)),
            f"{int(calibration.get('rows') or 0):,}",
            _error(calibration.get("median_error")),
            _error(calibration.get("p90_error")),
        )
    return table


def _error(error: float | None) -> str:
    return MISSING if error is None else format_share(error)


def evidence_lines(evidence: Mapping[str, Any], *, width: int) -> list[tuple[str, str]]:
    """Return (label, text) lines for protocols, assumptions, sources and data versions.

    The hashes of calibration data and the rest of a long list of sources stay in the JSON object.

    Args:
        evidence: The `evidence` of an answer.
        width: Columns to fit in; measurement protocols are shown where there is room.
    """
    measured = [c.get("protocol") for c in evidence.get("calibrations") or []]
    lines = [("measured", str(p)) for p in dict.fromkeys(measured) if p and width >= WIDE]
    sources = [str(text) for text in evidence.get("sources") or []]
    calibrations = {c.get("id") for c in evidence.get("calibrations") or []}
    lines += [("assumes", str(text)) for text in evidence.get("assumptions") or []]
    lines += [("source", text) for text in sources[:MOST_SOURCES]]
    if len(sources) > MOST_SOURCES:
        lines.append(("source", f"and {len(sources) - MOST_SOURCES} more, listed by --json"))
    versions = evidence.get("data_versions") or {}
    return lines + [
        ("version", f"{name} {version}")
        for name, version in versions.items()
        if name not in calibrations
    ]

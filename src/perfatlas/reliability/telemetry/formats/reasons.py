"""Cause, kind and documented action of the reasons in logs, from data."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from perfatlas.files import shipped_table

Source = Literal["slurm", "kubernetes"]


class Reason(NamedTuple):
    """The meaning of a reason."""

    cause: str  # Name of the cause in a history
    kind: str  # Kind of event, one of `history.KINDS`
    action: str  # Documented action that ends it, "" for none


@lru_cache(maxsize=4096)
def reason_of(source: Source, text: str) -> Reason | None:
    """Return the meaning of a reason, None where it is not in the table.

    Args:
        source: Whose reasons: slurm or kubernetes.

    Source: data/telemetry/reasons.toml.

    Example:
        >>> from perfatlas.reliability.telemetry.formats.reasons import reason_of
        >>> reason_of("slurm", "Not responding")
        Reason(cause='not_responding', kind='failure', action='node_reboot')
    """
    for pattern, reason in _reasons()[source]:
        if pattern.search(text):
            return reason
    return None


@cache
def _reasons() -> dict[str, list[tuple[re.Pattern[str], Reason]]]:
    tables = shipped_table("data/telemetry/reasons.toml")
    return {
        source: [
            (
                re.compile(row["pattern"], re.IGNORECASE),
                Reason(row["cause"], row["kind"], row.get("action", "")),
            )
            for row in rows
        ]
        for source, rows in tables.items()
    }

"""Names that perfatlas no longer has, and what takes their place."""

from __future__ import annotations

from typing import Final

REMOVED: Final = {
    "goodput domains": "goodput --fleet simulates domains: parts_per_unit and parts_needed",
    "goodput stragglers": 'a fleet has slow GPUs: a cause with effect = "slows"',
    "runs compare": "runs export writes the rows of each run to a table",
    "spread": "explain has elasticities and break-even values, and sweep samples hardware",
    "servegen": "write the generated requests to a file and use --request-format perfatlas",
}


def removed_note(name: str) -> str:
    """Return what takes the place of a command, flag or value that was removed, or "".

    Args:
        name: What a user wrote.

    Example:
        >>> from perfatlas.vocabulary.fields import removed_note
        >>> removed_note("goodput stragglers")
        'goodput stragglers was removed: a fleet has slow GPUs: a cause with effect = "slows"'
    """
    instead = REMOVED.get(name, "")
    return f"{name} was removed: {instead}" if instead else ""

"""The envelope of answers composed by the command line: catalogs, tables, validations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.answer import SCHEMA
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def envelope(
    command: str,
    *,
    results: Mapping[str, Any],
    scenario: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the `--json` object.

    Args:
        command: The verb with its subcommand.

    Example:
        >>> from perfatlas.commands.output import envelope
        >>> list(envelope("catalog formats", results={"formats": []}))
        ['schema', 'version', 'command', 'scenario', 'results', 'breakdown', 'evidence', 'warnings']
    """
    return {
        "schema": SCHEMA,
        "version": __version__,
        "command": command,
        "scenario": dict(scenario or {}),
        "results": dict(results),
        "breakdown": [],
        "evidence": {
            "tier": None,
            "calibrations": [],
            "data_versions": {},
            "assumptions": [],
            "sources": [],
        },
        "warnings": list(warnings),
    }

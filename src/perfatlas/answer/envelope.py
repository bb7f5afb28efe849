"""The answer of a computing verb: one envelope, the same for CLI, Python and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from perfatlas.version import __version__

SCHEMA: Final = "perfatlas/2"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Where the numbers of an answer come from.

    Args:
        tier: Tier that priced the answer; "physics+bound" where some operators have no physics.
        calibrations: Calibrations used with their errors.
        data_versions: Named versions and hashes that reproduce the answer.
        assumptions: Sentences.
        sources: Documents the specs come from.
    """

    tier: str
    calibrations: tuple[Mapping[str, Any], ...] = ()
    data_versions: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered scenario.

    Args:
        command: The verb.
        scenario: The scenario as given, only what was given.
        results: Named results [SI, unit in the name].
        breakdown: Rows of name, phase, count, time_s, share, bound, bound_time_s, tier,
            calibration, stream.
        evidence: Where it comes from.
        warnings: What the user should know before trusting it.
    """

    command: str
    scenario: Mapping[str, Any]
    results: Mapping[str, Any]
    breakdown: Sequence[Mapping[str, Any]]
    evidence: Evidence
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as plain data, ready for JSON; numbers are finite or null."""
        envelope = {
            "schema": SCHEMA,
            "version": __version__,
            "command": self.command,
            "scenario": dict(self.scenario),
            "results": self.results,
            "breakdown": list(self.breakdown),
            "evidence": {
                "tier": self.evidence.tier,
                "calibrations": list(self.evidence.calibrations),
                "data_versions": dict(self.evidence.data_versions),
                "assumptions": list(self.evidence.assumptions),
                "sources": list(self.evidence.sources),
            },
            "warnings": list(self.warnings),
        }
        plain: dict[str, Any] = _plain(envelope)
        return plain


def _plain(value: Any) -> Any:  # noqa: ANN401 - walks JSON-like data of any shape
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

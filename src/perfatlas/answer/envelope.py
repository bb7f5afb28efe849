"""The answer of a computing verb, with the same envelope in CLI, Python and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from perfatlas.answer.display import Displayed
from perfatlas.version import __version__

SCHEMA: Final = "perfatlas/2"
BOTTLENECK: Final = "bottleneck: "  # start of a warning that leads the answer


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Evidence for the numbers of an answer."""

    tier: str  # Pricing tier; "physics+bound" if some operators have no physics model
    calibrations: tuple[Mapping[str, Any], ...] = ()
    # Versions and hashes that reproduce the answer, by name
    data_versions: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()  # Assumptions, as sentences
    sources: tuple[str, ...] = ()  # References of the specs


@dataclass(frozen=True, kw_only=True)
class Answer(Displayed):
    """The answer to one scenario."""

    command: str
    scenario: Mapping[str, Any]  # The input with everything resolved; it reproduces the answer
    results: Mapping[str, Any]  # Results by name [SI, unit in the name]
    # Rows of name, phase, count, time_s, share, bound, bound_time_s, tier, calibration, stream
    breakdown: Sequence[Mapping[str, Any]]
    evidence: Evidence
    # Warnings to read before relying on it; that kernels of another vendor's GPUs price it is added
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Add what the evidence warns of."""
        rows = self.evidence.calibrations
        note = other_vendors_note(row.get("foreign_device", "") for row in rows)
        if note and note not in self.warnings:
            object.__setattr__(self, "warnings", (*self.warnings, note))

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The numbers of `results` as columns of a one-row table, ready for a DataFrame.

        Nested keys are joined, as in `ttft_s_p99`; lists and time series are omitted.
        """
        return {name: [value] for name, value in flat_results(_plain(self.results))}

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as plain data, ready for JSON; numbers are finite or null.

        An infinite field of the scenario is the text "inf", which asks the same again.
        """
        envelope = {
            "schema": SCHEMA,
            "version": __version__,
            "command": self.command,
            "scenario": {
                name: "inf" if value == math.inf else value for name, value in self.scenario.items()
            },
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


@dataclass(frozen=True, kw_only=True)
class AnsweredRun(Displayed):
    """An answer together with the run that produced it; it has the attributes of the answer."""

    answer: Answer

    @property
    def command(self) -> str:
        """The verb."""
        return self.answer.command

    @property
    def scenario(self) -> Mapping[str, Any]:
        """The input with everything resolved; it reproduces the answer."""
        return self.answer.scenario

    @property
    def results(self) -> Mapping[str, Any]:
        """Results by name [SI, unit in the name]."""
        return self.answer.results

    @property
    def breakdown(self) -> Sequence[Mapping[str, Any]]:
        """Rows of the time breakdown."""
        return self.answer.breakdown

    @property
    def evidence(self) -> Evidence:
        """Evidence for the numbers."""
        return self.answer.evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before relying on it."""
        return self.answer.warnings

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The results as columns of a table, ready for a DataFrame."""
        return self.answer.columns

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as plain data, ready for JSON; numbers are finite or null."""
        return self.answer.to_dict()


def other_vendors_note(devices: Iterable[str]) -> str:
    """Return that kernels of another vendor's GPUs price an answer, "" where none do.

    Args:
        devices: Devices of another vendor that its calibrations were measured on, "" for none.
    """
    donors = dict.fromkeys(filter(None, devices))
    if not donors:
        return ""
    return (
        f"kernels of another vendor's GPUs ({', '.join(donors)}): the interval is that of both"
        " vendors"
    )


def flat_results(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield results as table cells; distributions yield one per statistic, as in ttft_s_p99.

    Lists and time series are omitted.

    Example:
        >>> from perfatlas.answer.envelope import flat_results
        >>> dict(flat_results({"steps": 3, "ttft_s": {"mean": 0.1, "p99": 0.2}, "classes": []}))
        {'steps': 3, 'ttft_s_mean': 0.1, 'ttft_s_p99': 0.2}
    """
    for name, value in results.items():
        if isinstance(value, Mapping):
            if any(isinstance(inner, list) for inner in value.values()):
                continue
            yield from ((f"{name}_{inner}", cell) for inner, cell in flat_results(value))
        elif not isinstance(value, list):
            yield name, value


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

"""Errors of predicted steps and operators between laboratories, as shipped data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from perfatlas.files import shipped_table

LABORATORIES: Final = "data/laboratories.toml"
# What supports a predicted time, the most first: `evidence.support` of answers
SUPPORT: Final = ("measured here", "related", "extrapolated")
Runs = Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]


@dataclass(frozen=True, kw_only=True)
class StepSpread:
    """Ratio of measured to predicted step time over laboratories that each count once."""

    center: float  # Mean of ln(measured / predicted) over the sources
    sources: int  # Published sources, each one measured on other machines
    runs: int  # Measured runs of all sources
    command: str  # Command that lists all sources


@cache
def step_spreads() -> dict[str, StepSpread]:
    """Return the spreads by the kind of model, `dense` or `experts`.

    Example:
        >>> from perfatlas.engines import step_spreads
        >>> sorted(step_spreads())
        ['dense', 'experts']
    """
    return {name: StepSpread(**row) for name, row in shipped_laboratories()["spread"].items()}


@dataclass(frozen=True, kw_only=True)
class WholeRunSpread:
    """How far whole runs deviate between laboratories, in units of a step's own deviation.

    The deviation of a step is that of whole runs and those of the operators in it, independent of
    each other. The limits of ln(measured / predicted) are the center of its kind of model less
    `lower` and plus `upper` deviations.
    """

    deviation: float  # Deviation of ln(measured / predicted) that no operator explains
    lower: float  # Deviations from the center to the 5% quantile of the mixture of all sources
    upper: float  # Deviations from the center to its 95% quantile
    sources: int  # Sources and kinds of models, each counted once
    runs: int  # Measured runs of all sources
    command: str  # Command that lists all sources


@cache
def whole_run_spread() -> WholeRunSpread:
    """Return the spread of whole runs over all sources.

    Example:
        >>> from perfatlas.engines import whole_run_spread
        >>> whole_run_spread().lower > 0.0 < whole_run_spread().upper
        True
    """
    return WholeRunSpread(**shipped_laboratories()["whole"])


@dataclass(frozen=True, kw_only=True)
class UnseenKinds:
    """Interval of runs of a kind that was not measured, and the kinds that were.

    It holds 90% of the runs of every measured kind but plain transformers: it ends at the least 5%
    and the largest 95% quantile. If kinds are exchangeable, that of a further kind is beyond an end
    with a probability of 1 / (kinds + 1).

    Source: distribution-free tolerance limits, Wilks, Ann. Math. Stat. 12 (1941).
    """

    low: float  # Lower limit of ln(measured / predicted)
    high: float  # Upper limit
    kinds: int  # Kinds of models and plans under an engine on an architecture
    runs: int  # Their measured runs
    command: str  # Command that lists all sources
    measured: dict[
        str, dict[str, list[str]]
    ]  # Architectures with measured runs, by kind and engine


@cache
def unseen_kinds() -> UnseenKinds:
    """Return the interval of unseen kinds.

    Example:
        >>> from perfatlas.engines import unseen_kinds
        >>> unseen_kinds().measured["gated delta nets"]
        {'sglang': ['blackwell', 'hopper']}
    """
    return UnseenKinds(**shipped_laboratories()["unseen"])


@cache
def measured_runs() -> Runs:
    """Return the devices with measured runs of services by kind, engine and architecture.

    Example:
        >>> from perfatlas.engines import measured_runs
        >>> measured_runs()["dense"]["sglang"]
        {'hopper': ['h100_sxm', 'h200_sxm']}
    """
    runs: Runs = shipped_laboratories()["measured"]
    return runs


def run_support(runs: Runs, kind: str, stack: tuple[str, str, str]) -> str:
    """Return what supports services: runs of their own, related runs, or none.

    Related are runs of the engine on the architecture, and those of any engine on the device.

    Args:
        runs: As `measured_runs`.
        kind: `dense` or `experts`.
        stack: Engine, architecture and name of the device.

    Example:
        >>> from perfatlas.engines import measured_runs, run_support
        >>> run_support(measured_runs(), "experts", ("vllm", "hopper", "h20"))
        'related'
    """
    engine, architecture, device = stack
    here, related, extrapolated = SUPPORT
    if device in runs.get(kind, {}).get(engine, {}).get(architecture, ()):
        return here
    is_related = any(
        architecture in devices if name == engine else device in devices.get(architecture, ())
        for engines in runs.values()
        for name, devices in engines.items()
    )
    return related if is_related else extrapolated


@dataclass(frozen=True, kw_only=True)
class OperatorSpread:
    """How far times of one class of operators deviate between laboratories."""

    # Operators of the calibrations of this class; empty for all classes together
    operators: list[str]
    deviation: float  # Standard deviation of ln(one laboratory / another)
    half_width: float  # Half-width of its 90% interval
    sources: int  # Sources, each counted once
    rows: int  # Compared times of all sources
    command: str  # Command that lists all sources


@cache
def operator_spreads() -> dict[str, OperatorSpread]:
    """Return the spreads by class of operators; `all` is that of all classes together.

    Example:
        >>> from perfatlas.engines import operator_spreads
        >>> operator_spreads()["gemm"].half_width > 0.0
        True
    """
    rows = shipped_laboratories().get("operator", {})
    return {name: OperatorSpread(**row) for name, row in rows.items()}


@cache
def _class_of() -> dict[str, str]:
    """Return the class of operators by operator of a calibration."""
    return {
        name: key
        for key, operator_spread in operator_spreads().items()
        for name in operator_spread.operators
    }


def operator_class(operator: str) -> str:
    """Return the class of operators whose spread an operator has, "all" without sources of its own.

    Args:
        operator: Operator of a calibration.

    Example:
        >>> from perfatlas.engines import operator_class
        >>> operator_class("mla_decode"), operator_class("scan_decode")
        ('decode', 'all')
    """
    return _class_of().get(operator, "all")


@dataclass(frozen=True, kw_only=True)
class ReleaseSpread:
    """How far rates move from one release of an engine to the next."""

    q05: float  # 5% quantile of ln(rate of the newer / rate of the older release)
    q95: float  # 95% quantile
    pairs: int  # Pairs of adjacent releases, each counted once
    runs: int  # Configurations measured in both releases of a pair
    command: str  # Command that scores the configurations that were not fitted


@cache
def release_spread() -> ReleaseSpread:
    """Return the spread between releases.

    Example:
        >>> from perfatlas.engines import release_spread
        >>> release_spread().q05 < 0.0 < release_spread().q95
        True
    """
    return ReleaseSpread(**shipped_laboratories()["release"])


def shipped_laboratories() -> dict[str, Any]:
    """Return the content of the shipped file."""
    return shipped_table(LABORATORIES)

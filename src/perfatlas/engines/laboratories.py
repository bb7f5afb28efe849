"""Errors of predicted steps and operators between laboratories, as shipped data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

LABORATORIES: Final = "data/laboratories.toml"


@dataclass(frozen=True, kw_only=True)
class StepSpread:
    """Ratio of measured to predicted step time over laboratories that each count once.

    Args:
        q05: 5% quantile of ln(measured / predicted) of the mixture of all sources.
        q95: 95% quantile.
        sources: Published sources, each one measured on other machines.
        runs: Measured runs of all sources.
        command: Command that lists all sources.
    """

    q05: float
    q95: float
    sources: int
    runs: int
    command: str


@cache
def step_spreads() -> dict[str, StepSpread]:
    """Return the spreads by the kind of model, `dense` or `experts`.

    Example:
        >>> from perfatlas.engines import step_spreads
        >>> step_spreads()["dense"].q05 < 0 < step_spreads()["dense"].q95
        True
    """
    return {name: StepSpread(**row) for name, row in shipped_laboratories()["spread"].items()}


@dataclass(frozen=True, kw_only=True)
class OperatorSpread:
    """How far times of one class of operators deviate between laboratories.

    Args:
        deviation: Standard deviation of ln(one laboratory / another).
        half_width: Half-width of its 90% interval.
        operators: Operators of the calibrations of this class; empty for all classes together.
        sources: Sources, each counted once.
        rows: Compared times of all sources.
        command: Command that lists all sources.
    """

    operators: list[str]
    deviation: float
    half_width: float
    sources: int
    rows: int
    command: str


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


@dataclass(frozen=True, kw_only=True)
class ReleaseSpread:
    """How far rates move from one release of an engine to the next.

    Args:
        q05: 5% quantile of ln(rate of the newer / rate of the older release).
        q95: 95% quantile.
        pairs: Pairs of adjacent releases, each counted once.
        runs: Configurations measured in both releases of a pair.
        command: Command that scores the configurations that were not fitted.
    """

    q05: float
    q95: float
    pairs: int
    runs: int
    command: str


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
    text = resources.files("perfatlas").joinpath(LABORATORIES).read_text("utf-8")
    return tomllib.loads(text)

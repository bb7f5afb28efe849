"""Errors of predicted steps between laboratories, as shipped data."""

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


def shipped_laboratories() -> dict[str, Any]:
    """Return the content of the shipped file."""
    text = resources.files("perfatlas").joinpath(LABORATORIES).read_text("utf-8")
    return tomllib.loads(text)

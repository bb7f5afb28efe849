"""Errors of predicted steps against measured serving runs, per engine, as stored."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

STEP_ERRORS: Final = "data/step_errors.toml"


@dataclass(frozen=True, kw_only=True)
class StepError:
    """Ratio of measured to predicted time per output token in serving runs of an engine."""

    engine: str  # Name of the engine; all versions are pooled
    q05: float  # 5% quantile of ln(measured / predicted)
    q95: float  # 95% quantile
    runs: int  # Number of measured runs
    left_out: int  # Excluded runs: those faster than the roofline of their stated load
    networks: int  # Number of different models
    data_hash: str
    command: str  # Command that lists all runs


@cache
def step_errors() -> dict[str, StepError]:
    """Return the errors by engine; engines without measurements are absent.

    Example:
        >>> from validation.runs.shipped_errors import step_errors
        >>> step_errors()["vllm"].q05 < 0 < step_errors()["vllm"].q95
        True
    """
    text = resources.files("validation").joinpath(STEP_ERRORS).read_text("utf-8")
    return {
        name: StepError(engine=name, **row) for name, row in tomllib.loads(text)["engine"].items()
    }

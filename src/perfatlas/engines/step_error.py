"""How far measured serving was from predicted steps, engine by engine, as shipped data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

STEP_ERRORS: Final = "data/step_errors.toml"


@dataclass(frozen=True, kw_only=True)
class StepError:
    """What real serving runs on an engine showed beside predicted times per output token.

    Args:
        engine: Name of the engine, all its versions together.
        q05: 5 % quantile of ln(measured / predicted).
        q95: 95 % quantile.
        runs: Measured runs the quantiles are of.
        left_out: Runs faster than the bound for the load they state, which are not among them.
        networks: Different networks among them.
        data_hash: Hash of the file they come from.
        command: What shows every run.
    """

    engine: str
    q05: float
    q95: float
    runs: int
    left_out: int
    networks: int
    data_hash: str
    command: str


@cache
def step_errors() -> dict[str, StepError]:
    """Return the errors by engine; an engine nobody measured has none.

    Example:
        >>> from perfatlas.engines import step_errors
        >>> step_errors()["vllm"].q05 < 0 < step_errors()["vllm"].q95
        True
    """
    text = resources.files("perfatlas").joinpath(STEP_ERRORS).read_text("utf-8")
    return {
        name: StepError(engine=name, **row) for name, row in tomllib.loads(text)["engine"].items()
    }

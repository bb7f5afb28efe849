"""Measurements of all scales that were published elsewhere, frozen before their first score."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each file is a batch, committed before its first score.
BATCHES: Final = (
    "data/outside_runs.toml",
    "data/outside_runs_2.toml",
    "data/outside_runs_3.toml",
    "data/outside_runs_4.toml",
    "data/outside_runs_5.toml",
)
EXPLORED: Final = "explored"
HELD_OUT: Final = "held out"


@cache
def outside_sources() -> tuple[Mapping[str, Any], ...]:
    """Return the sources of the shipped data files with their batch and measurements."""
    return tuple(
        {**source, "batch": batch}
        for batch, path in enumerate(BATCHES, start=1)
        for source in _batch(path)["source"]
    )


def half_of(name: str) -> str:
    """Return the half of a measurement whose source does not state one (`half`).

    Args:
        name: Its id.

    Returns:
        `explored`, which may lead to a change, or `held out`, which may not.
    """
    below = _batch(BATCHES[0])["explored_below"]  # one rule for the first three batches
    return EXPLORED if int(hashlib.sha256(name.encode()).hexdigest()[0], 16) < below else HELD_OUT


@cache  # the half of every measurement reads the rule of the first
def _batch(path: str) -> Mapping[str, Any]:
    return tomllib.loads(resources.files("validation").joinpath(path).read_text("utf-8"))

"""Measurements of all scales that were published elsewhere, frozen before their first score."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each file is a batch, committed before its first score.
BATCHES: Final = (
    "outside_runs.toml",
    "outside_runs_2.toml",
    "outside_runs_3.toml",
    "outside_runs_4.toml",
    "outside_runs_5.toml",
)
EXPLORED: Final = "explored"
HELD_OUT: Final = "held out"


@cache
def outside_sources() -> tuple[Mapping[str, Any], ...]:
    """Return the sources of the shipped data files with their batch and measurements."""
    return tuple(
        {**source, "batch": batch}
        for batch, path in enumerate(BATCHES, start=1)
        for source in read_data(path)["source"]
    )


def half_of(name: str) -> str:
    """Return the half of a measurement whose source does not state one (`half`).

    Args:
        name: Its id.

    Returns:
        `explored`, which may lead to a change, or `held out`, which may not.
    """
    below = read_data(BATCHES[0])["explored_below"]  # one rule for the first three batches
    return EXPLORED if int(hashlib.sha256(name.encode()).hexdigest()[0], 16) < below else HELD_OUT

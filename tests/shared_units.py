"""Compile fewer simulators: one serves all schedulers where a simulation uses rare features.

The machine code of one scheduler with speculative decoding, or with pools, routers, tiers below the
GPU, prefix caching, outages and autoscaling takes 6 to 12 CPU-seconds to compile, and the tests
would need seven of them. In the tests such simulations run the unit that fleets with several
schedulers run anyway. Without these features, every scheduler runs its own unit, as elsewhere;
`make golden` runs the units of single schedulers with them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from perfatlas.serving.state import SimulationState

if TYPE_CHECKING:
    from collections.abc import Iterator

RARE: Final = {"draft_tokens", "prefix_caching"}  # one of each group of rare features
settled: Final = SimulationState.settled


def settled_without_rare_features(state: SimulationState) -> dict[str, int]:
    """Return the fields whose values are compiled in, none where a rare feature is used.

    Args:
        state: Engines of one type in a simulation.
    """
    told = settled(state)
    return told if told.keys() >= RARE else {}


@contextmanager
def compiling_few_units() -> Iterator[None]:
    """Compile one simulator for all rare features inside."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SimulationState, "settled", settled_without_rare_features)
        yield

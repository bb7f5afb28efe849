"""Compile fewer simulators: two serve all simulations of the tests.

The machine code of one scheduler takes 6 to 12 CPU-seconds to compile, more with speculative
decoding, or with pools, routers, tiers below the GPU, prefix caching, outages and autoscaling, and
the tests would need a dozen of them. In the tests the default scheduler without these features runs
its own unit, as elsewhere; all others run the unit that fleets with several schedulers run anyway.
`make golden` records and compares the answers of the units of single schedulers; the sample of them
in tests/golden/test_golden.py asks the general unit for those of every scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from perfatlas.serving.policies.table import POLICIES
from perfatlas.serving.policies.vllm import VLLM
from perfatlas.serving.state import SimulationState

RARE: Final = {"limits.draft_tokens", "limits.prefix_caching"}  # one of each group of rare features
DEFAULT: Final = POLICIES.index(VLLM)
settled: Final = SimulationState.settled


def settled_by_default(state: SimulationState) -> dict[str, int]:
    """Return the fields whose values are compiled in, none beside the plain default scheduler.

    Args:
        state: Engines of one type in a simulation.
    """
    told = settled(state)
    return told if told.keys() >= RARE and told["policy"] == DEFAULT else {}


@contextmanager
def compiling_few_units() -> Iterator[None]:
    """Compile one simulator for all but the plain default scheduler inside."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SimulationState, "settled", settled_by_default)
        yield

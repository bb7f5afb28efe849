"""Compile fewer simulators: one serves all schedulers where a simulation uses rare features.

The machine code of one scheduler with pools, routers, tiers below the GPU, prefix caching, outages
and autoscaling takes 6 to 10 CPU-seconds to compile, and the tests beside this file would need six
of them. Here such simulations run the unit that fleets with several schedulers run anyway.
Without these features, every scheduler runs its own unit, as elsewhere; tests of scenarios and of
the command line run the units of single schedulers with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfatlas.serving.state import SimulationState

if TYPE_CHECKING:
    from collections.abc import Iterator


# not "package": without an `__init__.py`, that would last to the end of the session
@pytest.fixture(scope="module", autouse=True)
def one_unit_for_rare_features() -> Iterator[None]:
    settled = SimulationState.settled

    def settled_without_rare_features(state: SimulationState) -> dict[str, int]:
        told = settled(state)
        return told if "prefix_caching" in told else {}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SimulationState, "settled", settled_without_rare_features)
        yield

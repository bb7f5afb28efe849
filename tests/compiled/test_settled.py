"""The settled fields for which a simulation is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.serving.config import SchedulerLimits
from perfatlas.serving.state import SimulationState
from tests.shared_units import settled

DRAFTS = {"limits.draft_tokens"}
OTHERS = {"role", "routing", "offloads", "limits.prefix_caching", "varies"}
PLAIN = SchedulerLimits(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("has", "lacks"),
    [
        ({}, DRAFTS | OTHERS),
        ({"limits": PLAIN._replace(draft_tokens=3)}, OTHERS),
        ({"limits": PLAIN._replace(prefix_caching=True)}, DRAFTS),
        ({"limits": PLAIN._replace(draft_tokens=1), "routing": 2}, set()),
    ],
    ids=["plain", "drafts", "prefixes", "both"],
)
def test_unused_features_are_settled(has: dict[str, Any], lacks: set[str]) -> None:
    nothing: dict[str, Any] = dict.fromkeys(SimulationState._fields, 0)
    told = settled(SimulationState(**(nothing | {"policy": 2, "limits": PLAIN} | has)))
    assert set(told) & (DRAFTS | OTHERS) == lacks
    assert told["policy"] == 2
    assert all(told[name] == 0 for name in lacks)

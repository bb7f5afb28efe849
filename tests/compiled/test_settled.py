"""The settled fields for which a simulation is compiled."""

from __future__ import annotations

import pytest

from perfatlas.serving.state import SimulationState
from tests.shared_units import settled

DRAFTS = {"draft_tokens"}
OTHERS = {"role", "routing", "offloads", "prefix_caching", "varies"}


@pytest.mark.parametrize(
    ("has", "lacks"),
    [
        ({}, DRAFTS | OTHERS),
        ({"draft_tokens": 3}, OTHERS),
        ({"prefix_caching": True}, DRAFTS),
        ({"draft_tokens": 1, "routing": 2}, set()),
    ],
    ids=["plain", "drafts", "prefixes", "both"],
)
def test_unused_features_are_settled(has: dict[str, int], lacks: set[str]) -> None:
    nothing = dict.fromkeys(SimulationState._fields, 0)
    told = settled(SimulationState(**(nothing | {"policy": 2} | has)))  # type: ignore[arg-type] # numbers do
    assert set(told) & (DRAFTS | OTHERS) == lacks
    assert told["policy"] == 2
    assert all(told[name] == 0 for name in lacks)

"""What the unit of a simulation is compiled for."""

from __future__ import annotations

import pytest

from perfatlas.serving.state import World

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
def test_what_a_simulation_lacks_is_settled(has: dict[str, int], lacks: set[str]) -> None:
    nothing = dict.fromkeys(World._fields, 0)
    told = World(**(nothing | {"policy": 2} | has)).settled()  # type: ignore[arg-type] # numbers do
    assert set(told) & (DRAFTS | OTHERS) == lacks
    assert told["policy"] == 2
    assert all(told[name] == 0 for name in lacks)

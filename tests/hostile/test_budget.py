from __future__ import annotations

from tests.hostile.support import EXAMPLES


def test_two_thousand_hostile_inputs() -> None:
    assert sum(EXAMPLES.values()) >= 2000

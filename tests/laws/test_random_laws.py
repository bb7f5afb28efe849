"""Laws of random scenarios hold, but for a known share of the pairs and up to a known size."""

from __future__ import annotations

import pytest

from tests.laws.random_questions import LAWS, Law, violations

DRAWS = 24
# Law -> size to which pairs may break it, which may only shrink; all other laws hold exactly. Found
# by `python -m tests.laws.random_questions 250`; docs/models/step.md names the causes.
KNOWN = {
    "TPOT: tier physics >= tier bound": 0.035,
    "TTFT with more memory bandwidth": 0.01,
    "TPOT with more memory bandwidth": 0.06,
    "throughput at twice the batch": 0.022,
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_law_holds_for_random_scenarios(law: Law) -> None:
    found, answered = violations(law, DRAWS, seed=1)
    assert answered > DRAWS // 3
    assert max((one.by for one in found), default=0.0) <= KNOWN.get(law.name, 0.0)
    assert len(found) <= answered // 8

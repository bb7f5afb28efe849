"""Laws of random scenarios hold; one up to a known size."""

from __future__ import annotations

import pytest

from tests.laws.random_questions import LAWS, Law, violations

DRAWS = 10
# Law -> size to which pairs may break it, which may only shrink; all other laws hold exactly. Found
# by `python -m tests.laws.random_questions 800`, where 9 of 578 pairs break it by up to 14%:
# activations of twice the batch leave the last-level cache, or prompts leave a short last chunk.
KNOWN = {"throughput at twice the batch": 0.022}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_law_holds_for_random_scenarios(law: Law) -> None:
    found, answered = violations(law, DRAWS, seed=1)
    assert answered > DRAWS // 3
    assert max((one.by for one in found), default=0.0) <= KNOWN.get(law.name, 0.0)
    assert len(found) <= answered // 8

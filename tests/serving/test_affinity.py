"""Prefix-aware routing, computed by hand.

A step that only decodes takes 10 ps, one with prompts 100 ps. Prompts are hashed by 4 tokens.
"""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config import Affinity, Control, Replicas, SchedulerLimits
from perfatlas.serving.requests import Requests
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of, with_prompts

FLAT = flat_prices(10, 100)
ROOMY = SchedulerLimits(8, 64, 4, 100, prefix_caching=True)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


def _hashed(rows: list[tuple[int, int, int]], hashes: list[list[int]]) -> Requests:
    return with_prompts(requests_of(rows), hashes, 4)


def _routed(match_share: float, apart: int = 64, ratio: float = 1.5) -> Replicas:
    affinity = Affinity(match_share, apart, ratio)
    return Replicas(3, 1, "prefix_aware", affinity=affinity)


@BOTH
def test_a_prompt_follows_the_longest_beginning_it_shares(control: Control) -> None:
    # One at a time but for E and F, so that loads are 0 and equals take turns. A goes to 0, new. B
    # shares nothing: 1. C shares 8 of 12 tokens with A, more than half: 0. D shares 4 of 12 with
    # A: 2, whose turn it is. E shares nothing: 0 again. F, as long as E runs on 0: 1. G shares 8
    # of 10 with F: 1. H goes there too: the first to get its beginning was F's.
    rows = [(0, 12, 1), (1000, 8, 1), (2000, 12, 1), (3000, 12, 1), (4000, 8, 9), (4010, 8, 1)]
    rows += [(5000, 10, 1), (6000, 8, 1)]
    hashes = [[1, 2, 3], [7, 8], [1, 2, 4], [1, 5, 6], [30, 31], [40, 41], [40, 41, 42], [40, 41]]
    outcome = run(_hashed(rows, hashes), FLAT, ROOMY, _routed(0.5), control=control)
    assert outcome.replica_N.tolist() == [0, 1, 0, 2, 0, 1, 1, 1]
    # at least one token is left to compute: of C both blocks it shares, of H one of two
    assert outcome.cached_N.tolist() == [0, 0, 8, 0, 0, 0, 8, 4]


@BOTH
def test_finding_6_idle_replicas_fill_evenly(control: Control) -> None:
    # 90 prompts that share nothing, one at a time: every replica gets a third, and keeps it
    requests = _hashed(
        [(1000 * i, 8, 1) for i in range(90)], [[2 * i, 2 * i + 1] for i in range(90)]
    )
    for routing in ("prefix_aware", "least_loaded"):
        replicas = _routed(0.5)._replace(routing=routing)
        outcome = run(requests, FLAT, ROOMY, replicas, control=control)
        assert np.bincount(outcome.replica_N).tolist() == [30, 30, 30], routing


def test_a_share_of_the_prompt_is_exceeded_not_met() -> None:
    # C shares 4 of 8 tokens with A, which went to 0: not more than half, so it goes to the least
    # loaded, 2 after B went to 1
    rows = [(0, 8, 1), (500, 8, 50), (501, 8, 1)]
    hashes = [[1, 2], [8, 9], [1, 3]]
    met = run(_hashed(rows, hashes), FLAT, ROOMY, _routed(0.5))
    assert met.replica_N.tolist() == [0, 1, 2]
    below = run(_hashed(rows, hashes), FLAT, ROOMY, _routed(0.49))
    assert below.replica_N.tolist() == [0, 1, 0]


@BOTH
def test_loads_too_far_apart_end_it(control: Control) -> None:
    # All share one prompt. Up to 3 on replica 0 differ by 2 from 0 at most when the next comes;
    # then 3 - 0 > 2 and 3 > 1.5 x 0: the fourth goes to 1, and the tree knows it there too, but
    # the first is still 0. Then 3 - 0 on replica 2: the fifth goes there. The sixth finds 3, 1, 1:
    # not apart by more than 2, so 0 again; the seventh 4, 1, 1.
    rows = [(place, 8, 100) for place in range(7)]
    hashes = [[1, 2]] * 7
    outcome = run(_hashed(rows, hashes), FLAT, ROOMY, _routed(0.5, apart=2), control=control)
    assert outcome.replica_N.tolist() == [0, 0, 0, 1, 2, 0, 1]
    # 3 > 4 x 0 still holds, but 4 > 4 x 1 does not
    ratio = run(_hashed(rows, hashes), FLAT, ROOMY, _routed(0.5, apart=2, ratio=4.0))
    assert ratio.replica_N.tolist() == [0, 0, 0, 1, 2, 0, 0]


def test_prompts_without_hashes_go_to_the_least_loaded() -> None:
    requests = requests_of([(place, 8, 100) for place in range(5)])
    outcome = run(requests, FLAT, ROOMY, _routed(0.0))
    assert outcome.replica_N.tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("affinity", "said"),
    [
        (Affinity(match_share=1.5), "match_share is 1.5"),
        (Affinity(balance_apart=-1), "balance_apart is -1"),
        (Affinity(balance_ratio=0.5), "balance_ratio is 0.5"),
        (Affinity(balance_ratio=float("nan")), "balance_ratio is nan"),
    ],
)
def test_impossible_thresholds_are_refused(affinity: Affinity, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        run(requests_of([(0, 4, 1)]), FLAT, ROOMY, Replicas(affinity=affinity))

"""Records of requests that wait for prompts or are preempted, computed by hand.

A decode-only step takes 10 ms, one with prompts 100 ms.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from perfatlas.serving.config import Control, SchedulerLimits
from perfatlas.serving.outcome import GAP_EDGES
from perfatlas.serving.run.simulate import run
from tests.serving.serving_support import flat_prices, requests_of, scaled

MS = 10**9
PRICES = scaled(flat_prices(10, 100), MS)
ROOMY = SchedulerLimits(4, 64, 4, 100)
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


def _gaps(counts: dict[int, int]) -> list[int]:
    """Return the histogram of gaps, from counts of gaps by length [ms]."""
    gaps_G = np.zeros(GAP_EDGES.shape[0], np.int64)
    for gap, count in counts.items():
        gaps_G[np.searchsorted(GAP_EDGES, gap * MS, side="right") - 1] += count
    return [int(count) for count in gaps_G]


@pytest.mark.parametrize(
    ("rules", "interference", "gaps"),
    [
        # A's tokens at 100, 110, with B's prompt 210, 220 ms
        ("vllm", 90, {10: 2, 100: 1}),
        # at 100, 110; waits for B's prompt; 220, 230
        ("sglang", 100, {10: 2, 110: 1}),
        # A is not disturbed
        ("static", 0, {10: 3}),
    ],
)
@BOTH
def test_prompts_delay_decodes(
    control: Control, *, rules: str, interference: int, gaps: dict[int, int]
) -> None:
    requests = requests_of([(0, 4, 4), (101 * MS, 8, 1)])
    outcome = run(requests, PRICES, ROOMY._replace(rules=rules), control=control)
    assert outcome.interference_N.tolist() == [interference * MS, 0]
    assert outcome.gaps_G.tolist() == _gaps(gaps)


@BOTH
def test_lost_time_is_from_preemption_to_recovery(control: Control) -> None:
    # 6 blocks; A, B, C: prompt 4, 9 out. C goes at 140 ms with 5 tokens; at 180 its 9 tokens run,
    # to 280; that step gives the sixth, 140 ms after the fifth, and no other request decodes in it
    requests = requests_of([(0, 4, 9)] * 3)
    outcome = run(requests, PRICES, ROOMY._replace(kv_blocks=6), control=control)
    assert outcome.lost_N.tolist() == [0, 0, 140 * MS]
    assert outcome.interference_N.tolist() == [0, 0, 0]
    assert outcome.gaps_G.tolist() == _gaps({10: 23, 140: 1})


def test_borders_of_gaps_are_64_to_a_decade() -> None:
    assert GAP_EDGES[[0, 1, 2, 66, 450]].tolist() == [0, 1, 10**7, 10**8, 10**14]
    assert (np.diff(GAP_EDGES) > 0).all()


@BOTH
def test_growing_steps_cross_borders(control: Control) -> None:
    # steps of 10 ms and 0.1 ms more for each key: at a context of 5 to 103 keys
    prices = PRICES._replace(decode_slope_BK=np.full((65, 1), MS // 10))
    outcome = run(requests_of([(0, 4, 100)]), prices, ROOMY, control=control)
    gaps = 10 * MS + MS // 10 * np.arange(5, 104)
    expected, _ = np.histogram(gaps, np.append(GAP_EDGES, 10**18))
    assert outcome.gaps_G.tolist() == expected.tolist()


def test_gaps_between_two_times_are_counted_and_nothing_else_changes() -> None:
    # A's tokens at 100, 110; waits for B's prompt until 210; 220, 230, 240 ms
    requests = requests_of([(0, 4, 6), (101 * MS, 8, 1)])
    whole = run(requests, PRICES, ROOMY, control=Control(coalesce=False))
    window = Control(coalesce=False, gaps_between=(150 * MS, 225 * MS))
    part = run(requests, PRICES, ROOMY, control=window)
    assert whole.gaps_G.tolist() == _gaps({10: 4, 100: 1})
    assert part.gaps_G.tolist() == _gaps({10: 1, 100: 1})
    assert part.finished_N.tolist() == whole.finished_N.tolist()
    assert part.steps == whole.steps


@BOTH
def test_gaps_of_parts_of_a_run_are_those_of_the_run(control: Control) -> None:
    requests = requests_of([(20 * MS * number, 8, 12) for number in range(30)])
    ends = [0, 700 * MS, 1100 * MS, 10**15]
    parts = [
        run(requests, PRICES, ROOMY, control=control._replace(gaps_between=(start, end))).gaps_G
        for start, end in itertools.pairwise(ends)
    ]
    whole = run(requests, PRICES, ROOMY, control=control)
    assert np.sum(parts, axis=0).tolist() == whole.gaps_G.tolist()
    assert all(part.sum() for part in parts[:2])

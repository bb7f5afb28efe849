from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving import requests
from perfatlas.vocabulary.fields import MAX_S
from tests.serving.support import check_invariants, hit_share, mean_rate


def traffic(count: int = 60, rate: float = 5.0, seed: int = 1) -> requests.Requests:
    lengths = (
        requests.lognormal_lengths(count, requests.lognormal(median=400, sigma=1), column, seed)
        for column in ("isl", "osl")
    )
    return requests.plain_requests(requests.gamma_arrivals(count, rate, 2.0, seed), *lengths)


def talks() -> requests.Requests:
    asked = np.array([64, 10, 40, 100, 7, 33])
    second = requests.TICKS_PER_SECOND
    turns = requests.Turns(
        asked_N=asked, osl_N=asked + 1, pause_N=second * np.array([0, 2, 2, 0, 3, 3])
    )
    return requests.sessions(second * np.array([0, 1]), np.array([3, 3]), turns, hash_block=16)


@given(st.floats(0.05, 50.0), st.integers(0, 99))
def test_compressed_time_scales_the_rate_and_keeps_the_rest(factor: float, seed: int) -> None:
    before = traffic(seed=seed)
    after = requests.scale_rate(before, factor)
    check_invariants(after)
    assert mean_rate(after) == pytest.approx(factor * mean_rate(before), rel=1e-9)
    assert after.arrival_N.shape == before.arrival_N.shape
    for name in ("isl_N", "osl_N", "session_N", "pause_N", "hash_H"):
        assert getattr(after, name) is getattr(before, name)


@given(st.floats(1e-4, 10.0), st.floats(1e-4, 10.0))
def test_scaled_lengths_are_whole_and_near(isl_factor: float, osl_factor: float) -> None:
    before = traffic()
    after = requests.scale_lengths(before, isl_factor, osl_factor)
    check_invariants(after)
    # half a token of rounding, and one token at least
    assert np.all(np.abs(after.isl_N - before.isl_N * isl_factor) <= 1)
    assert np.all(np.abs(after.osl_N - before.osl_N * osl_factor) <= 1)
    assert after.arrival_N is before.arrival_N


@pytest.mark.parametrize("factor", [0.0625, 0.125, 0.5, 2.0, 3.0])
def test_scaled_prompts_share_the_same_blocks(factor: float) -> None:
    before = talks()
    after = requests.scale_lengths(before, factor, 1.0)
    check_invariants(after)
    assert after.hash_block == 16 * factor
    assert [column.tolist() for column in requests.prompt_hashes(after)] == [
        column.tolist() for column in requests.prompt_hashes(before)
    ]
    # partial blocks are rounded up, whole ones are shared: the share moves by less than rounding
    assert hit_share(after) == pytest.approx(hit_share(before), abs=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: requests.scale_rate(r, 0.0), "rate factor = 0.0"),
        (lambda r: requests.scale_rate(r, math.nan), "rate factor = nan"),
        (lambda r: requests.scale_rate(r, 1e-7), "select a window"),
        (lambda r: requests.scale_lengths(r, -1.0, 1.0), "isl factor = -1.0"),
        (lambda r: requests.scale_lengths(r, 1.0, math.inf), "osl factor = inf"),
        (lambda r: requests.scale_lengths(r, 1.0, 1e9), "yields a length of"),
        (
            lambda r: requests.scale_lengths(r, 0.3, 1.0),
            "nearest factor with an integer result is 5/16",
        ),
    ],
)
def test_scalings_out_of_range_are_refused(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(InvalidSpecError, match=words):
        call(talks())


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 5 * 10**17))
def test_spread_requests_stay_before_the_next_stamp(stamps: list[int], tick: int) -> None:
    arrival_N = np.sort(np.array(stamps)) * tick
    one = np.ones_like(arrival_N)
    spread = requests.spread_batches(requests.plain_requests(arrival_N, one, one))
    check_invariants(spread)
    time_T = np.unique(arrival_N)
    # each lies from its own stamp to before the next; those of the last have no next
    later = np.searchsorted(time_T, arrival_N, side="right") < time_T.shape[0]
    following = time_T[np.searchsorted(time_T, arrival_N[later], side="right")]
    assert np.all(spread.arrival_N >= arrival_N)
    assert spread.arrival_N[-1] <= MAX_S * requests.TICKS_PER_SECOND
    assert np.all(spread.arrival_N[later] < following)


def test_constant_traffic_has_its_rate() -> None:
    one = np.ones(11, np.int64)
    assert mean_rate(
        requests.plain_requests(requests.constant_arrivals(11, 2.5), one, one)
    ) == pytest.approx(2.5)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfatlas.scenario import Latencies, aggregated_latencies, pipelined_s, static_latencies

SECONDS = st.floats(1e-6, 1e3)
COUNTS = st.integers(1, 10**6)


def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([value])


def numbers(latencies: Latencies) -> list[float]:
    return [float(column[0]) for column in latencies]


def test_a_static_batch_by_hand() -> None:
    # 0.5 s of prefill and 99 further tokens of 10 ms; 4 sequences leave 400 tokens in 1.49 s
    static = static_latencies(one(0.5), one(0.01), one(4), one(100))
    assert numbers(static) == pytest.approx([0.5, 0.01, 1.49, 400 / 1.49])


def test_one_token_needs_no_decode_step() -> None:
    static = static_latencies(one(0.5), one(0.01), one(4), one(1))
    assert numbers(static) == [0.5, 0.01, 0.5, 8.0]


def test_continuous_batching_by_hand() -> None:
    # 64 requests of 128 tokens: every token carries 1/128 of the 63 others' prefills of 40 ms
    mixed = aggregated_latencies(one(0.1), one(0.04), one(0.01), one(64), one(128))
    tpot = 0.01 + 63 / 128 * 0.04
    ttft = 0.1 + 0.005
    latency = ttft + 127 * tpot
    assert numbers(mixed) == pytest.approx([ttft, tpot, latency, 64 * 128 / latency])


@pytest.mark.parametrize(
    ("pieces", "stages", "share", "expected"),
    [
        (1, 1, 1.0, 8.0),  # one piece through one stage
        (3, 1, 1.0, 24.0),  # three pieces one after the other
        (1, 4, 0.25, 8.0),  # one piece through four stages is no faster
        (5, 4, 0.25, 16.0),  # four more, each as long as a quarter
        (5, 4, 0.5, 24.0),  # or as the fullest stage
        (5, 1, 0.5, 40.0),  # a single stage has no share
    ],
)
def test_a_pipeline_by_hand(pieces: int, stages: int, share: float, expected: float) -> None:
    assert pipelined_s(one(8.0 * pieces), one(8.0), one(stages), one(share)).tolist() == [expected]


@given(prefill=SECONDS, decode=SECONDS, sequences=COUNTS, osl=COUNTS)
def test_static_throughput_is_tokens_over_latency(
    prefill: float, decode: float, sequences: int, osl: int
) -> None:
    static = static_latencies(one(prefill), one(decode), one(sequences), one(osl))
    tokens = static.output_tokens_per_s * static.request_latency_s
    assert tokens == pytest.approx(sequences * osl)
    assert static.request_latency_s >= static.ttft_s


def test_a_request_alone_waits_for_nobody() -> None:
    alone = aggregated_latencies(one(0.1), one(0.04), one(0.01), one(1), one(128))
    assert alone.tpot_s == 0.01


@given(own=SECONDS, cost=SECONDS, decode=SECONDS, sequences=COUNTS, osl=COUNTS)
def test_every_token_pays_its_share_of_all_prefills(
    own: float, cost: float, decode: float, sequences: int, osl: int
) -> None:
    mixed = aggregated_latencies(one(own), one(cost), one(decode), one(sequences), one(osl))
    assert mixed.tpot_s >= decode
    assert mixed.tpot_s <= (decode + sequences / osl * cost) * (1 + 1e-12)
    assert mixed.ttft_s >= own
    more = aggregated_latencies(one(own), one(cost), one(decode), one(sequences + 1), one(osl))
    assert more.tpot_s >= mixed.tpot_s
    assert more.ttft_s == mixed.ttft_s


@given(depth=SECONDS, pieces=COUNTS, stages=st.integers(2, 64))
def test_a_pipeline_is_between_one_piece_and_all_in_a_row(
    depth: float, pieces: int, stages: int
) -> None:
    time = pipelined_s(one(depth * pieces), one(depth), one(stages), one(1 / stages))[0]
    assert depth <= time <= pieces * depth * (1 + 1e-12)
    # with many pieces the pipeline is full and a piece leaves every depth / stages
    assert time >= pieces * depth / stages

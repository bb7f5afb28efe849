from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import inference

SECONDS = st.floats(1e-6, 1e3)
COUNTS = st.integers(1, 10**6)


def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([value])


def numbers(latencies: inference.Latencies) -> list[float]:
    return [float(column[0]) for column in latencies]


def test_a_static_batch_by_hand() -> None:
    # 0.5 s of prefill and 99 further tokens of 10 ms; 4 sequences leave 400 tokens in 1.49 s
    static = inference.static_latencies(one(0.5), one(0.01), one(4), one(100))
    assert numbers(static) == pytest.approx([0.5, 0.01, 1.49, 400 / 1.49])


def test_one_token_needs_no_decode_step() -> None:
    static = inference.static_latencies(one(0.5), one(0.01), one(4), one(1))
    assert numbers(static) == [0.5, 0.01, 0.5, 8.0]


def found(
    sequences: float, away_s: float = 1.0, ahead: float = 0.0, reads: float = 1.0
) -> inference.Joining:
    """Steps of 10 ms, and clients that are away for a second."""
    return inference.Joining(
        step_s=one(0.01),
        others=one(sequences - 1.0),
        ahead=one(ahead),
        away_s=one(away_s),
        reads=one(reads),
    )


def test_continuous_batching_by_hand() -> None:
    # 64 requests of 128 tokens: every token carries 1/128 of the 63 others' prefills of 40 ms;
    # no client is ever away, so that the request comes as a step ends and waits for the one decided
    joining = found(64, away_s=0.0, ahead=1.0)
    mixed = inference.aggregated_latencies(
        one(0.1), one(0.04), one(0.01), one(64), one(128), joining
    )
    tpot = 0.01 + 63 / 128 * 0.04
    ttft = 0.1 + 0.01
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
    assert inference.pipelined_s(one(8.0 * pieces), one(8.0), one(stages), one(share)).tolist() == [
        expected
    ]


@given(prefill=SECONDS, decode=SECONDS, sequences=COUNTS, osl=COUNTS)
def test_static_throughput_is_tokens_over_latency(
    prefill: float, decode: float, sequences: int, osl: int
) -> None:
    static = inference.static_latencies(one(prefill), one(decode), one(sequences), one(osl))
    tokens = static.output_tokens_per_s * static.request_latency_s
    assert tokens == pytest.approx(sequences * osl)
    assert static.request_latency_s >= static.ttft_s


def test_a_single_request_does_not_wait() -> None:
    alone = inference.aggregated_latencies(
        one(0.1), one(0.04), one(0.01), one(1), one(128), found(1)
    )
    assert alone.tpot_s == 0.01
    assert alone.ttft_s == 0.1


def test_a_request_waits_for_a_step_with_the_chance_that_one_runs() -> None:
    # both of two others are away for 1 s of 4: no step runs in a sixteenth of the time
    waited = 0.5 * 0.01 * (1 - 1 / 16)
    assert inference.joining_s(found(3), one(3.0)).tolist() == pytest.approx([waited])
    assert inference.joining_s(found(3, ahead=1.0), one(3.0)).tolist() == pytest.approx(
        [3 * waited]
    )


def test_a_client_sees_every_token_late_and_asks_again_later_still() -> None:
    # 2 sequences of 8 tokens, 1 s each, are 16 tokens/s at the engine; a client's round takes 2 s
    engine = inference.Latencies(one(0.25), one(0.125), one(1.0), one(16.0))
    client = inference.ClientSide(one(0.5), one(0.25), one(0.0), one(0.0), one(0.25))
    assert numbers(inference.at_client(engine, client, one(2), one(8))) == [1.0, 0.125, 1.75, 8.0]


def test_a_client_gets_the_middle_token_of_a_step() -> None:
    engine = inference.Latencies(one(0.25), one(0.125), one(1.125), one(9 * 8 / 1.125))
    client = inference.ClientSide(one(0.0), one(0.01), one(0.01), one(0.01), one(0.0))
    # 8 other tokens of 10 ms each: half of them go before
    found = inference.at_client(engine, client, one(9), one(8))
    assert numbers(found)[:3] == pytest.approx([0.25 + 0.05, 0.125, 1.125 + 0.05])
    assert found.output_tokens_per_s[0] == pytest.approx(9 * 8 / 1.175)


def test_a_front_end_slower_than_the_steps_sets_the_rate() -> None:
    engine = inference.Latencies(one(0.1), one(0.01), one(0.1 + 99 * 0.01), one(64 * 100 / 1.09))
    client = inference.ClientSide(one(0.0), one(1e-3), one(1e-3), one(1e-3), one(0.0))
    found = inference.at_client(engine, client, one(64), one(100))
    assert found.output_tokens_per_s[0] == pytest.approx(1000)  # the engine alone gives 5,872
    assert found.request_latency_s[0] == pytest.approx(6.4)  # Little: 64 of 100 tokens each
    rest_s = float(found.request_latency_s[0] - found.ttft_s[0])
    assert found.tpot_s[0] == pytest.approx(rest_s / 99)


@given(request=SECONDS, away=SECONDS, others=COUNTS)
def test_more_others_never_leave_a_request_to_wait_less(
    request: float, away: float, others: int
) -> None:
    fewer, more = (
        inference.joining_s(found(n + 1, away), one(request))[0] for n in (others, others + 1)
    )
    assert 0.0 < fewer <= more <= 0.005


@given(own=SECONDS, cost=SECONDS, decode=SECONDS, sequences=COUNTS, osl=COUNTS)
def test_every_token_pays_its_share_of_all_prefills(
    own: float, cost: float, decode: float, sequences: int, osl: int
) -> None:
    def crowd(count: int) -> inference.Latencies:
        others = found(count)
        return inference.aggregated_latencies(
            one(own), one(cost), one(decode), one(count), one(osl), others
        )

    mixed = crowd(sequences)
    assert mixed.tpot_s >= decode
    assert mixed.tpot_s <= (decode + sequences / osl * cost) * (1 + 1e-12)
    assert mixed.ttft_s >= own
    more = crowd(sequences + 1)
    assert more.tpot_s >= mixed.tpot_s
    assert more.ttft_s >= mixed.ttft_s * (1 - 1e-12)


@given(depth=SECONDS, pieces=COUNTS, stages=st.integers(2, 64))
def test_a_pipeline_is_between_one_piece_and_all_in_a_row(
    depth: float, pieces: int, stages: int
) -> None:
    time = inference.pipelined_s(one(depth * pieces), one(depth), one(stages), one(1 / stages))[0]
    assert depth <= time <= pieces * depth * (1 + 1e-12)
    # with many pieces the pipeline is full and a piece leaves every depth / stages
    assert time >= pieces * depth / stages


def test_a_request_waits_for_half_of_the_steps_between_two_reads() -> None:
    # clients that are away: half of 10 steps of 10 ms, and the one decided; others always run
    away = found(1_000, ahead=1.0, reads=10.0)
    assert inference.joining_s(away, one(1.0)).tolist() == pytest.approx([0.06])
    # clients that return at once come at the end of a step: 9 of 10 steps read nothing
    back = found(1_000, away_s=0.0, ahead=1.0, reads=10.0)
    assert inference.joining_s(back, one(1.0)).tolist() == pytest.approx([0.055])


@given(
    st.floats(1e-3, 1.0), st.floats(1e-4, 0.1), st.integers(1, 2_000), st.integers(1, 2_000),
    st.floats(0.0, 5.0),
)  # fmt: skip
def test_prompts_never_exceed_the_capacity_of_prefill(
    cost_s: float, step_s: float, requests: int, osl: int, away_s: float
) -> None:
    joining = found(requests, away_s)._replace(step_s=one(step_s))
    seen = inference.aggregated_latencies(
        one(cost_s), one(cost_s), one(step_s), one(requests), one(osl), joining
    )
    cycle_s = float(seen.request_latency_s[0]) + away_s
    assert requests / cycle_s <= (1.0 + 1e-9) / (cost_s + step_s * (osl - 1) / requests)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.engines import resolve_engine
from perfatlas.operators import visible_pairs
from perfatlas.step import PrefillChunks, padded_batch, prefill_chunks


def column(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def chunks_of(batch: float, new_tokens: float, prefix: float, budget: float) -> PrefillChunks:
    return prefill_chunks(column(batch), column(new_tokens), column(prefix), column(budget))


def tokens_in(found: PrefillChunks) -> float:
    parts = ((found.count, found.tokens), (found.last_count, found.last_tokens))
    return float(sum((count * t.batch * t.q_len)[0] for count, t in parts))


def pairs_in(found: PrefillChunks) -> float:
    parts = ((found.count, found.tokens), (found.last_count, found.last_tokens))
    return float(
        sum(
            (count * t.batch * visible_pairs(t.q_len, t.kv_len, np.zeros(1)))[0]
            for count, t in parts
        )
    )


def test_whole_sequences_share_a_chunk() -> None:
    # 64 x 2048 tokens in steps of 8192: 16 steps of 4 sequences
    found = chunks_of(64, 2048, 0, 8192)
    assert (found.count[0], found.last_count[0]) == (15, 1)
    assert (found.tokens.batch[0], found.tokens.q_len[0], found.tokens.kv_len[0]) == (4, 2048, 2048)


def test_a_long_sequence_is_cut_and_sees_the_mean_of_its_past() -> None:
    # 16384 tokens in 2 pieces of 8192 that see 8192 and 16384 keys
    found = chunks_of(1, 16384, 0, 8192)
    assert (found.count[0], found.last_count[0]) == (1, 1)
    assert (found.tokens.q_len[0], found.tokens.kv_len[0]) == (8192, 8192)
    assert (found.last_tokens.q_len[0], found.last_tokens.kv_len[0]) == (8192, 16384)
    pieces = 8192 * 8193 / 2 + (8192 * 8192 + 8192 * 8193 / 2)
    assert pairs_in(found) == pieces == 16384 * 16385 / 2


def test_the_rest_follows_the_full_chunks() -> None:
    # 10000 tokens: 8192 first, then 1808 that see all 10000
    found = chunks_of(1, 10_000, 0, 8192)
    assert (found.count[0], found.tokens.q_len[0], found.tokens.kv_len[0]) == (1, 8192, 8192)
    last = found.last_tokens
    assert (found.last_count[0], last.q_len[0], last.kv_len[0]) == (1, 1808, 10_000)
    # three sequences of 5000: one step of 8192 tokens, one of the other 6808
    found = chunks_of(3, 5000, 0, 8192)
    assert (found.count[0], found.tokens.batch[0]) == (1, 8192 / 5000)
    assert (found.last_count[0], found.last_tokens.batch[0]) == (1, 6808 / 5000)


def test_a_cached_prefix_is_read_and_not_computed() -> None:
    found = chunks_of(2, 100, 900, 8192)
    assert tokens_in(found) == 200
    assert found.tokens.kv_len[0] == 1000


@given(
    batch=st.integers(1, 1000),
    new_tokens=st.integers(1, 200_000),
    prefix=st.integers(0, 200_000),
    budget=st.integers(1, 65_536),
)
def test_chunks_conserve_tokens_and_query_key_pairs(
    batch: int, new_tokens: int, prefix: int, budget: int
) -> None:
    found = chunks_of(batch, new_tokens, prefix, budget)
    pairs = visible_pairs(column(new_tokens), column(prefix + new_tokens), np.zeros(1))[0]
    assert tokens_in(found) == pytest.approx(batch * new_tokens, rel=1e-12)
    assert pairs_in(found) == pytest.approx(batch * pairs, rel=1e-9)
    assert (found.tokens.batch * found.tokens.q_len)[0] <= budget * (1 + 1e-12)
    assert found.tokens.kv_len[0] <= prefix + new_tokens
    # no engine needs fewer steps
    assert (found.count + found.last_count)[0] >= batch * new_tokens / budget * (1 - 1e-12)


# engine, sequences, what its captured graphs run
PADDED = [
    ("vllm", 1, 1),
    ("vllm", 3, 4),
    ("vllm", 9, 16),
    ("vllm", 249, 256),
    ("vllm", 257, 272),
    ("vllm", 513, 513),
    ("sglang", 7, 7),
    ("sglang", 9, 12),
    ("sglang", 33, 40),
    ("trtllm", 9, 16),
    ("trtllm", 129, 256),
    ("trtllm", 1025, 2048),
    ("trtllm", 2049, 2049),
    ("ideal", 9, 9),
]


@pytest.mark.parametrize(("engine", "batch", "runs"), PADDED)
def test_decode_runs_the_captured_batch(engine: str, batch: int, runs: int) -> None:
    sizes = resolve_engine(engine).scheduler.graph_sizes
    assert padded_batch(column(batch), sizes).tolist() == [runs]


@given(batch=st.integers(1, 5000), engine=st.sampled_from(["vllm", "sglang", "trtllm", "ideal"]))
def test_padding_never_shrinks_a_batch_and_is_stable(batch: int, engine: str) -> None:
    sizes = resolve_engine(engine).scheduler.graph_sizes
    padded = padded_batch(column(batch), sizes)
    assert padded[0] >= batch
    assert padded_batch(padded, sizes) == padded
    assert padded_batch(column(batch + 1), sizes) >= padded

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.machines.gpu.kernels import key_scores
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY, KeyScores, Phase
from tests.machines.gpu.attention_support import silicon

PARAMETERS = {
    "efficiency_compute": 0.5,
    "efficiency_bandwidth": 0.8,
    "overhead_launch_s": 3e-6,
    "overhead_tile_cycles": 1000.0,
    "overlap_power": 2.0,
    "l2_fraction": 0.3,
}
SILICON = silicon()._replace(peak=1979e12)  # of fp8
PHYSICS = {
    "prefill": key_scores.key_scores_prefill_time_s,
    "decode": key_scores.key_scores_decode_time_s,
}


def price(
    phase: str,
    sizes: tuple[float, float, float],
    changes: dict[str, float] | None = None,
    parameters: dict[str, float] | None = None,
) -> tuple[float, int]:
    """Time and bound of (sequences, queries, keys) with 32 heads of 128."""
    batch, q_len, kv_len = sizes
    shape = {
        "queries": batch * q_len,
        "q_len": q_len,
        "kv_len": kv_len,
        "num_heads": 32.0,
        "head_dim": 128.0,
        "key_bytes": 132.0,
        "score_bytes": 4.0,
        "key_sequences": batch,
        "hot": 0.0,
    } | (changes or {})
    values = PARAMETERS | (parameters or {})
    time_s_U, code_U = PHYSICS[phase](
        np.array([[shape[name] for name in key_scores.KeyScoresShape._fields]]),
        np.array([SILICON]),
        np.array([[values[name] for name in key_scores.KeyScoresParameters._fields]]),
    )
    return float(time_s_U[0]), int(code_U[0])


def test_prefill_by_hand() -> None:
    # 132 sequences of 4 queries: 128 / 32 heads = 4 queries per tile, one tile per SM. Queries see
    # 1021 to 1024 keys: 4 blocks of 256, each 2 x 4 x 32 x 128 x 256 FLOP / (0.5 x 1979e12 / 132)
    # = 1.11905 us: 4.4762 us, + 1000 cycles 0.5464 us = 5.0226 us. Memory: keys 132 x 1024 x 132 B,
    # queries 528 x 4096 B, scores 528 x 1022.5 x 4 B = 22.1645 MB at 3.84 TB/s: 5.7720 us.
    # 3 + sqrt(5.0226^2 + 5.7720^2) = 10.6514 us.
    time_s, code = price("prefill", (132.0, 4.0, 1024.0))
    assert time_s * 1e6 == pytest.approx(10.6514, abs=1e-3)
    assert code == BOUND_MEMORY


def test_decode_by_hand() -> None:
    # 264 queries of 1,000 keys: 4 blocks each, 8 per SM, each 2 x 32 x 128 x 256 FLOP / 7.4962e12
    # = 0.27976 us: 2.2381 us; two queries per SM, 2,000 cycles 1.0929 us. Keys 264 x 1000 x 132 B,
    # queries 264 x 4096 B, scores 264 x 1000 x 4 B = 36.9853 MB at 3.84 TB/s: 9.6316 us.
    # 3 + sqrt(3.3310^2 + 9.6316^2) = 13.1913 us.
    time_s, code = price("decode", (264.0, 1.0, 1000.0))
    assert time_s * 1e6 == pytest.approx(13.1913, abs=1e-3)
    assert code == BOUND_MEMORY


def test_bound_codes_name_the_largest_part() -> None:
    assert price("prefill", (1.0, 8192.0, 8192.0))[1] == BOUND_COMPUTE
    assert price("decode", (64.0, 1.0, 65536.0))[1] == BOUND_MEMORY
    for phase in PHYSICS:
        assert price(phase, (1.0, 1.0, 1.0))[1] == BOUND_LATENCY


def test_keys_shared_by_all_sequences_and_found_in_cache_cost_no_memory() -> None:
    shared = {"key_sequences": 1.0, "hot": 1.0}
    sizes = (64.0, 1.0, 4096.0)
    assert price("decode", sizes, shared)[0] < 0.6 * price("decode", sizes)[0]


@given(
    phase=st.sampled_from(["prefill", "decode"]),
    batch=st.integers(1, 512),
    q_len=st.integers(1, 4096),
    prefix=st.integers(0, 100000),
    more=st.integers(1, 4096),
)
def test_time_grows_with_sequences_keys_and_heads(
    phase: str, batch: int, q_len: int, prefix: int, more: int
) -> None:
    queries = float(q_len) if phase == "prefill" else 1.0
    sizes = (float(batch), queries, queries + prefix)
    time_s, _ = price(phase, sizes)
    assert price(phase, (batch + float(more), *sizes[1:]))[0] >= time_s * (1 - 1e-12)
    assert price(phase, (*sizes[:2], sizes[2] + more))[0] >= time_s * (1 - 1e-12)
    assert price(phase, sizes, {"num_heads": 64.0})[0] >= time_s * (1 - 1e-12)


@given(
    phase=st.sampled_from(["prefill", "decode"]),
    batch=st.integers(1, 10**4),
    q_len=st.integers(1, 10**5),
    prefix=st.integers(0, 10**7),
    heads=st.sampled_from([1.0, 32.0, 64.0, 100.0, 256.0]),
)
def test_cold_time_is_never_below_the_bound(
    phase: str, batch: int, q_len: int, prefix: int, heads: float
) -> None:
    queries = float(q_len) if phase == "prefill" else 1.0
    sizes = (float(batch), queries, queries + prefix)
    work = KeyScores(
        name="scores",
        phase=Phase(phase),
        count=np.ones(1),
        batch=np.array([sizes[0]]),
        q_len=np.array([queries]),
        kv_len=np.array([sizes[2]]),
        num_heads=np.array([heads]),
        head_dim=np.array([128.0]),
        key_bytes=132.0,
        score_bytes=4.0,
        format="fp8_static",
    ).work()
    bound_s = max(
        float(work.flop[0]) / SILICON.peak,
        float(work.cold_bytes[0] + work.activation_bytes[0]) / SILICON.bandwidth,
    )
    best = {"efficiency_compute": 1.0, "efficiency_bandwidth": 1.0, "overlap_power": 8.0}
    time_s, _ = price(phase, sizes, {"num_heads": heads}, best)
    assert np.isfinite(time_s)
    assert time_s >= bound_s * (1 - 1e-12)

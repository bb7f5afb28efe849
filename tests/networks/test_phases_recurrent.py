from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import networks
from perfatlas.networks import recurrent_mixers
from perfatlas.networks.hf_config import read_config
from perfatlas.operators import Operator, Phase, Scan

BF16 = networks.ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
DELTA = networks.GatedDeltaNet(
    num_key_heads=16, num_value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4
)
SSD = networks.Mamba2(num_heads=64, head_dim=64, state_size=128, num_groups=8, conv_kernel=4)
SELECTIVE = networks.Mamba1(
    intermediate_size=8192, state_size=16, time_step_rank=256, conv_kernel=4, inner_norms=True
)
CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "oracle/oracle.json").read_text("utf-8")
)["cases"]


def _step(mixer: networks.Mixer, phase: Phase, batch: float, q_len: float) -> dict[str, Operator]:
    model = networks.Architecture(
        model_type="jamba",
        hidden_size=2048,
        vocab_size=1000,
        tie_word_embeddings=True,
        layers=(networks.LayerGroup(count=1, mixer=mixer, ffn=None, norms=1),),
    )
    one = np.ones(1)
    tokens = networks.StepTokens(batch=batch * one, q_len=q_len * one, kv_len=q_len * one)
    return {op.name: op for op in model.step_operators(BF16, phase, tokens)}


def test_delta_net_by_hand() -> None:
    # 32 heads with a 128 x 128 state: decay 1, read 2, update 2, query 2 per element.
    assert recurrent_mixers.delta_net_flop_per_token(DELTA) == 32 * 7 * 128 * 128
    # Chunks of 64: 6 x 128 x 128 with the state; inside 2 x 64 x 5 x 128; inverse 64 x 64 / 3.
    per_head = 98_304 + 81_920 + 4096 / 3
    assert recurrent_mixers.delta_net_flop_per_token(DELTA, chunk=64.0) == pytest.approx(
        32 * per_head
    )
    step = _step(DELTA, Phase.DECODE, batch=8, q_len=1)
    # State 32 x 128 x 128 in fp32, read and written for 8 sequences.
    assert step["scan"].work().cold_bytes[0] == 2 * 8 * 32 * 128 * 128 * 4
    # Convolution over 2 x 16 x 128 + 32 x 128 = 8192 channels; 3 earlier inputs per sequence.
    assert step["causal_conv"].work().cold_bytes[0] == 8 * 3 * 8192 * 2
    # q, k (2048 each), v, z (4096 each): 12288 columns.
    assert step["qkvz_projection"].work().flop[0] == 2 * 8 * 2048 * 12_288


def test_mamba2_by_hand() -> None:
    # 64 heads of 64 x 128: 5 per element; chunked 4 per element, 2 x 128 x 64 per head inside
    # the chunk and C B^T, 2 x 128 x 128, for each of 8 groups.
    assert recurrent_mixers.mamba2_flop_per_token(SSD, groups=8) == 64 * 5 * 64 * 128
    chunked = 64 * (4 * 64 * 128 + 2 * 128 * 64) + 8 * 2 * 128 * 128
    assert recurrent_mixers.mamba2_flop_per_token(SSD, groups=8, chunk=128.0) == chunked
    # z 4096, x 4096, B and C 8 x 128 each, dt 64.
    projection = _step(SSD, Phase.DECODE, batch=2, q_len=1)["input_projection"]
    assert projection.work().flop[0] == 2 * 2 * 2048 * (4096 + 4096 + 2048 + 64)


def test_mamba1_by_hand() -> None:
    # 6 per channel and state, 3 per channel.
    assert recurrent_mixers.mamba1_flop_per_token(SELECTIVE) == 8192 * (6 * 16 + 3)
    step = _step(SELECTIVE, Phase.PREFILL, batch=1, q_len=10)
    assert step["state_projection"].work().flop[0] == 2 * 10 * 8192 * (256 + 32)
    assert step["state_projection"].shard == "row"
    assert "state_norm" in step


@pytest.mark.parametrize(
    ("family", "share"),
    [
        # The library computes only y = C h as a product: 2 of 5, and 2 N of 6 N + 3 at N = 16.
        ("nemotron_h", 2 / 5),
        ("jamba", 2 * 16 / (6 * 16 + 3)),
    ],
)
def test_decode_products_of_the_library_are_a_known_share(family: str, share: float) -> None:
    case = next(case for case in CASES if case["family"] == family)
    one = np.ones(1)
    tokens = networks.StepTokens(batch=case["batch"] * one, q_len=one, kv_len=one)
    model = read_config(case["config"], family)
    scans = [op for op in model.step_operators(BF16, Phase.DECODE, tokens) if isinstance(op, Scan)]
    ours = sum(float((op.count * op.work().flop)[0]) for op in scans)
    assert case["decode_scan_flop"] == pytest.approx(share * ours)


@pytest.mark.parametrize("mixer", [DELTA, SSD, SELECTIVE])
@given(batch=st.integers(1, 50), length=st.integers(1, 5000))
def test_recurrent_work_is_linear_in_length(mixer: networks.Mixer, batch: int, length: int) -> None:
    one = _step(mixer, Phase.PREFILL, batch, length)["scan"].work()
    two = _step(mixer, Phase.PREFILL, batch, 2 * length)["scan"].work()
    assert two.flop[0] == pytest.approx(2 * one.flop[0])
    assert two.cold_bytes[0] == one.cold_bytes[0]


def test_mamba_groups_are_repeated_for_more_ranks() -> None:
    model = networks.Architecture(
        model_type="nemotron_h",
        hidden_size=2048,
        vocab_size=1000,
        tie_word_embeddings=True,
        layers=(networks.LayerGroup(count=1, mixer=SSD, ffn=None, norms=1),),
    )
    one = np.ones(1)
    wide = networks.StepTokens(batch=one, q_len=one, kv_len=one, head_ranks=16 * one)
    named = {op.name: op for op in model.step_operators(BF16, Phase.DECODE, wide)}
    columns = named["input_projection"].work().flop[0] / (2 * 2048)
    assert columns == 4096 + 4096 + 2 * 16 * 128 + 64

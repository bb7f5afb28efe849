"""Gated recurrences, shared key-value caches and embeddings per layer, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfatlas.networks import (
    Architecture,
    DenseFfn,
    GqaAttention,
    LayerGroup,
    ModelFormats,
    StepTokens,
)
from perfatlas.networks.hf_config import read_config
from perfatlas.networks.layers import GatedRecurrence
from perfatlas.operators import Gemm, Phase, Scan
from perfatlas.parallelism import stage_weights_bytes
from perfatlas.quantities import InvalidSpecError
from perfatlas.training.work import rank_parameters
from tests.parallelism.examples import plan_of
from tests.training.asked import layouts

if TYPE_CHECKING:
    from perfatlas.networks.layers import Mixer
    from perfatlas.operators import Operator

FORMATS = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
ONE = np.ones(1)
RG_LRU = GatedRecurrence(
    num_heads=4, value_dim=8, input_columns=64, gate_blocks=2, conv_kernel=4, vectors=160 + 16
)
MLSTM = GatedRecurrence(
    num_heads=2, value_dim=8, key_dim=4, input_columns=2 * 8 + 2 * 16 + 4, chunk=64, normed=True
)


def model_of(mixer: Mixer, **fields: object) -> Architecture:
    layers = LayerGroup(count=3, mixer=mixer, ffn=DenseFfn(intermediate_size=32))
    model = Architecture(
        model_type="test", hidden_size=16, vocab_size=50, tie_word_embeddings=True, layers=(layers,)
    )
    return replace(model, **fields)  # type: ignore[arg-type]


def step(model: Architecture, phase: Phase, tokens: float) -> dict[str, Operator]:
    wide = StepTokens(batch=ONE, q_len=tokens * ONE, kv_len=(tokens + 10) * ONE)
    return {one.name: one for one in model.step_operators(FORMATS, phase, wide)}


def product_flop(model: Architecture, tokens: float) -> float:
    operators = step(model, Phase.PREFILL, tokens).values()
    return sum(float((one.work().flop * one.count)[0]) for one in operators if type(one) is Gemm)


def test_parameters_of_a_recurrence_with_gates_by_hand() -> None:
    # 64 columns of 16 rows, 32 x 16 back, two gates of four blocks of 8 x 8, 4 taps and a bias
    recurrence = 64 * 16 + 32 * 16 + 2 * 4 * 8 * 8 + 32 * 5 + 176
    rest = 50 * 16 + 16 + 3 * (3 * 16 * 32 + 2 * 16)
    assert model_of(RG_LRU).parameters().total == 3 * recurrence + rest


@pytest.mark.parametrize(
    ("mixer", "decode", "prefill"),
    [
        (RG_LRU, 6 * 32, 6 * 32),  # decay, input, output and gate of each channel
        (MLSTM, 2 * 5 * 4 * 8, 2 * (4 * 4 * 8 + 2 * 64 * (4 + 8))),
    ],
)
def test_arithmetic_of_recurrences_by_hand(
    mixer: GatedRecurrence, decode: float, prefill: float
) -> None:
    for phase, expected in ((Phase.DECODE, decode), (Phase.PREFILL, prefill)):
        scan = step(model_of(mixer), phase, 1.0)["scan"]
        assert isinstance(scan, Scan)
        assert scan.work().flop == pytest.approx(expected)


def test_states_do_not_grow() -> None:
    (gates,) = model_of(RG_LRU).cache_layouts(2.0)
    # 32 states in fp32, and three earlier inputs of the convolution in 16 bits
    assert (gates.constant_bytes, gates.bytes_per_token) == (32 * 4 + 32 * 3 * 2, 0.0)
    (matrices,) = model_of(MLSTM).cache_layouts(2.0)
    assert matrices.constant_bytes == 2 * 4 * 8 * 4


ATTENTION = GqaAttention(num_heads=4, num_kv_heads=2, head_dim=8, value_head_dim=8, qk_norm="head")


def test_a_shared_cache_has_neither_projections_nor_rows() -> None:
    own, shared = model_of(ATTENTION), model_of(replace(ATTENTION, shared_cache=True))
    # keys and values of 2 heads of 8, from 16; and the norm of keys
    assert own.parameters().total - shared.parameters().total == 3 * (2 * 2 * 8 * 16 + 8)
    assert shared.cache_layouts(2.0) == ()
    assert product_flop(own, 5.0) - product_flop(shared, 5.0) == 3 * 2 * 5 * 2 * 2 * 8 * 16
    pair = [step(model, Phase.DECODE, 1.0) for model in (own, shared)]
    assert pair[0]["attention"].work().flop == pair[1]["attention"].work().flop
    assert "rope_and_cache" in pair[0]
    assert "rope_and_cache" not in pair[1]


def test_embeddings_per_layer_by_hand() -> None:
    plain = model_of(ATTENTION)
    wide = model_of(ATTENTION, per_layer_width=6, per_layer_rows=40)
    # a table of 3 x 6 for 40 tokens; the projection of the model, a gate and a projection behind
    # each layer; the norm of embeddings and one behind each layer
    added = 40 * 18 + 16 * 18 + 3 * (16 * 6 + 6 * 16) + 6 + 3 * 16
    assert wide.parameters().total - plain.parameters().total == added
    flop = 2 * 5 * (16 * 18 + 3 * 2 * 16 * 6)
    assert product_flop(wide, 5.0) - product_flop(plain, 5.0) == flop


def test_embeddings_per_layer_are_held_in_memory() -> None:
    plain, wide = model_of(ATTENTION), model_of(ATTENTION, per_layer_width=6, per_layer_rows=50)
    held = [float(stage_weights_bytes(model, FORMATS, plan_of())[0]) for model in (plain, wide)]
    assert held == [2.0 * model.parameters().total for model in (plain, wide)]
    trained = [rank_parameters(model, (), layouts()).dense_CG[0, 0] for model in (plain, wide)]
    assert trained[1] - trained[0] == 50 * 18


def test_layers_of_gemma_4_that_share_a_cache() -> None:
    config = {"model_type": "gemma4_text", "num_hidden_layers": 12, "num_kv_shared_layers": 6,
              "use_double_wide_mlp": True, "hidden_size": 2304, "intermediate_size": 9216,
              "num_attention_heads": 8, "vocab_size": 1000}  # fmt: skip
    model = read_config(config, "test")
    mixers = [group.mixer for group in model.layers if isinstance(group.mixer, GqaAttention)]
    assert [mixer.shared_cache for mixer in mixers] == [False, False, True, True]
    widths = {group.ffn.intermediate_size for group in model.layers if group.ffn is not None}
    assert widths == {9216, 2 * 9216}
    assert sum(layout.layers for layout in model.cache_layouts(2.0)) == 6


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"model_type": "recurrent_gemma", "lru_width": 33}, "lru_width"),
        ({"model_type": "xlstm", "num_heads": 7}, "num_heads"),
    ],
)
def test_widths_that_heads_do_not_divide_are_refused(config: dict[str, object], key: str) -> None:
    with pytest.raises(InvalidSpecError, match=key):
        read_config(config, "test")

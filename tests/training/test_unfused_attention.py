"""Steps of engines whose attention stores its scores, and with dropout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.operators import ATTENTION_BACKWARD, Attention, Gemm, Phase, Streaming, with_fields
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.step import training_steps
from perfatlas.training.work import Part, dropout_of_residual, unfused_attention_kernels
from tests.training.asked import layouts, question


def attention_of() -> Attention:
    one = np.ones(1)
    return Attention(
        name="attention",
        phase=Phase.FORWARD,
        count=3.0 * one,
        batch=2.0 * one,
        q_len=64.0 * one,
        kv_len=64.0 * one,
        num_heads=4.0 * one,
        num_kv_heads=2.0 * one,
        head_dim=8.0 * one,
        value_head_dim=8.0 * one,
        window=0.0 * one,
    )


def test_scores_are_written_read_and_dropped_out() -> None:
    scores, softmax, dropout, context = unfused_attention_kernels(
        attention_of(), Part.FORWARD, dropout=True
    )
    assert isinstance(scores, Gemm)
    assert isinstance(context, Gemm)
    assert isinstance(softmax, Streaming)
    assert isinstance(dropout, Streaming)
    # 2 sequences x 4 heads x 64 queries = 512 rows of 64 keys, 8 wide; 32,768 scores
    assert (scores.m[0], scores.n[0], scores.k[0]) == (512.0, 64.0, 8.0)
    assert (context.m[0], context.n[0], context.k[0]) == (512.0, 8.0, 64.0)
    # the softmax reads the lower triangle: 1 byte per score, and writes 2
    assert (softmax.read_bytes[0], softmax.write_bytes[0]) == (32_768.0, 65_536.0)
    # dropout reads 2 bytes, writes 2 and a mask of 1
    assert (dropout.read_bytes[0], dropout.write_bytes[0]) == (65_536.0, 98_304.0)
    assert len(unfused_attention_kernels(attention_of(), Part.FORWARD, dropout=False)) == 3


def test_the_backward_pass_has_two_products_for_each_forward_one() -> None:
    backward = with_fields(attention_of(), count=ATTENTION_BACKWARD * attention_of().count)
    kernels = unfused_attention_kernels(backward, Part.INPUT_GRADIENT, dropout=True)
    products = [one for one in kernels if isinstance(one, Gemm)]
    streams = [one for one in kernels if isinstance(one, Streaming)]
    # whole matrices of scores: 2 x 32,768 x 8 FLOP each, once per layer
    assert [float(one.work().flop[0]) for one in products] == [524_288.0] * 4
    assert all(float(one.count[0]) == 3.0 for one in kernels)
    # dropout reads 2 + 1 and writes 2 bytes per score; the softmax reads half of two tensors
    assert [float((one.read_bytes + one.write_bytes)[0]) for one in streams] == [
        5 * 32_768.0,
        4 * 32_768.0,
    ]


def test_dropout_before_a_residual_adds_three_bytes_per_element() -> None:
    one = np.ones(1)
    norm = Streaming(
        name="ffn_norm",
        phase=Phase.FORWARD,
        count=one,
        stream="norm",
        tokens=10.0 * one,
        read_bytes=10.0 * 4.0 * 16.0 * one,  # 16 columns: a tensor and the residual
        write_bytes=10.0 * 4.0 * 16.0 * one,
        cold_read_bytes=32.0 * one,
    )
    added = dropout_of_residual(norm)
    assert (added.read_bytes[0], added.write_bytes[0]) == (320.0, 160.0)


def test_stored_scores_make_steps_longer_and_change_no_model_flop() -> None:
    engine = resolve_training_engine("megatron@22.06")
    sizes = layouts(tp=8, micro_batch=2, recompute=1)
    asked = question(sizes, model="meta-llama/Llama-2-13b-hf", system="a100_sxm", engine=engine)
    assert not engine.fused_attention
    assert engine.dropout
    without = replace(asked, engine=replace(engine, dropout=False))
    fused = replace(asked, engine=replace(engine, dropout=False, fused_attention=True))
    stored, dropped, least = (training_steps(one) for one in (asked, without, fused))
    assert least.step_s_C[0] < dropped.step_s_C[0] < stored.step_s_C[0]
    assert stored.model_flop_C[0] == pytest.approx(least.model_flop_C[0])
    assert stored.hardware_flop_C[0] == pytest.approx(least.hardware_flop_C[0])
    bounds = [training_steps(replace(one, tier="bound")) for one in (asked, fused)]
    assert bounds[0].step_s_C[0] == bounds[1].step_s_C[0]

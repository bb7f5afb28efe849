"""Denoisers whose tokens several GPUs divide: operators by hand, memory, plans and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.networks import ModelFormats, StepTokens, resolve_model
from perfatlas.networks.graphs import read_graph
from perfatlas.operators import Attention, Collective, Gemm, Operator, Phase, Streaming
from perfatlas.parallelism import PlanColumns, shard_operators
from perfatlas.parallelism.memory import activation_bytes

BF16 = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
TOKENS, WIDTH, BATCH, STEPS, RANKS = 64, 128, 2, 3, 4
_TOKENS = "batch * tokens"
# an encoder, a transformer of 64 tokens and 4 heads of 32 that sees 16 tokens of text, a decoder
DIT: dict[str, Any] = {
    "name": "dit",
    "item": "image",
    "denoiser": 1,
    "parameters": 200_000,
    "sizes": {"side": 8, "steps": STEPS},
    "lengths": {"tokens": "side ** 2"},
    "operators": [
        {"kind": "linear", "m": "16 * batch", "n": WIDTH, "k": 64},
        {"kind": "conv", "count": "steps", "m": _TOKENS, "n": WIDTH, "k": 16, "read": _TOKENS},
        {"kind": "linear", "count": "steps", "m": "batch", "n": 768, "k": WIDTH},
        {"kind": "linear", "count": "2 * steps", "m": "16 * batch", "n": WIDTH, "k": WIDTH},
        {"kind": "linear", "count": "4 * steps", "m": _TOKENS, "n": WIDTH, "k": WIDTH},
        {"kind": "norm", "count": "steps", "read": f"{_TOKENS} * {WIDTH}", "row": WIDTH},
        *(
            {
                "kind": "attention",
                "count": "steps",
                "q_len": "tokens",
                "kv_len": keys,
                "num_heads": 4,
                "head_dim": 32,
            }
            for keys in ("tokens", 16)
        ),
        {"kind": "resize", "read": f"{_TOKENS} * 64", "write": f"{_TOKENS} * 1024"},
    ],
}


def plan_of(cp: float, ring: float = 1.0, guidance: float = 1.0) -> PlanColumns:
    one = np.ones(1)
    return PlanColumns(
        tp=one, pp=one, cp=cp * one, attention_dp=one, ep=one, moe_tp=one, dp=one,
        ring_degree=ring * one, guidance_degree=guidance * one, dcp=one,
    )  # fmt: skip


def _rank(cp: float) -> dict[str, Operator]:
    network, one = read_graph(DIT, "dit"), np.ones(1)
    tokens = StepTokens(batch=BATCH * one, q_len=one, kv_len=one)
    whole = network.step_operators(BF16, Phase.PREFILL, tokens)
    return {one.name: one for one in shard_operators(whole, plan_of(cp), network)}


def test_ranks_divide_the_tokens_of_the_denoiser_only() -> None:
    rank = _rank(RANKS)
    rows = {name: float(one.m[0]) for name, one in rank.items() if isinstance(one, Gemm)}
    each = BATCH * TOKENS / RANKS
    # the encoder, modulation by the time step and keys of the text run whole on every rank
    assert rows == {
        "linear_1": 16 * BATCH,
        "conv_1": each,
        "linear_2": BATCH,
        "linear_3": 16 * BATCH,
        "linear_4": each,
    }
    norm, decoder = rank["norm_1"], rank["resize_1"]
    assert isinstance(norm, Streaming)
    assert isinstance(decoder, Streaming)
    assert norm.read_bytes[0] == each * WIDTH * 2
    assert norm.row_bytes == pytest.approx(2 * WIDTH * 2)
    assert decoder.write_bytes[0] == BATCH * TOKENS * 1024 * 2


def test_attention_runs_a_share_of_its_heads_over_the_whole_sequence() -> None:
    rank = _rank(RANKS)
    for name, keys in (("attention_1", TOKENS), ("attention_2", 16)):
        local = rank[name]
        assert isinstance(local, Attention)
        assert (local.q_len[0], local.kv_len[0]) == (TOKENS, keys)
        assert (local.num_heads[0], local.num_kv_heads[0]) == (1, 1)
    whole = _rank(1)["attention_1"].work()
    assert rank["attention_1"].work().flop[0] == whole.flop[0] / RANKS


def test_an_all_to_all_moves_queries_keys_values_and_output() -> None:
    rank = _rank(RANKS)
    sent = {name: one for name, one in rank.items() if isinstance(one, Collective)}
    assert list(sent) == [
        *(f"attention_1_{of}_all_to_all" for of in ("query", "key", "value", "output")),
        *(f"attention_2_{of}_all_to_all" for of in ("query", "output")),  # text is on all ranks
    ]
    # 2 items of 64 tokens of 128 elements of 2 bytes, a quarter of them on each rank
    for one in sent.values():
        assert (one.op, one.bytes[0], one.ranks[0], one.count[0]) == ("all_to_all", 8192, 4, STEPS)
    copies = [one for name, one in rank.items() if name.endswith("_copy")]
    assert len(copies) == len(sent)
    for copy in copies:
        assert isinstance(copy, Streaming)
        assert (copy.count[0], copy.read_bytes[0], copy.write_bytes[0]) == (2 * STEPS, 8192, 8192)


def test_one_rank_exchanges_nothing() -> None:
    network, one = read_graph(DIT, "dit"), np.ones(1)
    tokens = StepTokens(batch=BATCH * one, q_len=one, kv_len=one)
    whole = network.step_operators(BF16, Phase.PREFILL, tokens)
    assert shard_operators(whole, plan_of(1), network) == whole


def test_ranks_divide_the_activations_of_the_denoiser_only() -> None:
    network = read_graph(DIT | {"operators": DIT["operators"][:-1]}, "dit")
    decoding = read_graph(DIT, "dit")
    one = np.ones(1)
    for graph, elements, divided in (
        (network, 2 * TOKENS * WIDTH, RANKS),  # a norm reads and writes 64 x 128 elements
        (decoding, TOKENS * (64 + 1024), 1),
    ):
        peak = [
            activation_bytes(graph, plan_of(cp), BATCH * one, one, 1.0, 0.0)[0] for cp in (1, RANKS)
        ]
        assert peak[0] == BATCH * elements * 2
        assert peak[1] == peak[0] / divided


def test_copies_hold_ranks() -> None:
    fields: dict[str, Any] = {"model": "pixart-sigma", "system": "h100_sxm", "batch": 8}
    all_, one = (perfatlas.estimate(**fields, gpus=gpus, cp=2).results for gpus in (8, 2))
    assert all_["latency_s"] == one["latency_s"]
    assert all_["throughput_per_s"] == pytest.approx(4 * 8 / one["latency_s"])  # of four copies


def test_diffusion_transformers_of_the_catalog_have_heads() -> None:
    heads = {
        name: {
            size.size
            for group in resolve_model(name).network.layers
            for size in group.divided_sizes
            if size.by == "cp"
        }
        for name in ("flux.1-dev", "pixart-sigma", "sd3-medium", "wan2.1-t2v-14b", "hunyuanvideo")
    }
    assert heads == {
        "flux.1-dev": {24},
        "pixart-sigma": {16},
        "sd3-medium": {24},
        "wan2.1-t2v-14b": {40},
        "hunyuanvideo": {24},
    }

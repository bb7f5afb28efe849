"""Our counts against transformers on fake tensors; oracle.json says how it was made.

Conventions of the oracle: causal attention is a full square, limited by the window in decode;
latent attention re-expands every cached row in both phases; every position has logits; scans and
convolutions are left out (worked by hand in test_phases_recurrent.py). Kimi K2 is DeepSeek-V3's
implementation; the router's score-correction vectors are buffers there, parameters here.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas import networks, operators
from perfatlas.networks.hf_config import read_config

ORACLE = Path(__file__).parent / "oracle"
CASES: list[dict[str, Any]] = json.loads((ORACLE / "oracle.json").read_text("utf-8"))["cases"]
TOLERANCE = 1e-3
BF16 = networks.ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
# transformers runs every token through every expert of these families.
ALL_EXPERTS = {"llama4"}


def _architecture(case: dict[str, Any]) -> networks.Architecture:
    return read_config(case["config"], case["catalog"])


def _oracle_flop(operator: operators.Operator, family: str, tokens: networks.StepTokens) -> float:
    q_len, kv_len = tokens.q_len, tokens.kv_len
    match operator:
        case operators.Gemm(name="latent_q_absorb" | "latent_v_expand"):
            # The same weights, applied to every cached latent row instead of to the queries.
            return float((operator.work().flop * kv_len / q_len)[0])
        case operators.GroupedGemm():
            every = float((operator.experts / operator.top_k)[0]) if family in ALL_EXPERTS else 1.0
            return every * float(operator.work().flop[0])
        case operators.Attention():
            limited = operator.window > 0 if operator.phase == "decode" else operator.window < 0
            keys = np.where(limited, np.minimum(operator.window, operator.kv_len), operator.kv_len)
            pairs = operator.batch * operator.num_heads * operator.q_len * keys
            return float((2.0 * pairs * (operator.head_dim + operator.value_head_dim))[0])
        case operators.Gemm() | operators.Streaming() | operators.KeySelection():
            return float(operator.work().flop[0])
        case operators.Scan() | operators.Convolution():
            return 0.0
        case _:
            raise AssertionError(f"no convention for {operator.kind}")


def _our_flop(case: dict[str, Any], phase: operators.Phase) -> float:
    one, batch, prompt = np.ones(1), case["batch"], case["prompt"]
    queries = prompt if phase == "prefill" else 1
    tokens = networks.StepTokens(
        batch=batch * one,
        q_len=queries * one,
        kv_len=(prompt if phase == "prefill" else prompt + 1) * one,
        logits_rows=batch * queries * one,
    )
    architecture = _architecture(case)
    total = 0.0
    for operator in architecture.step_operators(BF16, phase, tokens):
        if isinstance(operator, operators.LatentAttention) or operator.name == "indexer_scores":
            continue
        total += float(operator.count[0]) * _oracle_flop(operator, case["family"], tokens)
    return total + _latent_flop(architecture, tokens)


def _latent_flop(architecture: networks.Architecture, tokens: networks.StepTokens) -> float:
    pairs = float((tokens.batch * tokens.q_len * tokens.kv_len)[0])
    total = 0.0
    for group in architecture.layers:
        mixer = group.mixer
        if (
            isinstance(mixer, networks.GqaAttention) and mixer.indexer is not None
        ):  # scores per head
            scored = mixer.indexer.num_heads * mixer.indexer.head_dim
            total += group.count * 2.0 * pairs * scored
        if isinstance(mixer, networks.CompressedAttention):
            total += group.count * _compressed_flop(mixer, tokens)
        if not isinstance(mixer, networks.MlaAttention):
            continue
        width = mixer.nope_dim + mixer.rope_dim + mixer.value_head_dim
        per_pair = mixer.num_heads * width
        if (
            mixer.indexer is not None and not mixer.indexer.shared
        ):  # scores per head, then their weighted sum
            per_pair += mixer.indexer.num_heads * (mixer.indexer.head_dim + 1)
        total += group.count * 2.0 * pairs * per_pair
    return total + _stream_flop(architecture, tokens)


def _compressed_flop(mixer: networks.CompressedAttention, tokens: networks.StepTokens) -> float:
    """Every query against every key in prefill, against the window and all groups in decode."""
    q_len, kv_len = float(tokens.q_len[0]), float(tokens.kv_len[0])
    groups = kv_len // mixer.ratio if mixer.ratio else 0.0
    recent = kv_len if q_len > 1 else min(kv_len, mixer.window)
    pair = mixer.num_heads * 2.0 * mixer.head_dim
    flop = pair * (recent + groups)
    if mixer.indexer is not None:
        flop += groups * mixer.indexer.num_heads * mixer.indexer.head_dim
    return 2.0 * float(tokens.batch[0]) * q_len * flop


def _stream_flop(architecture: networks.Architecture, tokens: networks.StepTokens) -> float:
    """Residual streams multiplied by a streams x streams matrix around every block."""
    streams = architecture.residual_streams
    if streams == 1:
        return 0.0
    rows = float((tokens.batch * tokens.q_len)[0])
    return 2.0 * architecture.num_layers * rows * 2.0 * streams**2 * architecture.hidden_size


@pytest.mark.parametrize("case", CASES, ids=[case["family"] for case in CASES])
def test_parameters_match_transformers(case: dict[str, Any]) -> None:
    total = _architecture(case).parameters().total
    assert total == pytest.approx(case["parameters"], rel=TOLERANCE)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("case", CASES, ids=[case["family"] for case in CASES])
def test_matmul_flop_match_transformers(case: dict[str, Any], phase: operators.Phase) -> None:
    expected = case[f"{phase}_flop"]
    assert _our_flop(case, phase) == pytest.approx(expected, rel=TOLERANCE)


def test_every_expert_convention_is_only_used_with_experts() -> None:
    for case in CASES:
        if case["family"] in ALL_EXPERTS:
            layers = _architecture(case).layers
            assert any(isinstance(group.ffn, networks.MoeFfn) for group in layers)


def test_the_oracle_reproduces_itself_live() -> None:
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        pytest.skip("live oracle: torch and transformers are not installed")
    spec = importlib.util.spec_from_file_location("make_oracle", ORACLE / "make_oracle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    case = next(case for case in CASES if case["family"] == "llama")
    live = module.measure("llama", case["config"])
    assert live == case

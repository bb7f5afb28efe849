"""What every network promises, for language models of several kinds and one that is none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from perfatlas.networks import ModelFormats, Network, StepTokens, model_names, resolve_model
from perfatlas.operators import Gemm, GroupedGemm, Operator, Phase
from perfatlas.quantities import UnsupportedError
from tests.networks.toy_network.reader import read_network

TOY = Path(__file__).parent / "toy_network" / "toy.toynet"
NAMES = (
    *("meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"),
    *("Qwen/Qwen3-Next-80B-A3B-Instruct", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
)
NETWORKS = (*(resolve_model(name).network for name in NAMES), read_network(TOY))
BF16 = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
ONE = np.ones(1)
TOKENS = StepTokens(batch=4.0 * ONE, q_len=ONE, kv_len=ONE)

networks = pytest.mark.parametrize("network", NETWORKS, ids=lambda one: one.model_type)


def _flop(operators: Iterable[Operator]) -> float:
    return sum(float((one.count * one.work().flop)[0]) for one in operators)


@networks
def test_a_step_is_the_sum_of_its_segments(network: Network) -> None:
    counts = (1, *(group.count for group in network.layers), 1)
    for phase in network.phases:
        parts = sum(
            count * _flop(network.segment_operators(segment, BF16, phase, TOKENS))
            for segment, count in enumerate(counts)
        )
        assert parts == pytest.approx(_flop(network.step_operators(BF16, phase, TOKENS)))


@networks
def test_products_hold_at_most_the_parameters(network: Network) -> None:
    counts = network.parameters()
    held = 0.0
    for one in network.step_operators(BF16, Phase.PREFILL, TOKENS):
        if isinstance(one, Gemm):
            held += float((one.count * one.n * one.k)[0])
        elif isinstance(one, GroupedGemm):
            each = one.matrices * one.hidden * one.intermediate * one.experts
            held += float((one.count * each)[0])
    tied = network.vocab_size * network.hidden_size if network.tie_word_embeddings else 0
    assert 0.9 * counts.total < held + counts.embedding - tied <= counts.total
    assert counts.active <= counts.total


@networks
def test_sizes_that_plans_divide_are_positive_and_allow_one_rank(network: Network) -> None:
    for group in network.layers:
        assert all(size.size > 0 and size.allows(ONE)[0] for size in group.divided_sizes)
    assert all(live.repeated > 0.0 for live in network.live_elements())


def test_drafts_are_refused_for_recurrent_layers_where_there_are_some() -> None:
    languages = {name: resolve_model(name).network for name in model_names()}
    recurrent = {name: any(g.is_recurrent for g in one.layers) for name, one in languages.items()}
    for name, network in languages.items():
        if recurrent[name]:
            with pytest.raises(UnsupportedError, match=r"recurrent.* state"):
                network.draft_operators(BF16, Phase.DECODE, TOKENS)
        elif not network.item:
            assert network.draft_operators(BF16, Phase.DECODE, TOKENS), name
    assert not recurrent["deepseek-ai/DeepSeek-V4-Flash"]
    assert recurrent["Qwen/Qwen3-Next-80B-A3B-Instruct"]

"""Diffusion language models: steps over all tokens, or over a block with cached keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.networks import resolve_model
from perfatlas.networks.graphs import read_graph
from perfatlas.networks.graphs.network import GraphNetwork
from perfatlas.networks.hf_config import read_network
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError
from validation.networks.sequences import CONFIGS

LLADA = CONFIGS["llada-8b"][1]
WIDTH, DEPTH, INNER, VOCABULARY = 4096, 32, 12288, 126464
LAYER = 4 * WIDTH**2 + 3 * WIDTH * INNER  # weights of products
ANSWER = "prompt_length=100,output_length=64,block_length=16,steps=32"


def _flop(model: str) -> float:
    (facts,) = resolve_model(model).network.describe_layers()
    return float(str(facts["flop_per_item"]))


def _estimate(model: str, **fields: object) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": model, "system": "h100_sxm", "batch": 1, **fields}
    return dict(perfatlas.estimate(**asked).results)


def test_parameters() -> None:
    """LLaDA by hand; Dream has those of Qwen2.5-7B, from which it was trained."""
    by_hand = 2 * VOCABULARY * WIDTH + DEPTH * (LAYER + 2 * WIDTH) + WIDTH
    assert resolve_model("LLaDA-8B-Instruct").network.parameters().total == by_hand == 8015581184
    dream, qwen = (resolve_model(name).network for name in ("dream-7b", "Qwen/Qwen2.5-7B"))
    assert dream.parameters().total == qwen.parameters().total


def test_work_of_steps_over_all_tokens() -> None:
    """32 steps over 164 tokens, by hand."""
    step = 2 * 164 * (DEPTH * LAYER + VOCABULARY * WIDTH) + DEPTH * 4 * 164**2 * WIDTH
    assert _flop(f"llada-8b{{{ANSWER}}}") == pytest.approx(32 * step, rel=1e-12)


def test_work_of_steps_over_a_block() -> None:
    """Of 32 steps for 4 blocks, 4 run over 164 tokens and 28 over 16, with 164 keys."""
    products = DEPTH * LAYER + VOCABULARY * WIDTH
    full = 2 * 164 * products + DEPTH * 4 * 164**2 * WIDTH
    block = 2 * 16 * products + DEPTH * 4 * 16 * 164 * WIDTH
    found = _flop(f"llada-8b{{{ANSWER},refresh_interval=8}}")
    assert found == pytest.approx(4 * full + 28 * block, rel=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_catalog_has_what_the_row_of_a_config_reads(name: str) -> None:
    read, shipped = read_network(CONFIGS[name][1], name), resolve_model(name).network
    assert isinstance(read, GraphNetwork)
    assert isinstance(shipped, GraphNetwork)
    assert shipped.describe_layers() == read.describe_layers()
    assert (shipped.sizes, shipped.limits) == (read.sizes, read.limits)


def test_tokens_per_second_are_those_of_an_answer() -> None:
    found = _estimate(f"llada-8b{{{ANSWER}}}")
    assert found["output_tokens_per_s_per_gpu"] * found["latency_s"] == pytest.approx(64.0)
    assert found["energy_per_output_token_j"] * 64 == pytest.approx(found["energy_per_item_j"])
    rows = {"model": [f"llada-8b{{{ANSWER}}}", "resnet-50"], "system": ["h100_sxm"] * 2}
    columns = perfatlas.estimate_table({**rows, "batch": [1, 1]}).columns
    speeds = list(columns["output_tokens_per_s_per_gpu"])
    assert speeds[0] == pytest.approx(found["output_tokens_per_s_per_gpu"])
    assert speeds[1] is None


def test_fewer_steps_and_cached_keys_are_faster() -> None:
    plain, fewer, cached = (
        _estimate(f"llada-8b{{{size}}}")
        for size in ("steps=256", "steps=128", "steps=256,refresh_interval=32")
    )
    assert fewer["latency_s"] == pytest.approx(plain["latency_s"] / 2.0, rel=1e-6)
    assert cached["latency_s"] < plain["latency_s"]
    more = cached["memory"]["activation_bytes"] - plain["memory"]["activation_bytes"]
    assert more >= 0.9 * 2 * 2 * WIDTH * DEPTH * 768  # keys and values of 768 tokens in 16 bits


def test_two_gpus_divide_the_tokens_of_a_step() -> None:
    one, two = (_estimate("llada-8b", gpus=gpus, cp=gpus)["latency_s"] for gpus in (1, 2))
    assert 0.5 * one < two < 0.9 * one


def test_a_training_step_runs_one_pass() -> None:
    found = perfatlas.train(
        model="llada-8b", system="h100_sxm", gpus=8, zero="3", global_batch=8, micro_batch=1
    ).results
    products = 2 * 768 * (DEPTH * LAYER + VOCABULARY * WIDTH) + DEPTH * 4 * 768**2 * WIDTH
    flop = found["mfu"] * found["step_time_s"] * 8 * 989.4e12
    assert flop == pytest.approx(3.0 * 8 * products, rel=0.02)


@pytest.mark.parametrize(
    ("model", "fields", "words"),
    [
        ("llada-8b{block_length=24}", {}, "not whole"),
        ("llada-8b", {"osl": 512}, "output_length"),
        ("llada-8b{prompt_length=4000}", {}, "total_length = 4256: llada-8b takes 1 to 4,096"),
        ("llada-8b{step=8}", {}, "did you mean 'steps'"),
    ],
)
def test_wrong_sizes_are_refused(model: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(PerfatlasError, match=words):
        _estimate(model, **fields)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"n_heads": 0}, InvalidSpecError),
        ({"d_model": "wide"}, InvalidSpecError),
        ({"max_sequence_length": 1}, InvalidSpecError),
        ({"n_layers": 10**9}, InvalidSpecError),
        ({"block_type": "sequential"}, UnsupportedError),
        ({"include_bias": True}, UnsupportedError),
    ],
)
def test_configs_that_no_row_describes_are_refused(
    changes: dict[str, object], error: type[PerfatlasError]
) -> None:
    with pytest.raises(error, match="example"):
        read_network({**LLADA, **changes}, "example")


@pytest.mark.parametrize("length", ["size / (size - 1)", "-1 / (size - 1)", "0 / (size - 1)"])
def test_limits_of_lengths_that_are_no_numbers(length: str) -> None:
    table = {
        "name": "a",
        "parameters": 1,
        "sizes": {"size": 1},
        "lengths": {"long": length},
        "limits": {"long": {"most": 8}},
        "operators": [{"kind": "linear", "m": "batch", "n": 1, "k": 1}],
    }
    with np.errstate(all="ignore"), pytest.raises(InvalidSpecError, match="long"):
        read_graph(table, "a")

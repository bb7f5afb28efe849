"""Generation of encoder-decoders: the encoder once, a pass of the decoder per token."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.files import format_toml
from perfatlas.networks import resolve_model
from perfatlas.networks.graphs import Node, graph_text, read_graph
from perfatlas.quantities import Expression, InvalidSpecError

# an encoder, the keys of a cross-attention of 100 positions, and a decoder of one layer
SMALL: dict[str, Any] = {
    "name": "small",
    "item": "clip",
    "parameters": 4 * 1024 * 1024,
    "operators": [
        {"kind": "linear", "count": 2, "m": "100 * batch", "n": 1024, "k": 1024},
        {"kind": "linear", "count": 2, "m": "batch * outputs", "n": 1024, "k": 1024},
    ],
    "decoder": [
        {"kind": "linear", "count": 2, "m": "batch", "n": 1024, "k": 1024},
        {"kind": "attention", "q_len": 1, "kv_len": "kv_length", "num_heads": 16, "head_dim": 64},
        {"kind": "attention", "q_len": 1, "kv_len": 100, "num_heads": 16, "head_dim": 64},
    ],
    "sizes": {"target_length": 32},
    "lengths": {"outputs": "target_length"},
    "limits": {"target_length": {"most": 64}},
}
# GFLOP of a pass of the decoder over one token of two items with 64 keys, counted by PyTorch
PASSES = {"whisper-large-v3": 3.71405824, "t5-base": 0.537526272, "t5-large": 1.65412864}
HOST_S = 31e-6  # per kernel: engine pytorch
WHISPER_KERNELS = 682


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(format_toml(SMALL))
    return str(path)


def _asked(model: str, **fields: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"system": "h100_sxm", "engine": "ideal", "tier": "bound", **fields}
    return dict(perfatlas.estimate(model=model, **asked).results)


@pytest.mark.parametrize("name", PASSES)
def test_work_of_a_token_equals_counts_of_pytorch(name: str) -> None:
    network: Any = resolve_model(name).network
    columns = network.columns(2.0, 64.0)
    found = sum(float(node.flop(columns)) for node in network.decoder)
    assert found / 1e9 == pytest.approx(PASSES[name], rel=1e-9)


def test_a_token_at_the_roofline_by_hand(small: str) -> None:
    """2 x 1024^2 weights, keys and values of 1 + 32/2 tokens and 100 positions, activations."""
    found = _asked(small, batch=2)
    products = 2 * (1024 * 1024 + 2 * 2 * 1024)  # weights, inputs and outputs
    attentions = 2 * (17 + 100 + 2) * 2 * 1024  # keys and values; queries and outputs
    assert found["tpot_s"] == pytest.approx(2.0 * (products + attentions) / 3.35e12, rel=0.01)
    assert found["latency_s"] == pytest.approx(found["ttft_s"] + 31 * found["tpot_s"], rel=1e-12)
    assert found["throughput_per_s"] == pytest.approx(2 / found["latency_s"], rel=1e-12)
    assert found["output_tokens_per_s_per_gpu"] == pytest.approx(32 * found["throughput_per_s"])
    assert not [name for name in found if "request" in name or "input_token" in name]


def test_the_cache_holds_keys_of_tokens_and_of_the_encoder(small: str) -> None:
    memory = _asked(small, batch=3, osl=50)["memory"]
    assert memory["kv_bytes"] == 3 * (51 + 100) * 2 * 1024 * 2
    assert memory["weights_bytes"] == 2 * SMALL["parameters"]


def test_the_time_of_tokens_is_summed_over_their_keys(small: str) -> None:
    """Each of 7 steps after the first token priced alone: that of k keys is the mean of 2 k - 3."""
    each = [_asked(small, osl=2 * keys - 2)["tpot_s"] for keys in range(2, 9)]
    found = _asked(small, osl=8)
    assert sum(each) == pytest.approx(found["latency_s"] - found["ttft_s"], rel=1e-9)


def test_the_default_is_the_length_that_training_runs(small: str) -> None:
    assert _asked(small) == _asked(small, osl=32) == _asked(f"{small}{{target_length=32}}")
    one = _asked(small, osl=1)
    assert "tpot_s" not in one
    assert one["latency_s"] == _asked(small, osl=20)["ttft_s"]


def test_every_pass_waits_for_the_host() -> None:
    few, many = (
        perfatlas.estimate(
            model="whisper-large-v3", system="h100_sxm", engine="pytorch", osl=osl
        ).results
        for osl in (2, 101)
    )
    assert few["tpot_s"] == pytest.approx(WHISPER_KERNELS * HOST_S, rel=1e-3)
    passed_s = many["latency_s"] - few["latency_s"]
    assert passed_s == pytest.approx(99 * WHISPER_KERNELS * HOST_S, rel=1e-3)


def test_training_runs_all_tokens_at_once(small: str, tmp_path: Path) -> None:
    alone = tmp_path / "alone.toml"
    alone.write_text(format_toml({k: v for k, v in SMALL.items() if k != "decoder"}))
    fields: dict[str, Any] = {"system": "h100_sxm", "global_batch": 8, "micro_batch": 8}
    times = [perfatlas.train(model=one, **fields).results for one in (small, str(alone))]
    assert times[0] == times[1]


def test_rows_of_a_table_have_the_results_of_their_networks() -> None:
    models = ["whisper-large-v3", "resnet-50", "meta-llama/Llama-3.1-8B"]
    table = {"model": models, "system": ["h100_sxm"] * 3, "mode": ["static"] * 3}
    columns = perfatlas.estimate_table(table).columns
    assert not any(columns["error"])
    known = {
        name: [value is not None for value in columns[name]]
        for name in ("latency_s", "tpot_s", "request_latency_s", "pass_mfu", "decode_mfu")
    }
    assert known == {
        "latency_s": [True, True, False],
        "tpot_s": [True, False, True],
        "request_latency_s": [False, False, True],
        "pass_mfu": [False, True, False],
        "decode_mfu": [True, False, True],
    }


def test_lengths_that_are_not_generated_are_refused(small: str) -> None:
    for model, osl, message in (
        (small, 65, "generates at most 64 tokens; set osl = 64 or less"),
        ("resnet-50", 2, "decodes nothing; set osl = 1"),
        ("whisper-large-v3", 449, "at most 448 tokens"),
    ):
        with pytest.raises(InvalidSpecError, match=message):
            perfatlas.estimate(model=model, system="h100_sxm", osl=osl)
    with pytest.raises(InvalidSpecError, match="at least 1"):
        perfatlas.estimate(model=small, system="h100_sxm", osl=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": {}, "lengths": {"outputs": "3"}, "limits": {}}, "needs the size target_length"),
        ({"sizes": {"target_length": 2, "kv_length": 3}}, "kv_length cannot be used"),
        ({"denoiser": 1}, "denoiser cannot be used"),
        ({"decoder": []}, "expected"),
        ({"decoder": [{"kind": "linear", "m": "keys", "n": 1, "k": 1}]}, "reads 'keys'"),
    ],
)
def test_files_that_contradict_themselves(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        read_graph({**copy.deepcopy(SMALL), **changes}, "small")


def test_a_written_decoder_is_read_again() -> None:
    sizes = {"m": Expression("batch"), "n": Expression("4"), "k": Expression("8")}
    node = Node(kind="linear", sizes=sizes, count=Expression("1"))
    text = graph_text({"name": "a"}, [node], [node, node])
    assert text.count("decoder = [") == 1
    assert "count = 2" in text.partition("decoder")[2]

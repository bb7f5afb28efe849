"""Families against transformers: parameters of every class that a row of a table reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfatlas.networks import resolve_model
from perfatlas.networks.graphs.network import GraphNetwork
from perfatlas.networks.graphs.nodes import Node
from perfatlas.networks.hf_config import read_config, read_network
from perfatlas.networks.hf_config.encoders import ENCODERS, read_encoder
from perfatlas.networks.hf_config.families import families
from perfatlas.networks.hf_config.family_rows import FAMILIES
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.hf_config.parts import networks, part_rows
from perfatlas.quantities import InvalidSpecError, UnsupportedError

CLASSES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "oracle/classes.json").read_text("utf-8")
)
BUILT = {name for name, row in CLASSES.items() if "parameters" in row}
PART = 1e-3  # of the parameters
# Scores that correct the router are buffers of transformers; SwiGLU with a learned exponent
CORRECTED = 5e-5
SIZES = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
         "num_attention_heads": 16, "vocab_size": 32000}  # fmt: skip
# What a class derives from other fields, or supplies as a list
STATED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "flint": {"mlp_only_layers": [0, 1]},
    "glm4_moe": {"head_dim": 42},
    "glm4v_moe": {"text_config": {"model_type": "glm4v_moe_text", "head_dim": 42}},
    "qwen3_omni_moe_thinker": {
        "text_config": {"model_type": "qwen3_omni_moe_text", "head_dim": 73}
    },
    "olmo_hybrid": {
        "linear_num_key_heads": 30,
        "linear_num_value_heads": 30,
        "linear_key_head_dim": 96,
        "linear_value_head_dim": 192,
    },
}
# No bias of gates; biases that depend on positions
APPROXIMATE = {"gte": 3e-4, "mpnet": 1e-5, "roformer": 1e-3}
# Networks of parts, and models of several parts: compared by the config that their class writes
WHOLE = {name for name in BUILT if "config" in CLASSES[name]}


@pytest.mark.parametrize("model_type", sorted((BUILT - WHOLE) & {*FAMILIES}))
def test_parameters_of_decoders(model_type: str) -> None:
    row = CLASSES[model_type]
    config = {"model_type": model_type, **row.get("layers", {})}
    config |= STATED.get(model_type, {})
    found = read_config(config, model_type).parameters().total
    assert found == pytest.approx(row["parameters"], rel=CORRECTED)


@pytest.mark.parametrize("model_type", sorted(BUILT & {*ENCODERS}))
def test_parameters_of_encoders(model_type: str) -> None:
    values = {"model_type": model_type, "architectures": ["NamedForMaskedLM"]}
    network = read_encoder(Fields(values=values, origin=model_type), ENCODERS[model_type])
    expected = CLASSES[model_type]["parameters"]
    assert network.parameters().total == pytest.approx(expected, rel=APPROXIMATE.get(model_type, 0))
    assert network.item == "sequence"


# Whose default encoder does not have the width, or the number of patches, of the language model
CONTRADICT = {"gemma3", "qwen3_vl", "qwen3_vl_moe"}
LEAST_WHOLE = 157  # models of several parts with the parameters of transformers: may only grow


def graph(config: dict[str, Any]) -> GraphNetwork:
    network = read_network(config, "test")
    assert isinstance(network, GraphNetwork)
    return network


def flop_of(network: GraphNetwork, nodes: tuple[Node, ...]) -> float:
    columns = network.columns(1.0)
    return sum((float(node.flop(columns)) for node in nodes), 0.0)


def _stated(model_type: str) -> dict[str, Any]:
    """Return the config that a class writes, with what it derives from other fields."""
    row = CLASSES[model_type]
    return {**row.get("layers", {}), **row["config"], **STATED.get(model_type, {})}


def test_models_of_several_parts() -> None:
    same = 0
    for model_type in sorted(WHOLE - CONTRADICT):
        try:
            config = _stated(model_type)
            network = read_network(config, model_type)
        except UnsupportedError:
            continue
        off = network.parameters().total / CLASSES[model_type]["parameters"] - 1.0
        if abs(off) > PART:
            assert any("not counted" in text for text in network.warnings), model_type
            continue
        same += 1
        if model_type in networks():
            assert isinstance(network, GraphNetwork)
            assert flop_of(network, network.nodes) > 0
    assert same >= LEAST_WHOLE


@pytest.mark.parametrize("model_type", sorted(CONTRADICT))
def test_defaults_that_contradict_each_other_are_refused(model_type: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"hidden_size|patches"):
        read_network(CLASSES[model_type]["config"], model_type)


def test_operators_of_an_encoder_decoder_by_hand() -> None:
    config = {"model_type": "t5", "d_model": 64, "d_ff": 128, "num_heads": 4, "d_kv": 16,
              "num_layers": 3, "num_decoder_layers": 2, "vocab_size": 100}  # fmt: skip
    network = graph(config)
    columns = {**network.columns(1.0), "source_length": 7.0, "target_length": 5.0}
    products = [node.values(columns) for node in network.nodes if node.kind == "linear"]
    flop = sum(2 * row["count"] * row["m"] * row["n"] * row["k"] for row in products)
    # 4 projections of 64 x 64 and a feed-forward of 2 x 64 x 128 per layer; the decoder also
    # projects its queries and outputs of cross-attention, and the keys and values of the source
    encoder = 3 * 7 * (4 * 64 * 64 + 2 * 64 * 128)
    decoder = 2 * (5 * (6 * 64 * 64 + 2 * 64 * 128) + 7 * 2 * 64 * 64) + 5 * 100 * 64
    assert flop == 2 * (encoder + decoder)
    attention = [node.values(columns) for node in network.nodes if node.kind == "attention"]
    assert [(row["count"], row["q_len"], row["kv_len"]) for row in attention] == [
        (3, 7, 7), (2, 5, 5), (2, 5, 7)]  # fmt: skip
    # buckets of positions: 32 x 4 heads, in each half
    norms = (3 * 2 + 2 * 3 + 2) * 64
    weights = 3 * 32768 + 2 * (8 * 4096 + 16384) + 100 * 64
    assert network.parameters().total == weights + norms + 2 * 32 * 4


# Published configs by their keys, with the parameters of their checkpoints
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"model_type": "t5", "d_model": 768, "d_ff": 3072, "num_heads": 12, "num_layers": 12,
          "vocab_size": 32128}, 222_903_552),
        ({"model_type": "t5", "d_model": 1024, "d_ff": 4096, "num_heads": 16, "num_layers": 24,
          "num_decoder_layers": None, "vocab_size": 32128}, 737_668_096),
        ({"model_type": "t5", "d_model": 2048, "d_ff": 5120, "num_heads": 32, "num_layers": 24,
          "num_decoder_layers": 24, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
          "vocab_size": 32128}, 2_849_757_184),
        ({"model_type": "bart", "d_model": 1024, "vocab_size": 50265}, 406_291_456),
        ({"model_type": "deberta-v2", "hidden_size": 768, "num_hidden_layers": 12,
          "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 128100,
          "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
          "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False,
          "max_relative_positions": -1, "type_vocab_size": 0}, 183_831_552 + 768 * 769),
    ],
)  # fmt: skip
def test_parameters_of_published_encoder_decoders(config: dict[str, Any], parameters: int) -> None:
    assert read_network(config, "published").parameters().total == parameters


# Encoders that the class of a whole model leaves out by default: parameters of transformers 5.24.0
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"model_type": "gemma4", "vision_config": {"model_type": "gemma4_vision"},
          "audio_config": {"model_type": "gemma4_audio"},
          "text_config": {"model_type": "gemma4_text", "hidden_size": 1536, "num_hidden_layers": 12,
                          "intermediate_size": 9216, "num_attention_heads": 8,
                          "vocab_size": 262144, "num_kv_shared_layers": 4,
                          "use_double_wide_mlp": True}}, 2_493_812_512),
        ({"model_type": "aya_vision", "text_config": {"model_type": "cohere2"},
          "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152,
                            "num_attention_heads": 16, "num_hidden_layers": 27,
                            "image_size": 364, "patch_size": 14, "intermediate_size": 4304}},
         35_480_324_544),
    ],
)  # fmt: skip
def test_parameters_with_encoders(config: dict[str, Any], parameters: int) -> None:
    network = read_config(config, "test")
    assert network.parameters().total == parameters
    assert any("not priced" in text for text in network.warnings)
    with pytest.raises(UnsupportedError, match="not priced; leave images out"):
        network.with_images(1, 512, 512)
    assert network.trained().parameters().total < parameters


def test_a_model_that_speaks_is_its_thinker() -> None:
    thinker = {"text_config": {"model_type": "qwen3_omni_moe_text", "head_dim": 128}}
    network = read_config({"model_type": "qwen3_omni_moe", "thinker_config": thinker}, "test")
    assert network.model_type == "qwen3_omni_moe_text"
    assert any("talker" in text for text in network.warnings)


def test_encoders_that_a_config_does_not_describe_are_named() -> None:
    config = {"model_type": "glm4v", "text_config": {"model_type": "glm4v_text"},
              "vision_config": {"model_type": "unheard"}}  # fmt: skip
    warning = read_config(config, "test").warnings[0]
    assert "not counted" in warning
    assert "'unheard' is not described" in warning


def test_whisper_by_config_runs_the_products_of_its_exported_graph() -> None:
    config = {"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
              "encoder_attention_heads": 20, "decoder_attention_heads": 20, "num_mel_bins": 128,
              "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "vocab_size": 51866}  # fmt: skip
    read, exported = graph(config), resolve_model("whisper-large-v3").network
    assert isinstance(exported, GraphNetwork)
    assert read.parameters() == exported.parameters()
    assert flop_of(read, read.nodes) == pytest.approx(flop_of(exported, exported.nodes), rel=1e-9)
    generated = flop_of(exported, exported.decoder)
    assert flop_of(read, read.decoder) == pytest.approx(generated, rel=1e-9)


def test_a_decoder_alone_has_the_keys_of_its_encoder() -> None:
    config = {"model_type": "bart", "architectures": ["BartForCausalLM"]}
    network = graph(config)
    whole = read_network({"model_type": "bart"}, "test")
    assert network.parameters().total < whole.parameters().total
    assert {"source_length", "target_length"} <= set(network.sizes)


@pytest.mark.parametrize(
    ("values", "rule"),
    [({"d_model": 0}, "empty"), ({"num_heads": -4}, "num_heads"),
     ({"num_layers": 10**7}, "layers"),
     ({"encoder_attention_type": "transient-global"}, "not modeled"), ({"d_ff": 1.5}, "whole")],
)  # fmt: skip
def test_sizes_that_no_network_has_are_refused(values: dict[str, Any], rule: str) -> None:
    kind = "longt5" if "encoder_attention_type" in values else "t5"
    with pytest.raises((InvalidSpecError, UnsupportedError), match=rule):
        read_network({"model_type": kind, **values}, "test")


def test_other_classes_are_refused() -> None:
    known = {*FAMILIES, *ENCODERS, *families(), *part_rows()}
    for model_type in sorted(BUILT - known):
        with pytest.raises((UnsupportedError, InvalidSpecError)):
            read_config({"model_type": model_type, **SIZES}, model_type)


def test_classes_that_their_defaults_do_not_build() -> None:
    rows = {*FAMILIES} & {*CLASSES}
    unbuilt = sorted(rows - BUILT)
    assert unbuilt == ["dbrx", "dots1", "hunyuan_v1_dense", "hunyuan_v1_moe", "lfm2_moe",
                       "ministral", "nemotron"]  # fmt: skip


# Published configs in part, with the parameters of their model cards or safetensors files
@pytest.mark.parametrize(
    ("config", "billions"),
    [
        ({"model_type": "falcon_mamba", "expand": 16, "hidden_size": 4096,
          "intermediate_size": 8192, "num_hidden_layers": 64, "state_size": 16, "vocab_size": 65024,
          "tie_word_embeddings": False}, 7.27),
        ({"dim": 8192, "n_layers": 80, "n_heads": 64, "n_kv_heads": 8, "vocab_size": 128256,
          "multiple_of": 4096, "ffn_dim_multiplier": 1.3}, 70.55),
        ({"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
          "n_kv_heads": 8, "vocab_size": 32000,
          "moe": {"num_experts": 8, "num_experts_per_tok": 2}}, 46.70),
        ({"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016,
          "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 151936,
          "kv_channels": 128, "seq_length": 8192}, 7.72),
    ],
)  # fmt: skip
def test_parameters_of_published_checkpoints(config: dict[str, Any], billions: float) -> None:
    total = read_config(config, "published").parameters().total
    assert total / 1e9 == pytest.approx(billions, rel=2e-3)


def test_what_a_class_does_not_know_is_a_warning() -> None:
    found = read_config({"model_type": "llama", **SIZES, "num_local_experts": 8}, "test")
    (warning,) = found.warnings
    assert "num_local_experts" in warning
    assert not read_config({"model_type": "llama", **SIZES, "num_local_experts": 1}, "t").warnings


def test_unknown_types_that_are_no_decoders_are_refused() -> None:
    for stated in ({"architectures": ["NewModel"]}, {"is_encoder_decoder": True}):
        with pytest.raises(UnsupportedError, match="ForCausalLM"):
            read_config({"model_type": "unheard", **SIZES, **stated}, "test")
    with pytest.raises(UnsupportedError, match="lacks num_hidden_layers"):
        read_config({"model_type": "unheard", **SIZES, "num_hidden_layers": None}, "test")


def test_local_attention_of_an_encoder_by_hand() -> None:
    values = {"model_type": "modernbert", "local_attention": 128, "global_attn_every_n_layers": 3}
    network = read_encoder(Fields(values=values, origin="test"), ENCODERS["modernbert"])
    nodes = [node for node in network.nodes if node.kind == "attention"]
    # 22 layers, of which every third is global
    assert [node.count.text for node in nodes] == ["8", "14"]
    assert nodes[1].sizes["kv_len"].text == "min(sequence_length, 128)"


@pytest.mark.parametrize("windows", [512, [512] * 12])
def test_a_list_of_equal_values_is_one(windows: int | list[int]) -> None:
    config = {"model_type": "longformer", "attention_window": windows}
    assert read_network(config, "example").parameters().total == 130_743_552


@pytest.mark.parametrize("windows", [[512, 256], [], ["a"], [[1]], [True]])
def test_lists_of_other_values_are_refused(windows: list[object]) -> None:
    with pytest.raises(InvalidSpecError, match="attention_window"):
        read_network({"model_type": "longformer", "attention_window": windows}, "example")

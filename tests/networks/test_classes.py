"""Families against transformers: parameters of every class that a row of a table reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfatlas.networks.hf_config import read_config
from perfatlas.networks.hf_config.encoders import ENCODERS, read_encoder
from perfatlas.networks.hf_config.families import families
from perfatlas.networks.hf_config.family_rows import FAMILIES
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.quantities import InvalidSpecError, UnsupportedError

CLASSES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "oracle/classes.json").read_text("utf-8")
)
BUILT = {name for name, row in CLASSES.items() if "parameters" in row}
# Scores that correct the router are buffers of transformers; SwiGLU with a learned exponent
CORRECTED = 5e-5
SIZES = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
         "num_attention_heads": 16, "vocab_size": 32000}  # fmt: skip
# What a class derives from other fields, or supplies as a list
STATED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "flint": {"mlp_only_layers": [0, 1]},
    "glm4_moe": {"head_dim": 42},
    "olmo_hybrid": {
        "linear_num_key_heads": 30,
        "linear_num_value_heads": 30,
        "linear_key_head_dim": 96,
        "linear_value_head_dim": 192,
    },
}
# No bias of gates; biases that depend on positions
APPROXIMATE = {"gte": 3e-4, "mpnet": 1e-5, "roformer": 1e-3}
WRAPPERS = {"gemma3"}  # with an encoder


@pytest.mark.parametrize("model_type", sorted((BUILT - WRAPPERS) & {*FAMILIES}))
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


def test_other_classes_are_refused() -> None:
    for model_type in sorted(BUILT - {*FAMILIES} - {*ENCODERS} - {*families()}):
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

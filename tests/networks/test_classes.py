"""Families against transformers: parameters of every class that a row of a table reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfatlas.networks.hf_config import read_config
from perfatlas.networks.hf_config.encoders import ENCODERS, read_encoder
from perfatlas.networks.hf_config.family_rows import FAMILIES
from perfatlas.networks.hf_config.fields import Fields

CLASSES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "oracle/classes.json").read_text("utf-8")
)
BUILT = {name for name, row in CLASSES.items() if "parameters" in row}
# Scores that correct the router are buffers of transformers; SwiGLU with a learned exponent
CORRECTED = 5e-5
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


def test_a_row_for_every_class_or_a_reader_or_a_refusal() -> None:
    rows = {*FAMILIES} & {*CLASSES}
    assert len(rows) > 90
    unbuilt = sorted(rows - BUILT)
    assert unbuilt == ["dbrx", "dots1", "hunyuan_v1_dense", "hunyuan_v1_moe", "lfm2_moe",
                       "ministral", "nemotron"]  # fmt: skip

"""Mutated configs: an architecture or a named error, never another exception."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.networks import Architecture, graph_names, model_names
from perfatlas.networks.catalog import catalog_config
from perfatlas.networks.hf_config import read_config, read_network
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from tests.examples import scaled_examples

SAMPLES = [
    "meta-llama/Llama-3.1-8B",
    "google/gemma-3-12b-it",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V3.2",
    "Qwen/Qwen3.5-397B-A17B",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4",
    "nvidia/Qwen3.6-35B-A3B-NVFP4",
    "ai21labs/Jamba-v0.1",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "moonshotai/Kimi-K2.5",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["full_attention", "re:.*(a|b)+", "fp8", "NVFP4", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def paths(value: dict[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, item in value.items():
        found.append((key,))
        if isinstance(item, dict):
            found.extend((key, *rest) for rest in paths(item))
    return found


def read(config: dict[str, Any]) -> Architecture | str:
    """Return the architecture of a config, or the text of its refusal."""
    try:
        return read_config(config, "mutated")
    except (InvalidSpecError, UnsupportedError) as error:
        return str(error)


@settings(max_examples=scaled_examples(12), deadline=None)
@given(data=st.data())
def test_mutated_configs_answer_or_name_the_error(data: st.DataObject) -> None:
    config = copy.deepcopy(catalog_config(data.draw(st.sampled_from(SAMPLES))))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([("model_type",), *paths(config)]))
        parent = config
        for key in path[:-1]:
            parent = parent[key] if isinstance(parent.get(key), dict) else {}
        if data.draw(st.booleans()):
            parent.pop(path[-1], None)
        else:
            parent[path[-1]] = data.draw(JSON)
    found = read(config)
    if isinstance(found, str):
        assert "mutated" in found
        found.encode("utf-8")
    else:
        assert 1 <= found.num_layers <= 10_000
        assert found.parameters().total > 0


@given(config=st.dictionaries(st.text(max_size=12), JSON, max_size=6))
def test_arbitrary_objects_are_refused(config: dict[str, object]) -> None:
    with pytest.raises((InvalidSpecError, UnsupportedError)):
        read_config(config, "arbitrary")


def test_deepest_model_is_read_at_once() -> None:
    config = catalog_config("google/gemma-2-9b") | {"num_hidden_layers": 10_000}
    assert read_config(config, "deep").num_layers == 10_000


WAV2VEC2: dict[str, object] = {"model_type": "wav2vec2", "conv_dim": [64] * 3}
BAD_VALUES: list[tuple[dict[str, object], str]] = [
    ({"model_type": "whisper", "d_model": 10**400}, "d_model"),
    ({"model_type": "whisper", "d_model": [384]}, "d_model.*expected a value such as 384"),
    ({"model_type": "whisper", "d_model": {"a": 1}}, "d_model"),
    ({"model_type": "wav2vec2", "conv_dim": "512"}, "conv_dim.*list of whole numbers"),
    ({"model_type": "wav2vec2", "conv_dim": ["512"] * 7}, "conv_dim.*list of whole numbers"),
    (WAV2VEC2, "conv_kernel.*must be 3 numbers"),
    (WAV2VEC2 | {"conv_kernel": [3] * 3, "conv_stride": [2] * 2}, "conv_stride.*must be 3 numbers"),
]


@pytest.mark.parametrize(("config", "match"), BAD_VALUES, ids=lambda value: str(value)[:60])
def test_values_of_other_types_are_not_replaced_by_defaults(
    config: dict[str, object], match: str
) -> None:
    with pytest.raises(InvalidSpecError, match=match):
        read_network(config, "test")


def test_sizes_that_a_config_leaves_out_are_named() -> None:
    config = {"model_type": "whisper", "d_model": 384, "encoder_layer": 32}
    (warning,) = read_network(config, "test").warnings
    assert "encoder_layers = 4; did you mean 'encoder_layer'?" in warning
    assert "d_model" not in warning


def test_encoders_beyond_the_limit_of_networks_are_not_counted() -> None:
    audio = {"model_type": "qwen2_audio_encoder", "d_model": 10**9}
    text = {"model_type": "llama"}
    config = {"model_type": "qwen2_audio", "audio_config": audio, "text_config": text}
    read = read_config(config, "test")
    assert read.unpriced_parameters == 0
    assert "exceed 1,000,000,000,000,000" in read.warnings[0]


def test_every_catalog_model_has_a_config() -> None:
    assert all(catalog_config(name)["model_type"] for name in {*model_names()} - {*graph_names()})

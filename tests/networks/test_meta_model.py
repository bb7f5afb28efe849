"""Models that transformers builds from a config.json on the meta device."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.networks import import_config, import_graph, resolve_model
from perfatlas.networks.hf_config import meta_model
from perfatlas.quantities import (
    Expression,
    InvalidSpecError,
    MissingDependencyError,
    PerfatlasError,
    UnsupportedError,
    UsageError,
)
from perfatlas.verbs.model.importing import Choices, importing

if TYPE_CHECKING:
    from pathlib import Path

# 2 layers of width 32 with 4 heads of 8, 2 of them of keys and values; tied embeddings
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
OF_LAYER = 32 * 64 + 32 * 32 + 3 * 32 * 48  # products of a layer: 2,048 + 1,024 + 4,608
PARAMETERS = 2 * (OF_LAYER + 2 * 32) + 32 + 100 * 32
HELD = {"source": "LlamaForCausalLM of transformers 5.24.0", "modules": {}}


def _file(folder: Path, **values: object) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps({**LLAMA, **values}))
    return file


def _built() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.parametrize(
    ("parameters", "warns"),
    [(PARAMETERS, ""), (PARAMETERS + 1000, "1,000 parameters"), (PARAMETERS - 1000, "are counted")],
)
def test_a_stated_meta_model_settles_the_parameters(
    tmp_path: Path, parameters: int, warns: str
) -> None:
    file = _file(tmp_path, meta_model={**HELD, "parameters": parameters})
    network = resolve_model(str(file)).network
    assert network.parameters().total == max(parameters, PARAMETERS)
    assert warns in " ".join(network.warnings)
    assert any("as many parameters as" in note for note in network.notes) == (not warns)


def test_an_unknown_family_stays_in_doubt(tmp_path: Path) -> None:
    """What has no parameters, such as a window, may still be unread."""
    unknown = {"model_type": "llama_of_tomorrow", "head_dim": 8}
    doubts = resolve_model(str(_file(tmp_path, **unknown))).network.warnings
    held = {**HELD, "parameters": PARAMETERS}
    settled = resolve_model(str(_file(tmp_path, **unknown, meta_model=held))).network
    assert settled.warnings == doubts
    assert "as many parameters as" in settled.notes[-1]


@pytest.mark.parametrize("held", [3, {"parameters": -1}, {"parameters": "many"}, {}])
def test_a_wrong_meta_model_is_refused(tmp_path: Path, held: object) -> None:
    with pytest.raises(InvalidSpecError):
        resolve_model(str(_file(tmp_path, meta_model=held)))


def test_without_transformers_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingDependencyError, match="hf"):
        import_config(_file(tmp_path))


def test_what_applies_to_operators_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"apply to \.toml"):
        importing(_file(tmp_path), output=tmp_path / "out.json", choices=Choices(batch=2))


def test_a_config_is_settled(tmp_path: Path) -> None:
    _built()
    stated = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    found = json.loads(import_config(_file(tmp_path, **stated)))
    assert found["meta_model"]["parameters"] == PARAMETERS
    assert found["meta_model"]["modules"]["model.layers.*.mlp.gate_proj.weight"] == 2 * 32 * 48
    assert found["quantization_config"] == stated["quantization_config"]
    assert found["rms_norm_eps"] == 1e-6  # of its class


def test_formats_beside_the_config_are_kept(tmp_path: Path) -> None:
    _built()
    beside = {"quantization": {"quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    assert json.loads(import_config(_file(tmp_path)))["quantization_config"] == beside


def test_no_kernels_of_a_hub_are_loaded(tmp_path: Path) -> None:
    _built()
    kernels = {"attn_implementation": "kernels-community/flash-attn"}
    assert json.loads(import_config(_file(tmp_path, **kernels)))["meta_model"]


def test_decoders_see_what_came_before(tmp_path: Path) -> None:
    _built()
    found = tomllib.loads(import_graph(_file(tmp_path)))
    attention = [row for row in found["operators"] if row["kind"] == "attention"]
    assert attention
    assert all(row["causal"] for row in attention)


def test_operators_of_a_forward_pass(tmp_path: Path) -> None:
    _built()
    found = tomllib.loads(import_graph(_file(tmp_path)))
    assert found["parameters"] == PARAMETERS
    linear = [row for row in found["operators"] if row["kind"] == "linear"]
    assert sum(row["n"] * row["k"] * row.get("count", 1) for row in linear) == 2 * OF_LAYER + 3200
    assert found["sizes"] == {"input_ids_1": 128}


def test_experts_are_groups_of_a_product(tmp_path: Path) -> None:
    _built()
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": False}
    names = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}
    file = _file(tmp_path, **names, **experts)
    found = tomllib.loads(import_graph(file, batch=2, sizes={"input_ids_1": 64}))
    rows = [row for row in found["operators"] if row.get("groups") == 8]
    assert {row["kind"] for row in rows} == {"linear"}
    assert any("read all experts" in note for note in found["notes"])
    assert {(row["n"], row["k"]) for row in rows} == {(96, 32), (32, 48)}
    # 64 tokens of an item run 2 of 8 experts each: 16 rows per expert
    assert {Expression(row["m"]).of({"batch": 1.0}) for row in rows} == {16.0}


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"architectures": ["FooForCausalLM"]}, UnsupportedError),
        ({"architectures": ["LlamaConfig"]}, UnsupportedError),
        ({"architectures": ["__import__('os')"]}, UnsupportedError),
        ({"architectures": None}, InvalidSpecError),
        ({"hidden_size": "x"}, InvalidSpecError),
        ({"num_hidden_layers": 1000}, InvalidSpecError),
        ({"num_attention_heads": 0}, InvalidSpecError),
        ({"num_hidden_layers": 10**9}, InvalidSpecError),
        ({"vocab_size": 10**12}, InvalidSpecError),
        ({"dtype": "int8"}, InvalidSpecError),
        ({"architectures": ["PreTrainedModel"]}, UnsupportedError),
    ],
)
def test_wrong_configs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, object], error: type
) -> None:
    _built()
    monkeypatch.setattr(meta_model, "MAX_MODULES", 500)
    with pytest.raises(PerfatlasError) as raised:
        import_graph(_file(tmp_path, **values))
    assert raised.type is error


def test_code_of_a_checkpoint_is_named_and_never_run(tmp_path: Path) -> None:
    _built()
    code = {"AutoModelForCausalLM": "modeling_foo.Foo"}
    (tmp_path / "modeling_foo.py").write_text("raise SystemExit('code of a checkpoint ran')")
    with pytest.raises(UnsupportedError, match=r"modeling_foo\.Foo .* never run"):
        import_graph(_file(tmp_path, model_type="foo", architectures=["Foo"], auto_map=code))


def test_towers_of_images_and_texts_run_together(tmp_path: Path) -> None:
    _built()
    tower = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    tower |= {"num_hidden_layers": 2, "projection_dim": 16}
    config = {"architectures": ["CLIPModel"], "model_type": "clip", "projection_dim": 16}
    config["text_config"] = {**tower, "vocab_size": 100, "max_position_embeddings": 20}
    config["vision_config"] = {**tower, "image_size": 32, "patch_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = tomllib.loads(import_graph(tmp_path / "config.json"))
    assert sum(row["kind"] == "conv" for row in found["operators"]) == 1
    assert not any("no operator reads" in note for note in found["notes"])

"""EAGLE-3 drafters: weights and work by the sizes of a config, beside the model they draft for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfatlas
from perfatlas.networks import ModelFormats, StepTokens, resolve_model
from perfatlas.operators import Gemm, Phase
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
# config.json of EAGLE3-LLaMA3.1-Instruct-8B
CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
}
HIDDEN, KEYS, INNER = 4096, 1024, 14336
FUSION, HEAD = 3 * HIDDEN**2, 32000 * HIDDEN
# queries, keys and values read twice the width in the first layer
FIRST = 2 * HIDDEN * (HIDDEN + 2 * KEYS) + HIDDEN**2 + 3 * HIDDEN * INNER
LATER = FIRST - HIDDEN * (HIDDEN + 2 * KEYS)


def _drafted(folder: Path, model: str = MODEL, **changes: object) -> str:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    return f"{model}{{drafter={folder}}}"


def _products(model: str) -> dict[str, float]:
    """Return the weights of the products of a pass of the drafter, by their names."""
    one = np.ones(1)
    formats = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
    tokens = StepTokens(batch=one, q_len=one, kv_len=100.0 * one)
    passed = resolve_model(model).network.draft_operators(formats, Phase.DECODE, tokens)
    products = [operator for operator in passed if isinstance(operator, Gemm)]
    return {product.name: float((product.n * product.k * product.count)[0]) for product in products}


@pytest.mark.parametrize("layers", [1, 2])
def test_products_of_a_pass_by_hand(tmp_path: Path, layers: int) -> None:
    products = _products(_drafted(tmp_path, num_hidden_layers=layers))
    assert products["fusing_projection"] == FUSION
    assert products["lm_head"] == HEAD
    assert sum(products.values()) == FUSION + FIRST + (layers - 1) * LATER + HEAD


def test_memory_holds_the_weights_of_the_drafter(tmp_path: Path) -> None:
    """Two norms of the layer, one of hidden states, and the final one; the embedding is shared."""
    asked: dict[str, Any] = {"system": "h100_sxm", "batch": 1}
    drafts: dict[str, Any] = {"speculative_depth": 3, "speculative_acceptance": 0.7}
    plain = perfatlas.estimate(model=MODEL, **asked).results["memory"]
    drafted = perfatlas.estimate(model=_drafted(tmp_path), **asked, **drafts).results["memory"]
    weights = FUSION + FIRST + HEAD + 4 * HIDDEN
    assert drafted["weights_bytes"] - plain["weights_bytes"] == pytest.approx(2.0 * weights)
    assert drafted["kv_bytes"] / plain["kv_bytes"] == pytest.approx(33 / 32, rel=0.01)


def test_hidden_states_are_fused_before_the_first_draft_of_a_step(tmp_path: Path) -> None:
    answer = perfatlas.estimate(
        model=_drafted(tmp_path),
        system="h100_sxm",
        batch=1,
        speculative_depth=3,
        speculative_acceptance=0.7,
    )
    names = {row["name"] for row in answer.breakdown if row["phase"] == "decode"}
    assert {"draft_fusing_projection", "draft_again_lm_head"} <= names
    assert "draft_again_fusing_projection" not in names
    assert any("EAGLE-3" in text for text in answer.evidence.assumptions)


def test_a_drafter_that_drafts_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match="no effect with speculative_depth = 0"):
        perfatlas.estimate(model=_drafted(tmp_path), system="h100_sxm", batch=1)


@pytest.mark.parametrize(
    ("changes", "words", "error"),
    [
        ({"hidden_size": 2048}, "must be that of the model", InvalidSpecError),
        ({"vocab_size": 151_936}, "vocab_size = 151,936 must be that", InvalidSpecError),
        ({"architectures": ["LlamaForCausalLM"]}, "Eagle3", InvalidSpecError),
        ({"draft_vocab_size": "many"}, "draft_vocab_size", InvalidSpecError),
        ({"draft_vocab_size": 0}, "draft_vocab_size", InvalidSpecError),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers", InvalidSpecError),
    ],
)
def test_configs_that_do_not_draft_for_the_model(
    tmp_path: Path, changes: dict[str, Any], words: str, error: type[PerfatlasError]
) -> None:
    with pytest.raises(error, match=words):
        resolve_model(_drafted(tmp_path, **changes))


def test_where_a_drafter_does_not_fit(tmp_path: Path) -> None:
    drafted = _drafted(tmp_path)
    with pytest.raises(UnsupportedError, match="drafts for another model"):
        resolve_model(str(tmp_path))
    with pytest.raises(UnsupportedError, match="does not decode token by token"):
        resolve_model(drafted.replace(MODEL, "resnet-50"))
    with pytest.raises(InvalidSpecError, match="No such file"):
        resolve_model(f"{MODEL}{{drafter={tmp_path / 'none'}}}")
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(InvalidSpecError, match="not a JSON file"):
        resolve_model(drafted)

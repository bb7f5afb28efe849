"""Options that change nothing in a training step are named."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.answer import Answer
from perfatlas.networks import resolve_model
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.verbs.train import train

SMALL: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 8,
    "global_batch": 64,
}


def options_named(answer: Answer) -> list[str]:
    """Return the warnings about options."""
    return [one for one in answer.warnings if not one.startswith("MFU ")]


@pytest.mark.parametrize(
    ("engine", "shards"),
    [
        ("fsdp", "3"),
        ("torchtitan@2024.12", "3"),
        ("generic", "3"),
        ("automodel", "3"),
        ("megatron", "1"),
    ],
)
def test_engines_shard_what_their_documentation_says(engine: str, shards: str) -> None:
    asked = SMALL | {"tp": 1 if engine == "fsdp" else 2, "recompute": "full", "engine": engine}
    default = train(**asked)
    assert default.scenario["zero"] == shards
    assert default.results == train(**asked, zero=shards).results
    other = train(**asked, zero="1" if shards == "3" else "3")
    assert other.results["memory"] != default.results["memory"]
    assert not options_named(default)


@pytest.mark.parametrize(
    ("engine", "model", "pp", "chunks", "gradients"),
    [
        ("megatron", "meta-llama/Llama-3.1-405B", 16, 8, "bf16"),
        ("megatron", "meta-llama/Llama-3.1-70B-Instruct", 4, 5, "bf16"),
        # no recipe of the model, or with as many stages: chunks of two layers, embedding and loss
        ("megatron", "openai/gpt3-175b", 8, 6, "fp32"),
        ("megatron", "meta-llama/Llama-3.1-70B", 16, 2, "bf16"),
        ("megatron", "openai/gpt3-175b", 1, 1, "fp32"),
        ("megatron@22.06", "openai/gpt3-175b", 8, 1, "fp32"),
        ("torchtitan", "meta-llama/Llama-3.1-405B", 16, 1, "fp32"),
    ],
)
def test_defaults_are_those_of_documented_recipes(
    engine: str, model: str, pp: int, chunks: int, gradients: str
) -> None:
    profile = resolve_training_engine(engine)
    architecture = resolve_model(model).network
    assert profile.default_chunks(architecture, pp, 4 * pp) == chunks
    assert profile.default_chunks(architecture, pp, 4 * pp + 1) == 1 or pp == 1
    assert profile.default_gradient_format(architecture) == gradients


def test_the_default_schedule_is_that_of_the_recipe() -> None:
    asked = SMALL | {"gpus": 16, "tp": 2, "pp": 4, "global_batch": 32, "engine": "megatron"}
    default = train(**asked)
    assert (default.scenario["vpp"], default.scenario["pipeline_schedule"]) == (4, "interleaved")
    assert default.results == train(**asked, vpp=4).results
    assert train(**asked, pipeline_schedule="1f1b").scenario["vpp"] == 1

"""Each rule of deployments refuses its own example, with these words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.fields import OF_TOKENS
from perfatlas.scenario.resolution.deployment_rules import DEPLOYMENTS, SIZES
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import simulate

Fields = dict[str, Any]
DENSE: Final[Fields] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
DRAFTED: Final = f"{DENSE['model']}{{drafter={Path(__file__).with_name('eagle3.json')}}}"
GRAPH: Final[Fields] = {"model": "resnet-50", "system": "h100_sxm"}
QUEUE: Final[Fields] = {**GRAPH, "request_rate": 10, "num_requests": 5, "max_num_seqs": 4}
WINDOWS: Final[Fields] = {"model": "openai/gpt-oss-20b", "system": "b200_sxm", "tp": 16}
LATENT: Final[Fields] = {"model": "deepseek-ai/DeepSeek-V3", "system": "b200_sxm", "tp": 8}
# fields of tokens; rules of loads, and conditions, refuse some of them first
OF_GRAPHS: Final[dict[str, tuple[Fields, str]]] = {
    "prefix": ({"prefix": 1}, "prefix is at most 0"),
    "kv_format": ({"kv_format": "fp8"}, "kv_format applies to language models"),
    "kv_blocks": ({"kv_blocks": 100}, "kv_blocks applies to language models"),
    "block_size": ({"block_size": 32}, "block_size applies to language models"),
    "max_num_batched_tokens": (
        {"max_num_batched_tokens": 4096},
        "max_num_batched_tokens applies to language models",
    ),
    "speculative_depth": (
        {"speculative_depth": 2, "speculative_acceptance": 0.7},
        "speculative_depth applies to language models",
    ),
    "sampling_penalties": ({"sampling_penalties": True}, "has no host time of penalties"),
    "expert_distribution": ({"expert_distribution": "power_law_1.2"}, "resnet-50 is a dense"),
    "benchmark": ({"benchmark": "mmlu"}, "benchmark applies to language models"),
    "quantization_method": ({"quantization_method": "awq"}, "benchmark is not set"),
}
EXAMPLES: Final[list[tuple[Fields, Fields, str]]] = [
    (DENSE, {"tier": "bound", "power_cap_w": 400.0}, "power_cap_w = 400 W needs measured kernels"),
    (DENSE, {"tier": "bound", "node_power_cap_w": 5e3}, "node_power_cap_w = 5000 W needs measured"),
    (GRAPH, {"engine": "vllm"}, "vllm runs language models, and resnet-50 is a graph of operators"),
    (GRAPH, {"format": "fp8"}, "inductor runs graphs in bf16, fp16, not in fp8_static"),
    (GRAPH, {"isl": 512}, "isl = 512: resnet-50 runs over items of one size"),
    (QUEUE, {"model": "whisper-large-v3"}, "generates tokens one after another"),
    (GRAPH, {"mode": "aggregated", "max_num_seqs": 4}, "passes are priced as static batches"),
    (QUEUE, {"max_num_seqs": None}, "a queue of resnet-50 needs the largest batch of a pass"),
    (GRAPH, {"engine": "tensorrt", "max_num_seqs": 4}, "set batch, or ask simulate"),
    *((GRAPH, *OF_GRAPHS[name]) for name in OF_TOKENS),
    (DENSE | {"model": DRAFTED}, {}, "has no effect with speculative_depth = 0"),
    (DENSE, {"tier": "bound", "weight_offload": 0.5}, "weight_offload = 0.5 has no lower limit"),
    (DENSE, {"tier": "bound", "kv_offload": 0.5}, "kv_offload = 0.5 has no lower limit"),
    (GRAPH, {"osl": 2}, "osl = 2: resnet-50 runs one pass per request and decodes nothing"),
    (
        {**DENSE, "model": "Qwen/Qwen3-VL-8B-Instruct", "images": 1},
        {"images": 10_000},
        "images = 10000: a prompt with 10,000 x 1,024 tokens of images",
    ),
    (
        {**DENSE, "mode": "disaggregated"},
        {"decode_pp": 2},
        "does not start workers of prefill and decode pools with pipeline stages",
    ),
    (WINDOWS, {"engine": "vllm", "dcp": 2}, "vllm does not stripe the keys of sliding windows"),
    (
        {**LATENT, "model": "moonshotai/Kimi-K3", "engine": "vllm"},
        {"speculative_depth": 2, "dcp": 2},
        "vllm does not run DSpark drafters with striped keys",
    ),
    (WINDOWS, {"engine": "sglang", "dcp": 2}, "sglang does not stripe the keys of sliding windows"),
    (
        LATENT,
        {"engine": "trtllm", "dcp": 2},
        "trtllm runs Helix on generation workers of two",
    ),
    (DENSE, {"gpus": 8, "tp": 8, "dp": 2}, "8 x 1 x 1 x 1 x 2 = 16; leave gpus out, or make"),
    (DENSE, {"batch": 8, "max_num_seqs": 4}, "max_num_seqs = 4, but a batch of 8 needs 8"),
]


@pytest.mark.parametrize(
    ("rule", "usual", "changed", "words"),
    [(rule, *example) for rule, example in zip((*DEPLOYMENTS, *SIZES), EXAMPLES, strict=True)],
)
def test_a_rule_of_deployments_refuses_its_example(
    rule: Any,  # noqa: ANN401 - rules of deployments
    usual: Fields,
    changed: Fields,
    words: str,
) -> None:
    verb = simulate if "request_rate" in usual else estimate
    with pytest.raises(PerfatlasError) as refused:
        verb(**{**usual, **changed})
    assert words in str(refused.value)
    assert type(refused.value) is rule.error

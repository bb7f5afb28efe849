from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfatlas.engines import resolve_engine
from perfatlas.quantities import InfeasibleError
from perfatlas.scenario.deployments import cache_capacity
from perfatlas.scenario.fields import Scenario
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import simulate

LLAMA = Scenario.read({"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"})


def llama(**changes: int) -> Scenario:
    return LLAMA.changed(**changes)


def test_a_simulation_runs_on_these_blocks_but_one() -> None:
    found = cache_capacity(LLAMA)
    ran = simulate(model=LLAMA.model, system=LLAMA.system, request_rate=1, num_requests=2)
    assert ran.answer.results["kv_blocks"] == found.blocks - 1


def test_llama_8b_on_h200_by_hand() -> None:
    found = cache_capacity(llama(max_num_seqs=256, max_num_batched_tokens=8192))
    gib = 2**30
    peak = 8192 * (4 * 4096 + 3 * 14336) * 2  # above 3.5 x 256 x 128,256 fp32 logits
    assert peak > 3.5 * 256 * 128256 * 4 + 8192 * 4096 * 2
    left = math.floor(139.8 * gib * 0.92) - 16060522496 - peak - (0.15 + 0.65) * gib
    assert found.cache_bytes == pytest.approx(left, abs=2.0)
    assert found.blocks == math.floor(left / (16 * 131072))


def test_fewer_sequences_capture_fewer_graphs() -> None:
    few = cache_capacity(llama(max_num_seqs=16, max_num_batched_tokens=8192))
    many = cache_capacity(llama(max_num_seqs=256, max_num_batched_tokens=8192))
    sizes = resolve_engine("vllm").scheduler.graph_sizes
    captured = sum(size <= 32 for size in sizes) / len(sizes)
    graphs = resolve_engine("vllm").memory.graph_bytes
    assert few.cache_bytes - many.cache_bytes == pytest.approx(graphs * (1 - captured), abs=2.0)


def test_experts_are_padded_where_the_kernel_of_the_device_pads() -> None:
    def weights(system: str, engine: str = "vllm") -> float:
        asked = Scenario.read({"model": "openai/gpt-oss-20b", "system": system, "engine": engine})
        return cache_capacity(asked).weights_bytes

    def added(hidden: int, width: int) -> float:
        return 24 * 32 * 3 * (hidden * width - 2880 * 2880) * (0.5 + 1 / 32)

    unpadded = weights("a100_sxm", engine="sglang")
    assert weights("a100_sxm") - unpadded == pytest.approx(added(3072, 2944))
    assert weights("h100_sxm") - unpadded == pytest.approx(added(3072, 2880))
    assert weights("h100_sxm", engine="vllm@0.11") - unpadded == pytest.approx(added(3072, 2944))


def test_the_capacity_has_the_interval_of_startup_logs() -> None:
    asked = {"model": LLAMA.model, "system": LLAMA.system, "concurrency": 1}
    memory = {
        engine: estimate(**asked, engine=engine).results["memory"]
        for engine in ("vllm@0.24", "vllm@0.25")
    }
    own, borrowed = memory["vllm@0.24"], memory["vllm@0.25"]
    fixed = sum(own[name] for name in ("weights_bytes", "activation_bytes", "other_bytes"))
    lost = 0.052 * 139.8 * 2**30 / (own["capacity_bytes"] - fixed)  # 5.2% of the device
    tokens = own["kv_capacity_tokens"]
    assert own["kv_capacity_tokens_low"] == pytest.approx(tokens * (1.0 - lost), rel=1e-4)
    assert tokens < own["kv_capacity_tokens_high"] < 1.01 * tokens
    assert borrowed["kv_capacity_tokens"] == tokens  # the same profile, not known for its release
    assert borrowed["kv_capacity_tokens_low"] < own["kv_capacity_tokens_low"]
    set_by_user = estimate(**asked, kv_blocks=1000).results["memory"]
    ends = {set_by_user[f"kv_capacity_tokens{end}"] for end in ("", "_low", "_high")}
    assert ends == {16000}


@pytest.mark.parametrize("version", ["0.11", "0.12", "0.14", "0.17", "0.20"])
def test_graphs_are_beside_the_share_before_vllm_0_21(version: str) -> None:
    old, new = resolve_engine(f"vllm@{version}").memory, resolve_engine("vllm@0.21").memory
    assert (old.gpu_memory_utilization, old.graph_bytes) == (0.9, 0.0)
    assert (new.gpu_memory_utilization, new.graph_bytes) == (0.92, 0.65 * 2**30)


def test_the_upper_end_is_that_of_the_smaller_sampler_where_either_may_be_installed() -> None:
    asked = {"model": "Qwen/Qwen2-7B", "system": "a100_sxm", "concurrency": 1}
    memory = estimate(**asked, engine="vllm@0.11").results["memory"]
    logits = 256 * 152064 * 4
    token = 28 * 2 * 4 * 128 * 2
    gain = (9.5 - 3.5) * logits / token + 0.004 * 80 * 2**30 / token
    assert memory["kv_capacity_tokens_high"] - memory["kv_capacity_tokens"] == pytest.approx(
        gain, rel=0.01
    )
    # "GPU KV cache size: 464,848 tokens" and "Using FlashInfer for top-p & top-k sampling",
    # vLLM 0.10.1.1 (dennislee22/vLLM-benchmarking log/vllm-7B-1gpuA10080GB-0.5GRAM.log)
    half = estimate(**asked, engine="vllm@0.10.1", gpu_memory_utilization=0.5).results["memory"]
    assert half["kv_capacity_tokens"] < 464_848 < half["kv_capacity_tokens_high"]


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated"])
@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"])
@pytest.mark.parametrize("verb", [estimate, simulate])
def test_no_verb_takes_more_cache_than_the_device_holds(
    verb: Callable[..., object], model: str, mode: str
) -> None:
    asked = {"model": model, "system": "h100_sxm", "mode": mode, "concurrency": 2, "tp": 1}
    with pytest.raises(InfeasibleError):
        verb(**asked, kv_blocks=10_000_000)


def test_the_largest_cache_is_what_the_device_holds() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "concurrency": 2}
    with pytest.raises(InfeasibleError, match="31,568 blocks of 16"):
        estimate(**asked, mode="aggregated", kv_blocks=31_569)
    found = estimate(**asked, mode="aggregated", kv_blocks=31_568).results["memory"]
    assert found["kv_capacity_tokens"] == 16 * 31_568


@pytest.mark.parametrize(
    ("engine", "printed_gib"),
    [("vllm@0.10.1", 65.97), ("vllm@0.14.1", 64.38)],  # vllm-project/vllm issues 23278 and 33155
)
def test_padded_experts_weigh_what_a_release_prints(engine: str, printed_gib: float) -> None:
    asked = {"model": "openai/gpt-oss-120b", "system": "h100_sxm", "engine": engine}
    found = cache_capacity(Scenario.read({**asked, "gpu_memory_utilization": 0.99}))
    assert found.weights_bytes / 2**30 == pytest.approx(printed_gib, rel=0.003)
    # both logs end with too little memory for the cache
    with pytest.raises(InfeasibleError, match="does not fit"):
        estimate(**asked, gpu_memory_utilization=0.9, max_num_batched_tokens=8192, isl=131_000)


def test_caches_of_traces_are_of_their_lengths(tmp_path: Path) -> None:
    # vLLM reserves pages of compressed keys for every sequence: 9,182 tokens take far fewer bytes
    # each than the default of 1,152
    path = tmp_path / "requests.csv"
    path.write_text("arrival_s,isl,osl\n0,8192,20\n1,9000,60\n2,10234,40\n")  # means 9,142 and 40
    shared: Any = {"model": "deepseek-ai/DeepSeek-V4-Flash", "system": "b200_sxm", "tp": 8}
    found = simulate(**shared, kv_format="fp8", requests=str(path)).results
    memory = estimate(**shared, kv_format="fp8", isl=9142, osl=40, batch=1).results["memory"]
    rounding = 2 * found["kv_capacity_tokens"] / found["kv_blocks"]  # one block is reserved
    assert found["kv_capacity_tokens"] == pytest.approx(memory["kv_capacity_tokens"], abs=rounding)

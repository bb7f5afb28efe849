"""A seeded table of varied inference scenarios: models, devices, formats, plans and loads.

python benchmarks/scenarios.py --rows 10000 --seed 1 --output scenarios.csv
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import write_table
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.networks import Network, resolve_model
from perfatlas.parallelism import PlanColumns, plan_problems

if TYPE_CHECKING:
    from perfatlas.hardware import System

# Several of each kind of attention and feed-forward network in the catalog.
MODELS: Final = (
    # dense, grouped-query attention
    *("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
    *("meta-llama/Llama-3.1-405B", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "microsoft/phi-4"),
    *("Qwen/Qwen2.5-72B-Instruct", "mistralai/Mistral-Small-24B-Instruct-2501"),
    # sliding windows
    *("google/gemma-2-27b-it", "google/gemma-3-27b-it", "mistralai/Mistral-7B-v0.1"),
    *("openai/gpt-oss-20b", "openai/gpt-oss-120b"),
    # mixture of experts
    *("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/Mixtral-8x22B-Instruct-v0.1"),
    *("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
    *("zai-org/GLM-4.5-Air", "zai-org/GLM-4.6", "MiniMaxAI/MiniMax-M2.5"),
    *("meta-llama/Llama-4-Scout-17B-16E-Instruct", "meta-llama/Llama-4-Maverick-17B-128E-Instruct"),
    # latent attention
    *("deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1"),
    *("deepseek-ai/DeepSeek-V3.2", "moonshotai/Kimi-K2-Instruct", "zai-org/GLM-5"),
    # recurrent and attention layers mixed
    *("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-397B-A17B"),
    *("nvidia/Nemotron-H-56B-Base-8K", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"),
    *("ai21labs/AI21-Jamba-1.5-Mini", "ai21labs/AI21-Jamba-1.5-Large"),
)
MEASURED: Final = (
    *("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300", "l40s"),
    "rtx_pro_6000_server",
)
OTHERS: Final = ("h100_pcie", "h20", "gh200", "l4", "rtx_4090", "mi300x", "mi355x")
ENGINES: Final = ("vllm", "sglang", "trtllm")
FORMATS: Final = ("bf16", "fp8", "fp8_block", "nvfp4", "int4_wo")
MODES: Final = ("static", "aggregated")
SHARE_OF_OTHERS: Final = 0.2
SHARE_OF_FP8_CACHE: Final = 0.3
SHARE_OF_WRONG_ROWS: Final = 0.01
WEIGHTS_OF_MEMORY: Final = 0.6  # largest share of device memory for weights; the rest is cache
NODE: Final = 8
MAX_GPUS: Final = 64
MAX_TOKENS: Final = 200_000  # context of all sequences of a static batch

Cells = dict[str, Any]


def scenario_table(rows: int, seed: int) -> dict[str, list[Any]]:
    """Return columns of scenarios, the same for the same arguments.

    Plans are valid for the model, formats for the device's tensor cores, and weights fit; as in
    real tables, some caches do not fit and one row in a hundred has a mistake.

    Args:
        rows: Number of scenarios.
        seed: Random seed.
    """
    random = np.random.default_rng(seed)
    drawn: list[Cells] = []
    while len(drawn) < rows:
        row = _draw(random)
        if row is not None:
            drawn.append(row)
    names = dict.fromkeys(name for row in drawn for name in row)
    return {name: [row.get(name) for row in drawn] for name in names}


def distinct_rows(table: dict[str, list[Any]]) -> int:
    """Return the number of distinct rows of a table."""
    return len(set(zip(*table.values(), strict=True)))


def _draw(random: np.random.Generator) -> Cells | None:
    """Return one scenario, None for an invalid draw."""
    model = str(random.choice(MODELS))
    devices = OTHERS if random.random() < SHARE_OF_OTHERS else MEASURED
    system = str(random.choice(devices))
    format_name = str(random.choice(FORMATS))
    network, parameters = _model(model)
    device = _system(system).device
    if get_format(_loose(format_name)).tensor_peak not in device.peak_flop_per_s:
        return None
    weight_bytes = parameters * get_format(_loose(format_name)).weight_bytes
    least = weight_bytes / (WEIGHTS_OF_MEMORY * device.memory_bytes)
    gpus = 2 ** (max(int(np.ceil(np.log2(least))), 0) + int(random.integers(2)))
    if gpus > MAX_GPUS:
        return None
    plan = _plan(random, network, gpus)
    if plan is None:
        return None
    row: Cells = {
        "model": model,
        "system": system,
        "engine": str(random.choice(ENGINES)),
        "format": format_name,
        **plan,
        **_load(random, plan["dp"]),
    }
    if "fp8" in device.peak_flop_per_s and random.random() < SHARE_OF_FP8_CACHE:
        row["kv_format"] = "fp8"
    if random.random() < SHARE_OF_WRONG_ROWS:
        row |= {"system": f"{system}_typo"} if random.random() < 0.5 else {"tp": 7}
    return row


def _plan(random: np.random.Generator, network: Network, gpus: int) -> Cells | None:
    """Return a valid plan of one replica over `gpus` devices, and replicas."""
    tp = min(gpus, NODE)
    if network.has_experts:
        if random.random() < 0.5:  # data-parallel attention, expert-parallel experts
            tp = int(2 ** random.integers(int(np.log2(tp)) + 1))
        ways = {"tp": tp, "pp": 1, "attention_dp": gpus // tp}
        ways["ep"] = gpus if gpus > tp or random.random() < 0.5 else 1
    else:
        ways = {"tp": tp, "pp": gpus // tp, "attention_dp": 1, "ep": 1}
    ones = np.ones(1)
    columns = {name: ones * size for name, size in ways.items()}
    moe_tp = columns["tp"] * columns["attention_dp"] / columns["ep"]
    if not network.has_experts:
        moe_tp = ones
    plan = PlanColumns(
        **columns, cp=ones, ring_degree=ones, guidance_degree=ones, dcp=ones, moe_tp=moe_tp, dp=ones
    )
    if plan_problems(network, plan)[0] is not None:
        return None
    if not network.has_experts:
        ways.pop("ep")
    return ways | {"dp": int(random.choice((1, 1, 2, 4)))}


def _load(random: np.random.Generator, replicas: int) -> Cells:
    mode = str(random.choice(MODES))
    isl, osl = _log_uniform(random, 128, 16384), _log_uniform(random, 16, 2048)
    most = max(min(256, MAX_TOKENS // (isl + osl)), 1)
    sequences = _log_uniform(random, 1, most)
    load: Cells = {"mode": mode, "isl": isl, "osl": osl}
    if mode == "static":
        return load | {"batch": sequences}
    return load | {"method": "formula", "concurrency": sequences * replicas}


def _log_uniform(random: np.random.Generator, low: int, high: int) -> int:
    return int(np.exp(random.uniform(np.log(low), np.log(high + 1))))


def _loose(format_name: str) -> str:
    return "fp8_static" if format_name == "fp8" else format_name


@cache
def _model(name: str) -> tuple[Network, int]:
    network = resolve_model(name).network
    return network, network.parameters().total


@cache
def _system(name: str) -> System:
    return resolve_system(name)


def main() -> None:
    """Write a table."""
    parser = argparse.ArgumentParser(description="Write a seeded table of scenarios.")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True, help=".csv, .parquet or .jsonl")
    asked = parser.parse_args()
    table = scenario_table(asked.rows, asked.seed)
    write_table(asked.output, table)
    print(f"{asked.rows} rows, {distinct_rows(table)} distinct: {asked.output}")


if __name__ == "__main__":
    main()

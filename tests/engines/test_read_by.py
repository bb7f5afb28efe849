"""Every field of an engine's file is changed alone: what moves is what the row says reads it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pytest
import tomli_w

import perfatlas
from perfatlas.engines import profile_fields, resolve_engine
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.training_steps import question_of, read_training
from perfatlas.training.step import micro_batch_costs
from tests.golden.flatten import predicted

LLAMA: Final = "meta-llama/Llama-3.1-8B"
MIXTURE: Final = "Qwen/Qwen3-30B-A3B"
SHARED: Final = "deepseek-ai/DeepSeek-V2-Lite"
GPT: Final = "openai/gpt-oss-20b"
COMPRESSED: Final = "deepseek-ai/DeepSeek-V4-Flash"
HYBRID: Final = "Qwen/Qwen3-Next-80B-A3B-Instruct"
SMALL: Final = "Qwen/Qwen2.5-0.5B"
POOLS: Final[dict[str, Any]] = {"mode": "disaggregated", "method": "formula", "batch": None}
TRAFFIC: Final[dict[str, Any]] = {"request_rate": 20, "num_requests": 40, "isl": 3000, "osl": 40}


def estimated(engine: str, **fields: Any) -> Any:  # noqa: ANN401 - an answer
    asked = {"model": LLAMA, "system": "h200_sxm", "batch": 20, "isl": 3000, "osl": 8, **fields}
    return _once(engine, tuple(asked.items()))


@lru_cache(maxsize=64)  # the questions of two files
def _once(engine: str, asked: tuple[tuple[str, Any], ...]) -> Any:  # noqa: ANN401 - as above
    """Return an answer that several readers look at."""
    return perfatlas.estimate(**dict(asked), engine=engine)


def rows(engine: str, stream: str, **fields: Any) -> Any:  # noqa: ANN401 - times of operators
    return {
        f"{row['phase']} {row['name']}": (row["count"], row["time_s"])
        for row in estimated(engine, **fields).breakdown
        if row["stream"] == stream
    }


def memory(engine: str, **fields: Any) -> Any:  # noqa: ANN401 - results
    return estimated(engine, **fields).results["memory"]


def simulated(engine: str, **fields: Any) -> Any:  # noqa: ANN401 - results
    asked = {"model": LLAMA, "system": "h200_sxm", **TRAFFIC, **fields}
    return predicted(perfatlas.simulate(**asked, engine=engine).answer.results)


def trained(engine: str, model: str) -> Any:  # noqa: ANN401 - times of operators
    """Return what a training step takes with the kernels of an engine for passes."""
    step = {"model": model, "system": "h100_sxm", "engine": "pytorch", "global_batch": 32}
    question = question_of([read_training(step)])
    own = replace(question.engine, graph_engine=engine)
    return {"time_s": micro_batch_costs(replace(question, engine=own)).prices.time_s_CO.tolist()}


def _interval(results: Any) -> Any:  # noqa: ANN401 - results
    return {"width": results["tpot_s_high"] / results["tpot_s_low"]}


def sending(engine: str) -> Any:  # noqa: ANN401 - an answer
    """Return the answer of an engine whose steps are faster than its front end sends tokens."""
    load = {"batch": 2048, "max_num_seqs": 2048, "isl": 16, "osl": 100}
    return estimated(
        engine, model=SMALL, system="b200_sxm", mode="aggregated", method="formula", **load
    )


ROWS: Final = str(Path(__file__).with_name("rows.toml"))
QUESTIONS: Final[dict[str, tuple[Callable[[str], Any], ...]]] = {
    "operators": (
        lambda e: rows(e, "compute", format="fp8", tp=2),
        lambda e: rows(e, "compute", format="fp8_static", tp=2, isl=40, batch=1),
        lambda e: rows(e, "compute", system="b200_sxm", model=GPT, moe_format="mxfp4"),
        lambda e: rows(e, "compute", model=SHARED, batch=1, isl=400),
        lambda e: rows(e, "compute", system="l40s", tp=2, batch=2, isl=9000),
        lambda e: rows(e, "compute", model=MIXTURE, tp=1, attention_dp=4, ep=4),
        lambda e: rows(e, "compute", model=GPT, moe_format="mxfp4", tp=2),
        lambda e: rows(e, "compute", system="b200_sxm", model=MIXTURE),
        lambda e: rows(e, "compute", model="vit-base-16", isl=None, osl=None),
        lambda e: rows(e, "compute", model="resnet-18", isl=None, osl=None),
        lambda e: rows(e, "compute", model=ROWS, isl=None, osl=None),
        lambda e: trained(e, "resnet-18"),
        lambda e: trained(e, "convnext-tiny"),
        lambda e: rows(e, "compute", model=MIXTURE, moe_format="fp8_block"),
        lambda e: rows(e, "compute", model=MIXTURE, moe_format="fp8_block", system="b200_sxm"),
        lambda e: rows(e, "compute", model="resnet-18", isl=None, osl=None, format="int8"),
    ),
    "collectives": (
        lambda e: rows(e, "communication", tp=8, batch=1),
        lambda e: rows(e, "communication", system="l40s", tp=2, batch=2, isl=9000),
        lambda e: rows(e, "communication", model=MIXTURE, tp=1, attention_dp=4, ep=4),
        lambda e: rows(e, "communication", model=GPT, moe_format="mxfp4", tp=2),
    ),
    "host time of steps": (
        lambda e: rows(e, "host", model=SMALL, system="b200_sxm", batch=250, isl=16),
        lambda e: rows(e, "host", model=SMALL, system="b200_sxm", batch=1, isl=16),
        lambda e: rows(
            e, "host", model=SMALL, batch=250, isl=16, osl=4000, sampling_penalties=True
        ),
        lambda e: rows(e, "host", model=MIXTURE, system="b200_sxm", batch=1, isl=16),
    ),
    "memory": (
        lambda e: memory(e, format="fp8", tp=2),
        lambda e: memory(e, model=GPT, moe_format="mxfp4", tp=2),
        lambda e: memory(e, system="l40s", tp=2, batch=2, isl=9000),
        lambda e: memory(e, model=MIXTURE, tp=1, attention_dp=4, ep=4),
        lambda e: memory(e, model=COMPRESSED, kv_format="fp8_static", tp=8, ep=8, isl=40000),
        lambda e: {"most": memory(e, format="fp8", tp=2)["kv_capacity_tokens_high"]},
        lambda e: memory(e, model=HYBRID, tp=4),
    ),
    "continuous batching": (
        lambda e: estimated(e, mode="aggregated", method="formula").results,
        lambda e: estimated(e, mode="aggregated", method="formula", model=GPT).results,
        lambda e: (
            estimated(e, mode="aggregated", method="formula", model=MIXTURE, attention_dp=2).results
        ),
        lambda e: (
            estimated(
                e, mode="aggregated", method="formula", model=MIXTURE, attention_dp=2, osl=200
            ).results
        ),
        simulated,
        lambda e: simulated(e, model=MIXTURE, attention_dp=2),
        lambda e: simulated(e, isl=20000, kv_blocks=3000),
        lambda e: simulated(e, model=GPT, scheduler="sglang", request_rate=None, concurrency=8),
        lambda e: simulated(e, model=GPT, scheduler="sglang", request_rate=None, concurrency=4),
        lambda e: sending(e).results,
        lambda e: simulated(e, isl=4000, turns=4, host_cache_bytes="100 GB", kv_blocks=1200),
    ),
    "disaggregated serving": (
        lambda e: estimated(e, **POOLS, concurrency=1).results,
        lambda e: estimated(e, **POOLS, concurrency=1, prefill_pp=2).results,
        lambda e: simulated(e, mode="disaggregated"),
    ),
    "intervals of times": (
        lambda e: _interval(estimated(e, mode="aggregated", method="formula", isl=300).results),
        lambda e: _interval(sending(e).results),
        lambda e: _interval(estimated(e, model=SMALL, system="b200_sxm", batch=1, isl=16).results),
    ),
}
# what reads all the rest too, and is looked at where nothing before it moves
LEVELS: Final = (
    ("host time of steps",),
    ("continuous batching", "disaggregated serving"),
    ("intervals of times",),
)
# the question that a change moves, where those before it take seconds
FIRST: Final = {
    (reader, path): at
    for (reader, at), paths in {
        ("continuous batching", 3): "scheduler.rank_padding.value",
        ("continuous batching", 4): "memory.reserved_blocks scheduler.rules.value",
        ("continuous batching", 7): "recipe[].scheduler_recv_interval.many_from",
        ("continuous batching", 8): "recipe[].scheduler_recv_interval.few",
        ("continuous batching", 9): "front.assumed",
        ("continuous batching", 10): (
            "kv_offload.stores kv_offload.store_waits kv_offload.layerwise"
        ),
        ("disaggregated serving", 2): "memory.reserved_blocks scheduler.rules.value",
        ("host time of steps", 3): "host.per_expert_layer_prefill",
        ("memory", 4): (
            "memory.compressed_pages.alignment memory.compressed_pages.block"
            " memory.compressed_pages.formats memory.compressed_pages.reserved_batches"
            " memory.compressed_pages.row_extra memory.compressed_pages.state_blocks"
            " memory.compressed_pages.window_block"
        ),
        ("memory", 1): "memory.pools.window_model_types memory.pools.window_tokens",
        ("memory", 5): "memory.sampler_copies_fewest",
        ("memory", 6): (
            "memory.page_groups.half_states memory.page_groups.merge_below"
            " memory.pools.state_ratio memory.pools.states_per_request"
        ),
        ("operators", 3): (
            "overlap[].architectures overlap[].batch_overlap overlap[].beside"
            " overlap[].max_tokens overlap[].prefix"
        ),
        ("operators", 4): "scheduler.holds_prompts.value",
        ("operators", 5): (
            "batch_overlap.two_batch.decode_tokens batch_overlap.two_batch.prefill_tokens"
            " batch_overlap.value expert_exchange.value scheduler.shared_by_ranks.value"
        ),
        ("operators", 6): (
            "recipe[].devices recipe[].least_gpus recipe[].max_num_batched_tokens.isl"
            " recipe[].max_num_batched_tokens.more recipe[].max_num_batched_tokens.multiple"
            " recipe[].max_num_batched_tokens.requests recipe[].models recipe[].most_gpus"
        ),
        ("operators", 7): "earlier_kernels.through version",
        ("operators", 8): (
            "graph_kernels.row_cycles graph_kernels.short_row"
            " graph_kernels.short_row_bytes_per_cycle"
        ),
        ("operators", 9): "graph_kernels.layout",
        ("operators", 10): "graph_kernels.gathers_per_cycle graph_kernels.row_bytes_per_cycle",
        ("operators", 11): "graph_kernels.block_bytes_per_cycle graph_kernels.gradient_times",
        ("operators", 12): "graph_kernels.nhwc",
        ("operators", 13): (
            "contiguous_experts.architectures contiguous_experts.below_moe_tp"
            " contiguous_experts.formats contiguous_experts.rows"
        ),
        ("operators", 14): "contiguous_experts.above_width contiguous_experts.large_only",
        ("operators", 15): "product_kernels.<name>.value",
    }.items()
    for path in paths.split()
}
CHANGED: Final[dict[str, Any]] = {
    "name": "ideal",  # no errors of whole runs
    "version": "9.9",
    "earlier_kernels.through": "0.1",
    "date": "2030-01",
    "kernel_family": "sglang",
    "formats.<name>.value": "fp8_static",
    "formats.<name>.architectures": ["hopper"],
    "product_kernels.<name>.value": "fp8_static",
    "expert_exchange.value": "all_gather_reduce_scatter",
    "all_reduce.group_sizes.value": [2, 4],
    "all_reduce.pcie_group_sizes.value": [4],
    "all_reduce_norm_fusion.formats": [],
    "all_reduce_norm_fusion.model_types": ["deepseek_v3"],
    "all_reduce_norm_fusion.<architecture>": {"2": 0},
    "separate_kernels[].operator": "no_such_operator",
    "separate_kernels[].kernels": 7,
    "separate_kernels[].model_types": ["deepseek_v3"],
    "contiguous_experts.formats": ["nvfp4"],
    "contiguous_experts.architectures": ["ampere"],
    "contiguous_experts.large_only": ["ampere"],
    "contiguous_experts.below_moe_tp": 1,
    "attention.speed": {"hopper": 0.5},
    "graph_kernels.layout": "nhwc",
    "graph_kernels.bytes_per_cycle": {"norm": 2.0},
    "graph_kernels.short_row": {"norm": 16},
    "graph_kernels.short_row_bytes_per_cycle": {"norm": 0.5},
    "graph_kernels.row_cycles": {"norm": 9000.0},
    "graph_kernels.row_bytes_per_cycle": {"norm": 0.5},
    "graph_kernels.gathers_per_cycle": {"embedding": 0.001},
    "graph_kernels.block_bytes_per_cycle": {"batch_norm_sums": 0.1},
    "graph_kernels.gradient_times": {"data": 2.0},
    "graph_kernels.nhwc": "pytorch_channels_last@2.13",
    "graph_kernels.pass_speed": {"hopper": 0.5},
    "graph_kernels.head_dims": [256],
    "fusion[].operators": ["no_such_operator"],
    "fusion[].formats": ["nvfp4"],
    "fusion[].model_types": ["deepseek_v3"],
    "fusion[].into": "activation",
    "overlap[].prefix": "no_such_operator",
    "overlap[].beside": "no_such_operator",
    "overlap[].batch_overlap": "single_batch",
    "overlap[].architectures": ["blackwell"],
    "batch_overlap.value": "none",
    "batch_overlap.two_batch.exchanges": ["deepep", "all_gather_reduce_scatter"],
    "batch_overlap.two_batch.prefill_tokens": 1e6,
    "batch_overlap.two_batch.decode_tokens": 0,
    "batch_overlap.single_batch.exchanges": ["all_to_all"],
    "front.per": "replica",
    "full_attention.model_types": ["gpt_oss"],
    "memory.rule": "static",
    "memory.graphs_up_to": 0.1,
    "memory.expert_multiples": {"mxfp4": {"hopper": [4096, 4096]}},
    "memory.compressed_pages.formats": ["bf16"],
    "memory.page_groups.half_states": ["gpt_oss"],
    "memory.page_groups.merge_below": 4.0,
    "memory.pools.window_model_types": ["llama"],
    "memory.compressed_pages.state_blocks": [[8, 8], [128, 16]],
    "scheduler.by_memory[].excludes": ["h200_sxm"],
    "scheduler.by_memory[].memory": "900 GiB",
    "recipe[].models": ["no/such-model"],
    "recipe[].devices": ["no_such_device"],
    "recipe[].least_gpus": 64,
    "recipe[].most_gpus": 1,
    "scheduler.graph_sizes": [[1, 64, 1], [10000, 20000, 1000]],
    "scheduler.rules.value": "sglang",
    "scheduler.rank_padding.value": "every_step",
    "scheduler.rank_balance_iters.value": 60,
    "disaggregation.first_from": "prefill",
}


def profile(path: str = "") -> dict[str, Any]:
    """Return the file of an engine that states every field, with pools instead of groups of pages
    for a field of pools.
    """
    text = resources.files("perfatlas").joinpath("data/engines/vllm@0.24.toml").read_text("utf-8")
    table = tomllib.loads(text)
    table["version"] = "0.22"  # runs earlier kernels
    table["formats"]["mxfp4"] = {"value": "mxfp4_mxfp8", "architectures": ["blackwell"], "ref": "t"}
    table["fusion"][0]["model_types"] = ["llama"]
    table["separate_kernels"] = [
        {"operator": "activation", "kernels": 2, "model_types": ["llama"], "ref": "t"}
    ]
    table["contiguous_experts"] = {
        "formats": ["fp8_block"],
        "rows": 128,
        "architectures": ["hopper"],
        "large_only": ["blackwell"],
        "above_width": 512,
        "below_moe_tp": 8,
        "ref": "t",
    }
    table["runs"] = "all"
    table["product_kernels"] = {"int8": {"value": "fp16", "ref": "t"}}
    table["graph_kernels"] = {
        "layout": "nchw",
        "bytes_per_cycle": {"norm": 1.0},
        "short_row": {"norm": 65536},
        "short_row_bytes_per_cycle": {"norm": 1.5},
        "row_cycles": {"norm": 100.0},
        "row_bytes_per_cycle": {"norm": 1.0},
        "gathers_per_cycle": {"embedding": 0.0054},
        "block_bytes_per_cycle": {"batch_norm_sums": 1.0},
        "gradient_times": {"data": 1.0},
        "pass_speed": {"hopper": 0.9},
        "nhwc": "",
        "head_dims": [64, 128],
        "ref": "t",
    }
    table["attention"] = {"speed": {"hopper": 0.9}, "ref": "t"}
    table["all_reduce_norm_fusion"]["model_types"] = ["llama"]
    table["overlap"][0] |= {"batch_overlap": "", "architectures": ["hopper"]}
    table["expert_exchange"]["value"] = "deepep"
    exchanges = ["deepep", "all_to_all", "all_gather_reduce_scatter"]
    table["batch_overlap"] |= {
        "value": "two_batch",
        "two_batch": table["batch_overlap"]["two_batch"] | {"exchanges": exchanges},
        "single_batch": {"exchanges": ["deepep"], "ref": "t"},
    }
    table["memory"] |= {"sampler_copies": 9.5, "sampler_copies_fewest": 3.5}
    if path.startswith("memory.pools"):
        del table["memory"]["page_groups"]
        table["memory"]["pools"] = {
            "window_tokens": 0.4,
            "window_model_types": ["gpt_oss"],
            "state_ratio": 0.9,
            "states_per_request": 3,
            "ref": "t",
        }
    table["host"]["per_operator_prefill"] = "20 us"
    table["host"]["per_expert_layer_prefill"] = "300 us"
    table["host"]["host_factor"] = 1.5
    table["front"]["tokenizing_ratio"] = 2.0
    table["full_attention"] = {"model_types": ["mistral"], "ref": "t"}
    table["front"] |= {
        "request_fastest": "2 ms",
        "request_slowest": "30 ms",
        "token_fastest": "20 us",
        "token_slowest": "90 us",
    }
    table["recipe"] = [
        {
            "name": "gpt-oss",
            "models": [GPT],
            "devices": ["h200_sxm"],
            "least_gpus": 1,
            "most_gpus": 64,
            "max_num_batched_tokens": {"isl": 1, "requests": 1, "more": 1000, "multiple": 64},
            "max_num_seqs": 512,
            "gpu_memory_utilization": 0.8,
            "stream_interval": 10,
            "scheduler_recv_interval": {"few": 3, "many": 40, "many_from": 8},
            "ref": "t",
        }
    ]
    return table


def changed(table: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a file with one field changed alone, in all tables that have it."""
    table = deepcopy(table)
    *places, key = path.split(".")
    places = [place.removesuffix("[]") for place in places]
    holders: list[Any] = [table]
    for place in places:
        inner = [h[name] for h in holders for name in _names(h, place)]
        holders = [one for i in inner for one in (i if isinstance(i, list) else [i])]
    for holder in holders:
        for name in _names(holder, key):
            holder[name] = _other(path, holder[name])
    return table


def _names(holder: dict[str, Any], place: str) -> list[str]:
    """Return the keys of a table that a part of a path stands for."""
    if place == "<name>":
        return [*holder]
    if place == "<architecture>":
        return [name for name, value in holder.items() if isinstance(value, dict)]
    return [place] if place in holder else []


def _other(path: str, value: Any) -> Any:  # noqa: ANN401 - as TOML has it
    if path in CHANGED:
        return CHANGED[path]
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        number, _, unit = value.partition(" ")
        return f"{2 * float(number) or 1.0} {unit}" if unit else f"{value}x"
    return 0.5 * value if path.endswith("utilization") else 2 * value


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engines") / "base.toml"
    path.write_text(tomli_w.dumps(profile()), "utf-8")
    return path


@cache
def answered(reader: str, number: int, engine: str) -> Any:  # noqa: ANN401 - results, or a refusal
    try:
        return predicted(QUESTIONS[reader][number](engine))
    except PerfatlasError as problem:
        return str(problem).replace(engine, "")


def moves(reader: str, path: str, base: Path, other: Path) -> bool:
    first = FIRST.get((reader, path), 0)
    places = [first, *(at for at in range(len(QUESTIONS[reader])) if at != first)]
    return any(answered(reader, at, str(base)) != answered(reader, at, str(other)) for at in places)


REFUSING = ("runs_on.vendors",)  # fields that decide whether a scenario is answered


@pytest.mark.parametrize("path", [p for p, field in profile_fields().items() if field.read_by])
def test_a_change_moves_what_reads_the_field(path: str, base: Path) -> None:
    base, other = base_of(path, base), written(path, base)
    readers = profile_fields()[path].read_by
    assert {name for name in readers if moves(name, path, base, other)} == set(readers)


@pytest.mark.study
@pytest.mark.parametrize("path", [path for path in profile_fields() if path not in REFUSING])
def test_a_change_moves_nothing_but_what_reads_the_field(path: str, base: Path) -> None:
    base, other = base_of(path, base), written(path, base)
    early = [name for name in QUESTIONS if name not in sum(LEVELS, ())]
    moved = {name for name in early if moves(name, path, base, other)}
    for readers in LEVELS:
        moved = moved or {name for name in readers if moves(name, path, base, other)}
    assert moved == set(profile_fields()[path].read_by)


def base_of(path: str, base: Path) -> Path:
    """Return the file of an engine before one field is changed."""
    if not path.startswith("memory.pools"):
        return base
    pools = base.with_name("pools.toml")
    pools.write_text(tomli_w.dumps(profile(path)), "utf-8")
    return pools


def written(path: str, base: Path) -> Path:
    """Return the file of an engine with one field changed."""
    table = changed(profile(path), path)
    if path == "all_reduce.implementation":
        table["all_reduce"]["implementation"] = "library"
        del table["all_reduce"]["group_sizes"]
    assert table != profile(path)
    other = base.with_name("other " + path.replace("<", "(").replace(">", ")") + ".toml")
    other.write_text(tomli_w.dumps(table), "utf-8")
    return other


def test_a_file_answers_as_the_catalog_does_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = resources.files("perfatlas").joinpath("data/engines/vllm@0.24.toml").read_text("utf-8")
    path.write_text(text, "utf-8")
    own = estimated(str(path), mode="aggregated", method="formula")
    shipped = estimated("vllm@0.24", mode="aggregated", method="formula")
    assert own.results == shipped.results
    assert own.scenario["engine"] == str(path)
    path.write_text(text.replace('step = "126 us"', 'step = "1260 us"'), "utf-8")
    assert resolve_engine(str(path)).host.step_s == pytest.approx(1.26e-3)

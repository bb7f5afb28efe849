"""Questions of `estimate`: modes, methods, engines, tiers, models, systems, formats, refusals."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from tests.golden.draw import (
    DEEPSEEK,
    ENGINES,
    LLAMA_8B,
    LLAMA_70B,
    MODELS,
    TIERS,
    Draw,
    Fields,
    table_text,
)

if TYPE_CHECKING:
    from tests.golden.question import Question

SYSTEMS: Final = (
    *("a100_sxm", "b200_sxm", "b300_sxm", "cpu", "gb200", "gb300", "gh200", "h100_pcie"),
    *("h100_sxm", "h20", "h200_sxm", "l4", "l40s", "mi300x", "mi325x", "mi355x", "rtx_4090"),
    *("rtx_pro_6000_server", "tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7"),
)
FORMATS: Final = (
    *("bf16", "fp16", "fp8", "fp8_static", "fp8_dynamic", "fp8_block", "mxfp8", "nvfp4"),
    *("mxfp4", "mxfp4_mxfp8", "int8", "int8_wo", "int4_wo"),
)
SWEEP: Final = {
    "ai21labs/Jamba-v0.1": 4,
    "deepseek-ai/DeepSeek-V2": 8,
    "deepseek-ai/DeepSeek-V3.2": 8,
    "google/gemma-2-9b-it": 1,
    "google/gemma-3-4b-it": 1,
    "meta-llama/Llama-2-13b-hf": 1,
    "meta-llama/Llama-3.2-3B": 1,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 4,
    "microsoft/phi-4": 1,
    "MiniMaxAI/MiniMax-M2": 8,
    "openai/gpt-oss-120b": 2,
    "Qwen/Qwen1.5-MoE-A2.7B": 1,
    "Qwen/Qwen2.5-7B-Instruct": 1,
    "Qwen/Qwen3-8B-FP8": 1,
    "Qwen/Qwen3-VL-32B-Instruct": 2,
    "Qwen/Qwen3.5-35B-A3B": 2,
    "Qwen/Qwen3.5-27B": 2,
    "zai-org/GLM-4.5-Air": 8,
    "zai-org/GLM-5-FP8": 8,
}


def estimates() -> list[Question]:
    """Return the questions of `estimate`."""
    strata = (_static, _aggregated, _disaggregated, _measured, _systems, _formats, _models)
    more = (_plans, _speculative, _extras, _scenarios, _tables, _refusals)
    return [question for stratum in (*strata, *more) for question in stratum()]


def _lengths(draw: Draw) -> Fields:
    return {"isl": draw.whole(64, 8192), "osl": draw.whole(8, 1024)}


def _static() -> list[Question]:
    draw = Draw("estimate-static")
    models = list(MODELS.items())
    for index, (engine, tier) in enumerate(product(ENGINES, TIERS)):
        for step in range(3):
            model, tp = models[(3 * index + step) % len(models)]
            fields = {"model": model, "system": draw.one(("h200_sxm", "b200_sxm")), "tp": tp}
            chosen = {"engine": engine, "tier": tier, "batch": draw.power(0, 6)}
            draw.ask("estimate", {**fields, **chosen, "mode": "static", **_lengths(draw)})
    return draw.questions


def _aggregated() -> list[Question]:
    draw = Draw("estimate-aggregated")
    for method, engine, tier in product(("formula", "simulate", "auto"), ENGINES, TIERS):
        model = draw.one(list(MODELS))
        fields = {"model": model, "system": draw.one(("h200_sxm", "b200_sxm")), "tp": MODELS[model]}
        chosen = {"engine": engine, "tier": tier, "mode": "aggregated", "method": method}
        lengths = {"isl": draw.whole(64, 2048), "osl": draw.whole(8, 200)}
        load = {"concurrency": draw.power(0, 5)}
        draw.ask("estimate", {**fields, **chosen, **lengths, **load}, simulator=_simulator(method))
    return draw.questions


def _simulator(method: str) -> str:
    return "" if method == "formula" else "serving"


def _disaggregated() -> list[Question]:
    draw = Draw("estimate-disaggregated")
    for method, engine in product(("formula", "simulate", "auto"), ENGINES):
        for model, tp in ((LLAMA_8B, 1), (draw.one(("Qwen/Qwen3-30B-A3B", LLAMA_70B)), 4)):
            fields = {"model": model, "system": "h200_sxm", "engine": engine, "method": method}
            pools = {
                "mode": "disaggregated",
                "prefill_workers": draw.whole(1, 4),
                "prefill_tp": tp,
                "prefill_batch": draw.whole(1, 4),
                "decode_workers": draw.whole(1, 3),
                "decode_tp": tp,
                "decode_batch": draw.power(2, 5),
            }
            lengths = {"isl": draw.whole(64, 4096), "osl": draw.whole(8, 200)}
            draw.ask("estimate", {**fields, **pools, **lengths}, simulator=_simulator(method))
    return draw.questions


def _measured() -> list[Question]:
    draw = Draw("estimate-measured")
    models = (LLAMA_8B, "Qwen/Qwen3-30B-A3B", DEEPSEEK)
    for engine, model in product(("vllm", "sglang", "trtllm"), models):
        fields = {"model": model, "system": "h200_sxm", "engine": engine, "tier": "measured"}
        plan = {"tp": MODELS[model], "batch": draw.power(0, 5)}
        draw.ask("estimate", {**fields, **plan, **_lengths(draw)}, silicon=True)
    fields = {"model": LLAMA_8B, "system": "h200_sxm", "tier": "measured", "mode": "aggregated"}
    for method in ("formula", "simulate"):
        load = {"method": method, "concurrency": 16, "isl": draw.whole(64, 999), "osl": 64}
        draw.ask("estimate", {**fields, **load}, silicon=True, simulator=_simulator(method))
    return draw.questions


def _systems() -> list[Question]:
    draw = Draw("estimate-systems")
    for system in SYSTEMS:
        fields = {"model": "Qwen/Qwen2.5-1.5B", "system": system, "batch": draw.power(0, 5)}
        draw.ask("estimate", {**fields, **_lengths(draw), "engine": draw.one(ENGINES)})
    for change in ("device.tdp=500W", "device.memory.capacity=200GB"):
        fields = {"model": LLAMA_8B, "system": f"h200_sxm{{{change}}}", "batch": draw.power(0, 5)}
        draw.ask("estimate", {**fields, **_lengths(draw)})
    return draw.questions


def _formats() -> list[Question]:
    draw = Draw("estimate-formats")
    for name in FORMATS:
        model = draw.one((LLAMA_8B, "Qwen/Qwen3-30B-A3B"))
        fields = {"model": model, "system": "b200_sxm", "format": name, "batch": draw.power(0, 6)}
        draw.ask("estimate", {**fields, **_lengths(draw), "engine": draw.one(ENGINES)})
    for kv, attention in (("fp8", "bf16"), ("fp8", "fp8"), ("bf16", "bf16")):
        fields = {"model": "Qwen/Qwen3-30B-A3B", "system": "h200_sxm", "batch": draw.power(0, 6)}
        formats = {"kv_format": kv, "attention_format": attention, "gemm_format": "fp8_block"}
        draw.ask("estimate", {**fields, **formats, "moe_format": "fp8_block", **_lengths(draw)})
    return draw.questions


def _models() -> list[Question]:
    draw = Draw("estimate-models")
    for model, tp in SWEEP.items():
        fields = {"model": model, "system": "b200_sxm", "tp": tp, "batch": draw.power(0, 5)}
        draw.ask("estimate", {**fields, **_lengths(draw), "engine": draw.one(ENGINES)})
    return draw.questions


def _plans() -> list[Question]:
    draw = Draw("estimate-plans")
    base: Fields = {"model": DEEPSEEK, "system": "h200_sxm", "format": "fp8", "batch": 8}
    plans: tuple[Fields, ...] = (
        {"tp": 8, "ep": 8},
        {"tp": 1, "attention_dp": 16, "ep": 16},
        {"tp": 4, "attention_dp": 4, "ep": 16},
        {"tp": 16, "moe_tp": 2, "ep": 8},
        {"tp": 8, "ep": 8, "expert_distribution": "balanced"},
        {"tp": 8, "ep": 8, "expert_distribution": "power_law_1.2"},
        {"tp": 8, "pp": 2},
        {"tp": 8, "dp": 3},
        {"tp": 8, "gpus": 32},
    )
    for plan in plans:
        draw.ask("estimate", {**base, **plan, **_lengths(draw)})
    for dense in ({"tp": 4, "cp": 2}, {"tp": 2, "pp": 4}, {"gpus": 8, "tp": 2}):
        draw.ask("estimate", {"model": LLAMA_70B, "system": "h200_sxm", **dense, **_lengths(draw)})
    return draw.questions


def _speculative() -> list[Question]:
    draw = Draw("estimate-speculative")
    for model, mode in product((LLAMA_8B, DEEPSEEK), ("static", "aggregated")):
        fields = {"model": model, "system": "h200_sxm", "tp": MODELS[model], "mode": mode}
        drafts = {"speculative_depth": draw.whole(1, 4), "speculative_acceptance": 0.7}
        load = {"batch" if mode == "static" else "concurrency": draw.power(0, 4), "osl": 100}
        draw.ask("estimate", {**fields, **drafts, **load}, simulator="serving")
    return draw.questions


def _extras() -> list[Question]:
    draw = Draw("estimate-extras")
    base: Fields = {"model": LLAMA_8B, "system": "h200_sxm", "batch": 16}
    extras: tuple[Fields, ...] = (
        {"prefix": 512, "isl": 2048},
        {"prefix": 100, "isl": 300, "engine": "sglang"},
        {"clock_ratio": 0.8},
        {"clock_ratio": 0.5, "tier": "bound"},
        {"frontier": True, "isl": 4096, "batch": None},
        {"frontier": True, "engine": "trtllm", "format": "fp8", "batch": None},
        {"block_size": 64, "gpu_memory_utilization": 0.6},
        {"max_num_seqs": 8, "mode": "aggregated", "batch": None, "concurrency": 32},
        {"max_num_batched_tokens": 1024, "isl": 5000},
        {"kv_blocks": 5000},
        {"stream_interval": 8, "mode": "aggregated", "batch": None, "concurrency": 8, "isl": 64},
    )
    for extra in extras:
        draw.ask("estimate", {**base, **extra, "osl": draw.whole(8, 300)}, simulator="serving")
    return draw.questions


def _scenarios() -> list[Question]:
    draw = Draw("estimate-scenario")
    for mode, engine in product(("static", "aggregated"), ("vllm", "sglang")):
        lines = [
            f'model = "{LLAMA_8B}"',
            'system = "h200_sxm"',
            f'mode = "{mode}"',
            f'engine = "{engine}"',
            f"isl = {draw.whole(64, 4096)}",
            f"osl = {draw.whole(8, 200)}",
            f"{'batch' if mode == 'static' else 'concurrency'} = {draw.power(0, 4)}",
        ]
        files = {"s.toml": "\n".join(lines) + "\n"}
        fields = {"scenario": "s.toml", "tier": draw.one(TIERS)}
        draw.ask("estimate", fields, files=files, simulator="serving")
    return draw.questions


def _row(draw: Draw, mode: str) -> Fields:
    model = draw.one(list(MODELS))
    row: Fields = {
        "model": model,
        "system": draw.one(("h200_sxm", "b200_sxm", "h100_sxm", "mi300x")),
        "engine": draw.one(ENGINES),
        "tier": draw.one(TIERS),
        "mode": mode,
        **_lengths(draw),
    }
    if mode == "disaggregated":
        pools = {"prefill_tp": MODELS[model], "decode_tp": MODELS[model], "decode_batch": 8}
        return {**row, **pools, "prefill_workers": draw.whole(1, 3), "format": "fp8"}
    load = "batch" if mode == "static" else "concurrency"
    return {**row, "tp": MODELS[model], load: draw.power(0, 8), "format": draw.one(("", "fp8"))}


def _tables() -> list[Question]:
    draw = Draw("estimate-table")
    modes = ("static", "aggregated", "disaggregated")
    for index, mode in enumerate(modes * 4):
        rows = [_row(draw, mode) for _ in range(10)]
        if index >= 6:
            rows = [_row(draw, draw.one(modes)) for _ in range(10)]
        if index == 7:
            rows += [{"model": "no/such", "system": "h200_sxm"}, {"model": LLAMA_8B, "tp": 3}]
        output = f"o{('.csv', '.jsonl', '.parquet')[index % 3]}"
        fields = {"table": "t.csv", "output": output, "method": "formula"}
        draw.ask("estimate", fields, files={"t.csv": table_text(rows)}, tables=[output])
    fields = {"table": "t.csv", "output": "o.csv", "method": "simulate", "mode": "aggregated"}
    rows = [{"model": LLAMA_8B, "system": "h200_sxm", "osl": 32, "concurrency": c} for c in (1, 9)]
    files = {"t.csv": table_text(rows)}
    draw.ask("estimate", fields, files=files, tables=["o.csv"], simulator="serving")
    many = [_row(draw, "static") for _ in range(300)]
    fields = {"table": "t.csv", "output": "o.csv"}
    draw.ask("estimate", fields, files={"t.csv": table_text(many)}, tables=["o.csv"])
    return draw.questions


def _refusals() -> list[Question]:
    draw = Draw("estimate-refusal")
    base: Fields = {"model": LLAMA_8B, "system": "h200_sxm"}
    refused: tuple[Fields, ...] = (
        {"system": "h200_sxm"},
        {**base, "model": "no/such-model"},
        {**base, "system": "h9000"},
        {**base, "engine": "none"},
        {**base, "tp": 3},
        {**base, "batch": 0},
        {**base, "isl": -4},
        {**base, "mode": "sideways"},
        {"model": LLAMA_70B, "system": "h200_sxm", "tp": 1, "batch": 400, "isl": 9000},
        {"model": DEEPSEEK, "system": "l4", "tp": 8},
        {**base, "moe_format": "fp8"},
        {**base, "format": "fp4000"},
        {**base, "tp": 2, "gpus": 3},
        {**base, "speculative_depth": 2},
        {**base, "tier": "measured", "system": "tpu_v7"},
        {**base, "batch": 4, "concurrency": 8},
    )
    for fields in refused:
        draw.ask("estimate", fields)
    draw.add([["estimate", "--modle", LLAMA_8B], ["estimate", "word"]])
    return draw.questions

from __future__ import annotations

from typing import Any

import pytest

# name, count, time per layer [s], bound, speed-of-light time per layer [s], stream
DECODE = (
    ("moe_or_mlp_gate_up", 80, 21.4e-6, "memory", 14.7e-6, "compute"),
    ("mlp_down", 80, 12.3e-6, "memory", 7.5e-6, "compute"),
    ("decode_attention", 80, 33.0e-6, "memory", 27.9e-6, "compute"),
    ("qkv_proj", 80, 5.2e-6, "memory", 2.6e-6, "compute"),
    ("o_proj", 80, 4.6e-6, "latency", 2.1e-6, "compute"),
    ("all_reduce", 160, 14.9e-6, "network", 4.4e-6, "communication"),
    ("rms_norm", 161, 2.4e-6, "latency", 0.4e-6, "compute"),
    ("lm_head", 1, 68.0e-6, "memory", 55.0e-6, "compute"),
    ("embedding", 1, 3.0e-6, "latency", 0.2e-6, "compute"),
    ("schedule", 1, 900e-6, "host", 0.0, "host"),
)
PREFILL = (
    ("moe_or_mlp_gate_up", 80, 3.9e-3, "compute", 2.9e-3, "compute"),
    ("mlp_down", 80, 2.0e-3, "compute", 1.5e-3, "compute"),
    ("prefill_attention", 80, 1.1e-3, "compute", 0.6e-3, "compute"),
    ("all_reduce", 160, 2.5e-3, "network", 2.2e-3, "communication"),
    ("rms_norm", 161, 0.4e-3, "memory", 0.3e-3, "compute"),
    ("lm_head", 1, 70.0e-6, "memory", 55.0e-6, "compute"),
)


def rows(phase: str, parts: tuple[tuple[Any, ...], ...]) -> list[dict[str, Any]]:
    total_s = sum(count * time_s for _, count, time_s, *_ in parts)
    return [
        {
            "name": name,
            "phase": phase,
            "count": count,
            "time_s": count * time_s,
            "share": count * time_s / total_s,
            "bound": bound,
            "bound_time_s": count * bound_time_s,
            "tier": "physics",
            "calibration": f"h200_sxm/{name}/cublas/fp8_static",
            "stream": stream,
        }
        for name, count, time_s, bound, bound_time_s, stream in parts
    ]


@pytest.fixture
def answer() -> dict[str, Any]:
    metrics = {
        "ttft_s": 1.17,
        "tpot_s": 0.00994,
        "request_latency_s": 6.25,
        "output_tokens_per_s_per_gpu": 655.4,
        "output_tokens_per_s_per_user": 100.6,
    }
    results: dict[str, Any] = {}
    for name, value in metrics.items():
        results |= {name: value, f"{name}_low": 0.93 * value, f"{name}_high": 1.11 * value}
    results["memory"] = {
        "weights_bytes": 8.82e9,
        "kv_bytes": 6.71e9,
        "activation_bytes": 1.4e9,
        "other_bytes": 4.1e9,
        "total_bytes": 21.03e9,
        "capacity_bytes": 141e9,
        "kv_capacity_tokens": 2_650_000,
        "fits": True,
    }
    return {
        "schema": "perfatlas.answer/1",
        "version": "0.1.0",
        "command": "estimate",
        "scenario": {
            "model": "meta-llama/Llama-3.1-70B-Instruct",
            "system": "h200_sxm",
            "gpus": 8,
            "engine": "vllm@0.24",
            "tier": "auto",
            "format": "fp8_static",
            "tp": 8,
            "pp": 1,
            "mode": "static",
            "batch": 64,
            "isl": 2048,
            "osl": 512,
        },
        "results": results,
        "breakdown": rows("prefill", PREFILL) + rows("decode", DECODE),
        "evidence": {
            "tier": "physics",
            "calibrations": [
                {
                    "id": "h200_sxm/gemm/cublas/fp8_static",
                    "rows": 12_441,
                    "median_error": 0.041,
                    "p90_error": 0.112,
                    "protocol": "graph, warm L2, boost clock",
                    "data_hash": "sha256:0123abcd",
                }
            ],
            "data_versions": {"perfatlas catalog": "2026-11-01"},
            "assumptions": [
                "fp8 means fp8_static: vLLM quantizes Llama checkpoints with static scales",
                "every sequence of the batch has the same length",
            ],
            "sources": ["NVIDIA H200 datasheet, 2024-11"],
        },
        "warnings": ["TP 8 leaves one KV head per GPU"],
    }

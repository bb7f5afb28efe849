"""Results in the layout of every tool that is read; the figures are invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MODEL = "meta-llama/Llama-3.1-8B"


def vllm(**changes: object) -> dict[str, Any]:
    return {
        "date": "20260101-000000",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": MODEL,
        "tokenizer_id": MODEL,
        "num_prompts": 80,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 8,
        "duration": 10.0,
        "completed": 80,
        "failed": 0,
        "total_input_tokens": 80 * 1024,
        "total_output_tokens": 80 * 128,
        "request_throughput": 8.0,
        "output_throughput": 1024.0,
        "mean_ttft_ms": 40.0,
        "median_ttft_ms": 35.0,
        "p99_ttft_ms": 90.0,
        "mean_tpot_ms": 7.5,
        "median_tpot_ms": 7.4,
        "p99_tpot_ms": 9.0,
        "mean_itl_ms": 7.5,
        "median_itl_ms": 7.0,
        "p99_itl_ms": 20.0,
    } | changes


def sglang(**changes: object) -> dict[str, Any]:
    return {
        "tag": None,
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),  # json writes Infinity, and so does the tool
        "max_concurrency": 8,
        "sharegpt_output_len": None,
        "random_input_len": 1024,
        "random_output_len": 128,
        "random_range_ratio": 1.0,
        "server_info": {
            "model_path": MODEL,
            "tp_size": 2,
            "pp_size": 1,
            "ep_size": 1,
            "dp_size": 1,
            "quantization": "fp8",
            "kv_cache_dtype": "auto",
            "speculative_algorithm": None,
        },
        "duration": 10.0,
        "completed": 80,
        "total_input_tokens": 80 * 1024,
        "total_output_tokens": 80 * 128,
        "total_output_tokens_retokenized": 80 * 128,
        "output_throughput": 1024.0,
        "mean_e2e_latency_ms": 992.5,
        "mean_ttft_ms": 40.0,
        "median_ttft_ms": 35.0,
        "mean_tpot_ms": 7.5,
        "median_tpot_ms": 7.4,
        "mean_itl_ms": 7.5,
        "median_itl_ms": 7.0,
        "concurrency": 7.94,
        "accept_length": None,
    } | changes


def trtllm(**changes: object) -> dict[str, Any]:
    return {
        "engine": {
            "model": MODEL,
            "model_path": "/models/llama",
            "version": "1.2",
            "backend": "Pytorch",
            "dtype": "bfloat16",
            "kv_cache_dtype": "FP8",
            "quantization": "FP8",
        },
        "machine": {"name": "NVIDIA H200"},
        "world_info": {
            "tp_size": 2,
            "pp_size": 1,
            "ep_size": None,
            "world_size": 2,
            "max_batch_size": 64,
            "max_num_tokens": 8192,
        },
        "request_info": {
            "num_requests": 80,
            "avg_num_concurrent_requests": 7.94,
            "avg_input_length": 1024.0,
            "avg_output_length": 128.0,
        },
        "performance": {
            "total_latency_ms": 10_000.0,
            "avg_request_latency_ms": 992.5,
            "request_throughput_req_s": 8.0,
            "system_output_throughput_tok_s": 1024.0,
        },
        "streaming_metrics": {
            "avg_ttft_ms": 40.0,
            "avg_tpot_ms": 7.5,
            "tpot_percentiles": {"p50": 7.4, "average": 7.5},
            "ttft_percentiles": {"p50": 35.0, "average": 40.0},
        },
        "dataset": {},
    } | changes


def metric(unit: str, avg: float, **more: float) -> dict[str, Any]:
    return {"unit": unit, "avg": avg, **more}


def aiperf(**changes: object) -> dict[str, Any]:
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_throughput": metric("requests/sec", 8.0),
        "request_latency": metric("ms", 992.5, p50=990.0),
        "request_count": metric("requests", 80),
        "time_to_first_token": metric("ms", 40.0, p50=35.0),
        "inter_token_latency": metric("ms", 7.5, p50=7.4),
        "output_token_throughput": metric("tokens/sec", 1024.0),
        "output_sequence_length": metric("tokens", 128.0),
        "input_sequence_length": metric("tokens", 1024.0),
        "input_config": {
            "models": {"items": [{"name": MODEL}]},
            "endpoint": {"urls": ["localhost:8000"], "streaming": True},
            "phases": [
                {"name": "warmup", "type": "concurrency", "concurrency": 2},
                {"name": "profiling", "type": "concurrency", "concurrency": 8},
            ],
        },
        "was_cancelled": False,
    } | changes


TOOLS = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm, "aiperf": aiperf}


def write(folder: Path, *runs: dict[str, Any], name: str = "result.json") -> Path:
    """Write runs one per line, as both vLLM and SGLang append them."""
    path = folder / name
    path.write_text("\n".join(json.dumps(run) for run in runs), encoding="utf-8")
    return path

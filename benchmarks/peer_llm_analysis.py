"""Runs in the Python of llm-analysis: times its inference analysis of the same decode step.

Reads {"decode": [[batch, kv_len], ...], "tp": 8, "runs": 3} on standard input, writes one JSON
object on standard output. The H200 is not in its catalog and is described here.
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
import time
from importlib import metadata

from llm_analysis.analysis import LLMAnalysis
from llm_analysis.config import DtypeConfig, GPUConfig, ModelConfig, ParallelismConfig
from llm_analysis.logger import logger

MODEL = ModelConfig(
    name="meta-llama/Llama-3.1-70B",
    num_layers=80,
    n_head=64,
    hidden_dim=8192,
    vocab_size=128256,
    max_seq_len=131072,
    num_key_value_heads=8,
    ffn_embed_dim=28672,
    expansion_ratio=3.5,
    model_type="llama",
)
H200 = GPUConfig(
    name="h200-sxm",
    mem_per_GPU_in_GB=139.8,
    hbm_bandwidth_in_GB_per_sec=4800,
    intra_node_bandwidth_in_GB_per_sec=450,
    intra_node_min_message_latency=8e-6,
    peak_fp16_TFLOPS=989.4,
    peak_i8_TFLOPS=1978.9,
)
FP8 = DtypeConfig(name="w8a8e16", weight_bits=8, activation_bits=8, embedding_bits=16)


def main() -> None:
    """Answer the queries and print how long they took."""
    asked = json.load(sys.stdin)
    logger.setLevel(logging.CRITICAL)
    analysis = LLMAnalysis(MODEL, H200, FP8, ParallelismConfig(tp_size=asked["tp"]))

    def decode() -> list[float]:
        return [
            analysis.inference(batch, kv, 1, kv_cache_dtype_bytes=2)["decode_latency"]
            for batch, kv in asked["decode"]
        ]

    answers = decode()
    wall, cpu = [], []
    for _ in range(asked["runs"]):
        started, used = time.perf_counter(), time.process_time()
        count = len(decode())
        wall.append((time.perf_counter() - started) / count)
        cpu.append((time.process_time() - used) / count)
    medians = {"wall_s": statistics.median(wall), "cpu_s": statistics.median(cpu)}
    times = {"decode": {**medians, "runs": asked["runs"]}}
    json.dump(
        {
            "version": metadata.version("llm-analysis"),
            "times": times,
            "answers_s": {"decode": answers[0]},
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()

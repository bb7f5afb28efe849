"""Runs in the Python of aiconfigurator 0.12: times its decode step and GEMM queries.

Reads {"decode": [[batch, kv_len], ...], "gemm": [[m, n, k], ...], "tp": 8, "runs": 3} on standard
input, writes one JSON object on standard output.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from importlib import metadata
from typing import Any

from aiconfigurator_core.sdk import common
from aiconfigurator_core.sdk.engine import EngineHandle, build_ops_json
from aiconfigurator_core.sdk.operations.gemm import GEMM
from aiconfigurator_core.sdk.perf_database import get_database

MODEL = "nvidia/Llama-3.1-70B-Instruct-FP8"
SYSTEM, ENGINE = "h200_sxm", "vllm"


def main() -> None:
    """Answer the queries and print how long they took."""
    asked = json.load(sys.stdin)
    engine = EngineHandle.compile(MODEL, SYSTEM, ENGINE, tp_size=asked["tp"])
    database = EngineHandle.for_database(get_database(SYSTEM, ENGINE, "current"))

    def decode() -> list[float]:
        return [engine.predict_decode_latency(batch, kv) for batch, kv in asked["decode"]]

    def gemm() -> list[Any]:
        return [_gemm(database, *shape) for shape in asked["gemm"]]

    times = {"decode": _timed(decode, asked["runs"]), "gemm": _timed(gemm, asked["runs"])}
    first_ms = engine.predict_decode_latency(*asked["decode"][0])
    answers = {
        "decode": first_ms * 1e-3,
        "gemm": _gemm(database, *asked["gemm"][0])[0][1] * 1e-3,
    }
    json.dump(
        {"version": metadata.version("aiconfigurator"), "times": times, "answers_s": answers},
        sys.stdout,
    )


def _gemm(database: Any, m: int, n: int, k: int) -> Any:  # noqa: ANN401 - a foreign, untyped API
    operators = build_ops_json([GEMM("product", 1.0, n, k, common.GEMMQuantMode.fp8)])
    return database.evaluate_ops_json(operators, is_context=True, batch_size=1, s=m)


def _timed(work: Any, runs: int) -> dict[str, float]:  # noqa: ANN401 - a plain callable
    work()
    wall, cpu = [], []
    for _ in range(runs):
        started, used = time.perf_counter(), time.process_time()
        count = len(work())
        wall.append((time.perf_counter() - started) / count)
        cpu.append((time.process_time() - used) / count)
    return {"wall_s": statistics.median(wall), "cpu_s": statistics.median(cpu), "runs": runs}


if __name__ == "__main__":
    main()

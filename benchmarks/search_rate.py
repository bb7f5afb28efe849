"""Time, memory and candidates per second of `perfatlas search`, each search in its own process.

    python benchmarks/search_rate.py [--json]
    python benchmarks/search_rate.py --warm 9

Closed forms alone (`--num-simulated 0`), start-up included; candidates per CPU-second leave it out.
With `--warm`, medians of so many searches in one process, after one that loads calibrations and
machine code, and of larger spaces too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any, Final

from timing import stay_on_one_core

from perfatlas.studies.deployments.find import find_deployments
from perfatlas.studies.deployments.pools import find_pools
from perfatlas.studies.deployments.question import read_search

LLAMA: Final = "nvidia/Llama-3.1-70B-Instruct-FP8"
DEEPSEEK: Final = "deepseek-ai/DeepSeek-V3"
LENGTHS: Final = ("--isl", "4000", "--osl", "500", "--slo-ttft-s", "2", "--slo-tpot-s", "0.05")
SEARCHES: Final = (
    (LLAMA, "h200_sxm", 8),
    (LLAMA, "h200_sxm", 32),
    (DEEPSEEK, "h200_sxm", 32),
    (DEEPSEEK, "gb200", 72),
)
MODES: Final = ("aggregated", "disaggregated")
STEP_SIZES: Final = ":".join(str(256 * size) for size in range(2, 130, 4))
LARGER: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("up to 72 x gb200, aggregated", {"max_gpus": 72}),
    ("up to 72 x gb200, disaggregated", {"max_gpus": 72, "mode": "disaggregated"}),
    (
        "72 x gb200, 32 step sizes, aggregated",
        {"gpus": 72, "choices": (f"max_num_batched_tokens={STEP_SIZES}",)},
    ),
    (
        "up to 72 x gb200, 32 step sizes, two formats of the KV cache, aggregated",
        {
            "max_gpus": 72,
            "choices": (f"max_num_batched_tokens={STEP_SIZES}",),
            "kv_formats": ("bf16", "fp8"),
        },
    ),
)


def measured(model: str, system: str, gpus: int, mode: str) -> dict[str, Any]:
    """Return the figures of one search.

    Args:
        gpus: GPUs of the deployment.
        mode: aggregated or disaggregated.
    """
    words = ["search", "--model", model, "--system", system, "--gpus", str(gpus), "--mode", mode]
    words += [*LENGTHS, "--num-simulated", "0", "--json", "--verbose"]
    before, started = _children(), time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "perfatlas", *words], capture_output=True, check=True, text=True
    )
    wall_s, after = time.perf_counter() - started, _children()
    results = json.loads(done.stdout)["results"]
    return {
        "search": f"{model.rpartition('/')[2]}, {gpus} x {system}, {mode}",
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "wall_s": wall_s,
        "largest_so_far_bytes": after.ru_maxrss * 1024,
        "candidates": results["candidates"],
        "points": results["points"],
        "candidates_per_cpu_s": results["candidates_per_cpu_s"],
        "points_per_cpu_s": results["candidates_per_cpu_s"]
        * results["points"]
        / results["candidates"],
        "best_tokens_per_s_per_gpu": results["plans"][0]["output_tokens_per_s_per_gpu"],
    }


def _children() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_CHILDREN)


def repeated(name: str, fields: dict[str, Any], runs: int) -> str:
    """Return a line with the medians of searches in this process.

    Args:
        name: What is searched.
        fields: Fields of the search, without lengths and SLOs.
        runs: Number of searches.
    """
    slos = {"isl": 4000, "osl": 500, "slo_ttft_s": 2.0, "slo_tpot_s": 0.05, "num_simulated": 0}
    inputs = read_search({**slos, **fields})
    search = find_pools if inputs.mode == "disaggregated" else find_deployments
    times, found = [], search(inputs)
    for _ in range(runs):
        started = time.process_time()
        found = search(inputs)
        times.append(time.process_time() - started)
    cpu_s = statistics.median(times)
    return (
        f"{name}: {cpu_s:.3f} CPU s, {found.size:,} candidates at {found.points:,} loads,"
        f" {found.size / cpu_s:,.0f} and {found.points / cpu_s:,.0f} per CPU s"
    )


def print_warm(runs: int) -> None:
    """Print a line for each search, repeated in this process, and the memory of all.

    Args:
        runs: Number of repetitions.
    """
    stay_on_one_core()
    for model, system, gpus in SEARCHES:
        for mode in MODES:
            name = f"{model.rpartition('/')[2]}, {gpus} x {system}, {mode}"
            fields = {"model": model, "system": system, "gpus": gpus, "mode": mode}
            print(repeated(name, fields, runs), flush=True)
    for name, fields in LARGER:
        asked = {"model": DEEPSEEK, "system": "gb200", **fields}
        print(repeated(f"DeepSeek-V3, {name}", asked, runs), flush=True)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak memory {peak_bytes / 1e6:.0f} MB")


def main() -> int:
    """Print a line for each search, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--warm", type=int, default=0, metavar="RUNS")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    if asked.warm:
        print_warm(asked.warm)
        return 0
    rows = [measured(*search, mode) for search in SEARCHES for mode in MODES]
    if asked.json:
        sys.stdout.write(json.dumps({"rows": rows}, indent=1) + "\n")
        return 0
    for row in rows:
        sys.stdout.write(
            f"{row['search']}: {row['cpu_s']:.1f} CPU s, {row['wall_s']:.1f} s,"
            f" {row['largest_so_far_bytes'] / 1e6:.0f} MB at most so far;"
            f" {row['candidates']:,} candidates at {row['points']:,} loads,"
            f" {row['candidates_per_cpu_s']:,.0f} and {row['points_per_cpu_s']:,.0f} per CPU s;"
            f" best {row['best_tokens_per_s_per_gpu']:.0f} tokens/s/GPU\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

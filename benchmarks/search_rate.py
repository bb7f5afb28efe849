"""Time, memory and candidates per second of `perfatlas search`, each search in its own process.

    python benchmarks/search_rate.py [--json]

Closed forms alone (`--num-simulated 0`), start-up included; candidates per CPU-second leave it out.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from typing import Any, Final

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


def measured(model: str, system: str, gpus: int, mode: str) -> dict[str, Any]:
    """Return the figures of one search.

    Args:
        model: The model.
        system: The system.
        gpus: GPUs of the deployment.
        mode: aggregated or disaggregated.
    """
    words = ["search", "--model", model, "--system", system, "--gpus", str(gpus), "--mode", mode]
    words += [*LENGTHS, "--num-simulated", "0", "--json"]
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


def main() -> int:
    """Print a line for each search, or one JSON object."""
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = [measured(*search, mode) for search in SEARCHES for mode in MODES]
    if "--json" in sys.argv[1:]:
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

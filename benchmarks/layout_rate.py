"""Layouts per CPU-second of `perfatlas search training`, and the time of one `perfatlas train`.

    python benchmarks/layout_rate.py [--json]

Each process searches twice and the second search counts, so that start-up is left out; `train` is
timed in a separate process, the second of two runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, Final

import perfatlas

SEARCHES: Final[tuple[dict[str, Any], ...]] = (
    {
        "model": "gpt3-175b",
        "system": "h100_sxm",
        "gpus": 1024,
        "sequence_length": 2048,
        "global_batch": 1536,
    },
    {
        "model": "megatron-1t",
        "system": "h100_sxm",
        "gpus": 2048,
        "sequence_length": 2048,
        "global_batch": 2048,
    },
    {
        "model": "deepseek-ai/DeepSeek-V3",
        "system": "h800_sxm",
        "gpus": 2048,
        "global_batch": 15360,
        "format": "fp8_block",
    },
)
TRAIN: Final = (
    "train --model meta-llama/Llama-3.1-70B --system h100_sxm --gpus 64 --tp 4 --pp 4 --vpp 5"
    " --cp 2 --sequence-length 8192 --global-batch 128"
)


def searched(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one search.

    Args:
        asked: Fields of `search training`.
    """
    perfatlas.search_training(**asked)
    started = time.perf_counter()
    run = perfatlas.search_training(**asked)
    return {
        "search": f"{asked['model'].rpartition('/')[2]}, {asked['gpus']:,} x {asked['system']}",
        "layouts": run.results["legal_layouts"],
        "priced": run.results["priced_layouts"],
        "wall_s": time.perf_counter() - started,
        "layouts_per_cpu_s": run.layouts_per_cpu_s,
    }


def trained() -> dict[str, Any]:
    """Return the time of one training step in a process of its own."""
    command = [sys.executable, "-m", "perfatlas", *TRAIN.split()]
    for _ in range(2):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - our own program
    return {"train_wall_s": time.perf_counter() - started}


def main() -> None:
    """Print a line per search, and the time of one step."""
    rows = [*(searched(asked) for asked in SEARCHES), trained()]
    if "--json" in sys.argv[1:]:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return
    for row in rows:
        words = (f"{name} {value:,.4g}" for name, value in row.items() if name != "search")
        sys.stdout.write(f"{row.get('search', 'train')}: {', '.join(words)}\n")


if __name__ == "__main__":
    main()

"""Candidates per CPU second: plans and batches of one model, system and engine in closed form.

python benchmarks/candidate_rate.py --candidates 50000

The time is that of `estimate_rows`: fields as columns in, metrics with their intervals out, no
texts. The first line is the whole call, the second the evaluation alone, without the resolution of
fields.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from timing import stay_on_one_core

from perfatlas.scenario.deployments import estimate_rows
from perfatlas.scenario.resolution import resolve


def candidate_table(candidates: int, seed: int) -> dict[str, list[Any]]:
    """Return plans, batches and token budgets of one deployment.

    Args:
        candidates: Number of candidates.
        seed: Random seed.
    """
    random = np.random.default_rng(seed)
    return {
        "model": ["meta-llama/Llama-3.1-70B-Instruct"] * candidates,
        "system": ["h200_sxm"] * candidates,
        "engine": ["vllm"] * candidates,
        "format": ["fp8"] * candidates,
        "mode": ["aggregated"] * candidates,
        "method": ["formula"] * candidates,
        "isl": [2048] * candidates,
        "osl": [512] * candidates,
        "tp": random.choice((1, 2, 4, 8), candidates).tolist(),
        "pp": random.choice((1, 2, 4), candidates).tolist(),
        "dp": random.choice((1, 2, 4), candidates).tolist(),
        "concurrency": random.integers(4, 2048, candidates).tolist(),
        "max_num_batched_tokens": random.choice((2048, 4096, 8192, 16384), candidates).tolist(),
    }


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    stay_on_one_core()
    for _ in estimate_rows(resolve(candidate_table(1_000, asked.seed))):
        pass  # compiles and loads what the runs use
    table = candidate_table(asked.candidates, asked.seed)
    whole, alone = [], []
    for _ in range(asked.runs):
        started = time.process_time()
        rows = resolve(table)
        resolved = time.process_time()
        for _ in estimate_rows(rows):
            pass
        ended = time.process_time()
        whole.append(ended - started)
        alone.append(ended - resolved)
    answered = int((~rows.refusals.refused).sum())
    for name, times in (("whole call", whole), ("evaluation alone", alone)):
        rate = asked.candidates / sorted(times)[len(times) // 2]
        print(f"{name:18} {rate:10,.0f} candidates per CPU-second, {answered:,} answered")


if __name__ == "__main__":
    main()

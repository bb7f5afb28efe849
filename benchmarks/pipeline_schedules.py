"""Layouts per CPU-second of the pipeline schedules.

`python -m benchmarks.pipeline_schedules` evaluates uneven stages with 16 ranks and 128
micro-batches: steps with transfers (each candidate is evaluated with and without them) and without.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from perfatlas.training.schedules import SCHEDULES, Pipelines, pipeline_steps

RANKS, MICRO_BATCHES = 16, 128


def candidates(schedule: str, count: int, send_s: float) -> Pipelines:
    """Return random uneven pipelines.

    Args:
        schedule: Value of `pipeline_schedule`.
        count: Number of candidates.
        send_s: Duration of a transfer [s].
    """
    chunks = 2 if schedule in ("interleaved", "zb_v") else 1
    rng = np.random.default_rng(1)
    shape = count, RANKS * chunks
    forward, given, weight = (rng.uniform(0.5, 1.5, shape) for _ in range(3))
    return Pipelines(
        schedule_C=[schedule] * count,
        ranks_C=np.full(count, RANKS),
        micro_batches_C=np.full(count, MICRO_BATCHES),
        chunks_C=np.full(count, chunks),
        forward_s_CS=forward,
        input_gradient_s_CS=given,
        weight_gradient_s_CS=weight,
        send_s_CS=np.full(shape, send_s),
        sends_overlap_C=np.ones(count, dtype=bool),
    )


def rate(schedule: str, count: int, send_s: float) -> float:
    """Return candidates per CPU-second, the median of five runs.

    Args:
        schedule: Value of `pipeline_schedule`.
        send_s: Duration of a transfer [s].
    """
    table = candidates(schedule, count, send_s)
    pipeline_steps(candidates(schedule, 2, send_s))  # load machine code
    seconds = []
    for _ in range(5):
        start = time.process_time()
        pipeline_steps(table)
        seconds.append(time.process_time() - start)
    return count / float(np.median(seconds))


def main() -> None:
    """Print one row per schedule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4000, help="candidates per run")
    count = parser.parse_args().count
    print("| schedule | layouts per CPU-second, with transfers | without |")
    print("|---|---|---|")
    for schedule in SCHEDULES:
        both = (rate(schedule.name, count, send_s) for send_s in (0.01, 0.0))
        print(f"| `{schedule.name}` | " + " | ".join(f"{value:,.0f}" for value in both) + " |")


if __name__ == "__main__":
    main()

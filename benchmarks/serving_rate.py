"""Rate of the compiled serving loop on traces and Poisson traffic, with Dynamo's replay.

A trace has one JSON object per line: timestamp [ms], input_length, output_length, hash_ids of
512-token blocks (kvcache-ai/Mooncake, FAST25-release/traces). Step prices are synthetic: 8 ms of
linear layers, 5 ms of attention at 256 sequences of 4,096 tokens, 25 us per token of a prompt;
the lines of `simulate` price Llama-3.1-70B on 4 x 4 H200 first. A Python with ai-dynamo 1.3.1
replays the same trace with 4 workers and its own default prices; its start-up time is subtracted.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from timing import Row, timed

from perfatlas.serving.config import Replicas, SchedulerLimits
from perfatlas.serving.policies import policy_names
from perfatlas.serving.prices import StepPrices
from perfatlas.serving.requests import Requests, plain_requests, with_hashes
from perfatlas.serving.run.simulate import run
from perfatlas.verbs.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECTION: Final = "serving simulator, output tokens per second"
LIMITS = SchedulerLimits(
    max_num_seqs=256, max_num_batched_tokens=8192, block_size=16, kv_blocks=60_000
)
SLOPE = 5_000_000_000 // (256 * 4096)  # ps per key


def serving_rows(
    count: int, runs: int, trace_file: Path | None, dynamo_python: str
) -> Iterator[Row]:
    """Yield output tokens per second of each kind of traffic.

    Args:
        count: Requests of Poisson traffic.
        runs: Timed calls.
        trace_file: Mooncake's trace, None for none.
        dynamo_python: Python with ai-dynamo, "" for none.
    """
    if trace_file is not None:
        trace = _trace(trace_file)
        named = f"{trace_file.name}, 4 replicas"
        yield _rate(f"{named}, prefixes apart", trace, LIMITS, runs)
        shared = LIMITS._replace(prefix_caching=True)
        yield _rate(f"{named}, prefixes shared", trace, shared, runs)
        yield _simulate_rate(trace_file, trace)
        yield _dynamo_rate(dynamo_python, trace_file, trace)
    draw = np.random.default_rng(1)
    arrival_N = np.cumsum(draw.exponential(1e12 / 200, count)).astype(np.int64)
    poisson = plain_requests(arrival_N, np.full(count, 512), np.full(count, 128))
    yield _rate(f"Poisson, 512 in, 128 out, rules {policy_names()[0]}", poisson, LIMITS, runs)
    ahead = LIMITS._replace(async_scheduling=True)
    yield _rate("the same, scheduled ahead", poisson, ahead, runs)
    for rules in policy_names()[1:]:
        yield _rate(f"the same, rules {rules}", poisson, LIMITS._replace(rules=rules), runs)


def _rate(name: str, requests: Requests, limits: SchedulerLimits, runs: int) -> Row:
    timing, outcome = timed(lambda: run(requests, _prices(), limits, Replicas(4)), runs=runs)
    tokens = int(requests.osl_N[outcome.finished_N >= 0].sum())
    count = requests.isl_N.shape[0]
    note = (
        f"{count:,} requests, {outcome.steps:,} steps: {outcome.steps / timing.wall_s:,.0f}"
        f" steps/s, {count / timing.wall_s:,.0f} requests/s"
    )
    return Row(
        section=SECTION,
        name=name,
        value=tokens / timing.wall_s,
        cpu_value=tokens / timing.cpu_s,
        unit="1/s",
        runs=runs,
        note=note,
    )


def _simulate_rate(path: Path, trace: Requests) -> Row:
    """Return the rate of `simulate`, including reading, pricing and three runs for the interval."""
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "system": "h200_sxm"}
    asked |= {"tp": 4, "dp": 4, "requests": str(path), "request_format": "mooncake"}
    timing, done = timed(lambda: simulate(**asked), runs=1)
    tokens = 3 * int(trace.osl_N.sum())
    return Row(
        section=SECTION,
        name="simulate of the trace, Llama-3.1-70B on 4 x 4 H200",
        value=tokens / timing.wall_s,
        cpu_value=tokens / timing.cpu_s,
        unit="1/s",
        runs=1,
        note=f"reading, pricing and three runs of {done.outcome.steps:,} steps: "
        f"{timing.wall_s:.2f} s",
    )


def _dynamo_rate(python: str, path: Path, trace: Requests) -> Row:
    name = "dynamo.replay of the trace, 4 workers"
    words = [os.path.abspath(python), "-m", "dynamo.replay"]  # noqa: PTH100 - a link stays one
    replay = ["--num-workers", "4", "--replay-mode", "offline", "--router-mode", "round_robin"]
    try:
        idle_s, idle_cpu_s = _child_s([*words, "--help"])
        wall_s, cpu_s = _child_s(
            [*words, str(path.resolve()), *replay, "--trace-block-size", "512"]
        )
    except OSError as problem:
        return Row(section=SECTION, name=name, note=f"not run: {problem}")
    except subprocess.CalledProcessError as problem:
        said = (problem.stderr or b"").decode(errors="replace").strip().splitlines()
        return Row(section=SECTION, name=name, note=f"not run: {(said or ['no message'])[-1]}")
    tokens = int(trace.osl_N.sum())
    return Row(
        section=SECTION,
        name=name,
        value=tokens / (wall_s - idle_s),
        cpu_value=tokens / (cpu_s - idle_cpu_s),
        unit="1/s",
        runs=1,
        note=f"ai-dynamo, {wall_s - idle_s:.2f} s after {idle_s:.2f} s of start-up",
    )


def _child_s(words: list[str]) -> tuple[float, float]:
    """Return elapsed and processor time of a command [s]."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:  # where it leaves its report
        subprocess.run(  # noqa: S603 - named by its user
            words, check=True, capture_output=True, cwd=folder
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used_s


def _prices() -> StepPrices:
    context_K = np.array([0, 256, 1024, 4096, 16384, 65536])
    batch_B = np.arange(LIMITS.max_num_seqs + 1)
    queries_Q = np.array([0, 128, 512, 2048, 8192])
    before_P = np.array([0, 1024, 8192, 32768, 131072, 262144])
    return StepPrices(
        decode_linear_B=np.full(batch_B.shape, 8_000_000_000),
        mixed_linear_T=8_000_000_000 + 25_000_000 * np.arange(8193),
        decode_experts_B=np.zeros(batch_B.shape, np.int64),
        mixed_experts_T=np.zeros(8193, np.int64),
        head_B=200_000_000 + 1_000_000 * batch_B,
        context_K=context_K,
        decode_base_BK=SLOPE * np.outer(batch_B, context_K),
        decode_slope_BK=np.full((batch_B.shape[0], context_K.shape[0]), SLOPE),
        queries_Q=queries_Q,
        before_P=before_P,
        prefill_added_QP=60 * np.outer(queries_Q, before_P + 4000),
        prefill_last_QP=np.zeros((queries_Q.shape[0], before_P.shape[0]), np.int64),
        host_step=100_000_000,
        host_sequence=2_000_000,
        host_prefill=500_000_000,
        host_overlapped=False,
    )


def _trace(path: Path) -> Requests:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    requests = plain_requests(
        np.array([row["timestamp"] for row in rows]) * 1_000_000_000,
        np.array([row["input_length"] for row in rows]),
        np.array([row["output_length"] for row in rows]),
    )
    hashes = [row["hash_ids"] for row in rows]
    count_N = np.array([*map(len, hashes)])
    return with_hashes(requests, count_N, np.concatenate(hashes), 512)

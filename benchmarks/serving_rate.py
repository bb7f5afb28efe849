"""Rate of the serving loop on one core, after compilation, in processor time.

    python benchmarks/serving_rate.py [--requests 1000000] [--trace mooncake_conversation.jsonl]
        [--dynamo-python peers/bin/python]

A trace has one JSON object per line: timestamp [ms], input_length, output_length, hash_ids of
512-token blocks (kvcache-ai/Mooncake, FAST25-release/traces). Step prices are made up: 8 ms of
linear layers, 5 ms of attention at 256 sequences of 4,096 tokens, 25 us per token of a prompt;
the lines of `simulate` price Llama-3.1-70B on 4 x 4 H200 first. A Python with ai-dynamo 1.3.1
replays the same trace with 4 workers and its own default prices, its start-up taken off.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import time
from pathlib import Path

import numpy as np
from timing import stay_on_one_core

from perfatlas import simulate
from perfatlas.serving.limits import Limits, Replicas
from perfatlas.serving.loop import run
from perfatlas.serving.prices import StepPrices
from perfatlas.serving.requests import Requests, plain_requests

LIMITS = Limits(max_num_seqs=256, max_num_batched_tokens=8192, block_size=16, kv_blocks=60_000)
SLOPE = 5_000_000_000 // (256 * 4096)  # ps per key


def main() -> None:
    """Print one line per kind of traffic."""
    asked = _arguments()
    stay_on_one_core()
    few = plain_requests(np.zeros(4, np.int64), np.full(4, 512), np.full(4, 128))
    for limits in (LIMITS, LIMITS._replace(prefix_caching=True)):
        run(few, _prices(), limits)  # compiles or loads
    if asked.trace is not None:
        trace = _trace(asked.trace)
        _report("trace", trace, LIMITS)
        _report("trace, prefixes shared", trace, LIMITS._replace(prefix_caching=True))
        _report_simulate(asked.trace, len(trace.isl_N))
        if asked.dynamo_python is not None:
            _report_dynamo(asked.dynamo_python, asked.trace, trace)
    draw = np.random.default_rng(1)
    arrival_N = np.cumsum(draw.exponential(1e12 / 200, asked.requests)).astype(np.int64)
    count = asked.requests
    poisson = plain_requests(arrival_N, np.full(count, 512), np.full(count, 128))
    _report(f"Poisson, 512 in, 128 out, {count} requests", poisson, LIMITS)


def _report(name: str, requests: Requests, limits: Limits) -> None:
    start = time.process_time()
    outcome = run(requests, _prices(), limits, Replicas(4))
    spent_s = time.process_time() - start
    tokens = int(requests.osl_N[outcome.finished_N >= 0].sum())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {spent_s:.3f} CPU-s, {outcome.steps / spent_s:,.0f} steps/CPU-s, "
        f"{tokens / spent_s:,.0f} output tokens/CPU-s, "
        f"{requests.isl_N.shape[0] / spent_s:,.0f} requests/CPU-s, {memory:.0f} MiB"
    )


def _report_simulate(path: Path, count: int) -> None:
    asked = {"model": "meta-llama/Llama-3.1-70B", "system": "h200_sxm", "tp": 4, "dp": 4}
    for shared in (False, True):
        start = time.process_time()
        done = simulate(
            **asked, requests=str(path), request_format="mooncake", prefix_caching=shared
        )
        spent_s = time.process_time() - start
        print(
            f"simulate, prefixes {'shared' if shared else 'apart'}, reading, pricing and three"
            f" runs: {spent_s:.2f} CPU-s, {3 * done.outcome.steps / spent_s:,.0f} steps/CPU-s,"
            f" {3 * count / spent_s:,.0f} requests/CPU-s"
        )


def _report_dynamo(python: Path, path: Path, trace: Requests) -> None:
    words = [str(python), "-m", "dynamo.replay"]
    idle_s = _child_s([*words, "--help"])
    replay = ["--num-workers", "4", "--replay-mode", "offline", "--router-mode", "round_robin"]
    spent_s = _child_s([*words, str(path), *replay, "--trace-block-size", "512"]) - idle_s
    tokens = int(trace.osl_N.sum())
    print(
        f"dynamo.replay, 4 workers: {spent_s:.2f} CPU-s after {idle_s:.2f} of start-up,"
        f" {tokens / spent_s:,.0f} output tokens/CPU-s,"
        f" {trace.isl_N.shape[0] / spent_s:,.0f} requests/CPU-s"
    )


def _child_s(words: list[str]) -> float:
    """Return the processor time of a command [s]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - named by its user
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _prices() -> StepPrices:
    context_K = np.array([0, 256, 1024, 4096, 16384, 65536])
    batch_B = np.arange(LIMITS.max_num_seqs + 1)
    queries_Q = np.array([0, 128, 512, 2048, 8192])
    before_P = np.array([0, 1024, 8192, 32768, 131072, 262144])
    return StepPrices(
        decode_linear_B=np.full(batch_B.shape, 8_000_000_000),
        mixed_linear_T=8_000_000_000 + 25_000_000 * np.arange(8193),
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
    return requests._replace(
        hash_first_N=np.cumsum([0, *map(len, hashes)]),
        hash_H=np.array([value for part in hashes for value in part]),
        hash_block=512,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--dynamo-python", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()

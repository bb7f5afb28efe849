"""Runs in the Python of ai-dynamo 1.6: replays sessions of agents in its mocked vLLM engine.

Reads {"trace": path, "lanes": 8, "blocks": 51562, "block_size": 64, "max_num_seqs": 64,
"max_num_batched_tokens": 8192} on standard input, writes one JSON object on standard output.
"""

from __future__ import annotations

import json
import os
import sys

from dynamo._core import _normalize_mocker_config
from dynamo.replay import run_trace_replay


def main() -> None:
    """Replay the trace and print what was answered."""
    asked = json.load(sys.stdin)
    report = sys.stdout
    sys.stdout = sys.stderr  # its log lines go to standard output
    out = os.dup(report.fileno())
    os.dup2(sys.stderr.fileno(), report.fileno())
    config = _normalize_mocker_config({})
    config["engine"] |= {
        "num_gpu_blocks": asked["blocks"],
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        **{name: asked[name] for name in ("block_size", "max_num_seqs", "max_num_batched_tokens")},
    }
    summary = run_trace_replay(
        [asked["trace"]],
        trace_format="weka",
        agentic_lanes=asked["lanes"],
        execution_model="mocked",
        extra_engine_args=config,
    ).summary
    answer = {
        "requests_completed": summary["completed_requests"],
        "prefix_hit_rate": summary["prefix_cache_reused_ratio"],
        "sessions_completed": summary["completed_trajectories"],
    }
    os.write(out, json.dumps(answer).encode())


if __name__ == "__main__":
    main()

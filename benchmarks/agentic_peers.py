"""Replay of recorded agent sessions: answered requests, hit rate and CPU time beside ai-dynamo.

    python benchmarks/agentic_peers.py --trace weka_coding_sessions.jsonl.gz
        [--dynamo-python PYTHON] [--json] [--page benchmarks/agentic_peers.md]

Install the peer in a separate environment, without the packages that need a GPU:

    python -m venv peers && peers/bin/pip install --no-deps ai-dynamo==1.6.1 \
        ai-dynamo-runtime==1.6.1 && peers/bin/pip install pydantic msgspec typing_extensions
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reporting import Page, add_report_flags, report
from timing import Row, stay_on_one_core

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK: Final = 64  # tokens, as in the trace
TOKENS: Final = 3_300_000  # of the KV cache
LIMITS: Final = {"block_size": BLOCK, "max_num_seqs": 64, "max_num_batched_tokens": 8192}
READING: Final = """
## What is compared

- The same sessions, pool of sessions from their beginning, blocks of 64 tokens, cache of 3.3 M
  tokens, at most 64 sequences and 8,192 tokens per step, scheduling of vLLM, recorded pauses.
- *perfatlas* is one process of `perfatlas.simulate`: reading the trace, prices of GLM-5.2 on
  8 B300, and three simulations, of which two give the interval. *ai-dynamo* runs its mocked engine
  with the default step times of its mocker, not those of a model or GPU: hit rates and counts stand
  beside ours, simulated times do not.
- Hit rates are cached tokens over prompt tokens. Steps last differently, so that hit rates agree
  only while the contexts of all live sessions fit the cache.
- ai-dynamo refuses the trace as recorded, as sub-agents use models that the session does not
  declare; they are declared for both. AISimulate 0.13 is a placeholder on the Python Package Index
  that downloads from pypi.nvidia.com; its replay is the one inside ai-dynamo-runtime.
"""
ABOUT: Final = Page(
    script="agentic_peers.py",
    title="Replay of agent sessions",
    peers="--no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1",
    reading=READING,
)
OURS: Final = """
import json, sys
from perfatlas import simulate
asked = json.load(sys.stdin)
done = simulate(
    model="nvidia/GLM-5.2-NVFP4", system="b300_sxm", engine="vllm", tp=8, requests=asked["trace"],
    request_format="weka", sessions=asked["lanes"], session_start="beginning",
    kv_blocks=asked["blocks"],
    **{n: asked[n] for n in ("block_size", "max_num_seqs", "max_num_batched_tokens")},
)
names = ("requests_completed", "prefix_hit_rate", "sessions_completed")
print(json.dumps({name: done.results[name] for name in names}))
"""


def main() -> int:
    """Print the table, or one JSON object; return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_report_flags(parser)
    parser.add_argument("--trace", type=Path, required=True, help="sessions, as JSON Lines (gzip)")
    parser.add_argument("--lanes", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--dynamo-python", default=sys.executable, help="Python with ai-dynamo")
    asked = parser.parse_args()
    core = stay_on_one_core()
    with tempfile.TemporaryDirectory() as folder:
        trace = _declared(asked.trace, Path(folder))
        report(_rows(trace, asked.lanes, asked.dynamo_python), asked, ABOUT, core)
    return 0


def _declared(path: Path, folder: Path) -> Path:
    """Return a copy of the trace in which sessions declare all models of their requests."""
    out = folder / "sessions.jsonl"
    with gzip.open(path, "rt", encoding="utf-8") as lines, out.open("w", encoding="utf-8") as copy:
        for line in lines:
            session = json.loads(line)
            _declare(session)
            copy.write(json.dumps(session) + "\n")
    return out


def _declare(agent: dict[str, Any]) -> set[str]:
    models = set(agent.get("models") or ())
    for row in agent["requests"]:
        models |= _declare(row) if row["type"] == "subagent" else {row["model"]}
    agent["models"] = sorted(models)
    return models


def _rows(trace: Path, lanes: list[int], dynamo: str) -> Iterator[Row]:
    peer = Path(__file__).with_name("peer_dynamo.py")
    commands = {
        "perfatlas": [sys.executable, "-c", OURS],
        "ai-dynamo": [os.path.abspath(dynamo), str(peer)],  # noqa: PTH100 - a link stays one
    }
    question = {"trace": str(trace), "blocks": TOKENS // BLOCK, **LIMITS}
    _answered(commands["perfatlas"], question | {"lanes": 1})  # compiles once per installation
    for name, words in commands.items():
        for number in lanes:
            yield _row(f"{name}, {number} sessions live", words, question | {"lanes": number})


def _answered(words: list[str], question: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - named by its user
        words, check=False, capture_output=True, text=True, input=json.dumps(question)
    )


def _row(name: str, words: list[str], question: dict[str, Any]) -> Row:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = _answered(words, question)
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    section = "Agent sessions, elapsed time"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Row(section=section, name=name, note=f"not run: {last[:200]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    note = (
        f"{found['requests_completed']:,} requests of {found['sessions_completed']} sessions"
        f" answered, hit rate {found['prefix_hit_rate']:.4f}"
    )
    return Row(section=section, name=name, value=wall_s, cpu_value=cpu_s, runs=1, note=note)


if __name__ == "__main__":
    sys.exit(main())

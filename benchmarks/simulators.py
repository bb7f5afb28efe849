"""Speed of the simulators on one core: serving, one job with failures, many jobs.

    python benchmarks/simulators.py [--json] [--page benchmarks/simulators.md]
        [--trace mooncake_conversation.jsonl] [--simpy-python PYTHON] [--dynamo-python PYTHON]

Peers that are not installed are noted in their rows. Install them in a separate environment:

    python -m venv peers && peers/bin/pip install simpy==4.1.2 ai-dynamo==1.3.1
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Final

from fleet_rate import job_rows
from reporting import Page, add_report_flags, report
from schedule_rate import schedule_rows
from serving_rate import serving_rows
from timing import stay_on_one_core

READING: Final = """
## What is compared

- *Serving*: the loop over steps of four replicas, every request and every token accounted for, on
  made-up step prices; `simulate` adds reading, pricing and the runs of the interval. Dynamo's
  replay has prices of its own and counts what its mocker counts: a speed beside ours, no check.
- *One job*: `benchmarks/peer_simpy.py` is the shortest SimPy model with the same laws, repairs
  and spares, failures of all nodes drawn together; its goodput stands beside ours. Replicas of
  perfatlas account every GPU-hour to one of nine buckets; those of SimPy count banked work only.
- *Many jobs*: `benchmarks/peer_simpy_schedule.py` has the same rules node by node, and its mean
  wait and number of backfilled jobs stand beside ours for the same jobs.
- Compiling is left out: it happens once, at the first use after an installation.
"""
ABOUT: Final = Page(
    script="simulators.py",
    title="Speed of the simulators",
    peers="simpy==4.1.2 ai-dynamo==1.3.1",
    reading=READING,
)


def main() -> int:
    """Print the table, or one JSON object; return 0.

    A missed goal is not a failure: the machine may be busy or slow.
    """
    asked = _arguments()
    core = stay_on_one_core()
    simpy = asked.simpy_python
    rows = itertools.chain(
        serving_rows(asked.requests, asked.runs, asked.trace, asked.dynamo_python),
        job_rows(asked.runs, asked.replicas, simpy, asked.simpy_replicas),
        schedule_rows(asked.jobs, asked.runs, simpy, asked.simpy_jobs),
    )
    report(rows, asked, ABOUT, core)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_report_flags(parser)
    parser.add_argument("--runs", type=int, default=5, help="runs for the medians")
    parser.add_argument("--requests", type=int, default=300_000, help="of Poisson traffic")
    parser.add_argument("--trace", type=Path, help="of Mooncake")
    parser.add_argument("--replicas", type=int, default=10_000, help="of 131,072 GPUs x 90 days")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--simpy-replicas", type=int, default=100)
    parser.add_argument("--simpy-jobs", type=int, default=5_000)
    parser.add_argument("--simpy-python", default=sys.executable, help="Python with SimPy")
    parser.add_argument("--dynamo-python", default=sys.executable, help="Python with ai-dynamo")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

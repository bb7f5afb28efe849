"""How often the interval of a fitted MTBF holds the truth: synthetic clusters with logs.

`python -m benchmarks.fleet_coverage --clusters 200` writes the logs of that many clusters for each
utilization, imports and fits them, and counts the 90% intervals that hold the true MTBF of a node.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.reliability.telemetry.fleets import FleetOptions, fleet_rates
from perfatlas.reliability.telemetry.formats import ImportOptions, import_logs
from perfatlas.reliability.telemetry.history import joined, observation_windows
from perfatlas.reliability.telemetry.reading import LogClock
from tests.reliability.telemetry.clusters import DAY_S, LOGS, START_S, cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.reliability.telemetry.history import History
    from tests.reliability.telemetry.clusters import Cluster

UTILIZATIONS: Final = (0.1, 0.18, 0.4, 0.7, 0.95)
JOINED: Final = (
    ("sacct", "xid"),
    ("sacct", "slurm_events"),
    ("sacct", "xid", "slurm_events"),
)
FORMATS: Final = {"kubernetes_pods": "kubernetes"}  # of logs that are not named by their format
MTBF_DAYS: Final = 45.0
LEVEL: Final = 0.9
_UTC: Final = ImportOptions(clock=LogClock(zone="UTC"))


def holds(one: Cluster, history: History) -> bool:
    """Return whether the fitted interval of the failures of a node holds the true MTBF."""
    window_s = (START_S, one.end_s)
    parts = {"gpu": one.nodes, "job": 1}
    windows = observation_windows(
        history, nodes=one.nodes, gpus_per_node=8, window_s=window_s, units=parts
    )
    options = FleetOptions(level=LEVEL, repair="as_old")
    rate = fleet_rates(history, windows, one.nodes, options)[0].rate
    return 1.0 / rate.high_per_s < MTBF_DAYS * DAY_S < 1.0 / rate.low_per_s


def main() -> None:
    """Print the share of intervals that hold the truth, by logs and utilization."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--utilizations", type=float, nargs="*", default=list(UTILIZATIONS))
    parser.add_argument("--logs", nargs="*", default=list(LOGS))
    asked = parser.parse_args()
    print(f"share of {LEVEL:.0%} intervals that hold the MTBF, {asked.clusters} clusters each")
    for utilization in asked.utilizations:
        begun_s = time.process_time()
        held: dict[str, int] = {}
        for seed in range(asked.clusters):
            one = cluster(seed, utilization=utilization, mtbf_days=MTBF_DAYS, job_days=1.0)
            for name, history in histories(one, asked.logs).items():
                held[name] = held.get(name, 0) + holds(one, history)
        text = ", ".join(f"{name} {count / asked.clusters:.1%}" for name, count in held.items())
        spent_s = time.process_time() - begun_s
        print(f"utilization {utilization:.0%}: {text} ({spent_s:.0f} s)", flush=True)


def histories(one: Cluster, logs: Sequence[str]) -> dict[str, History]:
    """Return the history of each log of a cluster, and of several together."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: import_logs(FORMATS.get(name, name), [write(one, Path(folder))], _UTC).history
            for name, write in LOGS.items()
            if name in logs
        }
    several = {
        " + ".join(names): joined([found[name] for name in names])
        for names in JOINED
        if set(names) <= set(logs)
    }
    return found | several


if __name__ == "__main__":
    main()

"""The 16,384-GPU job of `fleet_rate.py` in SimPy; needs SimPy and no perfatlas.

    python benchmarks/peer_simpy.py REPLICAS

One process makes failures, one is the job, each repair is a process: the shortest model with the
same distributions. Prints one JSON object.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any

import simpy

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = 2048
SPARES = 32
RATE_PER_S = 6.5e-3 / 86400.0
REPAIR_S = 86400.0
INTERVAL_S = 1800.0
WRITE_S = 60.0
RESTART_S = 720.0
HORIZON_S = 54 * 86400.0


def job(env: simpy.Environment, spares: simpy.Container, dice: random.Random) -> Iterator[Any]:
    """Run the job and count saved work; a failure during restart starts it over."""
    banked, failures = 0.0, 0
    cycle = INTERVAL_S + WRITE_S
    restarting = False
    while True:
        left = dice.expovariate(NODES * RATE_PER_S)
        if restarting and left >= RESTART_S:
            yield env.timeout(RESTART_S)
            left -= RESTART_S
            restarting = False
        started = env.now
        yield env.timeout(left)
        if not restarting:
            banked += INTERVAL_S * ((env.now - started) // cycle)
        failures += 1
        env.process(repair(env, spares, dice))
        yield spares.get(1)
        restarting = True
        env.banked, env.failures = banked, failures


def repair(env: simpy.Environment, spares: simpy.Container, dice: random.Random) -> Iterator[Any]:
    """Repair a node."""
    yield env.timeout(dice.expovariate(1.0 / REPAIR_S))
    yield spares.put(1)


def main() -> int:
    """Run replicas and print their rate and mean goodput."""
    replicas = int(sys.argv[1])
    goodput, failures = [], 0
    started = time.perf_counter()
    for replica in range(replicas):
        env: Any = simpy.Environment()
        env.banked, env.failures = 0.0, 0
        spares = simpy.Container(env, capacity=NODES + SPARES, init=SPARES)
        env.process(job(env, spares, random.Random(replica)))  # noqa: S311 - a simulation
        env.run(until=HORIZON_S)
        goodput.append(env.banked / HORIZON_S)
        failures += env.failures
    took = time.perf_counter() - started
    mean = sum(goodput) / replicas
    error = (sum((g - mean) ** 2 for g in goodput) / max(replicas - 1, 1) / replicas) ** 0.5
    found = {
        "version": simpy.__version__,
        "replicas_per_s": replicas / took,
        "failures_per_s": failures / took,
        "goodput": mean,
        "standard_error": error,
    }
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from typing import Any

from perfatlas.quantities import PerfatlasError
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.laws import Constant, Exponential, LogNormal
from perfatlas.reliability.fleet.model.strategy_file import strategies_of

GOOD = """
[[strategy]]
name = "two levels"
interval = "12 min"
state = "6 TB"
verify = "20 s"
retained = 3
lost_step = "8 s"
slow_patience = "10 min"
silent_restart = "in-job"
slow_restart = "scheduler"
detection_exposed = true
restart_exposed = false
spares = { count = 4, kind = "warm", start = "5 min" }
shrink = { replica_units = 2, fewest = 12, overhead = 1.02, rejoin = "1 min" }
maintenance = { every = "30 d", lasts = "6 h", restart = "scheduler" }

[[strategy.checkpoint]]
name = "peer memory"
write = "3 s"
lag = "1 s"
read = { law = "exponential", mean = "5 s" }
survives = "unit"

[[strategy.checkpoint]]
name = "remote"
write_bandwidth = "2 TB/s"
lag_bandwidth = "200 GB/s"
read_bandwidth = "400 GB/s"
every = 10

[[strategy.restart]]
name = "in-job"
phases = { init = { fixed = "5 s", per_rank = "3 ms" }, warm_up = "30 s" }
success = 0.8

[[strategy.restart]]
name = "scheduler"
phases = { reschedule = { law = "lognormal", median = "5 min", sigma = 1 } }

[[strategy]]
name = "plain"
"""


def fields(text: str, name: str | None = None, state_bytes: float | None = None) -> dict[str, Any]:
    found = strategies_of(tomllib.loads(text), "job.toml")
    return model.choose(found, name, "job.toml").fields(ranks=1000, state_bytes=state_bytes)


def test_every_word_of_a_strategy_is_read() -> None:
    told = fields(GOOD)
    near, far = told["levels"]
    assert (near.write_s, near.lag_s, near.survives) == (3.0, 1.0, "unit")
    assert near.read_s == Exponential(mean_s=5.0)
    # 6 TB through 2 TB/s, 200 GB/s and 400 GB/s
    assert (far.write_s, far.lag_s, far.read_s, far.every) == (3.0, 30.0, 15.0, 10)
    light, grave = told["restarts"]
    # 5 s and 3 ms for each of 1000 ranks
    assert light.phases == {"init": 8.0, "warm_up": 30.0}
    assert light.success == 0.8
    assert grave.phases == {"reschedule": LogNormal(median_s=300.0, sigma=1)}
    assert told["spares"] == model.Spares(count=4, kind="warm", start=Constant(value_s=300.0))
    assert told["shrink"] == model.Shrink(replica_units=2, fewest=12, overhead=1.02, rejoin_s=60.0)
    day = 86400.0
    maintenance = model.Maintenance(every_s=30 * day, lasts_s=0.25 * day, restart="scheduler")
    assert told["maintenance"] == maintenance
    strategy = model.Strategy(**told)
    assert (strategy.interval_s, strategy.verify_s, strategy.retained) == (720.0, 20.0, 3)
    assert (strategy.step_s, strategy.slow_patience_s) == (8.0, 600.0)
    assert (strategy.silent_restart, strategy.slow_restart) == ("in-job", "scheduler")
    assert (strategy.detection_exposed, strategy.restart_exposed) == (True, False)
    assert fields(GOOD, "plain") == {"name": "plain"}


def test_bytes_given_to_the_job_win_over_the_file() -> None:
    assert fields(GOOD, state_bytes=12e12)["levels"][1].lag_s == 60.0


JUNK = [True, -1, 0, 1e400, float("nan"), 2**70, "", "x", "-1 s", "nan s", "1 TB/s", [], [1], {},
    {"law": 3}, {"fixed": 1}]  # fmt: skip


def places(table: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    rows = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in rows:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places(value, (*before, key))


def test_whatever_stands_in_a_strategy_it_runs_or_is_refused() -> None:
    table = tomllib.loads(GOOD)["strategy"][0]
    fleet = model.Fleet(
        units=40, causes=(model.Cause(name="node", lifetime=NODE.lifetime, per_unit=1.0),)
    )
    refused = ran = 0
    for place in list(places(table)):
        for junk in JUNK:
            changed = copy.deepcopy(table)
            holder = changed
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = junk
            try:
                told = model.StrategyTable(name="x", table=changed, origin="x").fields(ranks=100)
                model.pack(fleet, 16, model.Strategy(**({"interval_s": 600.0} | told)), 1e6)
                ran += 1
            except PerfatlasError:
                refused += 1
    assert refused > 10 * ran > 0


H = 3600.0
NODE = model.Cause(
    name="node", lifetime=Exponential(mean_s=10 * H), shared=1.0, detection=Constant(value_s=90.0)
)

"""Split of a scenario into a prefill and a decode worker, or into workers of parts of layers.

Shape legend: N rows, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import inference
from perfatlas.scenario.fields import (
    FIELD_NAMES,
    Scenario,
    columns_of,
    constant_column,
    number_column,
    unset,
)
from perfatlas.vocabulary.fields import Formats, Plan, Subject, fields_of

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Columns

ROLES: Final = ("prefill", "decode")
PARTS: Final = ("attention", "feed_forward")
# Fields that the workers of a pool may override
SHARED: Final = tuple(
    name for name, field in fields_of(Subject, Plan, Formats).items() if field.row.pools
)


@dataclass(frozen=True, kw_only=True)
class Pools:
    """The scenarios of a prefill worker and a decode worker."""

    prefill: Scenario
    decode: Scenario


def split_pools(scenario: Scenario) -> Pools:
    """Return the scenarios of one prefill worker and one decode worker.

    `prefill_*` and `decode_*` override the shared names; a decode worker has `decode_batch`
    sequences, or its share of `concurrency`.

    Args:
        scenario: A scenario in mode disaggregated.
    """
    columns = columns_of([scenario])
    workers = {role: Scenario(worker_columns(columns, role).given(0)) for role in ROLES}
    return Pools(**workers)


def worker_batches(scenario: Scenario) -> dict[str, int]:
    """Return the number of workers and their batches, by name, of a disaggregated scenario."""
    counts = {"dp": 1}
    pools = split_pools(scenario)
    for role, worker in (("prefill", pools.prefill), ("decode", pools.decode)):
        counts[f"{role}_tp"] = worker.tp or 1
        counts[f"{role}_workers"] = getattr(scenario, f"{role}_workers")
        counts[f"{role}_batch"] = worker.batch or 1
    return counts


def worker_columns(columns: Columns, role: str) -> Columns:
    """Return the columns of the workers of a pool, as `split_pools` does for one scenario.

    Args:
        columns: Scenarios in mode disaggregated (N).
        role: "prefill" or "decode".
    """
    ones = constant_column(columns.size, 1)
    none = unset(columns.size)
    changes = {"mode": constant_column(columns.size, "static"), "dp": ones}
    changes |= {"gpus": none, "concurrency": none}
    for name in SHARED:
        if f"{role}_{name}" in FIELD_NAMES:
            changes[name] = columns[name].overridden_by(columns[f"{role}_{name}"])
    if role == "prefill":
        changes |= {"batch": columns["prefill_batch"], "osl": ones, "dcp": ones}
    else:
        workers_N = columns.numbers("decode_workers")
        in_flight_N = columns.numbers("concurrency")
        in_flight_N = np.where(np.isnan(in_flight_N), workers_N, in_flight_N)
        each_N = np.maximum(np.floor(in_flight_N / workers_N), 1.0)
        held_N = columns.numbers("decode_batch")
        changes |= {"batch": number_column(np.where(np.isnan(held_N), each_N, held_N)), "cp": ones}
    return columns.changed(changes)


def pool_load(columns: Columns) -> inference.PoolLoad:
    """Return workers and requests in flight of disaggregated scenarios.

    Args:
        columns: Scenarios in mode disaggregated (C).
    """
    return inference.PoolLoad(
        prefill_workers=columns.numbers("prefill_workers"),
        decode_workers=columns.numbers("decode_workers"),
        concurrency=columns.numbers("concurrency", np.inf),
        derived=np.where(columns.is_set("decode_batch"), 0.0, columns.numbers("concurrency", 0.0)),
    )


def part_scenario(scenario: Scenario, part: str) -> Scenario:
    """Return the scenario of the workers that run a part of the layers.

    Args:
        scenario: A scenario with `feed_forward_system`.
        part: Of `PARTS`.
    """
    return Scenario(part_columns(columns_of([scenario]), part).given(0))


def part_columns(columns: Columns, part: str) -> Columns:
    """Return the columns of the workers of a part, as `part_scenario` does for one scenario.

    Args:
        columns: Scenarios with `feed_forward_system` (N).
        part: Of `PARTS`.
    """
    if part == PARTS[0]:
        return columns
    ones = constant_column(columns.size, 1)
    none = unset(columns.size)
    dp_N, batch_N = columns.numbers("dp", 1.0), columns.numbers("batch")
    each_N = np.ceil(columns.numbers("concurrency", 1.0) / dp_N)
    batch_N = np.where(np.isnan(batch_N), each_N, batch_N) * dp_N
    changes = {"batch": number_column(batch_N), "concurrency": none, "gpus": none, "dp": ones}
    changes |= {"cp": ones, "dcp": ones, "attention_dp": ones, "moe_tp": none}
    for name in ("system", "engine"):
        changes[name] = columns[name].overridden_by(columns[f"feed_forward_{name}"])
    changes |= {name: columns[f"feed_forward_{name}"] for name in ("tp", "pp", "ep")}
    return columns.changed(changes)


def split_load(columns: Columns) -> inference.SplitLoad:
    """Return replicas and micro-batches of scenarios with `feed_forward_system` (C)."""
    return inference.SplitLoad(columns.numbers("dp", 1.0), columns.numbers("micro_batches"))

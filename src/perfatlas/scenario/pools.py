"""One disaggregated scenario as two: a prefill worker and a decode worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.serving.closed_form import PoolLoad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.scenario.vocabulary import Scenario

SHARED: Final = ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp")


@dataclass(frozen=True, kw_only=True)
class Pools:
    """One scenario as two: what a prefill worker and what a decode worker is asked."""

    prefill: Scenario
    decode: Scenario


def split_pools(scenario: Scenario) -> Pools:
    """Return the scenarios of one prefill worker and one decode worker.

    `prefill_*` and `decode_*` override the shared names; a decode worker holds `decode_batch`
    sequences, or its part of `concurrency`.

    Args:
        scenario: A scenario in mode disaggregated.
    """
    in_flight = scenario.concurrency or scenario.decode_workers
    held = scenario.decode_batch or max(in_flight // scenario.decode_workers, 1)
    return Pools(
        prefill=_worker(scenario, "prefill", scenario.prefill_batch),
        decode=_worker(scenario, "decode", held),
    )


def _worker(scenario: Scenario, role: str, batch: int) -> Scenario:
    changes: dict[str, Any] = {"mode": "static", "batch": batch, "concurrency": None}
    changes |= {"gpus": None, "dp": 1}
    for name in ("system", *SHARED):
        own = getattr(scenario, f"{role}_{name}", None)
        if own is not None:
            changes[name] = own
    changes |= {"cp": 1} if role == "decode" else {"osl": 1}
    return scenario.model_copy(update=changes)


def asked_of_pools(scenario: Scenario) -> dict[str, int]:
    """Return the workers of a disaggregated scenario and the batch of each, by name."""
    asked = {"dp": 1}
    pools = split_pools(scenario)
    for role, worker in (("prefill", pools.prefill), ("decode", pools.decode)):
        asked[f"{role}_tp"] = worker.tp or 1
        asked[f"{role}_workers"] = getattr(scenario, f"{role}_workers")
        asked[f"{role}_batch"] = worker.batch or 1
    return asked


def pool_load(scenarios: Sequence[Scenario]) -> PoolLoad:
    """Return the workers and the requests in flight of disaggregated scenarios.

    Args:
        scenarios: In mode disaggregated (C).
    """
    asked_C = np.array([float(s.concurrency or 0) for s in scenarios])
    given_C = np.array([s.decode_batch is not None for s in scenarios])
    return PoolLoad(
        prefill_workers=np.array([float(s.prefill_workers) for s in scenarios]),
        decode_workers=np.array([float(s.decode_workers) for s in scenarios]),
        concurrency=np.where(asked_C > 0.0, asked_C, np.inf),
        derived=np.where(given_C, 0.0, asked_C),
    )

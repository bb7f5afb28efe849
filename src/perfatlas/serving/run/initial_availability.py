"""Initial state of outages and autoscaling.

Shape legend: N requests, F replicas of all types, E failures and recoveries, A history of an
autoscaler, V its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.serving.config import FOREVER
from perfatlas.serving.engine import CRASH, DRAIN, RETURN
from perfatlas.serving.state import FAULT, NOBODY, OFF, REPLICA, SCALER, STRIKE

if TYPE_CHECKING:
    from perfatlas.serving.config import Outage, Scaler, Upkeep
    from perfatlas.serving.state import Rows


def availability_state(upkeep: Upkeep, count: int, replicas: int) -> dict[str, Any]:
    """Return the state of outages and autoscaling, by field of `SimulationState`.

    Args:
        upkeep: Outages and autoscaling.
        count: Number of requests.
        replicas: Number of replicas of all types.
    """
    replica_F = np.zeros(replicas, REPLICA)
    replica_F["era"] = 1
    if upkeep.scaler is not None:
        replica_F["status"][upkeep.scaler.initial :] = OFF
    fault_N = np.zeros(count if upkeep.varies else 0, FAULT)
    fault_N["again"] = NOBODY
    return dict(
        replica_F=replica_F,
        varies=upkeep.varies,
        retries=upkeep.on_failure == "retry",
        retry_after=upkeep.retry_after,
        fault_N=fault_N,
        strike_E=_strikes(upkeep.outages),
        **_scaler(upkeep.scaler),
    )


def _strikes(outages: tuple[Outage, ...]) -> Rows:
    """Return failures and recoveries in order of time, recoveries first at equal times (E,)."""
    rows = []
    for outage in outages:
        rows.append((outage.start, DRAIN if outage.drain else CRASH, outage.replica))
        if outage.end != FOREVER:
            rows.append((outage.end, RETURN, outage.replica))
    strike_E = np.zeros(len(rows), STRIKE)
    for e, (time, what, replica) in enumerate(sorted(rows)):
        strike_E[e] = (time, replica, what)
    return strike_E


def _scaler(scaler: Scaler | None) -> dict[str, Any]:
    """Return the initial state of an autoscaler, empty if there is none."""
    if scaler is None:
        return {"scaler_1": np.zeros(0, SCALER), "advice_AV": np.zeros((0, 2), np.int64)}
    scaler_1 = np.zeros(1, SCALER)
    for name in ("low", "queue_only", "period", "stable", "start_up", "target", "tolerance"):
        scaler_1[name] = getattr(scaler, name)
    scaler_1["due"] = scaler.period
    looks = -(-scaler.stable // scaler.period) + 1
    return {"scaler_1": scaler_1, "advice_AV": np.zeros((looks, 2), np.int64)}

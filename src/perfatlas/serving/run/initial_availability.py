"""Initial state of outages and autoscaling.

Shape legend: N requests, F replicas of all types, E failures and recoveries, A history of an
autoscaler, V its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.serving.config import FOREVER
from perfatlas.serving.engine import CRASH, DRAIN, RETURN
from perfatlas.serving.state import FAILURE_EVENT, FAULT, NO_INDEX, OFF, REPLICA, SCALER

if TYPE_CHECKING:
    from perfatlas.serving.config import Availability, Outage, Scaler
    from perfatlas.serving.state import Rows


def availability_state(availability: Availability, count: int, replicas: int) -> dict[str, Any]:
    """Return the state of outages and autoscaling, by field of `SimulationState`.

    Args:
        availability: Outages and autoscaling.
        count: Number of requests.
        replicas: Number of replicas of all types.
    """
    replica_F = np.zeros(replicas, REPLICA)
    replica_F["era"] = 1
    if availability.scaler is not None:
        replica_F["status"][availability.scaler.initial :] = OFF
    fault_N = np.zeros(count if availability.varies else 0, FAULT)
    fault_N["again"] = NO_INDEX
    return dict(
        replica_F=replica_F,
        varies=availability.varies,
        retries=availability.on_failure == "retry",
        retry_after=availability.retry_after,
        fault_N=fault_N,
        failure_E=_failure_events(availability.outages),
        **_scaler(availability.scaler),
    )


def _failure_events(outages: tuple[Outage, ...]) -> Rows:
    """Return failures and recoveries in order of time, recoveries first at equal times (E,)."""
    rows = []
    for outage in outages:
        rows.append((outage.start, DRAIN if outage.drain else CRASH, outage.replica))
        if outage.end != FOREVER:
            rows.append((outage.end, RETURN, outage.replica))
    failure_E = np.zeros(len(rows), FAILURE_EVENT)
    for e, (time, what, replica) in enumerate(sorted(rows)):
        failure_E[e] = (time, replica, what)
    return failure_E


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

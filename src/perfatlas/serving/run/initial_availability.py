"""Replicas and what changes them, before the first event.

Shape legend: N requests, F replicas of all kinds, E failures and returns, A looks of an autoscaler
that are remembered, V the columns of one.
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


def upkeep_state(upkeep: Upkeep, count: int, replicas: int) -> dict[str, Any]:
    """Return what holds and changes of replicas, by field of the world.

    Args:
        upkeep: What changes them.
        count: Requests.
        replicas: Of all kinds.
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
    """Return failures and returns in order of time (E,); returns come first at one instant."""
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
    """Return an autoscaler before its first look, empty where there is none."""
    if scaler is None:
        return {"scaler_1": np.zeros(0, SCALER), "advice_AV": np.zeros((0, 2), np.int64)}
    scaler_1 = np.zeros(1, SCALER)
    for name in ("low", "queue_only", "period", "stable", "start_up", "target", "tolerance"):
        scaler_1[name] = getattr(scaler, name)
    scaler_1["due"] = scaler.period
    looks = -(-scaler.stable // scaler.period) + 1
    return {"scaler_1": scaler_1, "advice_AV": np.zeros((looks, 2), np.int64)}

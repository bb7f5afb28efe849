"""Results of replicas that fail, start or stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import output_tokens_per_s_per_gpu, share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.deployments.engine_deployment import Deployment
    from perfatlas.serving.outcome import Outcome


def operation_results(
    pools: Sequence[Deployment], outcome: Outcome, found: Mapping[str, Any]
) -> dict[str, Any]:
    """Return results of replicas that fail, start or stop; empty if none does."""
    availability = pools[0].replicas.availability
    if not availability.varies:
        return {}
    allocated_s = int(outcome.operated.allocated_F.sum()) / TICKS_PER_SECOND
    last = max(
        outcome.finished_N.max(initial=0),
        outcome.arrival_N.max(initial=0),
        outcome.operated.allocated_F.max(initial=0),
    )
    ended_s = int(last) / TICKS_PER_SECOND
    results: dict[str, Any] = {"replica_time_s": allocated_s}
    if availability.scalers:
        each_F = np.repeat([pool.gpus for pool in pools], [pool.replicas.number for pool in pools])
        tokens = found["output_tokens_per_s"]
        used = int((outcome.operated.allocated_F * each_F).sum()) / TICKS_PER_SECOND
        results |= {
            "replicas_on_average": share(allocated_s, ended_s),
            "replicas_at_most": int(np.count_nonzero(outcome.operated.allocated_F)),
            "gpus": int(each_F.sum()),
            "output_tokens_per_s_per_gpu": output_tokens_per_s_per_gpu(
                tokens * found["makespan_s"] if tokens is not None and used else None, used
            ),
        }
    if availability.outages:
        if not availability.scalers:  # which leave replicas off on purpose
            whole_s = ended_s * outcome.operated.allocated_F.size
            results["replica_availability"] = share(allocated_s, whole_s)
        results |= {
            "requests_sent_again": int(np.count_nonzero(outcome.operated.again_N >= 0)),
            "requests_lost": int(np.count_nonzero(outcome.operated.lost_N)),
            "requests_unserved": int(np.count_nonzero(outcome.unserved())),
            "output_tokens_wasted": outcome.operated.wasted,
        }
    return results


def saturation_warning(results: Mapping[str, Any]) -> str:
    """Return a warning about a growing queue, and whether failures contribute to it."""
    there = results.get("replica_availability")
    if there is None or there >= 1.0:
        return (
            "the request rate exceeds the capacity: the queue grows until the last arrival, and"
            " latencies depend on the duration of the traffic"
        )
    return (
        f"the request rate exceeds the capacity of available replicas: the queue grows until the"
        f" last arrival, with replicas out of service for {1.0 - there:.0%} of the time; latencies"
        " depend on the outages and on the duration of the traffic"
    )


def requests_were(count: float) -> str:
    """Return "3 requests were"; means over seeds have one decimal."""
    if count == 1:
        return "1 request was"
    return f"{count:,.0f} requests were" if count == int(count) else f"{count:,.1f} requests were"

"""What failing, starting and stopping replicas came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import output_tokens_per_s_per_gpu, share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.deployments.engine_deployment import Deployment
    from perfatlas.serving.outcome import Outcome


def operated_results(
    ready: Deployment, outcome: Outcome, found: Mapping[str, Any]
) -> dict[str, Any]:
    """Return results of replicas that fail, start or stop; none where they do not.

    Args:
        ready: The deployment, the first of several kinds.
        outcome: What came of it.
        found: Its results so far.
    """
    upkeep = ready.replicas.upkeep
    if not upkeep.varies:
        return {}
    held_s = int(outcome.operated.held_F.sum()) / TICKS_PER_SECOND
    last = max(
        outcome.finished_N.max(initial=0),
        outcome.arrival_N.max(initial=0),
        outcome.operated.held_F.max(initial=0),
    )
    ended_s = int(last) / TICKS_PER_SECOND
    results: dict[str, Any] = {"replica_time_s": held_s}
    if upkeep.scaler is not None:
        each = int(ready.question.plan.ranks[0]) // int(ready.question.plan.dp[0])
        gpus = each * ready.replicas.number
        tokens = found["output_tokens_per_s"]
        used = held_s * each
        results |= {
            "replicas_on_average": share(held_s, ended_s),
            "replicas_at_most": int(np.count_nonzero(outcome.operated.held_F)),
            "gpus": gpus,
            "output_tokens_per_s_per_gpu": output_tokens_per_s_per_gpu(
                tokens * found["makespan_s"] if tokens is not None and used else None, used
            ),
        }
    else:
        results |= {
            "replica_availability": share(held_s, ended_s * outcome.operated.held_F.size),
            "requests_sent_again": int(np.count_nonzero(outcome.operated.again_N >= 0)),
            "requests_lost": int(np.count_nonzero(outcome.operated.lost_N)),
            "requests_unserved": int(np.count_nonzero(outcome.unserved())),
            "output_tokens_wasted": outcome.operated.wasted,
        }
    return results


def saturation_warning(results: Mapping[str, Any]) -> str:
    """Return what it means that the queue grows to the end, and whether failures are behind it.

    Args:
        results: Of a simulation that is saturated.
    """
    there = results.get("replica_availability")
    if there is None or there >= 1.0:
        return (
            "requests come faster than they are served: the queue grows to the last arrival, and"
            " latencies depend on how long the traffic lasts"
        )
    return (
        f"requests come faster than the replicas that are left serve them: the queue grows to the"
        f" last arrival, with replicas out for {1.0 - there:.0%} of their time; latencies depend on"
        " how long that and the traffic last"
    )


def operated_warnings(results: Mapping[str, Any]) -> list[str]:
    """Return what a reader should know of them.

    Args:
        results: Of a simulation.
    """
    said = []
    if results.get("requests_lost"):
        said.append(
            f"{requests_were(results['requests_lost'])} lost with replicas that failed;"
            " what is lost meets no objective and has no latency"
        )
    if results.get("requests_unserved"):
        said.append(
            f"{requests_were(results['requests_unserved'])} left to wait, as no replica serves any"
            " more; what waits meets no objective and has no latency"
        )
    return said


def requests_were(count: float) -> str:
    """Return "3 requests were", of a mean over seeds with a decimal.

    Args:
        count: How many.
    """
    if count == 1:
        return "1 request was"
    return f"{count:,.0f} requests were" if count == int(count) else f"{count:,.1f} requests were"

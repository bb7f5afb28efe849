"""Results and breakdown of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.reliability.jobs.model import COMPLETED, TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import gpu_hours, share, statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.reliability.jobs.model import Response
    from perfatlas.reliability.jobs.run import ScheduleOutcome
    from perfatlas.scenario.cluster_schedules import ScheduleFields

TAIL: Final = 0.1  # share of time after the last submission for a remark
BURST: Final = 0.01  # share of time: all jobs arrive at once, so that no remark is useful


def results_of(
    outcome: ScheduleOutcome, trace: Mapping[str, Any], load: float | None
) -> dict[str, Any]:
    """Return the results of a schedule.

    Args:
        trace: Rows read and ignored; empty for generated jobs.
        load: Requested GPU-time over capacity.
    """
    results = {
        "jobs": outcome.jobs.size - outcome.jobs.running,
        "nodes": outcome.cluster.nodes,
        "gpus": outcome.cluster.gpus,
        **figures(outcome),
        "load": load,
        "backfilled": outcome.counter("backfilled"),
        "failures": outcome.failures,
        "fragmented_share": outcome.fragmented,
        "stranded_share": outcome.stranded,
        "states": outcome.states,
        "classes": [row for row in outcome.by_kind() if row["jobs"]],
    }
    if trace:
        results["rows_read"] = trace["rows"]
        results["rows_ignored"] = sum(row["rows"] for row in trace["ignored"])
        results["trace"] = dict(trace)
    return results


def figures(outcome: ScheduleOutcome) -> dict[str, Any]:
    """Return the figures by which schedules are compared.

    `restarts` are restarts of the work of a job, in place or from the queue, after a failure, a
    preemption or to add a repaired node: each takes restart_s with any response. The count for
    max_restarts is internal to the launcher.

    Where nodes are in domains, `single_domain_share` is the share of started jobs that ran within
    one and `domains_per_job` their mean number.

    Of all GPU time, `productive_share` is the work of jobs that completed, `under_way_share` that
    of jobs still running, `unfinished_share` that of jobs that failed permanently, reached their
    time limit or were cancelled; lost work is in none of them.
    """
    shares, taken_J = outcome.shares(), outcome.taken_J
    lost = gpu_hours(float(outcome.column("lost_work")[taken_J].sum()) / TICKS_PER_SECOND)
    return {
        "completed": int((outcome.column("state")[taken_J] == COMPLETED).sum()),
        "duration_s": outcome.measured_ticks / TICKS_PER_SECOND,
        "allocated_share": outcome.utilisation,
        "productive_share": shares["productive"],
        "under_way_share": shares["under_way"],
        "unfinished_share": shares["unfinished"],
        "wait_s": statistics(outcome.waited_s_J[taken_J]),
        "wait_started_s": statistics(outcome.wait_s_J[taken_J]),
        "never_started": int(outcome.never_started_J[taken_J].sum()),
        "slowdown": statistics(outcome.slowdown_J[taken_J]),
        "restarts": int(outcome.column("restarts")[taken_J].sum()),
        "preemptions": int(outcome.column("preempted")[taken_J].sum()),
        "lost_gpu_hours": lost,
        **_locality(outcome),
    }


def _locality(outcome: ScheduleOutcome) -> dict[str, float | None]:
    """Return over how many domains jobs ran, nothing where the nodes are in none."""
    if outcome.cluster.nodes_per_domain is None and outcome.cluster.nodes_per_leaf is None:
        return {}
    domains_J = outcome.column("spread")[outcome.taken_J]
    domains_J = domains_J[domains_J > 0]  # of jobs that started
    return {
        "single_domain_share": share(int((domains_J == 1).sum()), domains_J.size),
        "domains_per_job": share(int(domains_J.sum()), domains_J.size),
    }


def compared_row(change: Mapping[str, Any], outcome: ScheduleOutcome) -> dict[str, Any]:
    """Return one schedule of a comparison.

    Args:
        change: Its changed fields.
    """
    name = ", ".join(f"{field} {value}" for field, value in change.items())
    return {"name": name, "changes": dict(change), **figures(outcome)}


def breakdown(outcome: ScheduleOutcome) -> list[dict[str, Any]]:
    """Return the breakdown of GPU-time: rows of name, share, gpu_hours; shares sum to 1."""
    ticks = outcome.gpu_ticks()
    shares = outcome.shares()
    return [
        {
            "name": name,
            "share": shares[name],
            "gpu_hours": gpu_hours(ticks[name] / TICKS_PER_SECOND),
        }
        for name in ticks
    ]


def assumptions(inputs: ScheduleFields, response: Response, *, failing: bool) -> list[str]:
    """Return the assumptions of a schedule other than on jobs and failures.

    Args:
        response: Response of a job to the loss of a node.
        failing: Whether there are failures.
    """
    notes = []
    if failing:
        notes.append(_response_text(inputs, response))
        if inputs.node_mtbf_s is not None:
            notes.append(
                "nodes fail independently with exponential lifetimes and return after repair_s;"
                " none fails under repair"
            )
        elif inputs.fleet is not None:
            notes.append(
                "every repair takes its mean; unlimited repair capacity; components do not age"
                " during repair"
            )
    notes.append(
        "all nodes are identical, GPUs are the only resource, a scheduling pass takes no time"
    )
    return notes


def _response_text(inputs: ScheduleFields, response: Response) -> str:
    if inputs.response == "drain":
        return (
            "response drain: a failing node accepts no new jobs and is repaired when its jobs end"
        )
    parts = [f"node failures are detected after {response.detection_s:g} s"]
    if response.most_restarts is not None:
        limit = _limit_text(response.kind, response.most_restarts)
        parts.append(f"{limit} (max_restarts {response.most_restarts})")
    if response.kind == "replace":
        patience = response.patience_s
        waits = "without limit" if patience is None else f"{patience:g} s"
        once = patience is not None and patience <= 1.0 / TICKS_PER_SECOND
        parts.append(
            "one attempt to find a replacement" if once else f"waits {waits} for a replacement"
        )
    if response.kind == "elastic" and response.most_restarts and response.patience_s is not None:
        parts.append(f"waits {response.patience_s:g} s for its minimum nodes")
    return f"response {inputs.response}: {', '.join(parts)}"


def _limit_text(kind: str, most: int) -> str:
    """Return the meaning of max_restarts, which differs by launcher."""
    if not most and kind in ("elastic", "restart"):
        return "a job fails permanently at the first node failure"
    if kind == "elastic":
        return f"at most {counted(most, 'failure')}, then it fails permanently"
    if not most:
        return "never requeued: it fails permanently instead"
    return f"requeued at most {counted(most, 'time')}, then it fails permanently"


def failed_jobs_remark(compared: Sequence[tuple[str, ScheduleOutcome]]) -> str:
    """Return a remark on compared schedules in which jobs fail, "" for none."""
    ended = {name: outcome.states.get("node_fail", 0) for name, outcome in compared}
    if len(set(ended.values())) < 2:
        return ""
    worst = max(ended, key=lambda name: ended[name])
    return (
        f"{worst} has {counted(ended[worst], 'permanently failed job')}, the best"
        f" {min(ended.values()):,}: failed jobs free their nodes for others, so compare completed"
        " jobs and useful work before waiting times"
    )


def drain_remark(outcome: ScheduleOutcome) -> str:
    """Return a remark on the time after the last submission, "" where it is short."""
    last = int(outcome.column("submit")[-1])
    after = outcome.now - last
    if last <= BURST * outcome.now or after <= TAIL * outcome.now:
        return ""
    return (
        f"{after / outcome.now:.0%} of the time is after the last submission, when the cluster"
        f" drains: set until_s = {last / TICKS_PER_SECOND:.0f} to exclude it"
    )

"""What became of jobs on a cluster, as the results and the breakdown of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.jobs.model import TICKS_PER_SECOND
from perfatlas.quantities import counted
from perfatlas.vocabulary.metrics import gpu_hours, statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.jobs.model import Response
    from perfatlas.jobs.run import ScheduleOutcome
    from perfatlas.verbs.schedule.question import Schedule

TAIL: Final = 0.1  # of the time, after the last submission
BURST: Final = 0.01  # of the time: all jobs come at once, and nothing else is to be seen


def results_of(
    outcome: ScheduleOutcome, trace: Mapping[str, Any], load: float | None
) -> dict[str, Any]:
    """Return the results of a schedule.

    Args:
        outcome: The schedule.
        trace: Rows read and left out; empty for generated jobs.
        load: GPU-time asked for over what there is.
    """
    results = {
        "jobs": outcome.jobs.size,
        "nodes": outcome.cluster.nodes,
        "gpus": outcome.cluster.gpus,
        **figures(outcome),
        "load": load,
        "backfilled": int(outcome.world.state_1["backfilled"][0]),
        "failures": int(outcome.world.state_1["failed"][0]),
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

    `restarts` are the times the work of a job began anew, in place or out of the queue, after a
    failure, a preemption or to take a repaired node in: each pays restart_s, whatever the response.
    What max_restarts counts is the launcher's affair and no result.

    Of all GPU time, `productive_share` is the work of jobs that completed, `under_way_share` that
    of jobs that had not ended, `unfinished_share` that of jobs that failed for good, were killed at
    their limit or cancelled for others; work that was lost is in none of them.

    Args:
        outcome: A schedule.
    """
    shares = outcome.shares()
    lost = gpu_hours(float(outcome.column("lost_work").sum()) / TICKS_PER_SECOND)
    return {
        "completed": outcome.states.get("completed", 0),
        "duration_s": outcome.now / TICKS_PER_SECOND,
        "allocated_share": outcome.utilisation,
        "productive_share": shares["productive"],
        "under_way_share": shares["under_way"],
        "unfinished_share": shares["unfinished"],
        "wait_s": statistics(outcome.waited_s_J),
        "wait_started_s": statistics(outcome.wait_s_J),
        "never_started": int(outcome.never_started_J.sum()),
        "slowdown": statistics(outcome.slowdown_J),
        "restarts": int(outcome.column("restarts").sum()),
        "preemptions": int(outcome.column("preempted").sum()),
        "lost_gpu_hours": lost,
    }


def compared_row(change: Mapping[str, Any], outcome: ScheduleOutcome) -> dict[str, Any]:
    """Return one schedule of a comparison.

    Args:
        change: What it changes.
        outcome: The schedule.
    """
    name = ", ".join(f"{field} {value}" for field, value in change.items())
    return {"name": name, "changes": dict(change), **figures(outcome)}


def breakdown(outcome: ScheduleOutcome) -> list[dict[str, Any]]:
    """Return where all GPU-time went: rows of name, share, gpu_hours; shares sum to 1.

    Args:
        outcome: A schedule.
    """
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


def assumptions(asked: Schedule, response: Response, *, failing: bool) -> list[str]:
    """Return what a schedule assumes beside its jobs and failures.

    Args:
        asked: The fields.
        response: What becomes of a job that loses a node.
        failing: Whether anything fails.
    """
    said = []
    if failing:
        said.append(_response_text(asked, response))
        if asked.node_mtbf_s is not None:
            said.append(
                "nodes fail without memory, one by one, and are back after repair_s; none fails"
                " while it is under repair"
            )
        elif asked.fleet is not None:
            said.append(
                "every repair takes its mean, crews never run out, lifetimes stand still while a"
                " node is under repair"
            )
    said.append(
        "all nodes are equal, GPUs are all that jobs share, a pass over the queue takes no time"
    )
    return said


def _response_text(asked: Schedule, response: Response) -> str:
    if asked.response == "drain":
        return "response drain: a failing node takes no new job and is repaired when its jobs end"
    parts = [f"a lost node is noticed after {response.detection_s:g} s"]
    if response.most_restarts is not None:
        limit = _limit_text(response.kind, response.most_restarts)
        parts.append(f"{limit} (max_restarts {response.most_restarts})")
    if response.kind == "replace":
        patience = response.patience_s
        waits = "for ever" if patience is None else f"{patience:g} s"
        once = patience is not None and patience <= 1.0 / TICKS_PER_SECOND
        parts.append("one look for another node" if once else f"waits {waits} for another node")
    if response.kind == "elastic" and response.most_restarts and response.patience_s is not None:
        parts.append(f"waits {response.patience_s:g} s for its fewest nodes")
    return f"response {asked.response}: {', '.join(parts)}"


def _limit_text(kind: str, most: int) -> str:
    """Return what max_restarts allows: each launcher counts something else."""
    if not most and kind in ("elastic", "restart"):
        return "a job ends for good with the first failure of a node"
    if kind == "elastic":
        return f"{counted(most, 'failure')} at most, then it has failed for good"
    if not most:
        return "never queued again: where it would be, it has failed for good"
    return f"queued again {counted(most, 'time')} at most, then it has failed for good"


def ends_for_good(compared: Sequence[tuple[str, ScheduleOutcome]]) -> str:
    """Return what a reader must know of compared schedules of which some end jobs, "" for nothing.

    Args:
        compared: Name and schedule of each.
    """
    ended = {name: outcome.states.get("node_fail", 0) for name, outcome in compared}
    if len(set(ended.values())) < 2:
        return ""
    worst = max(ended, key=lambda name: ended[name])
    return (
        f"{worst} ends {counted(ended[worst], 'job')} for good, the mildest"
        f" {min(ended.values()):,}: nodes of jobs that ended are free for others, so compare"
        " completed jobs and useful work before waits"
    )


def emptying(outcome: ScheduleOutcome) -> str:
    """Return what a reader must know of the time after the last submission, "" where it is short.

    Args:
        outcome: A schedule.
    """
    last = int(outcome.column("submit")[-1])
    after = outcome.now - last
    if last <= BURST * outcome.now or after <= TAIL * outcome.now:
        return ""
    return (
        f"{after / outcome.now:.0%} of the time lies after the last submission, when the cluster"
        f" empties: until_s = {last / TICKS_PER_SECOND:.0f} leaves it out"
    )

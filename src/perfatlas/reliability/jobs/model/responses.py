"""Responses of known launchers to the loss of a node, from their documentation or source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.reliability.jobs.model.model import Response
from perfatlas.reliability.jobs.model.records import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ONE_TRY_S: Final = 1.0 / TICKS_PER_SECOND  # a launcher that tries once does not wait


def slurm_requeue(*, slurmd_timeout_s: float = 300.0) -> Response:
    """Return Slurm's default: the whole allocation is killed and the job is requeued.

    Source: slurm.conf(5) and sbatch(1): JobRequeue is 1 by default, --no-requeue (`requeue_J`)
        exempts a job; SlurmdTimeout is 300 s; a requeued job has its submission reset. The node
        returns when its repair ends: with ReturnToService 0 an administrator does that.

    Limits: MaxBatchRequeue, after which Slurm holds a job until an administrator releases it, is
        not modelled: `most_restarts` ends a job instead.
    """
    return Response(kind="restart", detection_s=slurmd_timeout_s)


def slurm_no_kill(*, slurmd_timeout_s: float = 300.0) -> Response:
    """Return Slurm's --no-kill: the allocation continues without the node and never regrows.

    Source: sbatch(1), --no-kill. Steps on the node end; the batch script is assumed to relaunch the
        work on the remaining nodes from its last checkpoint.
    """
    return Response(kind="shrink", detection_s=slurmd_timeout_s)


def jobset(*, max_restarts: int = 0, detection_s: float = 350.0) -> Response:
    """Return JobSet's RestartJobSet: all child jobs are recreated and rescheduled.

    Args:
        max_restarts: failurePolicy.maxRestarts; 0 where a JobSet sets none: the first failure ends
            it.

    Source: jobset_types.go of kubernetes-sigs/jobset, v1alpha2: a failed job fails the JobSet
        without a policy; RestartJobSet where no rule matches, counted against maxRestarts; strategy
        Recreate. Kubernetes: node-monitor-grace-period, 50 s (40 s before v1.32), then the default
        toleration of not-ready and unreachable nodes, 300 s.
    """
    return Response(kind="restart", detection_s=detection_s, most_restarts=max_restarts)


def kueue_replacement(
    *,
    recovery_timeout_s: float | None = None,
    fail_fast: bool = True,
    detection_s: float = 350.0,
) -> Response:
    """Return Kueue's node replacement with topology-aware scheduling.

    Args:
        recovery_timeout_s: waitForPodsReady.recoveryTimeout [s], without `fail_fast`; None for no
            limit.
        fail_fast: Gate TASFailedNodeReplacementFailFast: one attempt to find a node, then eviction.
        detection_s: Time from the loss of a node until its pods terminate [s]: 50 s until it is not
            ready and 300 s of toleration. 80 s where TASReplaceNodeOnPodTermination is off: 50 s
            and 30 s of not being ready.

    Source: Kueue, topology-aware scheduling, hot swap: both gates are beta and on from v0.14; a
        single failed node is replaced, several evict the workload. waitForPodsReady requeues after
        60 s x 2^(n-1), at most 3600 s, without limit of retries (its jitter is not modelled).
        Assumption: an eviction by fail_fast has no such wait.

    Limits: the wait before a requeue applies to all evictions, also of several nodes.
    """
    if fail_fast:
        return Response(kind="replace", detection_s=detection_s, patience_s=ONE_TRY_S)
    return Response(
        kind="replace",
        detection_s=detection_s,
        patience_s=recovery_timeout_s,
        backoff_s=60.0,
        most_backoff_s=3600.0,
    )


def torchrun_elastic(
    *, max_restarts: int = 0, detection_s: float = 45.0, join_timeout_s: float = 600.0
) -> Response:
    """Return torchrun --nnodes=MIN:MAX: every membership change restarts all workers.

    MIN is `fewest_J` of a job, MAX its nodes.

    Args:
        detection_s: Time until the rendezvous has dropped the node and its last call has ended [s],
            where workers fail with the node; 630 where they hang until the collective times out.

    Source: torch 2.15.0 (PyPI): distributed/run.py, --max-restarts 0; elastic/rendezvous/
        dynamic_rendezvous.py, 3 missed heartbeats of 5 s, last call 30 s, join timeout 600 s;
        elastic/agent/server/api.py: a failed worker group counts as a restart, waiting nodes do
            not; a lost node has no effect until workers fail. NCCL's timeout of 10
        minutes: pytorch#110947.

    Limits: the node that hosts the rendezvous is not special here; agents are assumed to be started
        on every repaired node, also for a job that has lost all its nodes.
    """
    return Response(
        kind="elastic",
        detection_s=detection_s,
        patience_s=join_timeout_s,
        most_restarts=max_restarts,
    )


LAUNCHERS: Final[Mapping[str, Callable[[], Response]]] = {
    "slurm_requeue": slurm_requeue,
    "slurm_no_kill": slurm_no_kill,
    "jobset": jobset,
    "kueue": kueue_replacement,
    "torchrun": torchrun_elastic,
}
SOURCES: Final[Mapping[str, str]] = {
    "slurm_requeue": "slurm.conf(5), sbatch(1): JobRequeue 1, SlurmdTimeout 300 s",
    "slurm_no_kill": "sbatch(1), --no-kill; slurm.conf(5): SlurmdTimeout 300 s",
    "jobset": "kubernetes-sigs/jobset v1alpha2; Kubernetes: 50 s until a node is not ready, 300 s"
    " of toleration",
    "kueue": "Kueue v0.14, topology-aware scheduling, hot swap; Kubernetes: 50 s until a node is"
    " not ready, 300 s of toleration",
    "torchrun": "torch 2.15.0, distributed/elastic: 3 heartbeats of 5 s, last call 30 s, join"
    " timeout 600 s",
}

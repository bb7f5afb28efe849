"""What known launchers do with a job that loses a node, as their documentation or source says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.jobs.model.model import Response
from perfatlas.jobs.model.records import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ONE_TRY_S: Final = 1.0 / TICKS_PER_SECOND  # a launcher that looks once does not wait


def slurm_requeue(*, slurmd_timeout_s: float = 300.0) -> Response:
    """Return Slurm's default: the whole allocation is killed, the batch script starts again.

    Args:
        slurmd_timeout_s: SlurmdTimeout, after which a silent node is DOWN [s].

    Source: slurm.conf(5) and sbatch(1): JobRequeue is 1 by default, --no-requeue (`requeue_J`)
        excepts a job; SlurmdTimeout is 300 s; a requeued job has its submission reset. The node
        returns when its repair ends: ReturnToService 0 leaves that to an administrator.

    Limits: MaxBatchRequeue, after which Slurm holds a job until an administrator lets it go, is not
        applied: `most_restarts` ends a job instead.
    """
    return Response(kind="restart", detection_s=slurmd_timeout_s)


def slurm_no_kill(*, slurmd_timeout_s: float = 300.0) -> Response:
    """Return Slurm's --no-kill: the allocation goes on without the node and never regrows.

    Args:
        slurmd_timeout_s: SlurmdTimeout, after which a silent node is DOWN [s].

    Source: sbatch(1), --no-kill. Steps on the node end; the batch script is taken to launch the
        work again on the nodes left, from its last checkpoint.
    """
    return Response(kind="shrink", detection_s=slurmd_timeout_s)


def jobset(*, max_restarts: int = 0, detection_s: float = 350.0) -> Response:
    """Return JobSet's RestartJobSet: all child jobs are made anew and scheduled again.

    Args:
        max_restarts: failurePolicy.maxRestarts; 0 where a JobSet sets none: the first failure is
            its end.
        detection_s: From the loss of a node until its pods are evicted [s].

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
        recovery_timeout_s: waitForPodsReady.recoveryTimeout [s], without `fail_fast`; None waits
            for ever.
        fail_fast: Gate TASFailedNodeReplacementFailFast: one look for a node, then eviction.
        detection_s: From the loss of a node until its pods terminate [s]: 50 s until it is not
            ready and 300 s of toleration. 80 s where TASReplaceNodeOnPodTermination is off: 50 s
            and 30 s of not being ready.

    Source: Kueue, topology-aware scheduling, hot swap: both gates are beta and on from v0.14; one
        failed node is replaced alone, several evict the workload. waitForPodsReady requeues after
        60 s x 2^(n-1), at most 3600 s, without limit of retries (its jitter is left out). That an
        eviction by fail_fast has no such wait is an assumption.

    Limits: the wait before a return is of all evictions, also those of several nodes.
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
    """Return torchrun --nnodes=MIN:MAX: every change of members restarts all workers.

    MIN is `fewest_J` of a job, MAX its nodes.

    Args:
        max_restarts: --max-restarts, which counts failures; a node that joins is not counted.
        detection_s: Until the rendezvous has dropped the node and closed its last call [s], where
            workers fail with the node; 630 where they hang until the collective times out.
        join_timeout_s: How long fewer than MIN nodes wait for others [s].

    Source: torch 2.15.0 (PyPI): distributed/run.py, --max-restarts 0; elastic/rendezvous/
        dynamic_rendezvous.py, 3 missed heartbeats of 5 s, last call 30 s, join timeout 600 s;
        elastic/agent/server/api.py: a failed worker group costs a restart, waiting nodes restart it
        without; a lost node alone is not acted upon until workers fail. NCCL's timeout of 10
        minutes: pytorch#110947.

    Limits: the agent that hosts the rendezvous is no special node here; whoever starts agents
        starts one on a node that is back, also for a job that has lost all its nodes and waits.
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

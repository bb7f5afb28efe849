"""What known launchers do with a job that loses a node, as their documentation says."""

from __future__ import annotations

from perfatlas.jobs.model import Response


def slurm_requeue(*, slurmd_timeout_s: float = 300.0) -> Response:
    """Return Slurm's default: the whole allocation is killed, the batch script starts again.

    Args:
        slurmd_timeout_s: SlurmdTimeout, after which a silent node is DOWN [s].

    Source: slurm.conf(5) and sbatch(1): JobRequeue is 1 by default, --no-requeue (`requeue_J`)
        excepts a job; SlurmdTimeout is 300 s; a requeued job has its submission reset. The node
        returns when its repair ends: ReturnToService 0 leaves that to an administrator.
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


def jobset(*, max_restarts: int, detection_s: float = 350.0) -> Response:
    """Return JobSet's RestartJobSet: all child jobs are made anew and scheduled again.

    Args:
        max_restarts: failurePolicy.maxRestarts; 0 if a JobSet sets no policy.
        detection_s: From the loss of a node until its pods are evicted [s].

    Source: jobset.x-k8s.io/v1alpha2, FailurePolicy: RestartJobSet where no rule matches, counted
        against maxRestarts. Kubernetes: node-monitor-grace-period 50 s, then the default toleration
        of not-ready nodes, 300 s.
    """
    return Response(kind="restart", detection_s=detection_s, most_restarts=max_restarts)


def kueue_replacement(*, recovery_timeout_s: float | None = None) -> Response:
    """Return Kueue's node replacement with topology-aware scheduling.

    Args:
        recovery_timeout_s: waitForPodsReady.recoveryTimeout [s]; None waits for ever.

    Source: Kueue, topology-aware scheduling, node hot swap: a node not Ready for 30 s is replaced
        alone, several failed nodes evict the workload; waitForPodsReady requeues after
        60 s x 2^(n-1), at most 3600 s, without limit of retries (its jitter is left out).

    Limits: from v0.19 on pods that keep running delay the replacement; here they are dead with
        their node.
    """
    return Response(
        kind="replace",
        detection_s=30.0,
        patience_s=recovery_timeout_s,
        backoff_s=60.0,
        most_backoff_s=3600.0,
    )


def torchrun_elastic(
    *, max_restarts: int, detection_s: float = 45.0, join_timeout_s: float = 600.0
) -> Response:
    """Return torchrun --nnodes=MIN:MAX: every change of members restarts all workers.

    MIN is `fewest_J` of a job, MAX its nodes.

    Args:
        max_restarts: --max-restarts, which counts failures and changes of members alike.
        detection_s: Until the rendezvous has lost the node and closed its last call [s]; 1800 where
            workers hang until the collective times out.
        join_timeout_s: How long fewer than MIN nodes wait for others [s].

    Source: PyTorch, Torch Distributed Elastic: quickstart (restarts), rendezvous (3 missed
        heartbeats of 5 s, last call 30 s, join timeout 600 s).

    Limits: the agent that hosts the rendezvous is no special node here; a node that two elastic
        jobs shared returns to one of them.
    """
    return Response(
        kind="elastic",
        detection_s=detection_s,
        patience_s=join_timeout_s,
        most_restarts=max_restarts,
    )

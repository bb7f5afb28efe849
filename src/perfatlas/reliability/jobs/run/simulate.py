"""Simulation of jobs on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.jobs.model import pack, ticks
from perfatlas.reliability.jobs.run.outcome import ScheduleOutcome

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.model import Cluster, Failures, Jobs, Policy

STEPS: Final = 4_096  # steps per compiled call; Ctrl-C works between calls
SLOW_STEPS: Final = 64  # where each step makes many reservations


def schedule(
    jobs: Jobs,
    cluster: Cluster,
    policy: Policy,
    *,
    failures: Failures | None = None,
    until_s: float | None = None,
) -> ScheduleOutcome:
    """Return the simulated schedule of jobs that share a cluster.

    Args:
        jobs: Jobs in the order of submission.
        failures: Node failures; None for none.
        until_s: End of the simulation [s]; None runs until no event is left. Ctrl-C ends it early,
            which the result states.

    Raises:
        InfeasibleError: A job can never run on the cluster; names its row.
        InvalidSpecError: A number outside its range, an unknown name, rows out of order.

    Limits: all nodes are identical; GPUs are the only resource; a scheduling pass takes no time and
        runs after every change.

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.jobs.model.model import Cluster, Jobs, Policy, ticks
        >>> from perfatlas.reliability.jobs.run import schedule
        >>> jobs = Jobs(submit_J=ticks([0, 1, 2]), run_J=ticks([100, 50, 10]),
        ...     gpus_J=np.array([8, 16, 8])).with_limits(1.0, least_s=1)
        >>> fifo = schedule(jobs, Cluster(nodes=2), Policy())
        >>> easy = schedule(jobs, Cluster(nodes=2), Policy(backfill="easy"))
        >>> fifo.wait_s_J.tolist(), easy.wait_s_J.tolist()
        ([0.0, 99.0, 148.0], [0.0, 99.0, 0.0])
    """
    from perfatlas.compiled import hold
    from perfatlas.reliability.jobs.scheduler import run_world

    until = None if until_s is None else int(ticks(until_s))
    sim = pack(jobs, cluster, policy, failures, until)
    steps = SLOW_STEPS if policy.backfill == "conservative" else STEPS
    interrupted, held = False, hold(sim)
    try:
        while not run_world(held, steps):
            pass
    except KeyboardInterrupt:
        state = sim.state_1[0]
        if not state["steps"]:
            raise  # discard the partial result
        interrupted = True
        sim.plan_1["until"] = state["now"]
        while not run_world(held, STEPS):
            pass
    now = int(sim.state_1["now"][0])
    if cluster.gpus * now >= 2**63:
        raise InvalidSpecError(
            f"{cluster.gpus} GPUs for {now} ticks of a millisecond exceed the range of the counters"
        )
    return ScheduleOutcome(jobs, cluster, sim, interrupted=interrupted)

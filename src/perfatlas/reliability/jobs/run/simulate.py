"""Simulation of jobs on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.jobs.model import RUNNING, TICKS_PER_SECOND, pack, ticks
from perfatlas.reliability.jobs.run.outcome import ClusterCourse, ScheduleOutcome
from perfatlas.sampling import MIN_OBSERVATIONS, SETTLED, warm_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.reliability.jobs.model import Cluster, Failures, Jobs, Policy, ScheduleState

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

STEPS: Final = 4_096  # steps per compiled call; Ctrl-C works between calls
SLOW_STEPS: Final = 64  # where each step makes many reservations


def schedule(
    jobs: Jobs,
    cluster: Cluster,
    policy: Policy,
    *,
    failures: Failures | None = None,
    until_s: float | None = None,
    watched: bool = False,
) -> ScheduleOutcome:
    """Return the simulated schedule of jobs that share a cluster.

    Args:
        jobs: Jobs in the order of submission.
        until_s: End of the simulation [s]; None runs until no event is left. Ctrl-C ends it early,
            which the result states.
        watched: Whether the result has its GPU-time from event to event.

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
    interrupted, handle = False, hold(sim)
    seen = [_seen(sim)]
    try:
        while not run_world(handle, 1 if watched else steps):
            if watched:
                seen.append(_seen(sim))
    except KeyboardInterrupt:
        state = sim.state_1[0]
        if not state["steps"]:
            raise  # discard the partial result
        interrupted = True
        sim.plan_1["until"] = state["now"]
        while not run_world(handle, STEPS):
            pass
    now = int(sim.state_1["now"][0])
    if cluster.gpus * now >= 2**63:
        raise InvalidSpecError(
            f"{cluster.gpus} GPUs for {now} ticks of a millisecond exceed the range of the counters"
        )
    course = _course(seen, now) if watched else None
    held_X = None if failures is None else failures.held_X
    return ScheduleOutcome(
        jobs, cluster, sim, interrupted=interrupted, course=course, held_X=held_X
    )


def _seen(sim: ScheduleState) -> tuple[int, int, Ints, Ints]:
    """Return the time, GPUs under repair, and GPUs of working jobs with the start of their work."""
    state = sim.state_1[0]
    run_R = sim.job_J[sim.run_R[: state["runs"]]]
    run_R = run_R[run_R["state"] == RUNNING]
    return int(state["now"]), int(state["down"]), run_R["allocated"] * run_R["gpus"], run_R["since"]


def _course(seen: Sequence[tuple[int, int, Ints, Ints]], now: int) -> ClusterCourse:
    """Return the GPU-time from event to event, of which work may start between two."""
    edge_E = np.array([*(time for time, *_ in seen), now])
    working_E = [
        float((gpus_R * np.maximum(end - np.maximum(since_R, start), 0)).sum())
        for (start, _, gpus_R, since_R), end in zip(seen, edge_E[1:], strict=True)
    ]
    down_E = np.array([down for _, down, *_ in seen]) * np.diff(edge_E)
    return ClusterCourse(
        edge_E / TICKS_PER_SECOND, np.array(working_E) / TICKS_PER_SECOND, down_E / TICKS_PER_SECOND
    )


POINTS: Final = 100  # times at which waiting work is averaged


def waiting_growth(outcome: ScheduleOutcome) -> float:
    """Return the growth of the work of jobs that wait, over the time of all GPUs.

    It is the difference of the means over the second and the last third of the submissions.
    """
    submit_J, start_J = outcome.column("submit"), outcome.column("started")
    work_J = outcome.jobs.gpu_work()
    end = float(submit_J[-1])
    if not end:
        return 0.0
    times = np.linspace(end / 3.0, end, 2 * POINTS)
    waiting = _sum_until(submit_J, work_J, times) - _sum_until(start_J, work_J, times)
    rise = float(waiting[POINTS:].mean() - waiting[:POINTS].mean())
    return rise / (outcome.cluster.gpus * end / 3.0)


def measured_jobs(outcome: ScheduleOutcome) -> tuple[int, int, bool]:
    """Return the first and the last job that are measured, and whether the warm-up has ended.

    The warm-up is that of waiting and of the GPUs in use at submissions, whichever is longer.
    """
    submit_J, wait_s_J = outcome.column("submit"), outcome.waited_s_J
    count = int(np.count_nonzero(np.isfinite(wait_s_J)))
    begin = outcome.jobs.running
    if count - begin < 2 * MIN_OBSERVATIONS:
        return begin, count, False
    gpus_J = np.asarray(outcome.jobs.gpus_J, np.float64)
    in_use_J = _sum_until(outcome.column("started"), gpus_J, submit_J)
    in_use_J -= _sum_until(outcome.column("ended"), gpus_J, submit_J)
    first = begin + max(warm_up(wait_s_J[begin:count]), warm_up(in_use_J[begin:count]))
    took_s_J = wait_s_J[:count] + outcome.column("run")[:count] / TICKS_PER_SECOND
    rest = float(np.percentile(took_s_J, 99)) * TICKS_PER_SECOND
    last = int(np.searchsorted(submit_J, outcome.now - rest))
    if last - first < MIN_OBSERVATIONS:
        return first, count, False
    return first, last, first - begin < SETTLED * (count - begin)


def _sum_until(at_J: Ints, value_J: Floats, times: Ints | Floats) -> Floats:
    """Return the sum of the values of events up to each time; those at -1 never happen."""
    order = np.argsort(at_J, kind="stable")
    order = order[at_J[order] >= 0]
    total: Floats = np.concatenate(([0.0], np.cumsum(value_J[order])))
    return total[np.searchsorted(at_J[order], times, side="right")]

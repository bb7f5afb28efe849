"""Results of a schedule: jobs and GPU-hours.

Shape legend: J jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.quantities import counted
from perfatlas.reliability.jobs.model import BUCKETS, COMPLETED, STATES, TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import gpu_hours, statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.reliability.jobs.model import Cluster, Jobs, ScheduleState

    Float = NDArray[np.float64]
    Ints = NDArray[np.int64]

MIN_S: Final = 10.0  # shortest run time in a slowdown


class ClusterCourse(NamedTuple):
    """GPU-time of a schedule from event to event (E intervals)."""

    edge_s: Float  # Times of the events, from 0 to the end (E + 1,) [s]
    working_E: Float  # GPU-seconds of jobs that work, not restart or wait (E,)
    down_E: Float  # GPU-seconds of nodes under repair or held out of service (E,)


@dataclass(frozen=True)
class ScheduleOutcome:
    """A simulated schedule."""

    jobs: Jobs
    cluster: Cluster
    sim: ScheduleState  # Final state of the compiled code
    interrupted: bool = False  # Whether Ctrl-C ended it early
    # The same schedule at the end of its warm-up: GPU-time and counters are those after it. None to
    # measure all of it.
    before: ScheduleOutcome | None = None
    # Jobs whose waiting and slowdown are measured (J,), None for all
    measured_J: NDArray[np.bool_] | None = None
    course: ClusterCourse | None = None  # GPU-time over time, where it was watched
    held_X: NDArray[np.bool_] | None = None  # Which failures are nodes that caps hold out (X,)

    def column(self, name: str) -> Ints:
        """Return a field of all jobs (J,): ticks, counts or codes as in `state.JOB`."""
        return np.asarray(self.sim.job_J[name], np.int64)

    @property
    def now(self) -> int:
        """Ticks from 0 to the end of the schedule."""
        return int(self.sim.state_1["now"][0])

    @property
    def measured_ticks(self) -> int:
        """Ticks from the end of the warm-up to the end of the schedule."""
        return self.now - (self.before.now if self.before else 0)

    @property
    def taken_J(self) -> NDArray[np.bool_]:  # noqa: N802 - shape letters
        """Which jobs are measured (J,)."""
        return np.ones(self.jobs.size, np.bool_) if self.measured_J is None else self.measured_J

    def measuring(self, first: int, last: int, before: ScheduleOutcome | None) -> ScheduleOutcome:
        """Return the same schedule, of which a part is measured.

        Args:
            first: First job whose waiting and slowdown are measured.
            last: First one after it that is not.
            before: The schedule at the end of the warm-up.
        """
        job_J = np.arange(self.jobs.size)
        measured_J = (job_J >= first) & (job_J < last)
        return replace(self, before=before, measured_J=measured_J)

    def counter(self, name: str) -> int:
        """Return a counter of the schedule, after the warm-up."""
        earlier = self.before.counter(name) if self.before else 0
        return int(self.sim.state_1[name][0]) - earlier

    @cached_property
    def held(self) -> tuple[Ints, Ints, Ints]:
        """Starts and ends [ticks] and GPUs of the nodes that caps held out of service so far."""
        applied = int(self.sim.state_1["failed"][0])
        held_X = np.zeros(applied, np.bool_) if self.held_X is None else self.held_X[:applied]
        row_X = self.sim.failure_X[:applied][held_X]
        end_X = np.where(row_X["repair"] < 0, self.now, row_X["time"] + row_X["repair"])
        gpus_X = row_X["width"] * self.cluster.gpus_per_node
        return row_X["time"], np.minimum(end_X, self.now), gpus_X

    @property
    def failures(self) -> int:
        """Failures of nodes, after the warm-up."""
        failed = int(self.sim.state_1["failed"][0]) - self.held[0].size
        return failed - (self.before.failures if self.before else 0)

    @cached_property
    def states(self) -> dict[str, int]:
        """Number of jobs by final state; only states that occur."""
        counts = np.bincount(self.column("state"), minlength=len(STATES)).tolist()
        return {name: n for name, n in zip(STATES, counts, strict=True) if n}

    @cached_property
    def wait_s_J(self) -> Float:  # noqa: N802 - shape letters
        """Time from submission to the first start [s] (J,); NaN for jobs that never started."""
        started_J = self.column("started")
        wait_J = (started_J - self.column("submit")) / TICKS_PER_SECOND
        return np.where(started_J < 0, np.nan, wait_J)

    @cached_property
    def waited_s_J(self) -> Float:  # noqa: N802 - shape letters
        """Time from submission to the first start, or until now [s] (J,).

        The waiting time of a job that never started is a lower bound. NaN for jobs not submitted
        yet.
        """
        submit_J, ended_J = self.column("submit"), self.column("ended")
        until_J = np.where(ended_J < 0, self.now, ended_J)
        so_far_J = np.where(until_J < submit_J, np.nan, (until_J - submit_J) / TICKS_PER_SECOND)
        return np.where(np.isnan(self.wait_s_J), so_far_J, self.wait_s_J)

    @cached_property
    def never_started_J(self) -> NDArray[np.bool_]:  # noqa: N802 - shape letters
        """Which submitted jobs never started (J,)."""
        return np.isnan(self.wait_s_J) & ~np.isnan(self.waited_s_J)

    @cached_property
    def slowdown_J(self) -> Float:  # noqa: N802 - shape letters
        """Bounded slowdown of completed jobs (J,), NaN of others.

        Source: Feitelson et al., JSSPP 1997: time from submission to end over run time, which
            counts as at least 10 s; never below 1.
        """
        took_J = (self.column("ended") - self.column("submit")) / TICKS_PER_SECOND
        run_s_J = np.maximum(self.column("run") / TICKS_PER_SECOND, MIN_S)
        done_J = self.column("state") == COMPLETED
        return np.where(done_J, np.maximum(took_J / run_s_J, 1.0), np.nan)

    @cached_property
    def work_done_J(self) -> Ints:  # noqa: N802 - shape letters
        """Completed and not lost work of every job [GPU-ticks] (J,)."""
        left_J, nodes_J = self.column("work"), self.column("nodes")
        return (self.column("run") * nodes_J - left_J) * self.column("gpus")

    def gpu_ticks(self) -> dict[str, int]:
        """Return the GPU-ticks of each bucket; they add up exactly to GPUs times ticks.

        Work that was not lost is `productive` in completed jobs, `under_way` in running ones, and
        `unfinished` in those that failed permanently, reached their time limit or were cancelled.
        """
        buckets = dict(zip(BUCKETS, self.sim.state_1["bucket"][0].tolist(), strict=True))
        if self.held_X is not None:
            start_X, end_X, gpus_X = self.held
            buckets["held"] = int(((end_X - start_X) * gpus_X).sum())
            buckets["down"] -= buckets["held"]
        state_J = self.column("state")
        under_way = int(self.work_done_J[state_J < COMPLETED].sum())
        unfinished = int(self.work_done_J[state_J > COMPLETED].sum())
        useful = buckets.pop("productive") - under_way - unfinished
        ticks = {"productive": useful, "unfinished": unfinished, **buckets, "under_way": under_way}
        if self.before is None:
            return ticks
        # in a stream, jobs under way replace one another: all work that is not lost is useful
        earlier = self.before.gpu_ticks()
        later = {name: value - earlier[name] for name, value in ticks.items()}
        return later | {"productive": later["productive"] + later["under_way"], "under_way": 0}

    def shares(self) -> dict[str, float]:
        """Return the share of all GPU-time in each bucket; zeros where no time passed."""
        total = self.cluster.gpus * self.measured_ticks
        return {name: value / total if total else 0.0 for name, value in self.gpu_ticks().items()}

    @property
    def utilisation(self) -> float:
        """Share of all GPU-time allocated to jobs."""
        idle = ("draining", "down", "held", "idle_jobs_queued", "idle_no_jobs")
        return sum(value for name, value in self.shares().items() if name not in idle)

    @property
    def stranded(self) -> float:
        """Share of all GPU-time idle on partly used nodes."""
        return self._share("stranded_ticks")

    @property
    def fragmented(self) -> float:
        """Share of all GPU-time lost to fragmentation: idle though enough for the next job."""
        return self._share("split_ticks")

    def _share(self, name: str) -> float:
        total = self.cluster.gpus * self.measured_ticks
        return self.counter(name) / total if total else 0.0

    def by_kind(self) -> list[dict[str, Any]]:
        """Return one row per class of jobs: counts, waiting, slowdown, lost GPU-hours.

        Restarts of the work, in place or from the queue, follow a failure, a preemption or a
        repair; each takes the job's restart time.
        """
        kind_J = self.jobs.kind_J
        code_J = np.zeros(self.jobs.size, np.int64) if kind_J is None else np.asarray(kind_J)
        rows = []
        for code, name in enumerate(self.jobs.kinds):
            of_J = (code_J == code) & self.taken_J
            lost = int(self.column("lost_work")[of_J].sum())
            rows.append(
                {
                    "kind": name,
                    "jobs": int(of_J.sum()),
                    "completed": int((of_J & (self.column("state") == COMPLETED)).sum()),
                    "wait_s": statistics(self.waited_s_J[of_J]),
                    "never_started": int(self.never_started_J[of_J].sum()),
                    "slowdown": statistics(self.slowdown_J[of_J]),
                    "restarts": int(self.column("restarts")[of_J].sum()),
                    "preemptions": int(self.column("preempted")[of_J].sum()),
                    "lost_gpu_hours": gpu_hours(lost / TICKS_PER_SECOND),
                }
            )
        return rows

    def per_job(self) -> dict[str, list[Any]]:
        """Return the results of every job, as columns: times [s] from the first submission.

        `attempts` are starts from the queue, `restarts` those of the work, including in place;
        `work_gpu_hours` is work done and not lost, of useful jobs or others.
        """
        jobs = self.jobs

        def seconds(name: str, *, missing: bool = False) -> list[float | None]:
            value_J = self.column(name)
            seconds_J = (value_J / TICKS_PER_SECOND).tolist()
            return [
                None if missing and n < 0 else s for n, s in zip(value_J, seconds_J, strict=True)
            ]

        def texts(code_J: Ints | None, names: Sequence[str]) -> list[str]:
            if code_J is None:
                return [names[0]] * jobs.size
            return [names[code] for code in np.asarray(code_J).tolist()]

        lost_J = self.column("lost_work") / TICKS_PER_SECOND
        return {
            "row": [jobs.row(j) for j in range(jobs.size)],
            "submit_s": seconds("submit"),
            "start_s": seconds("started", missing=True),
            "end_s": seconds("ended", missing=True),
            "wait_s": [None if np.isnan(wait) else wait for wait in self.wait_s_J.tolist()],
            "queued_s": seconds("waited"),
            "run_s": seconds("run"),
            "gpus": np.asarray(jobs.gpus_J).tolist(),
            "nodes": self.column("nodes").tolist(),
            "domains": self.column("spread").tolist(),
            "user": texts(jobs.user_J, jobs.users),
            "kind": texts(jobs.kind_J, jobs.kinds),
            "state": texts(self.column("state"), STATES),
            "attempts": self.column("attempts").tolist(),
            "restarts": self.column("restarts").tolist(),
            "preemptions": self.column("preempted").tolist(),
            "work_gpu_hours": gpu_hours(self.work_done_J / TICKS_PER_SECOND).tolist(),
            "lost_gpu_hours": gpu_hours(lost_J).tolist(),
        }

    def remarks(self) -> list[str]:
        """Return the remarks on the results."""
        notes = []
        unseen = int(self.sim.state_1["unseen"][0])
        if unseen:
            notes.append(f"failures or drains of nodes that were already down: {unseen:,}")
        never = int(self.never_started_J[self.taken_J].sum())
        if never:
            notes.append(
                f"{never:,} of {counted(self.jobs.size, 'job')} never started: mean and"
                " percentiles of waiting include their waiting so far and are lower bounds"
                " (wait_started_s excludes them)"
            )
        unended = sum(self.states.get(name, 0) for name in STATES[:6])
        if unended and self.measured_J is None:  # a stream never ends
            notes.append(
                f"{unended:,} of {counted(self.jobs.size, 'job')} had not ended when the"
                " simulation stopped"
            )
        return notes

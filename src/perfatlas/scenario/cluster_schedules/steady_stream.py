"""The steady state of a stream of generated jobs: its length, its warm-up and its stability."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas.quantities import HOUR_S, counted
from perfatlas.reliability.jobs.model import TICKS_PER_SECOND
from perfatlas.reliability.jobs.run import measured_jobs, waiting_growth
from perfatlas.sampling import batch_precision, stability_of
from perfatlas.scenario.cluster_schedules.prepared_schedule import Prepared, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.reliability.jobs.run import ScheduleOutcome
    from perfatlas.sampling import Stability
    from perfatlas.scenario.cluster_schedules.schedule_fields import ScheduleFields

FIRST: Final = 5_000  # jobs of the first schedule
MAX_JOBS: Final = 160_000  # jobs of the longest one
MAX_JOBS_WITH_RESERVATIONS: Final = 20_000  # where each pass makes many reservations
PRECISION: Final = 0.1  # half-width of the mean wait over the mean wait
OF_RUN: Final = 0.01  # or over the mean run time, of short waits
GROWTH: Final = (2.0, 8.0)  # least and largest factor from one schedule to the next
MARGIN: Final = 1.2  # safety factor on the estimated number of jobs
SATURATED: Final = (0.1, 0.6)  # of the time of all work on all GPUs: the queue is never empty
LONG_RUN: Final = 99.0  # percentile of the run times that the saturated window is measured in
TURNOVERS: Final = 5.0  # long runs that the saturated window holds
MIN_BACKLOG_GROWTH: Final = 0.5  # growth of waiting work / excess of the load over the capacity
UNFILLED: Final = 0.15  # share of GPU time idle without a waiting job, above that of the load
UNSETTLED: Final = 0.05  # likewise, of a stream that begins with the jobs of its steady state


@dataclass(frozen=True, kw_only=True)
class JobStream:
    """A stream of jobs that is long enough for its mean wait."""

    inputs: ScheduleFields  # The fields, with the number of jobs
    first: int  # Jobs before it are warm-up
    last: int  # Jobs from it on may not have ended
    precise: bool  # Whether the mean wait is as precise as it should be
    half_width_s: float  # Half-width of the 90% confidence interval of the mean wait [s]
    load: float  # Requested GPU-time over that of the cluster
    capacity: float  # Largest load that the cluster sustains under the policy
    grows: bool  # Whether the load exceeds it and the waiting work of the stream grows

    @property
    def share(self) -> float:
        """Load over capacity."""
        return self.load / self.capacity

    @property
    def stability(self) -> Stability | Literal["undecided"]:
        """Whether the queue has a steady state."""
        found = stability_of(self.share)
        return "undecided" if found == "overloaded" and not self.grows else found

    def measured(self, run: Prepared, outcome: ScheduleOutcome) -> ScheduleOutcome:
        """Return a schedule of which the part after the warm-up is measured."""
        cut_s = float(outcome.column("submit")[self.first]) / TICKS_PER_SECOND
        early = replace(run, inputs=run.inputs.changed(until_s=cut_s))
        before = early.run(outcome.now / TICKS_PER_SECOND) if cut_s else None
        return outcome.measuring(self.first, self.last, before)

    def all_measured(
        self, runs: Sequence[Prepared], outcomes: Sequence[ScheduleOutcome]
    ) -> list[ScheduleOutcome]:
        """Return schedules of which the part after the warm-up is measured.

        Args:
            outcomes: The schedules, fewer after an interruption.
        """
        return [self.measured(run, outcome) for run, outcome in zip(runs, outcomes, strict=False)]

    def results(self) -> dict[str, Any]:
        """Return load, capacity, stability, warm-up and precision, named as in the vocabulary."""
        return {
            "sustainable_load": self.capacity,
            "offered_load": self.share,
            "stability": self.stability,
            "warm_up_jobs": self.first,
            "measured_jobs": self.last - self.first,
            # an overloaded stream has no steady mean whose precision could be reached
            "precision_reached": self.precise and self.stability != "overloaded",
            "wait_s_half_width": self.half_width_s if math.isfinite(self.half_width_s) else None,
        }

    def note(self, submitted: int) -> str:
        """Return which jobs are measured, as a sentence."""
        return (
            f"steady state: the first {self.first:,} jobs are left out as warm-up (MSER-5, of"
            f" waiting and of the GPUs in use), and the last {submitted - self.last:,}, which may"
            " not have ended; GPU time is counted after the warm-up"
        )

    def warnings(self) -> list[str]:
        """Return warnings about stability and precision."""
        notes = []
        limit = f"the largest load that the cluster sustains, {self.capacity:.0%}"
        if self.stability == "near capacity":
            notes.append(
                f"load {self.load:.0%} is within 3% of {limit}: waiting depends on how long the"
                " stream lasts"
            )
        if self.stability == "undecided":
            notes.append(
                f"undecided: load {self.load:.0%} exceeds {limit}, but the waiting work of"
                f" {self.inputs.num_jobs:,} jobs, the most that are generated by default, does not"
                " grow; set num_jobs to simulate more"
            )
        if self.stability == "overloaded":
            notes.append(
                f"overloaded: load {self.load:.0%} exceeds {limit}; the queue grows without bound,"
                " and waiting and slowdown have no steady mean"
            )
        elif not self.precise:
            notes.append(
                f"the mean wait is known to ± {self.half_width_s:.3g} s (90%) only, with"
                f" {self.inputs.num_jobs:,} jobs, the most that are generated by default; set"
                " num_jobs"
            )
        return notes


def is_stream(inputs: ScheduleFields) -> bool:
    """Return whether jobs are generated without end."""
    return inputs.jobs is None and inputs.num_jobs is None


def sized_stream(inputs: ScheduleFields) -> JobStream | None:
    """Return a stream of as many jobs as the precision of the mean wait needs.

    Args:
        inputs: The fields, without the number of jobs.

    Returns:
        None if it was stopped.
    """
    longest = MAX_JOBS_WITH_RESERVATIONS if inputs.backfill == "conservative" else MAX_JOBS
    count, capacity = _first_count(inputs, longest), None
    while True:
        run = prepare(inputs.changed(num_jobs=count), None, stream=True)
        load = run.jobs.offered_load(run.cluster, stream=True) or 0.0
        if capacity is None or load > capacity:
            capacity = _sustainable_load(run)
        outcome = run.run(_horizon_s(run))
        if capacity is None or outcome.interrupted:
            return None
        stream, excess = _measured_stream(inputs, outcome, load, capacity)
        if (stream.precise and stream.stability != "undecided") or count >= longest:
            return stream
        least, most = GROWTH
        factor = excess**2 * MARGIN if math.isfinite(excess) else most
        count = min(math.ceil(count * min(max(factor, least), most)), longest)


def _first_count(inputs: ScheduleFields, longest: int) -> int:
    """Return the jobs of the first schedule: their saturated window holds several long runs."""
    run = prepare(inputs.changed(num_jobs=FIRST), None)
    window = (SATURATED[1] - SATURATED[0]) * float(run.jobs.gpu_work().sum()) / run.cluster.gpus
    turnovers = window / run.jobs.run_percentile(LONG_RUN)
    return min(math.ceil(FIRST * max(TURNOVERS / turnovers, 1.0)), longest)


def _measured_stream(
    inputs: ScheduleFields, outcome: ScheduleOutcome, load: float, capacity: float
) -> tuple[JobStream, float]:
    """Return a stream and the half-width of its mean wait over what it may be."""
    first, last, settled = measured_jobs(outcome)
    above = load - capacity
    grows = above > 0.0 and waiting_growth(outcome) > MIN_BACKLOG_GROWTH * above
    wait = batch_precision(outcome.waited_s_J[first:last])
    run_s = float(outcome.column("run").mean()) / TICKS_PER_SECOND
    allowed_s = max(PRECISION * wait.value, OF_RUN * run_s)
    excess = 1.0 if grows else wait.half_width / allowed_s
    stream = JobStream(
        inputs=inputs.changed(num_jobs=outcome.jobs.size - outcome.jobs.running),
        first=first,
        last=last,
        precise=excess <= 1.0 and (settled or grows),
        half_width_s=wait.half_width,
        load=load,
        capacity=capacity,
        grows=grows,
    )
    return stream, excess


def _horizon_s(run: Prepared) -> float:
    """Return the time for which failures are drawn [s]: until the last submission."""
    return run.inputs.until_s or float(run.jobs.submit_J[-1]) / TICKS_PER_SECOND


def _sustainable_load(run: Prepared) -> float | None:
    """Return the share of GPU-time that does useful work while the queue is never empty.

    Returns:
        None if it was stopped.
    """
    at_once = run.jobs.arriving_at_once()
    work_s = float(at_once.gpu_work().sum()) / (run.cluster.gpus * TICKS_PER_SECOND)
    useful = []
    for share in SATURATED:
        until = run.inputs.changed(until_s=share * work_s)
        outcome = replace(run, jobs=at_once, inputs=until).run(SATURATED[-1] * work_s)
        if outcome.interrupted:
            return None
        ticks = outcome.gpu_ticks()
        useful.append((ticks["productive"] + ticks["under_way"], outcome.now))
    (done, start), (done_later, end) = useful
    return (done_later - done) / (run.cluster.gpus * (end - start))


def transient_note(results: Mapping[str, Any]) -> list[str]:
    """Return how much of a fixed number of generated jobs is warm-up, one text at most.

    Args:
        results: Results with `warm_up_jobs`.
    """
    count = results.get("warm_up_jobs") or 0
    if not count:
        return []
    note = (
        f"the first {count:,} jobs are warm-up (MSER-5) and are included, as num_jobs is set;"
        " without it the stream is as long as the precision of the mean wait needs, and is"
        " measured after them"
    )
    return [note]


def unfilled_warning(
    results: Mapping[str, Any], outcome: ScheduleOutcome, *, stream: bool
) -> list[str]:
    """Return a warning where generated jobs end before the cluster is as full as their load.

    Args:
        results: Results with `load` and `allocated_share`.
        stream: Whether the number of jobs follows from the precision of the mean wait.
    """
    load, idle = results["load"], outcome.shares()["idle_no_jobs"]
    if load is None or idle <= max(1.0 - load, 0.0) + (UNSETTLED if stream else UNFILLED):
        return []
    jobs, share = counted(results["jobs"], "job"), results["allocated_share"]
    note = f"{share:.0%} of GPU time is allocated at a load of {load:.0%}: "
    if stream:
        longest_s = float(outcome.column("run").max()) / TICKS_PER_SECOND
        note += (
            f"{jobs} are submitted within {outcome.now / TICKS_PER_SECOND / HOUR_S:.3g} hours, and"
            f" run for up to {longest_s / HOUR_S:.3g} hours: too short to measure the steady state;"
            " set num_jobs to simulate more"
        )
    else:
        note += (
            f"{jobs} end before the empty cluster fills; leave num_jobs out to measure the steady"
            " state"
        )
    return [note]

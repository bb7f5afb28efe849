"""The jobs of `fleet schedule`: read or generated, completed with defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InfeasibleError, counted
from perfatlas.reliability.jobs.model import (
    Jobs,
    Mix,
    generate_jobs,
    never_fit,
    with_running_jobs,
)
from perfatlas.reliability.jobs.traces import read_job_table, runs_as_jobs

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.model import Cluster, Policy
    from perfatlas.reliability.jobs.traces import JobTrace
    from perfatlas.scenario.cluster_schedules.schedule_fields import ScheduleFields

MAX_SHARE: Final = 4  # share of the cluster of the largest generated job by default


@dataclass(frozen=True, kw_only=True)
class JobSource:
    """Jobs and their source."""

    jobs: Jobs  # Jobs in the order of submission
    start_s: float  # Time of the first submission in the clock of the source [s]
    trace: dict[str, Any]  # Rows read and ignored; empty for generated jobs
    notes: tuple[str, ...]  # Assumptions
    sources: tuple[str, ...] = ()  # Documents


def job_source(inputs: ScheduleFields, cluster: Cluster, *, stream: bool = False) -> JobSource:
    """Return the jobs as in their source."""
    if inputs.jobs is None:
        return _generated(inputs, cluster, stream=stream)
    is_accounting = inputs.job_format == "sacct"
    trace = _accounting(inputs) if is_accounting else read_job_table(inputs.jobs)
    facts = {
        "file": inputs.jobs,
        "format": inputs.job_format,
        "rows": trace.total,
        "jobs": trace.jobs.size,
        "moved": trace.moved,
        "ignored": [
            {"reason": reason, "rows": count, "first": trace.first.get(reason)}
            for reason, count in trace.ignored.items()
        ],
    }
    if trace.ends:
        facts["recorded_ends"] = dict(trace.ends)
    notes = [f"jobs of {inputs.jobs} ({inputs.job_format}): {trace.text()}"]
    notes += [trace.ends_text()] if trace.ends_text() else []
    return JobSource(
        jobs=trace.jobs,
        start_s=trace.start_s,
        trace=facts,
        notes=tuple(notes),
        sources=("sacct(1) of Slurm 25.11",) if is_accounting else (),
    )


def _accounting(inputs: ScheduleFields) -> JobTrace:
    """Return the runs of Slurm accounting; other lines are counted as ignored."""
    from perfatlas.reliability.telemetry.formats import read_sacct

    return runs_as_jobs(read_sacct([str(inputs.jobs)], zone=inputs.zone))


def largest_job(inputs: ScheduleFields, cluster: Cluster) -> int:
    """Return the GPUs of the largest generated job."""
    return inputs.max_job_gpus or max(cluster.gpus // MAX_SHARE, 1)


def _generated(inputs: ScheduleFields, cluster: Cluster, *, stream: bool) -> JobSource:
    largest = largest_job(inputs, cluster)
    mix = Mix(
        jobs=inputs.num_jobs or 0,
        job_rate=inputs.job_rate,
        load=inputs.load,
        run_median_s=inputs.run_median_s,
        run_sigma=inputs.run_sigma,
        max_job_gpus=largest,
        seed=inputs.seed,
    )
    how = f"load {inputs.load:g}" if inputs.load else f"{inputs.job_rate:g} jobs/s"
    sizes = counted(2 ** (largest.bit_length() - 1), "GPU")
    notes = (
        f"{counted(mix.jobs, 'generated job')}, {how}, seed {inputs.seed}: a Poisson process; run"
        f" times lognormal, median {inputs.run_median_s:g} s, sigma {inputs.run_sigma:g}; sizes"
        f" powers of two up to {sizes}, each half as frequent as the one before; not fitted to a"
        " trace"
    )
    jobs = generate_jobs(mix, cluster)
    if stream:
        jobs = with_running_jobs(jobs, cluster, inputs.seed)
        notes += f"; {counted(jobs.running, 'job')} of its steady state run at the start"
    return JobSource(jobs=jobs, start_s=0.0, trace={}, notes=(notes,))


def completed(inputs: ScheduleFields, jobs: Jobs, cluster: Cluster) -> tuple[Jobs, list[str]]:
    """Return the jobs with defaults for missing columns, and the assumptions."""
    notes = []
    jobs = jobs.with_seconds(checkpoint_J=inputs.checkpoint_interval_s, restart_J=inputs.restart_s)
    if inputs.fewest_share is not None:
        jobs = jobs.shrinking_to(inputs.fewest_share, cluster)
    if inputs.backfill != "none" and jobs.limit_J is None:
        jobs = jobs.with_limits(inputs.limit_factor)
        notes.append(
            f"time limits are assumed: {inputs.limit_factor:g} x the run time, at least 60 s"
            " (limit_factor)"
        )
    return jobs, notes


def without_larger(jobs: Jobs, cluster: Cluster, policy: Policy) -> tuple[Jobs, str]:
    """Return the jobs that can run, and a note on excluded ones, "" for none."""
    never_J = never_fit(jobs, cluster, policy)
    count = int(never_J.sum())
    if not count:
        return jobs, ""
    row = jobs.row(int(never_J.argmax()))
    if count == jobs.size:
        raise InfeasibleError(
            f"none of {counted(count, 'job')} can run on {counted(cluster.nodes, 'node')}"
        )
    return jobs.take(~never_J), (
        f"excluded, as they can never run here: {count:,} of {counted(jobs.size, 'job')}, first in"
        f" row {row}"
    )

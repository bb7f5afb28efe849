"""The inputs of `fleet schedule`, prepared: cluster, jobs, policy and what fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InfeasibleError
from perfatlas.reliability.jobs.model import (
    LAUNCHERS,
    TICKS_PER_SECOND,
    Policy,
    Response,
    kueue_replacement,
)
from perfatlas.reliability.jobs.run import schedule
from perfatlas.verbs.schedule.cluster import cluster_of
from perfatlas.verbs.schedule.failures import NodeFailures, drawn, node_failures
from perfatlas.verbs.schedule.jobs import JobSource, completed, job_source, without_larger

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.model import Cluster, Jobs
    from perfatlas.reliability.jobs.run import ScheduleOutcome
    from perfatlas.verbs.schedule.question import Schedule


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The inputs of a schedule except failures, which need a horizon.

    Args:
        inputs: The fields.
        cluster: The cluster.
        jobs: The jobs, completed with defaults.
        job_source: Where they come from.
        node_failures: What fails.
        said: Assumptions.
        warnings: Warnings.
    """

    inputs: Schedule
    cluster: Cluster
    jobs: Jobs
    job_source: JobSource
    node_failures: NodeFailures
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def run(self, horizon_s: float | None) -> ScheduleOutcome:
        """Return the schedule with failures over a horizon.

        Args:
            horizon_s: The horizon [s]; None for no failures.
        """
        failures = None
        if horizon_s is not None:
            failures = drawn(self.inputs, self.node_failures, self.cluster, horizon_s)
        try:
            return schedule(
                self.jobs,
                self.cluster,
                policy_of(self.inputs),
                failures=failures,
                until_s=self.inputs.until_s,
            )
        except InfeasibleError as problem:
            raise self._smaller(problem) from problem

    def _smaller(self, problem: InfeasibleError) -> InfeasibleError:
        """Return the error for a job that never fits, with a remedy."""
        where = f"{self.inputs.jobs}: " if self.inputs.jobs else "generated jobs: "
        shortfall = str(problem).removesuffix(" ".join(problem.advice)).strip()
        advice: tuple[str, ...] = (
            "Set leave_out_larger to exclude jobs that can never run.",
            "Use a larger cluster, or omit required."
            if self.inputs.required
            else "Use a larger cluster.",
        )
        if self.inputs.jobs is None:
            advice = ("Set max_job_gpus to limit generated jobs.", *advice)
        return InfeasibleError(f"{where}{shortfall}", advice=advice)


def prepare(inputs: Schedule, known: JobSource | None, *, stream: bool = False) -> Prepared:
    """Return the inputs of a schedule.

    Args:
        inputs: The fields.
        known: Jobs that were read or generated before; None to do it now.
        stream: Whether the number of jobs follows from the precision of the mean wait.
    """
    cluster, topology_notes = cluster_of(inputs)
    source = job_source(inputs, cluster, stream=stream) if known is None else known
    jobs, notes = completed(inputs, source.jobs, cluster)
    last_s = int(jobs.submit_J[-1]) / TICKS_PER_SECOND
    if inputs.jobs is None and inputs.until_s is None and last_s:
        inputs = inputs.model_copy(update={"until_s": last_s})
        field = "num_jobs" if stream else "until_s"
        notes.append(
            "stopped at the last submission, as part of an ongoing stream;"
            f" set {field} to change it"
        )
    left_out = ""
    if inputs.leave_out_larger:
        jobs, left_out = without_larger(jobs, cluster, policy_of(inputs))
        left_out = left_out or "leave_out_larger has no effect: every job fits the cluster"
    return Prepared(
        inputs=inputs,
        cluster=cluster,
        jobs=jobs,
        job_source=source,
        node_failures=node_failures(inputs, cluster, source.start_s),
        notes=(*topology_notes, *notes),
        warnings=(left_out,) if left_out else (),
    )


def policy_of(inputs: Schedule) -> Policy:
    """Return the scheduling policy.

    Args:
        inputs: The fields.
    """
    return Policy(
        order=inputs.order,
        backfill=inputs.backfill,
        depth=inputs.depth,
        preemption=inputs.preemption if inputs.order == "priority" else "none",
        placement=inputs.placement,
        together=inputs.together,
        required=inputs.required,
        half_life_s=inputs.half_life_s,
        shares=inputs.shares or {},
        keeps_place=inputs.keeps_place,
        response=response_of(inputs),
    )


def response_of(inputs: Schedule) -> Response:
    """Return the response of a job to the loss of a node; a drain lets jobs end first.

    Args:
        inputs: The fields.
    """
    launcher = "slurm_requeue" if inputs.response == "drain" else inputs.response
    response = LAUNCHERS[launcher]()
    settings: dict[str, Any] = {
        "detection_s": inputs.detection_s,
        "most_restarts": inputs.max_restarts,
        "patience_s": inputs.patience_s,
    }
    if launcher == "kueue" and inputs.patience_s is not None:
        response = kueue_replacement(fail_fast=False)
    return replace(
        response, **{name: value for name, value in settings.items() if value is not None}
    )

"""The inputs of `fleet schedule`, prepared: cluster, jobs, policy and what fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InfeasibleError, UnsupportedError, counted
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.laws import Constant, Exponential, mean_s
from perfatlas.reliability.jobs.failures import draw_failures, unsupported
from perfatlas.reliability.jobs.model import (
    LAUNCHERS,
    TICKS_PER_SECOND,
    Policy,
    Response,
    kueue_replacement,
)
from perfatlas.reliability.jobs.run import schedule
from perfatlas.reliability.jobs.traces import read_failures
from perfatlas.scenario.cluster_schedules.cluster_of_fields import cluster_of
from perfatlas.scenario.cluster_schedules.jobs_of_fields import (
    JobSource,
    completed,
    job_source,
    without_larger,
)
from perfatlas.scenario.cluster_schedules.site import Site, with_outages

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.model import Cluster, Failures, Jobs
    from perfatlas.reliability.jobs.run import ScheduleOutcome
    from perfatlas.scenario.cluster_schedules.schedule_fields import ScheduleFields


@dataclass(frozen=True, kw_only=True)
class NodeFailures:
    """Node failures."""

    fleet: model.Fleet | None = None  # Fleet from which failures are drawn; None for none
    listed: Failures | None = None  # Listed failures; None for none
    notes: tuple[str, ...] = ()  # Assumptions
    warnings: tuple[str, ...] = ()  # Excluded failures


def node_failures(inputs: ScheduleFields, cluster: Cluster, start_s: float) -> NodeFailures:
    """Return the node failures."""
    if inputs.failures is not None:
        found = read_failures(inputs.failures, nodes=cluster.nodes, start_s=start_s)
        listed = found.failures.as_drains() if inputs.response == "drain" else found.failures
        notes = [f"{counted(listed.time_X.shape[0], 'failure')} of {inputs.failures}"]
        drains_X = found.failures.drain_X
        if inputs.response != "drain" and drains_X is not None and drains_X.size and drains_X.all():
            notes.append("all of them are drains: no job loses a node with any response")
        if found.out:
            notes.append(
                f"{found.out:,} of them before the first submission, with nodes still down: these"
                " nodes start under repair for the remaining time"
            )
        early = f"excluded: {counted(found.before, 'failure')} repaired before the first submission"
        return NodeFailures(
            listed=listed, notes=tuple(notes), warnings=(early,) if found.before else ()
        )
    if inputs.node_mtbf_s is not None and inputs.repair_s is not None:
        return NodeFailures(fleet=_memoryless(inputs.node_mtbf_s, inputs.repair_s, cluster))
    if inputs.fleet is None:
        return NodeFailures(
            notes=("no node failures; set node_mtbf_s, fleet or failures to include them",)
        )
    return _of_fleet(inputs, cluster)


def _memoryless(mtbf_s: float, repair_s: float, cluster: Cluster) -> model.Fleet:
    cause = model.Cause(name="node", lifetime=Exponential(mean_s=mtbf_s), per_unit=1.0)
    stage = model.RepairStage(name="repair", lasts=Constant(value_s=repair_s))
    return model.Fleet(
        units=cluster.nodes,
        causes=(cause,),
        repairs=(model.Repair(name="repair", stages=(stage,)),),
        gpus_per_unit=cluster.gpus_per_node,
    )


def _of_fleet(inputs: ScheduleFields, cluster: Cluster) -> NodeFailures:
    fleet = replace(model.resolve_fleet(str(inputs.fleet)), units=cluster.nodes)
    left_out = {cause.name: unsupported(cause) for cause in fleet.causes if unsupported(cause)}
    kept = tuple(cause for cause in fleet.causes if cause.name not in left_out)
    if not kept:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise UnsupportedError(
            f"fleet = {inputs.fleet!r}: none of its causes is supported by fleet schedule"
            f" ({reasons}); set node_mtbf_s and repair_s"
        )
    per_s = {cause.name: model.cause_rate_per_s(cause, fleet.units) for cause in fleet.causes}
    total = sum(per_s.values())
    warnings = [
        f"cause {name} of the fleet is not simulated, {100.0 * per_s[name] / total:.3g}% of its"
        f" failures: {why}"
        for name, why in left_out.items()
    ]
    if all(mean_s(stage.lasts) == 0.0 for repair in fleet.repairs for stage in repair.stages):
        warnings.append("the fleet has no repair times: nodes return at once")
    notes = [f"causes of failure in {inputs.fleet}: {', '.join(cause.name for cause in kept)}"]
    if any(cause.lemons for cause in kept):
        notes.append(
            "lemons are whole nodes, drawn separately for each cause: all parts of a lemon share"
            " its rate until it is retired"
        )
    if any(mean_s(cause.detection) for cause in kept):
        notes.append(
            "node failures are detected by the launcher, not with the detection time of the fleet"
        )
    return NodeFailures(
        fleet=replace(fleet, causes=kept), notes=tuple(notes), warnings=tuple(warnings)
    )


def drawn(
    inputs: ScheduleFields, what: NodeFailures, cluster: Cluster, horizon_s: float
) -> Failures | None:
    """Return the failures up to a horizon, None for none."""
    if what.fleet is None:
        return what.listed
    failures = draw_failures(what.fleet, cluster, horizon_s=horizon_s, seed=inputs.seed)
    return failures.as_drains() if inputs.response == "drain" else failures


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The inputs of a schedule except failures, which need a horizon.

    Args:
        inputs: The fields.
        jobs: The jobs, completed with defaults.
        job_source: Where they come from.
        node_failures: What fails.
        said: Assumptions.
    """

    inputs: ScheduleFields
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
        if self.inputs.site_cap_w is not None or self.inputs.site_profile is not None:
            outages = Site.of(self.inputs, self.cluster).outages()
            failures = with_outages(failures, outages)
        try:
            return schedule(
                self.jobs,
                self.cluster,
                policy_of(self.inputs),
                failures=failures,
                until_s=self.inputs.until_s,
                watched=self.inputs.trace_resolution_s is not None,
            )
        except InfeasibleError as problem:
            raise self._smaller(problem) from problem

    def _smaller(self, problem: InfeasibleError) -> InfeasibleError:
        """Return the error for a job that never fits, with a remedy."""
        where = f"{self.inputs.jobs}: " if self.inputs.jobs else "generated jobs: "
        advice: tuple[str, ...] = (
            "Set leave_out_larger to exclude jobs that can never run.",
            "Use a larger cluster, or omit required."
            if self.inputs.required
            else "Use a larger cluster.",
        )
        if self.inputs.jobs is None:
            advice = ("Set max_job_gpus to limit generated jobs.", *advice)
        return InfeasibleError(f"{where}{problem.message}", advice=advice)


def prepare(inputs: ScheduleFields, known: JobSource | None, *, stream: bool = False) -> Prepared:
    """Return the inputs of a schedule.

    Args:
        known: Jobs that were read or generated before; None to do it now.
        stream: Whether the number of jobs follows from the precision of the mean wait.
    """
    cluster, topology_notes = cluster_of(inputs)
    source = job_source(inputs, cluster, stream=stream) if known is None else known
    jobs, notes = completed(inputs, source.jobs, cluster)
    last_s = int(jobs.submit_J[-1]) / TICKS_PER_SECOND
    if inputs.jobs is None and inputs.until_s is None and last_s:
        inputs = inputs.changed(until_s=last_s)
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


def policy_of(inputs: ScheduleFields) -> Policy:
    """Return the scheduling policy."""
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


def response_of(inputs: ScheduleFields) -> Response:
    """Return the response of a job to the loss of a node; a drain lets jobs end first."""
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

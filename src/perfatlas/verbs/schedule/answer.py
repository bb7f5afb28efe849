"""`fleet schedule`: simulation of jobs on a cluster under one or several policies.

Shape legend: J jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.jobs.model import (
    LAUNCHERS,
    SOURCES,
    TICKS_PER_SECOND,
    Policy,
    Response,
    kueue_replacement,
)
from perfatlas.jobs.run import schedule
from perfatlas.quantities import InfeasibleError
from perfatlas.scenario.fields import refuse_unused
from perfatlas.verbs.schedule.failures import NodeFailures, cluster_of, drawn, node_failures
from perfatlas.verbs.schedule.jobs import JobSource, completed, job_source, offered, without_larger
from perfatlas.verbs.schedule.question import JOB_NAMES, parse_schedule, variants
from perfatlas.verbs.schedule.results import (
    assumptions,
    breakdown,
    compared_row,
    drain_remark,
    failed_jobs_remark,
    results_of,
)
from perfatlas.verbs.schedule.scenario import decided_fields, schedule_scenario
from perfatlas.verbs.schedule.unused_options import check_source_columns, draws, no_effect_remarks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.jobs.model import Cluster, Jobs
    from perfatlas.jobs.run import ScheduleOutcome
    from perfatlas.verbs.schedule.question import Schedule

MOST_DOUBLINGS: Final = 4  # factor on the time for which failures are drawn
SLACK: Final = 1.5


@dataclass(frozen=True, kw_only=True)
class FleetSchedule(AnsweredRun):
    """An answer and its schedule.

    Args:
        answer: The envelope.
        outcome: Results of every job.
    """

    outcome: ScheduleOutcome

    def per_job(self) -> dict[str, list[Any]]:
        """Return the results of every job, as columns: times [s] from the first submission.

        `attempts` are starts from the queue, `restarts` those of the work, including in place;
        `work_gpu_hours` is work done and not lost, of useful jobs or others.
        """
        outcome = self.outcome
        jobs, names = outcome.jobs, outcome.state_names

        def seconds(name: str, *, missing: bool = False) -> list[float | None]:
            value_J = outcome.column(name)
            seconds_J = (value_J / TICKS_PER_SECOND).tolist()
            return [
                None if missing and n < 0 else s for n, s in zip(value_J, seconds_J, strict=True)
            ]

        def texts(code_J: Any, known: Sequence[str]) -> list[str]:  # noqa: ANN401 - None or codes
            if code_J is None:
                return [known[0]] * jobs.size
            return [known[code] for code in np.asarray(code_J).tolist()]

        lost_J = outcome.column("lost_work") / TICKS_PER_SECOND / 3600.0
        work_J = outcome.work_done_J / TICKS_PER_SECOND / 3600.0
        return {
            "row": [jobs.row(j) for j in range(jobs.size)],
            "submit_s": seconds("submit"),
            "start_s": seconds("started", missing=True),
            "end_s": seconds("ended", missing=True),
            "wait_s": [None if np.isnan(wait) else wait for wait in outcome.wait_s_J.tolist()],
            "queued_s": seconds("waited"),
            "run_s": seconds("run"),
            "gpus": np.asarray(jobs.gpus_J).tolist(),
            "nodes": outcome.column("nodes").tolist(),
            "domains": outcome.column("spread").tolist(),
            "user": texts(jobs.user_J, jobs.users),
            "kind": texts(jobs.kind_J, jobs.kinds),
            "state": texts(outcome.column("state"), names),
            "attempts": outcome.column("attempts").tolist(),
            "restarts": outcome.column("restarts").tolist(),
            "preemptions": outcome.column("preempted").tolist(),
            "work_gpu_hours": work_J.tolist(),
            "lost_gpu_hours": lost_J.tolist(),
        }


@dataclass(frozen=True, kw_only=True)
class _Ready:
    """The inputs of a schedule except failures, which need a horizon."""

    inputs: Schedule
    cluster: Cluster
    jobs: Jobs
    job_source: JobSource
    node_failures: NodeFailures
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def run(self, horizon_s: float | None) -> ScheduleOutcome:
        """Return the schedule with failures over a horizon; None for no failures."""
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


@signature_of("fleet schedule")
def fleet_schedule(
    *,
    compare: Sequence[str] = (),
    **fields: Any,  # noqa: ANN401 - the vocabulary is checked by its schema
) -> FleetSchedule:
    """Return the simulated schedule of jobs that share a cluster.

    Args:
        compare: Fields and their values, such as backfill=none,easy: further schedules of the same
            jobs and failures, one row each.
        **fields: jobs (a file) with job_format and zone, or num_jobs with load or job_rate,
            run_median_s, run_sigma, max_job_gpus; limit_factor, checkpoint_interval_s, restart_s,
            fewest_share (where missing in the source), leave_out_larger; nodes, gpus_per_node,
            nodes_per_domain, nodes_per_leaf; order, backfill, depth, preemption, placement,
            together, required,
            keeps_place, half_life_s, shares; response, detection_s, max_restarts, patience_s;
            node_mtbf_s with repair_s, or fleet, or failures (a file); until_s, seed.

    Raises:
        InvalidSpecError: A name or value is invalid, or a file is invalid.
        InfeasibleError: A job is larger than the cluster; names its row.
    """
    fields = {name: value for name, value in fields.items() if value not in (None, "")}
    inputs = parse_schedule(fields)
    changes = variants([compare] if isinstance(compare, str) else list(compare), fields)
    compared = [parse_schedule({**fields, **change}) for change in changes] if compare else []
    refuse_unused(dict(inputs), verb_fields("fleet schedule"), others=[*map(dict, compared)])
    base = _ready(inputs, None)
    others = []
    for change, other in zip(changes, compared, strict=False):
        kept = None if set(change) & set(JOB_NAMES) else base.job_source
        others.append(_ready(other, kept))
    compared_inputs = [(run.inputs, run.job_source.jobs) for run in (base, *others)]
    check_source_columns(compared_inputs)
    base = replace(base, warnings=(*base.warnings, *no_effect_remarks(compared_inputs)))
    outcomes, horizon_s = _outcomes([base, *others])
    outcome = outcomes[0]
    load = offered(base.jobs, base.cluster, stream=base.inputs.jobs is None)
    results = results_of(outcome, base.job_source.trace, load)
    if outcomes[1:]:
        results["compared"] = [
            compared_row(change, one) for change, one in zip(changes, outcomes[1:], strict=False)
        ]
        rows = zip((row["name"] for row in results["compared"]), outcomes[1:], strict=True)
        base = replace(
            base, warnings=(*base.warnings, *filter(None, [failed_jobs_remark([*rows])]))
        )
    results["interrupted"] = any(one.interrupted for one in outcomes)
    given = schedule_scenario(
        inputs,
        [
            decided_fields(run.inputs, run.cluster, response_of(run.inputs))
            for run in (base, *others)
        ],
        compare,
        seeded=any(draws(one) for one in (inputs, *compared)),
    )
    return FleetSchedule(
        answer=_answer([base, *others], outcome, results, given=given, to=horizon_s),
        outcome=outcome,
    )


def _ready(inputs: Schedule, known: JobSource | None) -> _Ready:
    cluster = cluster_of(inputs)
    source = job_source(inputs, cluster) if known is None else known
    jobs, notes = completed(inputs, source.jobs, cluster)
    last_s = int(jobs.submit_J[-1]) / TICKS_PER_SECOND
    if inputs.jobs is None and inputs.until_s is None and last_s:
        inputs = inputs.model_copy(update={"until_s": last_s})
        notes.append(
            "stopped at the last submission, as part of an ongoing stream; set until_s to change it"
        )
    left_out = ""
    if inputs.leave_out_larger:
        jobs, left_out = without_larger(jobs, cluster, policy_of(inputs))
    return _Ready(
        inputs=inputs,
        cluster=cluster,
        jobs=jobs,
        job_source=source,
        node_failures=node_failures(inputs, cluster, source.start_s),
        notes=tuple(notes),
        warnings=(left_out,) if left_out else (),
    )


def _outcomes(runs: Sequence[_Ready]) -> tuple[list[ScheduleOutcome], float]:
    """Return the schedule of each, with failures over the same horizon, and the horizon [s].

    Failures are drawn for longer than the schedules last. Where failures prevent jobs from ending,
    the horizon is doubled a few times, and then the schedules are stopped there.
    """
    drawing = any(run.node_failures.fleet is not None for run in runs)
    until_s = [run.inputs.until_s for run in runs if run.inputs.until_s is not None]
    if not drawing or len(until_s) == len(runs):
        horizon_s = max(until_s, default=0.0)
        return _all(runs, horizon_s), horizon_s
    quiet = runs[0].run(None)
    if quiet.interrupted:
        return [quiet], 0.0
    longest_s = float(quiet.column("run").max()) / TICKS_PER_SECOND
    horizon_s = SLACK * (quiet.now / TICKS_PER_SECOND + longest_s) + 1.0
    for _ in range(MOST_DOUBLINGS):
        outcomes = _all(runs, horizon_s)
        if outcomes[-1].interrupted or all(
            one.now / TICKS_PER_SECOND <= horizon_s for one in outcomes
        ):
            return outcomes, horizon_s
        horizon_s *= 2.0
    cut = [
        replace(
            run, inputs=run.inputs.model_copy(update={"until_s": run.inputs.until_s or horizon_s})
        )
        for run in runs
    ]
    return _all(cut, horizon_s), horizon_s


def _all(runs: Sequence[_Ready], horizon_s: float) -> list[ScheduleOutcome]:
    """Return the schedule of each; after an interruption no further one is started."""
    outcomes: list[ScheduleOutcome] = []
    for run in runs:
        outcomes.append(run.run(horizon_s))
        if outcomes[-1].interrupted:
            break
    return outcomes


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


def _answer(
    runs: Sequence[_Ready],
    outcome: ScheduleOutcome,
    results: dict[str, Any],
    *,
    given: Mapping[str, Any],
    to: float,
) -> Answer:
    ready, inputs = runs[0], runs[0].inputs
    notes = [*ready.job_source.notes, *ready.notes, *ready.node_failures.notes]
    sources = list(ready.job_source.sources)
    for run in runs:
        failing = run.node_failures.fleet is not None or run.node_failures.listed is not None
        notes += assumptions(run.inputs, response_of(run.inputs), failing=failing)
        sources += (
            [SOURCES[run.inputs.response]] if failing and run.inputs.response in SOURCES else []
        )
    if ready.node_failures.fleet is not None and to:
        notes.append(f"failures drawn for {to / 86400.0:.4g} d, seed {inputs.seed}")
    notes, sources = list(dict.fromkeys(notes)), list(dict.fromkeys(sources))
    tail = drain_remark(outcome)
    warnings = [
        *ready.warnings,
        *ready.node_failures.warnings,
        *outcome.remarks(),
        *((tail,) if tail else ()),
    ]
    if results["interrupted"]:
        early = ready.node_failures.fleet is not None and not to
        warnings.append(
            "interrupted: results cover only the time simulated so far"
            + (", without failures" if early else "")
        )
    return Answer(
        command="fleet schedule",
        scenario=dict(given),
        results=results,
        breakdown=breakdown(outcome),
        evidence=Evidence(tier="simulate", assumptions=tuple(notes), sources=tuple(sources)),
        warnings=tuple(warnings),
    )

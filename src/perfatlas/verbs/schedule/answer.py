"""`fleet schedule`: simulation of jobs on a cluster under one or several policies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import DAY_S, InvalidSpecError
from perfatlas.reliability.jobs.model import SOURCES, TICKS_PER_SECOND
from perfatlas.reliability.jobs.run import measured_jobs
from perfatlas.scenario import cluster_schedules
from perfatlas.scenario.fields import complete_scenario, refuse_unused
from perfatlas.verbs.schedule.results import (
    assumptions,
    breakdown,
    compared_row,
    drain_remark,
    failed_jobs_remark,
    results_of,
)
from perfatlas.vocabulary.fields import value_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.reliability.jobs.model import Cluster, Jobs, Response
    from perfatlas.reliability.jobs.run import ScheduleOutcome
    from perfatlas.scenario.cluster_schedules import SitePower

COMMAND: Final = "fleet schedule"
FIELD_COLUMNS: Final = (
    # option, column of `Jobs`, column of the table
    ("limit_factor", "limit_J", "limit_s"),
    ("restart_s", "restart_J", "restart_s"),
    ("checkpoint_interval_s", "checkpoint_J", "checkpoint_interval_s"),
    ("fewest_share", "fewest_J", "fewest_nodes"),
)


def check_source_columns(ones: Sequence[tuple[cluster_schedules.ScheduleFields, Jobs]]) -> None:
    """Raise for defaults of columns that the source has.

    This is not a field condition, as the jobs must be read first.

    Args:
        ones: Each schedule, and its jobs as in their source.

    Raises:
        InvalidSpecError: All jobs define the option, or checkpoints have no effect.
    """
    fields = verb_fields(COMMAND)
    for name, column, seconds_field in FIELD_COLUMNS:
        needs = fields[name].row.needs
        given = [
            schedule
            for schedule, _ in ones
            if getattr(schedule, name) not in (fields[name].default, 0.0)
        ]
        if not given:
            continue
        reading = [
            jobs for schedule, jobs in ones if needs and not needs.missing(schedule.values, {})
        ]
        if reading and all(getattr(jobs, column) is not None for jobs in reading):
            raise InvalidSpecError(
                f"{name} = {value_text(getattr(given[0], name))} has no effect here:"
                f" {given[0].jobs} has a column {seconds_field}; omit {name}"
            )
    if any(jobs.limits_end_jobs for _, jobs in ones):
        return
    inputs = [
        {**schedule.values, "jobs": None} for schedule, _ in ones
    ]  # if time limits end no job
    checkpoints = {name: fields[name] for name in ("checkpoint_interval_s",)}
    refuse_unused(inputs[0], checkpoints, others=inputs[1:])


def draws(schedule: cluster_schedules.ScheduleFields) -> bool:
    """Return whether a schedule has random draws, so that the seed has an effect."""
    needs = verb_fields(COMMAND)["seed"].row.needs
    return needs is None or not needs.missing(schedule.values, {})


def no_effect_remarks(ones: Sequence[tuple[cluster_schedules.ScheduleFields, Jobs]]) -> list[str]:
    """Return what is asked for, is legitimate and changes nothing with these jobs, in sentences."""
    notes: dict[str, None] = {}
    for schedule, jobs in ones:
        if schedule.order == "priority" and jobs.values_of("priority_J") == 1:
            also = (
                ""
                if schedule.preemption == "none"
                else f", nor does preemption = {schedule.preemption}"
            )
            notes[
                f"order = priority has no effect{also}: all jobs have the same priority (column"
                " priority of a job table)"
            ] = None
        if schedule.order == "fair_share" and jobs.values_of("user_J") == 1:
            notes["order = fair_share has no effect: all jobs belong to the same user"] = None
        if unused := cluster_schedules.unused_system(schedule):
            notes[unused] = None
    return list(notes)


def schedule_scenario(
    inputs: cluster_schedules.ScheduleFields,
    decided: Sequence[dict[str, Any]],
    compare: Sequence[str],
    *,
    seeded: bool,
) -> dict[str, Any]:
    """Return the scenario, which gives the same answer again.

    Args:
        decided: What `decided_fields` returns for this schedule, then for each compared one. A
            value that differs among them is left out: it follows from what is compared.
        compare: Compared fields and values, as given.
        seeded: Whether anything is drawn at random.
    """
    fields = verb_fields(COMMAND)
    first, *others = decided
    known = {name: v for name, v in first.items() if all(other.get(name) == v for other in others)}
    if seeded:
        known["seed"] = inputs.seed
    values = {**inputs.values, **known}
    effective = {
        name: value
        for name, value in known.items()
        if (needs := fields[name].row.needs) is None or needs.missing(values, {}) is None
    }
    told = complete_scenario(fields, inputs, **effective)
    return told | ({"compare": list(compare)} if compare else {})


def decided_fields(
    inputs: cluster_schedules.ScheduleFields,
    cluster: Cluster,
    response: Response,
    *,
    stream: bool = False,
) -> dict[str, Any]:
    """Return the values that fields have by default, from the fleet and the launcher.

    Args:
        inputs: The fields; `until_s` as it is applied.
        stream: Whether the precision of the mean wait decides when a stream of jobs stops.

    Limits: a launcher that tries once, without waiting, has no patience_s: with one set, kueue
        waits instead.
    """
    found = {
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "nodes_per_domain": cluster.nodes_per_domain,
        "nodes_per_leaf": cluster.nodes_per_leaf,
        "until_s": None if stream else inputs.until_s,
        "max_job_gpus": cluster_schedules.largest_job(inputs, cluster)
        if inputs.jobs is None
        else None,
        "detection_s": response.detection_s,
        "max_restarts": response.most_restarts,
        "patience_s": inputs.patience_s if inputs.response == "kueue" else response.patience_s,
    }
    return {name: value for name, value in found.items() if value is not None}


ROWS_LEFT_OUT: Final = ("classes", "trace", "interrupted")  # results without a table column
MAX_DOUBLINGS: Final = 4  # factor on the time for which failures are drawn
SLACK: Final = 1.5


@dataclass(frozen=True, kw_only=True)
class FleetSchedule(AnsweredRun):
    """An answer and its schedule.

    Args:
        answer: The envelope.
        outcome: Results of every job.
        power: Power of the site over time, with trace_resolution_s.
    """

    outcome: ScheduleOutcome
    power: SitePower | None = None

    def per_job(self) -> dict[str, list[Any]]:
        """Return the results of every job, as columns: times [s] from the first submission."""
        return self.outcome.per_job()


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
            nodes_per_domain, nodes_per_leaf, or system for all three; order, backfill, depth,
            preemption, placement, together, required, keeps_place, half_life_s, shares; response,
            detection_s, max_restarts, patience_s;
            node_mtbf_s with repair_s, or fleet, or failures (a file); until_s, seed; power_w with
            idle_power_w, repair_power_w, usd_per_kwh and pue; trace_resolution_s, site_cap_w,
            site_profile.

    Raises:
        InvalidSpecError: A name or value is invalid, or a file is invalid.
        InfeasibleError: A job is larger than the cluster; names its row.
    """
    fields = {name: value for name, value in fields.items() if value not in (None, "")}
    inputs = cluster_schedules.parse_schedule(fields)
    changes = cluster_schedules.variants(
        [compare] if isinstance(compare, str) else list(compare), fields
    )
    compared = (
        [cluster_schedules.parse_schedule({**fields, **change}) for change in changes]
        if compare
        else []
    )
    refuse_unused(inputs.values, verb_fields(COMMAND), others=[x.values for x in compared])
    stream = cluster_schedules.sized_stream(inputs) if cluster_schedules.is_stream(inputs) else None
    if cluster_schedules.is_stream(inputs) and stream is None:
        raise KeyboardInterrupt
    base = cluster_schedules.prepare(
        stream.inputs if stream else inputs, None, stream=stream is not None
    )
    others = _others(base, changes, compared)
    compared_inputs = [(run.inputs, run.job_source.jobs) for run in (base, *others)]
    check_source_columns(compared_inputs)
    base = replace(base, warnings=(*base.warnings, *no_effect_remarks(compared_inputs)))
    outcomes, horizon_s = _outcomes([base, *others])
    if stream is not None:
        outcomes = stream.all_measured([base, *others], outcomes)
    outcome = outcomes[0]
    load = base.jobs.offered_load(base.cluster, stream=base.inputs.jobs is None)
    results = results_of(outcome, base.job_source.trace, load)
    base, found = _steady_state(base, stream, outcome, results)
    results |= found
    if outcomes[1:]:
        results["compared"], remark = _compared(changes, others, outcomes[1:])
        base = replace(base, warnings=(*base.warnings, *filter(None, [remark])))
    power = None
    if base.inputs.trace_resolution_s is not None:
        site = cluster_schedules.Site.of(base.inputs, base.cluster)
        power = cluster_schedules.site_power(site, outcome)
        results |= {} if power is None else power.results
    results["interrupted"] = any(schedule_outcome.interrupted for schedule_outcome in outcomes)
    given = schedule_scenario(
        inputs,
        [_decided(run, stream=stream is not None) for run in (base, *others)],
        compare,
        seeded=any(draws(schedule) for schedule in (inputs, *compared)),
    )
    return FleetSchedule(
        answer=_answer([base, *others], outcome, results, given=given, to=horizon_s),
        outcome=outcome,
        power=power,
    )


def schedule_row(_: int, fields: Mapping[str, Any]) -> Answer:
    """Return an answer with results as table cells.

    Args:
        _: The row, from 0.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    answer = fleet_schedule(**fields).answer
    kept = {name: value for name, value in answer.results.items() if name not in ROWS_LEFT_OUT}
    return replace(answer, results=kept)


def _steady_state(
    run: cluster_schedules.Prepared,
    stream: cluster_schedules.JobStream | None,
    outcome: ScheduleOutcome,
    results: Mapping[str, Any],
) -> tuple[cluster_schedules.Prepared, dict[str, Any]]:
    """Return a run with the remarks on its steady state, and the results of it."""
    if stream is not None:
        found, notes = stream.results(), [stream.note(run.jobs.size)]
        found["jobs_at_start"] = run.jobs.running
        unsettled = cluster_schedules.unfilled_warning(results, outcome, stream=True)
        warnings = stream.warnings() + unsettled
        if unsettled and found["stability"] == "stable":
            found["stability"] = "undecided"
    elif run.inputs.jobs is None:
        found = {"warm_up_jobs": measured_jobs(outcome)[0]}
        notes, warnings = (
            cluster_schedules.transient_note(found),
            cluster_schedules.unfilled_warning(results, outcome, stream=False),
        )
    else:
        return run, {}
    prepared = replace(run, notes=(*run.notes, *notes), warnings=(*run.warnings, *warnings))
    return prepared, found


def _compared(
    changes: Sequence[Mapping[str, Any]],
    runs: Sequence[cluster_schedules.Prepared],
    outcomes: Sequence[ScheduleOutcome],
) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of other schedules, and a remark on their failed jobs or ""."""
    found = [
        compared_row(change, outcome)
        | cluster_schedules.energy_results(run.inputs, breakdown(outcome))
        for change, run, outcome in zip(changes, runs, outcomes, strict=False)
    ]
    rows = zip((row["name"] for row in found), outcomes, strict=True)
    return found, failed_jobs_remark([*rows])


def _others(
    base: cluster_schedules.Prepared,
    changes: Sequence[Mapping[str, Any]],
    compared: Sequence[cluster_schedules.ScheduleFields],
) -> list[cluster_schedules.Prepared]:
    """Return the compared schedules, of the same jobs unless a change is one of jobs."""
    others = []
    for change, other in zip(changes, compared, strict=False):
        kept = None if set(change) & set(cluster_schedules.JOB_NAMES) else base.job_source
        sized = {"num_jobs": base.inputs.num_jobs} if cluster_schedules.is_stream(other) else {}
        others.append(cluster_schedules.prepare(other.changed(**sized), kept, stream=bool(sized)))
    return others


def _decided(run: cluster_schedules.Prepared, *, stream: bool) -> dict[str, Any]:
    response = cluster_schedules.response_of(run.inputs)
    return decided_fields(run.inputs, run.cluster, response, stream=stream)


def _outcomes(runs: Sequence[cluster_schedules.Prepared]) -> tuple[list[ScheduleOutcome], float]:
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
    for _ in range(MAX_DOUBLINGS):
        outcomes = _all(runs, horizon_s)
        if outcomes[-1].interrupted or all(
            outcome.now / TICKS_PER_SECOND <= horizon_s for outcome in outcomes
        ):
            return outcomes, horizon_s
        horizon_s *= 2.0
    cut = [
        replace(run, inputs=run.inputs.changed(until_s=run.inputs.until_s or horizon_s))
        for run in runs
    ]
    return _all(cut, horizon_s), horizon_s


def _all(runs: Sequence[cluster_schedules.Prepared], horizon_s: float) -> list[ScheduleOutcome]:
    """Return the schedule of each; after an interruption no further one is started."""
    outcomes: list[ScheduleOutcome] = []
    for run in runs:
        outcomes.append(run.run(horizon_s))
        if outcomes[-1].interrupted:
            break
    return outcomes


def _answer(
    runs: Sequence[cluster_schedules.Prepared],
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
        notes += assumptions(run.inputs, cluster_schedules.response_of(run.inputs), failing=failing)
        sources += (
            [SOURCES[run.inputs.response]] if failing and run.inputs.response in SOURCES else []
        )
    if ready.node_failures.fleet is not None and to:
        notes.append(f"failures drawn for {to / DAY_S:.4g} d, seed {inputs.seed}")
    notes += cluster_schedules.energy_notes(inputs)
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
    rows = cluster_schedules.with_energy(inputs, breakdown(outcome))
    return Answer(
        command=COMMAND,
        scenario=dict(given),
        results=results | cluster_schedules.energy_results(inputs, rows),
        breakdown=rows,
        evidence=Evidence(tier="simulate", assumptions=tuple(notes), sources=tuple(sources)),
        warnings=tuple(warnings),
    )

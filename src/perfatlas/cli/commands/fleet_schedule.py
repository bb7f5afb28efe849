"""`perfatlas fleet schedule`: many jobs on one cluster, one policy or several side by side."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Group, Parameter

from perfatlas.cli.flags import (
    MANY,
    SWITCH,
    Count,
    File,
    OutputFlags,
    PageFlags,
    default,
    given,
)
from perfatlas.cli.output import answer_rows, print_json, show_summary, told_if_slow, wants_table
from perfatlas.files import check_writable, read_toml, table_format, write_atomic, write_table
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from perfatlas.answer import Answer
    from perfatlas.verbs.schedule import FleetSchedule

_JOBS: Final = Group("Jobs", sort_key=1)
_CLUSTER: Final = Group("Cluster", sort_key=2)
_POLICY: Final = Group("Policy", sort_key=3)
_FAILURES: Final = Group("Failures", sort_key=4)
_OUTPUT: Final = Group("Output", sort_key=7)
INTERRUPTED: Final = 130
SLOW: Final = "scheduling; Ctrl-C keeps what is done"
EXAMPLE: Final = "perfatlas fleet schedule --num-jobs 20000 --load 0.9 --nodes 256"
ROWS_LEFT_OUT: Final = ("classes", "trace", "interrupted")  # of a table's cells


@Parameter(name="*", group=_JOBS)
@dataclass(frozen=True, kw_only=True)
class JobsFlags:
    """Which jobs: a file, or generated ones.

    Args:
        jobs: File of jobs: accounting, a public trace, or CSV, Parquet or JSON Lines with
            submit_s, run_s, gpus; text plain or gzip-compressed.
        job_format: Format of that file.
        zone: Time zone sacct ran in, such as UTC or Europe/Berlin.
        num_jobs: How many are generated.
        load: Of generated jobs: GPU time they ask for, over what there is.
        job_rate: Of generated jobs, in place of load: submissions per second.
        run_median_s: Median seconds a generated job runs, lognormal.
        run_sigma: Sigma of the logarithm of that.
        max_job_gpus: GPUs of the largest generated job; by default a quarter of the cluster.
        limit_factor: Time limit over run time, for jobs whose source tells no limits.
        checkpoint_interval_s: Seconds of work between checkpoints, for jobs that tell none; by
            default there are none, and a restart begins anew.
        restart_s: Seconds a restart takes, for jobs that tell none; by default none.
        fewest_share: Share of its nodes with which an elastic job goes on; by default one node.
        leave_out_larger: Leave out jobs that can never run here, rather than refuse.
    """

    jobs: File | None = None
    job_format: Annotated[
        Literal["perfatlas", "philly", "helios", "acme", "alibaba_gpu_v2020", "sacct", "sacct_json"]
        | None,
        default("perfatlas"),
    ] = None
    zone: str | None = None
    num_jobs: Count = None
    load: float | None = None
    job_rate: float | None = None
    run_median_s: Annotated[float | None, default("1800")] = None
    run_sigma: Annotated[float | None, default("1.5")] = None
    max_job_gpus: Count = None
    limit_factor: Annotated[float | None, default("2")] = None
    checkpoint_interval_s: float | None = None
    restart_s: float | None = None
    fewest_share: float | None = None
    leave_out_larger: Annotated[bool | None, SWITCH] = None


@Parameter(name="*", group=_CLUSTER)
@dataclass(frozen=True, kw_only=True)
class ClusterFlags:
    """Where they run.

    Args:
        nodes: Nodes of the cluster; by default those of --fleet.
        gpus_per_node: GPUs of each.
        nodes_per_domain: Nodes of an NVLink domain or rack: 18 in an NVL72 of 4-GPU trays.
        nodes_per_leaf: Nodes below a leaf switch, whole domains.
    """

    nodes: Count = None
    gpus_per_node: Annotated[Count, default("8")] = None
    nodes_per_domain: Count = None
    nodes_per_leaf: Count = None


@Parameter(name="*", group=_POLICY)
@dataclass(frozen=True, kw_only=True)
class PolicyFlags:
    """How they are served.

    Args:
        order: By submission, by priority, or by decayed usage over share.
        backfill: Let later jobs pass: none, where the first keeps its promised start (easy), or
            where the first --depth do (conservative).
        depth: Waiting jobs looked at behind the first.
        preemption: What becomes of running jobs of lower priority when the first needs their nodes.
        placement: First nodes that fit, or those with the least room that do.
        together: A job wants all its nodes within a domain or a leaf.
        required: It waits until it gets that.
        keeps_place: A job queued again keeps its place; by default it starts at the end.
        half_life_s: Of usage, for fair_share.
        shares: What users are entitled to, as ann=2,bob=1.
    """

    order: Annotated[Literal["fifo", "priority", "fair_share"] | None, default("fifo")] = None
    backfill: Annotated[Literal["none", "easy", "conservative"] | None, default("easy")] = None
    depth: Annotated[Count, default("500")] = None
    preemption: Annotated[Literal["none", "requeue", "cancel"] | None, default("none")] = None
    placement: Annotated[Literal["pack", "best_fit"] | None, default("pack")] = None
    together: Annotated[Literal["anywhere", "domain", "leaf"] | None, default("anywhere")] = None
    required: Annotated[bool | None, SWITCH] = None
    keeps_place: Annotated[bool | None, SWITCH] = None
    half_life_s: Annotated[float | None, default("7 days")] = None
    shares: str | None = None


@Parameter(name="*", group=_FAILURES)
@dataclass(frozen=True, kw_only=True)
class BefallFlags:
    """What fails, and what the launcher does with a job that loses a node.

    Args:
        node_mtbf_s: Mean seconds between failures of one node, with --repair-s.
        repair_s: Seconds until it is back.
        fleet: What fails: a TOML file, or llama3 or rsc1.
        failures: What fails: a table of time_s, node, repair_s, and where told width, drain.
        response: What the launcher does; drain lets running jobs end before the repair.
        detection_s: Seconds until a lost node is noticed, in place of the launcher's.
        max_restarts: What the launcher counts as one, so often at most before a job has failed for
            good; by default as the launcher.
        patience_s: Seconds a job of kueue or torchrun waits for a node, in place of the launcher's.
        until_s: Cut the schedule off so many seconds after the first submission; by default at the
            last one if jobs are generated, else when all have ended.
        seed: Of generated jobs and drawn failures.
    """

    node_mtbf_s: float | None = None
    repair_s: float | None = None
    fleet: str | None = None
    failures: File | None = None
    response: Annotated[
        Literal["slurm_requeue", "slurm_no_kill", "drain", "jobset", "kueue", "torchrun"] | None,
        default("slurm_requeue"),
    ] = None
    detection_s: float | None = None
    max_restarts: Count = None
    patience_s: float | None = None
    until_s: float | None = None
    seed: Annotated[Count, default("0")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScheduleFlags:
    """All fields of a schedule."""

    jobs: JobsFlags = field(default_factory=JobsFlags)
    cluster: ClusterFlags = field(default_factory=ClusterFlags)
    policy: PolicyFlags = field(default_factory=PolicyFlags)
    failures: BefallFlags = field(default_factory=BefallFlags)


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class ScheduleFiles:
    """What else `fleet schedule` reads and writes.

    Args:
        scenario: TOML file with the same names as the flags; flags win over it.
        compare: Schedule the same jobs otherwise too, as backfill=none,easy,conservative;
            repeatable, every combination.
        per_job: Write what came of every job (CSV, Parquet or JSON Lines).
        page: An HTML page of the answer.
    """

    scenario: File | None = None
    compare: Annotated[list[str] | None, MANY] = None
    per_job: File | None = None
    page: PageFlags = field(default_factory=PageFlags)

    def files(self) -> dict[str, File]:
        """Return the files one schedule writes, by flag."""
        named = {"--per-job": self.per_job, "--html": self.page.html}
        return {flag: path for flag, path in named.items() if path is not None}


def schedule(
    *,
    flags: ScheduleFlags | None = None,
    extra: ScheduleFiles | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Return the exit code of a schedule.

    Args:
        flags: Jobs, cluster, policy and failures.
        extra: Scenario file, comparison and further files.
        output: Where the answer goes.
    """
    import perfatlas
    from perfatlas.verbs.schedule import SCHEDULE_NAMES

    extra, output = extra or ScheduleFiles(), output or OutputFlags()
    _ = extra.page.script  # refused before the schedule runs
    asked = {
        name: str(value) if name in ("jobs", "failures") else value
        for name, value in given(flags or ScheduleFlags()).items()
    }
    if extra.scenario is not None:
        asked = {**read_toml(extra.scenario), **asked}
    if extra.compare:
        asked["compare"] = extra.compare
    if wants_table(output):
        _refuse_beside_table(extra, asked)
        summary = answer_rows(_row, output, asked=asked, names=SCHEDULE_NAMES, first="completed")
        return show_summary("fleet schedule", summary, asked=asked, as_json=output.json)
    _require(asked)
    for path in extra.files().values():
        check_writable(path)
    if extra.per_job is not None:
        table_format(str(extra.per_job))
    with told_if_slow(SLOW):
        done = perfatlas.fleet_schedule(**asked)
    _show(done, asked, as_json=output.json)
    sys.stdout.flush()  # whatever becomes of the files, the answer is out
    _write_files(done, extra, asked)
    return INTERRUPTED if done.answer.results["interrupted"] else 0


def _require(asked: dict[str, Any]) -> None:
    """Refuse a command line without jobs or without a cluster."""
    missing = []
    if "jobs" not in asked and "num_jobs" not in asked:
        missing.append("--jobs or --num-jobs")
    if "nodes" not in asked and "fleet" not in asked:
        missing.append("--nodes")
    if missing:
        raise UsageError(f"{' and '.join(missing)} missing; for example: {EXAMPLE}")


def _refuse_beside_table(extra: ScheduleFiles, asked: dict[str, Any]) -> None:
    flags = [*extra.files(), *(["--compare"] if "compare" in asked else [])]
    if flags:
        raise UsageError(f"{flags[0]} is of one schedule, --table answers many")


def _row(**fields: Any) -> Answer:  # noqa: ANN401 - the vocabulary is checked by its schema
    """Return an answer whose results are cells."""
    import perfatlas

    answer = perfatlas.fleet_schedule(**fields).answer
    kept = {name: value for name, value in answer.results.items() if name not in ROWS_LEFT_OUT}
    return replace(answer, results=kept)


def _show(done: FleetSchedule, asked: dict[str, Any], *, as_json: bool) -> None:
    told = done.answer.to_dict()
    if as_json:
        print_json(told)
        return
    from perfatlas.report.text import open_terminal
    from perfatlas.verbs.schedule import print_schedule

    print_schedule(open_terminal(sys.stdout), told, reproduce=_reproduce(asked))


def _reproduce(asked: dict[str, Any]) -> str:
    from perfatlas.report.text import reproduce_line

    shares = asked.get("shares")
    if isinstance(shares, dict):
        asked = {**asked, "shares": ",".join(f"{user}={share}" for user, share in shares.items())}
    return reproduce_line("fleet schedule", asked)


def _write_files(done: FleetSchedule, extra: ScheduleFiles, asked: dict[str, Any]) -> None:
    from perfatlas.verbs.schedule import schedule_page

    if extra.per_job is not None:
        write_table(str(extra.per_job), done.per_job())
    if extra.page.html is not None:
        told, line = done.answer.to_dict(), _reproduce(asked)
        page = schedule_page(told, reproduce=line, script=extra.page.script)
        write_atomic(extra.page.html, page)
    for flag, path in extra.files().items():
        sys.stderr.write(f"perfatlas: {flag} written to {path}\n")

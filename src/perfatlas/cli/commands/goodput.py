"""`perfatlas goodput` and `goodput spares`: useful time between failures, one answer or a table."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from cyclopts import App, Group, Parameter

from perfatlas.cli.commands.goodput_answer import Verb, answer_of, answer_table_of, show_goodput
from perfatlas.cli.flags import SWITCH, Count, File, OutputFlags, PageFlags, default, given
from perfatlas.cli.output import require, told_if_slow, wants_table
from perfatlas.files import check_writable, read_toml, write_atomic
from perfatlas.quantities import UsageError

_JOB: Final = Group("Job", sort_key=1)
_FAILURES: Final = Group("Failures", sort_key=2)
_FLEET: Final = Group("Fleet", sort_key=3)
_STEP: Final = Group("Training step", sort_key=4)
_OUTPUT: Final = Group("Output", sort_key=7)
EXAMPLE: Final = (
    "perfatlas goodput --gpus 16384 --mtti-s 11134 --checkpoint-write-s 60 --restart-s 300"
)
SPARES_EXAMPLE: Final = (
    "perfatlas goodput spares --nodes 2048 --node-mtbf-s 1.3e7 --repair-s 86400 --target 0.999"
)

SLOW: Final = "simulating until the goodput is as sure as --half-width asks"

app: Final = App(
    name="goodput",
    help="Tell what failures leave of a job's time, and which checkpoints and spares help.",
    help_format="plaintext",
    version_flags=(),
)


@Parameter(name="*", group=_JOB)
@dataclass(frozen=True, kw_only=True)
class JobFlags:
    """How the job lives with failures.

    Args:
        gpus: Accelerators of the job.
        checkpoint_interval_s: Seconds of work between checkpoints; by default the optimum.
        checkpoint_write_s: Seconds the job stands still to write one.
        restart_s: Seconds from a noticed failure to work; a failure in it begins it anew.
        method: How it is answered; auto takes the exact form where it is valid, and simulates
            elsewhere.
        duration_s: Seconds for which the job is watched, its failures and GPU-hours counted.
        usd_per_gpu_hour: Price of a GPU for an hour, with --gpus or --fleet.
        half_width: Of the simulated goodput, relative: it runs until the interval is so narrow.
        seed: Of the simulation.
    """

    gpus: Count = None
    checkpoint_interval_s: float | None = None
    checkpoint_write_s: float | None = None
    restart_s: float | None = None
    method: Annotated[
        Literal["auto", "exact", "simulate", "young", "daly", "saxena", "meta"] | None,
        default("auto"),
    ] = None
    duration_s: Annotated[float | None, default("30 days")] = None
    usd_per_gpu_hour: float | None = None
    half_width: Annotated[float | None, default("0.002")] = None
    seed: Annotated[Count, default("0")] = None


@Parameter(name="*", group=_FAILURES)
@dataclass(frozen=True, kw_only=True)
class FailureFlags:
    """How often it is interrupted: one of the first three, or a fleet.

    Args:
        mtti_s: Mean seconds between interruptions of the job.
        node_mtbf_s: Mean seconds between failures of one node.
        failure_rate: A published rate, such as llama3_node_unexpected or rsc1_node.
        failures_seen: Failures that mtti_s or node_mtbf_s was read from: they give the interval.
        gpus_per_node: GPUs of a node, which fail together.
        failure_shape: Weibull shape of a node's life: above 1 it wears out.
        detection_s: Seconds until a failure is noticed.
        spares: Nodes that stand by; by default never missing, with --fleet the rest of it.
        repair_s: Mean seconds until a failed node is back.
    """

    mtti_s: float | None = None
    node_mtbf_s: float | None = None
    failure_rate: str | None = None
    failures_seen: Count = None
    gpus_per_node: Annotated[Count, default("8")] = None
    failure_shape: Annotated[float | None, default("1")] = None
    detection_s: Annotated[float | None, default("0, or that of the fleet")] = None
    spares: Count = None
    repair_s: float | None = None


@Parameter(name="*", group=_FLEET)
@dataclass(frozen=True, kw_only=True)
class FleetFlags:
    """A job on a whole fleet, simulated.

    Args:
        fleet: A TOML file, or llama3 or rsc1; in place of the failures above.
        fleet_units: Nodes or racks of the fleet, in place of the file's.
        strategy: One of the file's [[strategy]] tables; by default its first.
        strategy_file: TOML file of [[strategy]] tables, in place of the fleet's.
        checkpoint_lag_s: Seconds after a write until the checkpoint is durable.
        spare_kind: Whether spares are powered (warm, hot) and fail too.
        spare_start_s: Seconds a restart takes longer when it takes in a spare.
        fewest_gpus: Go on with fewer GPUs down to these, rather than wait.
        replica_gpus: GPUs that are given up together then, and by --what-if; by default a unit.
        work_s: Run until so many seconds of useful work are done: time to finish, cost.
        finish_by_s: How likely that work is done later than so many seconds.
        mfu: Share of the peak FLOPs that useful time reaches.
        scheduling: Share of the time in which the job is scheduled.
        what_if: Rank single changes by the GPU-hours they gain.
        more_spares: Spares that --what-if adds.
        verify_s: Seconds of the verification before every checkpoint that --what-if tries against
            silent errors; by default that of another strategy, if one tells.
    """

    fleet: str | None = None
    fleet_units: Count = None
    strategy: str | None = None
    strategy_file: str | None = None
    checkpoint_lag_s: Annotated[float | None, default("0")] = None
    spare_kind: Annotated[Literal["cold", "warm", "hot"] | None, default("cold")] = None
    spare_start_s: Annotated[float | None, default("0")] = None
    fewest_gpus: Count = None
    replica_gpus: Count = None
    work_s: float | None = None
    finish_by_s: float | None = None
    mfu: float | None = None
    scheduling: float | None = None
    what_if: Annotated[bool | None, SWITCH] = None
    more_spares: Annotated[Count, default("30")] = None
    verify_s: float | None = None


@Parameter(name="*", group=_STEP)
@dataclass(frozen=True, kw_only=True)
class StepFlags:
    """A step as measured, in place of --mfu, and the bytes of a checkpoint.

    Args:
        model: Hugging Face id or catalog name: its parameters tell FLOP and bytes.
        system: Catalog name or TOML file: its peak, of one GPU.
        format: Number format of the peak.
        step_time_s: Seconds of a training step.
        tokens_per_step: Tokens of one, over all GPUs.
        checkpoint_bytes: Bytes of a checkpoint; by default 14 for every parameter of the model.
        checkpoint_bytes_per_s: Speed of the whole job's write, in place of --checkpoint-write-s.
    """

    model: str | None = None
    system: str | None = None
    format: Annotated[str | None, default("bf16")] = None
    step_time_s: float | None = None
    tokens_per_step: Count = None
    checkpoint_bytes: float | None = None
    checkpoint_bytes_per_s: float | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GoodputFlags:
    """All flags of goodput."""

    job: JobFlags = field(default_factory=JobFlags)
    failures: FailureFlags = field(default_factory=FailureFlags)
    fleet: FleetFlags = field(default_factory=FleetFlags)
    step: StepFlags = field(default_factory=StepFlags)


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class GoodputFiles:
    """What else `goodput` reads and writes.

    Args:
        scenario: TOML file with the same names as the flags; flags win over it.
        page: An HTML page of the answer.
    """

    scenario: File | None = None
    page: PageFlags = field(default_factory=PageFlags)


@app.default
def goodput(
    *,
    flags: GoodputFlags | None = None,
    extra: GoodputFiles | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Return the exit code of an answer.

    Args:
        flags: The job and what interrupts it.
        extra: Scenario file.
        output: Where the answer goes.
    """
    import perfatlas
    from perfatlas.verbs.goodput import GOODPUT_NAMES

    extra, output = extra or GoodputFiles(), output or OutputFlags()
    html, script = extra.page.html, extra.page.script
    asked = given(flags or GoodputFlags())
    if extra.scenario is not None:
        asked = {**read_toml(extra.scenario), **asked}
    if wants_table(output):
        if html is not None or asked.get("what_if"):
            flag = "--html" if html is not None else "--what-if"
            raise UsageError(f"{flag} is of one job, --table answers many")
        face, names = perfatlas.goodput, GOODPUT_NAMES
        verb = Verb(command="goodput", face=face, names=names, first="goodput")
        return answer_table_of(verb, asked, output)
    if "fleet" not in asked:  # whose file may say both
        written = "checkpoint_bytes_per_s" in asked
        needed = ("restart_s",) if written else ("checkpoint_write_s", "restart_s")
        require(asked, needed, example=EXAMPLE)
    if html is not None:
        check_writable(html)
    columns: dict[str, list[float]] = {}
    with told_if_slow(SLOW):
        if "fleet" in asked:
            from perfatlas.verbs.goodput import fleet_goodput

            run = fleet_goodput(**asked)
            answer, columns = run.answer, run.per_replica()
        else:
            answer = perfatlas.goodput(**asked)
    code = show_goodput(answer, asked, as_json=output.json)
    if html is not None:
        from perfatlas.report.text import reproduce_line
        from perfatlas.verbs.goodput import goodput_page

        sys.stdout.flush()  # whatever becomes of the page, the answer is out
        line = reproduce_line(answer.command, asked)
        page = goodput_page(answer.to_dict(), columns, reproduce=line, script=script)
        write_atomic(html, page)
        sys.stderr.write(f"perfatlas: --html written to {html}\n")
    return code


@Parameter(name="*", group=_JOB)
@dataclass(frozen=True, kw_only=True)
class SpareFlags:
    """Nodes of a job and nodes beside them.

    Args:
        nodes: Nodes the job needs.
        fleet: A TOML file, or llama3 or rsc1: how nodes fail and return, in place of the numbers.
        gpus: Accelerators of the job on it.
        spares: Nodes that stand by: asks how often the job waits.
        target: Share of time in which the job does not wait, such as 0.999: asks how many spares.
        node_mtbf_s: Mean seconds between failures of one node.
        repair_s: Mean seconds until a failed node is back.
        crews: Repairs that go on at once; by default as many as are needed.
        warm: Spares fail like other nodes.
    """

    nodes: Count = None
    fleet: str | None = None
    gpus: Count = None
    spares: Count = None
    target: float | None = None
    node_mtbf_s: float | None = None
    repair_s: float | None = None
    crews: Count = None
    warm: Annotated[bool | None, SWITCH] = None


app.command(
    "perfatlas.cli.commands.goodput_domains:domains",
    name="domains",
    help="Tell which share of domains works while some GPUs are out: blast radius, k of n.",
)
app.command(
    "perfatlas.cli.commands.goodput_domains:stragglers",
    name="stragglers",
    help="Tell what waiting for the slowest GPU costs a synchronous step.",
)


@app.command
def spares(
    *,
    flags: SpareFlags | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Tell how often a job waits for a node, or how many spares keep it from waiting.

    Args:
        flags: The nodes.
        output: Where the answer goes.
    """
    import perfatlas
    from perfatlas.verbs.goodput import SPARE_NAMES

    asked = given(flags or SpareFlags())
    needed = () if "fleet" in asked else ("nodes", "node_mtbf_s", "repair_s")
    verb = Verb(
        command="goodput spares",
        face=perfatlas.goodput_spares,
        names=SPARE_NAMES,
        first="blocked_probability",
        needed=needed,
        example=SPARES_EXAMPLE,
    )
    return answer_of(verb, asked, output or OutputFlags())

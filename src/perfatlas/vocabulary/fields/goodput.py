"""Fields of goodput: job, failures, fleet, training step and spares."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import clusters, conditions
from perfatlas.vocabulary.fields.numbers import Count, CountOrZero, Number
from perfatlas.vocabulary.fields.prices import USD_PER_GPU_HOUR, UsdPerGpuHour
from perfatlas.vocabulary.fields.rows import Catalog, InputFile, Text, fields_of, group
from perfatlas.vocabulary.fields.subject import FormatName, ModelName, Subject, SystemName

MONTH_S: Final = 30 * 86400.0
MAX_ADDED_SPARES: Final = 1_000_000
MAX_SPARES: Final = 100_000
MAX_SEEDS: Final = 1000
Level = Annotated[float, Number(unit="fraction", above=0.0, below=1.0)]
_SUBJECT: Final = fields_of(Subject)
NEEDS_FLEET: Final = conditions.AnySet("fleet", example="llama3")
SIMULATED_JOB: Final = conditions.Noted(conditions.Fact("simulation"))
WHAT_IF: Final = conditions.AllOf(NEEDS_FLEET, conditions.AnySet("what_if"))
STEP: Final = conditions.AnySet("step_time_s")
NODES_MATTER: Final = conditions.WithMessage(
    conditions.AnyOf(
        conditions.NotSet("mtti_s", ""),
        conditions.AnySet("spares"),
        conditions.NotEqual("failure_shape", 1.0),
    ),
    "mtti_s is the mean time to interruption of the whole job",
    "set node_mtbf_s instead",
)


RateName = Annotated[
    str, Text(), Catalog("rates", ("perfatlas.reliability.fleet.model:published_rates",))
]


@group("Job", 1)
class ResilientJob:
    """Checkpointing and restart of the job."""

    gpus: Annotated[Count | None, clusters.GPUS] = None
    checkpoint_interval_s: Annotated[
        clusters.Duration | None, replace(clusters.CHECKPOINT_INTERVAL, default="the optimum")
    ] = None
    checkpoint_write_s: clusters.Pause | None = None
    restart_s: Annotated[clusters.Pause | None, clusters.RESTART] = None
    method: Annotated[
        Literal["auto", "exact", "simulate"],
        conditions.WithMessage(
            conditions.AnyOf(clusters.NO_FLEET, conditions.Equals("method", "simulate")),
            "a job on a fleet is always simulated",
            "leave fleet out",
        ),
    ] = "auto"
    duration_s: Annotated[
        clusters.Duration, conditions.NotSet("work_s", "ends the job when the work is done")
    ] = MONTH_S
    usd_per_gpu_hour: Annotated[
        UsdPerGpuHour | None,
        replace(USD_PER_GPU_HOUR, needs=conditions.AnySet("gpus", "fleet")),
    ] = None
    half_width: Annotated[Level, SIMULATED_JOB] = 0.002
    seed: Annotated[clusters.Seed, replace(clusters.SEED, needs=SIMULATED_JOB)] = 0
    num_seeds: Annotated[Annotated[int, Number(at_least=1, at_most=MAX_SEEDS)], SIMULATED_JOB] = 1


@group("Failures", 2)
class JobFailures:
    """Failure rate of the job: mtti_s, node_mtbf_s, failure_rate or a fleet."""

    mtti_s: Annotated[clusters.Duration | None, clusters.NO_FLEET] = None
    node_mtbf_s: Annotated[clusters.Duration | None, clusters.NODE_MTBF] = None
    failure_rate: Annotated[RateName | None, clusters.NO_FLEET] = None
    failures_seen: Annotated[
        Count | None,
        conditions.AllOf(
            clusters.NO_FLEET,
            conditions.NotSet("failure_rate", "has its own interval, or none"),
        ),
    ] = None
    gpus_per_node: Annotated[
        Count,
        replace(
            clusters.GPUS_PER_NODE,
            default="8, or the system's",
            needs=conditions.AllOf(clusters.NO_FLEET, NODES_MATTER),
        ),
    ] = 8
    failure_shape: Annotated[
        Annotated[float, Number(at_least=0.2, at_most=20.0)], clusters.NO_FLEET
    ] = 1.0
    detection_s: Annotated[
        clusters.Pause | None, replace(clusters.DETECTION, default="0, or the fleet's")
    ] = None
    spares: Annotated[
        CountOrZero | None,
        replace(
            clusters.SPARES, default="unlimited; with fleet, its ratio of spares to other units"
        ),
    ] = None
    repair_s: Annotated[
        clusters.Duration | None,
        replace(
            clusters.NODE_REPAIR,
            needs=conditions.AllOf(clusters.NO_FLEET, conditions.AnySet("spares")),
        ),
    ] = None


@group("Fleet", 3)
class JobOnFleet:
    """A job on a whole fleet (always simulated)."""

    fleet: Annotated[clusters.FleetName | None, clusters.FLEET] = None
    fleet_units: Annotated[Count | None, NEEDS_FLEET] = None
    strategy: Annotated[Annotated[str, Text(256)] | None, NEEDS_FLEET] = None
    strategy_file: Annotated[Annotated[str, Text(), InputFile()] | None, NEEDS_FLEET] = None
    response: Annotated[
        Literal["slurm_requeue", "slurm_no_kill", "torchrun", "jobset", "torchft", "in_job_restart"]
        | None,
        NEEDS_FLEET,
    ] = None
    checkpoint_lag_s: Annotated[clusters.Pause, NEEDS_FLEET] = 0.0
    spare_kind: Annotated[
        Literal["cold", "warm", "hot"],
        conditions.AllOf(NEEDS_FLEET, conditions.Noted(conditions.Fact("spares of no other kind"))),
    ] = "cold"
    spare_start_s: Annotated[clusters.Pause, NEEDS_FLEET] = 0.0
    spare_order: Annotated[
        Literal["random", "first", "longest_idle", "last_returned"],
        conditions.AllOf(
            NEEDS_FLEET,
            conditions.Fact("units that differ"),
            conditions.Noted(conditions.Fact("spares that join in place")),
        ),
    ] = "random"
    fewest_gpus: Annotated[Count | None, NEEDS_FLEET] = None
    replica_gpus: Annotated[
        Count | None,
        conditions.AllOf(
            NEEDS_FLEET,
            conditions.AnySet("fewest_gpus", "what_if"),
            conditions.AnyOf(
                conditions.Fact("strategy without shrink"), conditions.AnySet("fewest_gpus")
            ),
        ),
    ] = None
    work_s: Annotated[clusters.Duration | None, NEEDS_FLEET] = None
    finish_by_s: Annotated[
        clusters.Duration | None, conditions.AllOf(NEEDS_FLEET, conditions.AnySet("work_s"))
    ] = None
    mfu: Annotated[clusters.Share | None, NEEDS_FLEET] = None
    scheduling: Annotated[clusters.Share | None, NEEDS_FLEET] = None
    what_if: Annotated[bool, NEEDS_FLEET] = False
    more_spares: Annotated[
        Annotated[int, Number(at_least=1, at_most=MAX_ADDED_SPARES)], WHAT_IF
    ] = 30
    verify_s: Annotated[
        clusters.Duration | None,
        conditions.AllOf(
            WHAT_IF,
            conditions.Fact("strategy without verification"),
            conditions.Fact("silent errors"),
        ),
    ] = None


@group("Training step", 4)
class MeasuredStep:
    """A measured training step, instead of mfu, and the checkpoint size."""

    model: Annotated[
        ModelName | None,
        replace(
            _SUBJECT["model"].row,
            text="Trained model: a Hugging Face id or catalog name; its parameters give FLOPs and"
            " checkpoint size.",
            needs=conditions.AnyOf(
                conditions.AllOf(
                    conditions.NotSet("checkpoint_bytes", "sets the checkpoint size"),
                    conditions.WithMessage(
                        conditions.AnySet("checkpoint_bytes_per_s", "fleet"),
                        "neither a write bandwidth nor a step time for the MFU is set",
                        "set checkpoint_bytes_per_s",
                    ),
                ),
                STEP,
            ),
        ),
    ] = None
    system: Annotated[
        SystemName | None,
        replace(
            clusters.SYSTEM,
            text="System of the job: its peak FLOP/s for the MFU, and without a fleet its GPUs per"
            " node.",
            needs=conditions.AnyOf(
                conditions.AnySet("step_time_s", "tokens_per_step"),
                conditions.AllOf(clusters.NO_FLEET, NODES_MATTER),
            ),
        ),
    ] = None
    format: Annotated[FormatName, STEP] = "bf16"
    step_time_s: Annotated[clusters.Duration | None, NEEDS_FLEET] = None
    tokens_per_step: Annotated[
        Annotated[int, Number(at_least=1, at_most=10**12, binary_suffixes=True)] | None, NEEDS_FLEET
    ] = None
    checkpoint_bytes: Annotated[
        Annotated[float, Number(unit="bytes", above=0.0, at_most=1e18)] | None,
        conditions.WithMessage(
            conditions.AnyOf(
                conditions.AnySet("checkpoint_bytes_per_s"),
                conditions.AllOf(NEEDS_FLEET, conditions.Fact("strategy with bandwidths")),
            ),
            "no write bandwidth is set",
            "set checkpoint_bytes_per_s (or bandwidths of a [[strategy]] table)",
        ),
    ] = None
    checkpoint_bytes_per_s: (
        Annotated[float, Number(unit="bytes/s", above=0.0, at_most=1e18)] | None
    ) = None


@group("Nodes", 1)
class SparePool:
    """Nodes of a job and their spares."""

    nodes: Annotated[
        Count | None, conditions.NotSet("fleet", "gives the nodes, together with gpus")
    ] = None
    fleet: Annotated[clusters.FleetName | None, clusters.FLEET] = None
    gpus: Annotated[Count | None, replace(clusters.GPUS, default="", needs=NEEDS_FLEET)] = None
    spares: Annotated[
        Annotated[int, Number(at_least=0, at_most=MAX_SPARES)] | None, clusters.SPARES
    ] = None
    target: Level | None = None
    node_mtbf_s: Annotated[clusters.Duration | None, clusters.NODE_MTBF] = None
    repair_s: Annotated[clusters.Duration | None, clusters.NODE_REPAIR] = None
    crews: Count | None = None
    warm: Annotated[bool, conditions.Noted(conditions.NotEqual("spares", 0))] = False

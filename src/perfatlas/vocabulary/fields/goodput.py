"""Fields of goodput: job, failures, fleet, training step and spares."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import clusters, conditions
from perfatlas.vocabulary.fields.numbers import Count, CountOrZero, Number
from perfatlas.vocabulary.fields.prices import USD_PER_GPU_HOUR, UsdPerGpuHour
from perfatlas.vocabulary.fields.rows import Catalog, InputFile, Row, Text, fields_of, group
from perfatlas.vocabulary.fields.subject import FormatName, ModelName, Subject, SystemName

MONTH_S: Final = 30 * 86400.0
MOST_MORE_SPARES: Final = 1_000_000
MOST_SPARES: Final = 100_000
MOST_SEEDS: Final = 1000
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
    checkpoint_write_s: Annotated[
        clusters.Pause | None,
        Row(
            "Blocking checkpoint write time.",
            elsewhere=("checkpoint_cost_s", "checkpoint_time_s", "checkpoint_overhead_s"),
            common=True,
        ),
    ] = None
    restart_s: Annotated[clusters.Pause | None, clusters.RESTART] = None
    method: Annotated[
        Literal["auto", "exact", "simulate"],
        Row(
            "Method: exact (renewal model) or simulate; auto uses exact if it is valid and simulate"
            " otherwise.",
            needs=conditions.WithMessage(
                conditions.AnyOf(clusters.NO_FLEET, conditions.Equals("method", "simulate")),
                "a job on a fleet is always simulated",
                "leave fleet out",
            ),
            common=True,
        ),
    ] = "auto"
    duration_s: Annotated[
        clusters.Duration,
        Row(
            "Period over which failures and GPU-hours are counted.",
            default="30 days",
            needs=conditions.NotSet("work_s", "ends the job when the work is done"),
        ),
    ] = MONTH_S
    usd_per_gpu_hour: Annotated[
        UsdPerGpuHour | None,
        replace(USD_PER_GPU_HOUR, needs=conditions.AnySet("gpus", "fleet")),
    ] = None
    half_width: Annotated[
        Level,
        Row(
            "Relative half-width of the confidence interval at which the simulation stops.",
            needs=SIMULATED_JOB,
        ),
    ] = 0.002
    seed: Annotated[clusters.Seed, replace(clusters.SEED, needs=SIMULATED_JOB)] = 0
    num_seeds: Annotated[
        Annotated[int, Number(at_least=1, at_most=MOST_SEEDS)],
        Row(
            "Number of simulations, with seeds seed, seed + 1, ...: means with confidence"
            " intervals.",
            needs=SIMULATED_JOB,
        ),
    ] = 1


@group("Failures", 2)
class JobFailures:
    """Failure rate of the job: mtti_s, node_mtbf_s, failure_rate or a fleet."""

    mtti_s: Annotated[
        clusters.Duration | None,
        Row(
            "Mean time to interruption of the job.",
            needs=clusters.NO_FLEET,
            elsewhere=("mtti", "mtbf", "mtbf_s", "mttf", "mttf_s", "mtbi_s"),
            common=True,
        ),
    ] = None
    node_mtbf_s: Annotated[clusters.Duration | None, clusters.NODE_MTBF] = None
    failure_rate: Annotated[
        RateName | None,
        Row(
            "Published failure rate, such as llama3_node_unexpected or rsc1_node.",
            needs=clusters.NO_FLEET,
        ),
    ] = None
    failures_seen: Annotated[
        Count | None,
        Row(
            "Number of observed failures behind mtti_s or node_mtbf_s, for a confidence interval.",
            needs=conditions.AllOf(
                clusters.NO_FLEET,
                conditions.NotSet("failure_rate", "has its own interval, or none"),
            ),
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
        Annotated[float, Number(at_least=0.2, at_most=20.0)],
        Row(
            "Weibull shape of node lifetimes (1 = exponential, above 1 = wear-out).",
            needs=clusters.NO_FLEET,
            elsewhere=("weibull_shape",),
        ),
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
    fleet_units: Annotated[
        Count | None,
        Row("Units (nodes or racks) of the fleet.", "from the fleet file", NEEDS_FLEET),
    ] = None
    strategy: Annotated[
        Annotated[str, Text(256)] | None,
        Row("Recovery strategy: a [[strategy]] table of the fleet.", "the first", NEEDS_FLEET),
    ] = None
    strategy_file: Annotated[
        Annotated[str, Text(), InputFile()] | None,
        Row("TOML file of [[strategy]] tables.", "the fleet file", NEEDS_FLEET),
    ] = None
    response: Annotated[
        Literal["slurm_requeue", "slurm_no_kill", "torchrun", "jobset", "torchft", "in_job_restart"]
        | None,
        Row(
            "Documented response of a launcher to a lost node: sets the detection time of causes"
            " that have none, and whether the job shrinks, its peers hold the state or its spares"
            " are hot.",
            default="as the strategy says",
            needs=NEEDS_FLEET,
            elsewhere=("recovery_policy", "launcher"),
        ),
    ] = None
    checkpoint_lag_s: Annotated[
        clusters.Pause,
        Row("Delay from the end of a write until the checkpoint is durable.", needs=NEEDS_FLEET),
    ] = 0.0
    spare_kind: Annotated[
        Literal["cold", "warm", "hot"],
        Row(
            "State of spares; warm and hot spares are powered on and can fail.",
            needs=conditions.AllOf(
                NEEDS_FLEET, conditions.Noted(conditions.Fact("spares of no other kind"))
            ),
        ),
    ] = "cold"
    spare_start_s: Annotated[
        clusters.Pause,
        Row("Additional restart time when a spare joins the job.", needs=NEEDS_FLEET),
    ] = 0.0
    spare_order: Annotated[
        Literal["random", "first", "longest_idle", "last_returned"],
        Row(
            "Which spare joins the job: a random one, the first by number, the one that has been"
            " idle longest, or the one that returned from repair last.",
            needs=conditions.AllOf(
                NEEDS_FLEET,
                conditions.Fact("units that differ"),
                conditions.Noted(conditions.Fact("spares that join in place")),
            ),
        ),
    ] = "random"
    fewest_gpus: Annotated[
        Count | None,
        Row(
            "Minimum GPUs for elastic operation: the job continues with fewer GPUs instead of"
            " waiting.",
            default="not elastic",
            needs=NEEDS_FLEET,
            elsewhere=("min_gpus", "min_world_size"),
        ),
    ] = None
    replica_gpus: Annotated[
        Count | None,
        Row(
            "GPUs that an elastic job releases together, such as one data-parallel replica.",
            default="one unit",
            needs=conditions.AllOf(
                NEEDS_FLEET,
                conditions.AnySet("fewest_gpus", "what_if"),
                conditions.AnyOf(
                    conditions.Fact("strategy without shrink"), conditions.AnySet("fewest_gpus")
                ),
            ),
        ),
    ] = None
    work_s: Annotated[
        clusters.Duration | None,
        Row(
            "Useful work after which the job ends, instead of duration_s.",
            "none",
            NEEDS_FLEET,
            common=True,
        ),
    ] = None
    finish_by_s: Annotated[
        clusters.Duration | None,
        Row(
            "Deadline of the job; the answer gives the probability of missing it.",
            default="none",
            needs=conditions.AllOf(NEEDS_FLEET, conditions.AnySet("work_s")),
        ),
    ] = None
    mfu: Annotated[
        clusters.Share | None,
        Row("Model FLOPs utilization (MFU) in productive time.", needs=NEEDS_FLEET),
    ] = None
    scheduling: Annotated[
        clusters.Share | None, Row("Fraction of time the job is scheduled.", "1", NEEDS_FLEET)
    ] = None
    what_if: Annotated[
        bool, Row("Rank single changes by the GPU-hours they save.", needs=NEEDS_FLEET)
    ] = False
    more_spares: Annotated[
        Annotated[int, Number(at_least=1, at_most=MOST_MORE_SPARES)],
        Row("Number of spares that what_if adds.", needs=WHAT_IF),
    ] = 30
    verify_s: Annotated[
        clusters.Duration | None,
        Row(
            "Duration of the verification that what_if adds before each checkpoint against"
            " silent errors.",
            default="from another strategy",
            needs=conditions.AllOf(
                WHAT_IF,
                conditions.Fact("strategy without verification"),
                conditions.Fact("silent errors"),
            ),
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
    format: Annotated[FormatName, Row("Number format of that peak.", needs=STEP)] = "bf16"
    step_time_s: Annotated[
        clusters.Duration | None,
        Row("Measured time of one training step.", needs=NEEDS_FLEET, common=True),
    ] = None
    tokens_per_step: Annotated[
        Annotated[int, Number(at_least=1, at_most=10**12, binary_suffixes=True)] | None,
        Row(
            "Tokens per training step, over all GPUs.",
            needs=NEEDS_FLEET,
            elsewhere=("global_batch_tokens", "tokens_per_batch"),
        ),
    ] = None
    checkpoint_bytes: Annotated[
        Annotated[float, Number(unit="bytes", above=0.0, at_most=1e18)] | None,
        Row(
            "Checkpoint size, such as 5.7TB.",
            default="14 bytes per parameter of model",
            needs=conditions.WithMessage(
                conditions.AnyOf(
                    conditions.AnySet("checkpoint_bytes_per_s"),
                    conditions.AllOf(NEEDS_FLEET, conditions.Fact("strategy with bandwidths")),
                ),
                "no write bandwidth is set",
                "set checkpoint_bytes_per_s (or bandwidths of a [[strategy]] table)",
            ),
            elsewhere=("checkpoint_size", "checkpoint_size_bytes"),
        ),
    ] = None
    checkpoint_bytes_per_s: Annotated[
        Annotated[float, Number(unit="bytes/s", above=0.0, at_most=1e18)] | None,
        Row(
            "Checkpoint write bandwidth of the whole job, such as 100GB/s, instead of"
            " checkpoint_write_s.",
            elsewhere=("checkpoint_bandwidth", "checkpoint_write_bandwidth"),
        ),
    ] = None


@group("Nodes", 1)
class SparePool:
    """Nodes of a job and their spares."""

    nodes: Annotated[
        Count | None,
        Row(
            "Nodes of the job.",
            needs=conditions.NotSet("fleet", "gives the nodes, together with gpus"),
            elsewhere=("num_nodes", "nnodes"),
        ),
    ] = None
    fleet: Annotated[clusters.FleetName | None, clusters.FLEET] = None
    gpus: Annotated[Count | None, replace(clusters.GPUS, default="", needs=NEEDS_FLEET)] = None
    spares: Annotated[
        Annotated[int, Number(at_least=0, at_most=MOST_SPARES)] | None, clusters.SPARES
    ] = None
    target: Annotated[
        Level | None,
        Row(
            "Availability target: fraction of time the job does not wait for a node, such as"
            " 0.999; the answer gives the number of spares."
        ),
    ] = None
    node_mtbf_s: Annotated[clusters.Duration | None, clusters.NODE_MTBF] = None
    repair_s: Annotated[clusters.Duration | None, clusters.NODE_REPAIR] = None
    crews: Annotated[
        Count | None, Row("Repair crews: maximum concurrent repairs.", "unlimited")
    ] = None
    warm: Annotated[
        bool,
        Row(
            "Spares can fail like active nodes (warm standby).",
            needs=conditions.Noted(conditions.NotEqual("spares", 0)),
        ),
    ] = False

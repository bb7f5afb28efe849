"""Metrics of all `goodput` verbs."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import STATISTICS, Metric, reported_by

GOODPUT: Final = ("goodput",)
FRONTIER: Final = "strategy_frontier"
BEST: Final = "best_strategy"
WITH_PRICE: Final = {"usd_per_gpu_hour": 2.0}
OVER_REPLICAS: Final = ("mean", "p5", *STATISTICS[1:])
FACTORS: Final = {
    "availability": "availability: nodes in service",
    "scheduling": "scheduling: job running on them",
    "ettr": "ETTR: making progress",
    "not_degraded": "full speed: not degraded",
    "mfu": "MFU: fraction of peak FLOP/s",
    "product": "product",
}
# parts of the time of a job
JOB_TIME: Final = {
    "productive": "useful work",
    "checkpoint": "writing checkpoints",
    "lost_work": "recomputed work",
    "detection": "failure detection",
    "restart": "restarting",
    "waiting_for_spares": "waiting for nodes",
    "degraded": "running slower",
    "maintenance": "maintenance",
    "idle": "idle",
}

_JOB: Final = reported_by(
    Metric(
        name="goodput",
        label="goodput (productive share of time)",
        shown="share",
        better="higher",
        has_interval=True,
        description="Fraction of time in which the job makes progress that is kept.",
    ),
    Metric(
        name="checkpoint_interval_s",
        label="checkpoint interval",
        shown="duration",
        description="Work time between two checkpoints.",
    ),
    Metric(
        name="optimal_checkpoint_interval_s",
        label="optimal checkpoint interval",
        shown="duration",
        description="Work time between checkpoints that maximizes goodput.",
    ),
    Metric(
        name="mtti_s",
        label="mean time to interruption",
        shown="duration",
        better="higher",
        has_interval=True,
        description="Mean time between interruptions of the job, in time exposed to failures.",
    ),
    Metric(
        name="interruptions_per_day",
        label="interruptions per day",
        better="lower",
        description="Interruptions of the job per day of wall time.",
    ),
    Metric(
        name="interruptions",
        label="interruptions",
        better="lower",
        description="Interruptions during duration_s, mean over runs.",
    ),
    Metric(
        name="duration_s",
        label="duration",
        shown="duration",
        verbs=("goodput", "fleet schedule"),
        description="Wall time of the job; for a schedule, from first submission to end.",
    ),
    Metric(
        name="gpu_hours",
        label="GPU-hours of the job",
        description="GPU-hours of the job over its duration.",
    ),
    Metric(
        name="lost_gpu_hours",
        label="GPU-hours lost",
        better="lower",
        verbs=("goodput", "fleet schedule"),
        description="GPU-hours without progress, including lost work.",
    ),
    Metric(
        name="useful_gpu_hours",
        label="useful GPU-hours",
        better="higher",
        statistics=OVER_REPLICAS,
        statistics_of=GOODPUT,
        description="GPU-hours of work that is kept.",
    ),
    Metric(
        name="lost_usd",
        label="cost of lost GPU-hours",
        better="lower",
        description="Cost of the lost GPU-hours.",
    ),
    Metric(
        name="usd_per_useful_gpu_hour",
        label="cost per useful GPU-hour",
        better="lower",
        verbs=(*GOODPUT, "fleet schedule"),
        asked_with=WITH_PRICE,
        description="Cost of all GPUs held, per useful GPU-hour.",
    ),
    Metric(
        name="cost_usd",
        label="cost",
        better="lower",
        verbs=(*GOODPUT, "fleet schedule"),
        asked_with=WITH_PRICE,
        statistics=OVER_REPLICAS,
        statistics_of=GOODPUT,
        description="Cost of all GPUs held, including spares.",
    ),
    Metric(
        name="finish_s",
        label="time to finish",
        shown="duration",
        better="lower",
        statistics=OVER_REPLICAS,
        statistics_of=GOODPUT,
        description="Time until the work is complete.",
    ),
    Metric(
        name="unfinished",
        label="simulated runs aborted",
        better="lower",
        holds="count",
        description="Simulated runs aborted before the work was complete.",
    ),
    Metric(
        name="finish_by_s",
        label="deadline",
        shown="duration",
        description="Deadline from the input.",
    ),
    Metric(
        name="late_probability",
        label="probability of missing the deadline",
        shown="share",
        better="lower",
        has_interval=True,
        description="Probability that the work takes longer than finish_by_s.",
    ),
    Metric(
        name="gpus_held",
        label="GPUs held (incl. spares)",
        better="lower",
        holds="count",
        verbs=("goodput",),
        description="GPUs of the job and its spares.",
    ),
    Metric(
        name="spares",
        label="spares",
        holds="count",
        verbs=("goodput", "goodput spares"),
        description="Spare nodes.",
    ),
    Metric(
        name="replicas",
        label="simulated replicas",
        holds="count",
        verbs=(*GOODPUT, "goodput --frontier"),
        description="Number of simulated runs of the job.",
    ),
    Metric(
        name="seed",
        label="seed",
        holds="count",
        verbs=(*GOODPUT, "goodput --frontier"),
        description="Seed of the simulated failures; answers with equal seeds share them.",
    ),
    Metric(
        name="closed_form_goodput",
        label="closed-form goodput",
        shown="share",
        better="higher",
        description="Goodput of the same job by a closed form, if one applies.",
    ),
    Metric(
        name="checkpoint_bytes",
        label="checkpoint size",
        better="lower",
        verbs=(*GOODPUT, "train"),
        description="Bytes written per checkpoint of the job.",
    ),
    Metric(
        name="factors",
        label="goodput decomposition",
        shown="share",
        better="higher",
        holds="object",
        parts=FACTORS,
        description="Factors whose product is the goodput; relative to peak if an MFU is given.",
    ),
    Metric(
        name="changes",
        label="single changes",
        holds="rows",
        description="Gains of single changes of the job or fleet, largest first.",
    ),
    Metric(
        name="changes.name",
        label="change",
        holds="text",
        description="The change.",
    ),
    Metric(
        name="changes.gained_gpu_hours",
        label="GPU-hours gained",
        better="higher",
        has_interval=True,
        description="Useful GPU-hours that the change gains.",
    ),
    Metric(
        name="changes.added_gpu_hours",
        label="additional GPU-hours held",
        better="lower",
        description="GPU-hours held in addition.",
    ),
    Metric(
        name="changes.gained_usd",
        label="value of the GPU-hours gained",
        better="higher",
        description="GPU-hours that the change gains, at the price of one.",
    ),
    Metric(
        name="changes.added_usd",
        label="cost of the additional GPU-hours",
        better="lower",
        description="GPU-hours held in addition, at the price of one.",
    ),
    Metric(
        name="changes.goodput",
        label="goodput",
        shown="share",
        better="higher",
        description="Goodput with the change.",
    ),
    Metric(
        name="changes.gained_share",
        label="share gained",
        shown="share",
        better="higher",
        description="GPU-hours gained relative to those of the job.",
    ),
    Metric(
        name="changes.assumes",
        label="assumes",
        holds="text",
        description="Assumptions of the change.",
    ),
    Metric(
        name="training_mfu",
        label="MFU of a step",
        shown="share",
        better="higher",
        has_interval=True,
        description="Model FLOP utilization of the predicted step, without interruptions.",
    ),
    Metric(
        name="effective_mfu",
        label="MFU x goodput",
        shown="share",
        better="higher",
        has_interval=True,
        description="Model FLOP utilization of the job over its whole time. Ends of the interval"
        " combine those of both.",
    ),
    Metric(
        name="training_tokens_per_s",
        label="tokens/s of the job",
        better="higher",
        has_interval=True,
        description="Tokens that the job trains per second of its whole time, over all GPUs.",
    ),
    Metric(
        name="time_to_tokens_s",
        label="time to the token budget",
        shown="duration",
        better="lower",
        has_interval=True,
        description="Time in which the job trains its token budget.",
    ),
    Metric(
        name="token_budget_gpu_hours",
        label="GPU-hours to the token budget",
        better="lower",
        description="GPU-hours of the job until its token budget is trained, without spares.",
    ),
    Metric(
        name="usd_per_training_run",
        label="cost of the training run",
        short="cost of the run",
        better="lower",
        has_interval=True,
        description="Price of the GPU-hours of the job and its spares until its token budget is"
        " trained.",
    ),
    verbs=GOODPUT,
)


def _of_rows(rows: str) -> tuple[Metric, ...]:
    """Return the metrics of a row of the frontier."""
    return (*_choices(rows), *_outcomes(rows))


def _choices(rows: str) -> tuple[Metric, ...]:
    """Return the metrics of what a strategy chooses."""
    return (
        Metric(
            name=f"{rows}.response",
            label="recovery policy",
            holds="text",
            description="Documented response of a launcher to a lost node.",
        ),
        Metric(
            name=f"{rows}.checkpoint_levels",
            label="checkpoint levels",
            holds="text",
            description="Levels of checkpoints, the nearest first.",
        ),
        Metric(
            name=f"{rows}.checkpoint_interval_s",
            label="work between checkpoints",
            short="interval",
            shown="duration",
            description="Work between checkpoints.",
        ),
        Metric(
            name=f"{rows}.spares",
            label="spares",
            holds="count",
            description="Spare nodes of the strategy.",
        ),
    )


def _outcomes(rows: str) -> tuple[Metric, ...]:
    """Return the metrics of what a strategy takes and gives."""
    return (
        Metric(
            name=f"{rows}.gpus_held",
            label="GPUs held",
            holds="count",
            better="lower",
            description="GPUs of the job and its spares.",
        ),
        Metric(
            name=f"{rows}.goodput",
            label="goodput",
            shown="share",
            better="higher",
            has_interval=True,
            description="Productive share of the time of the job.",
        ),
        Metric(
            name=f"{rows}.usd_per_useful_gpu_hour",
            label="cost per useful GPU-hour",
            short="useful hour",
            better="lower",
            description="Price of the GPU-hours held over the useful ones.",
        ),
        Metric(
            name=f"{rows}.useful_share_of_held",
            label="useful share of GPU-hours held",
            short="useful of held",
            shown="share",
            better="higher",
            description="Useful GPU-hours over those held by the job and its spares.",
        ),
        Metric(
            name=f"{rows}.replicas",
            label="simulated replicas",
            holds="count",
            description="Number of simulated runs of the job under the strategy.",
        ),
    )


_STRATEGIES: Final = reported_by(
    Metric(
        name=FRONTIER,
        label="recovery strategies that no other exceeds",
        short="best strategies",
        holds="rows",
        description="Strategies with more goodput than any that holds as few GPUs, fewest first.",
    ),
    *_of_rows(FRONTIER),
    Metric(
        name=BEST,
        label="best strategy",
        holds="object",
        description="The one of them with the most useful GPU-hours per GPU-hour held.",
    ),
    *_of_rows(BEST),
    Metric(
        name="why",
        label="why the best",
        holds="text",
        description="What the next best strategy loses more.",
    ),
    Metric(
        name="strategies",
        label="strategies",
        holds="count",
        description="Strategies that were simulated.",
    ),
    Metric(
        name="strategies_dominated",
        label="dominated strategies",
        holds="count",
        description="Strategies that another exceeds in goodput and GPUs held.",
    ),
    Metric(
        name="strategies_skipped",
        label="combinations that do not apply",
        short="skipped",
        holds="rows",
        description="Combinations that a policy does not allow, by reason.",
    ),
    Metric(
        name="strategies_skipped.reason",
        label="reason",
        holds="text",
        description="Why they do not apply.",
    ),
    Metric(
        name="strategies_skipped.count",
        label="combinations",
        holds="count",
        description="Number of combinations.",
    ),
    verbs=("goodput --frontier",),
)
JOB: Final = (*_JOB, *_STRATEGIES)

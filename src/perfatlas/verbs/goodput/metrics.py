"""Metrics of a job with a predicted step, and of the frontier of recovery strategies."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

COMMAND: Final = "goodput"
VERBS: Final = (f"{COMMAND} --frontier",)
FRONTIER: Final = "strategy_frontier"
BEST: Final = "best_strategy"


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


RESULTS: Final = declare_metrics(
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
    verbs=VERBS,
)

declare_metrics(
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
    verbs=(COMMAND,),
)

"""The groups of fields that each form of `goodput` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    JobFailures,
    JobOnFleet,
    JobPower,
    MeasuredStep,
    ResilientJob,
    SparePool,
    TrainedTokens,
)

COMMAND: Final = "goodput"
FRONTIER: Final = "strategy_frontier"  # rows of results
QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "goodput": (ResilientJob, JobFailures, JobOnFleet, MeasuredStep, JobPower, TrainedTokens),
    "goodput spares": (SparePool,),
}

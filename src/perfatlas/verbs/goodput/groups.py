"""The groups of fields that each form of `goodput` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary import fields

COMMAND: Final = "goodput"
FRONTIER: Final = "strategy_frontier"  # rows of results
QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "goodput": (
        fields.ResilientJob,
        fields.JobFailures,
        fields.JobOnFleet,
        fields.MeasuredStep,
        fields.JobPower,
        fields.TrainedTokens,
    ),
    "goodput spares": (fields.SparePool,),
}

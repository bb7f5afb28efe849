"""The fields of goodput, checked; the table of fields declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import InputFields
from perfatlas.vocabulary.fields import (
    JobFailures,
    JobOnFleet,
    JobPower,
    MeasuredStep,
    ResilientJob,
    SparePool,
    TrainedTokens,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# the groups from the last to the first: Python collects annotations from the last base on
class Goodput(
    InputFields, TrainedTokens, JobPower, MeasuredStep, JobOnFleet, JobFailures, ResilientJob
):
    """A job, how it lives with failures, and the step it runs. None means "derive it"."""

    required: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def read(cls, fields: Mapping[str, Any], others: Sequence[str] = ()) -> Self:
        """Return named fields as typed ones; None and empty text are unset.

        Args:
            others: Further names for suggestions.

        Raises:
            InvalidSpecError: A name is unknown, a value is invalid, or a required field is missing.

        Example:
            >>> from perfatlas.scenario.interrupted_jobs.job_fields import Goodput
            >>> Goodput.read({"mtti_s": "3h"}).mtti_s
            10800.0
        """
        inputs = super().read(fields, others)
        missing = [name for name in cls.required if getattr(inputs, name) is None]
        if missing:
            raise InvalidSpecError("; ".join(f"{name} is required" for name in missing))
        return inputs


class SimpleGoodput(Goodput):
    """A job with a single exponential failure rate, or with ageing nodes."""

    required = ("checkpoint_write_s", "restart_s", "detection_s")
    if TYPE_CHECKING:
        checkpoint_write_s: float
        restart_s: float
        detection_s: float


class FleetGoodput(Goodput):
    """A job on a fleet of a file or the catalog, always simulated."""

    required = ("fleet",)
    if TYPE_CHECKING:
        fleet: str


class SpareNodes(InputFields, SparePool):
    """Nodes of a job, nodes beside them, and how often a job waits."""

"""The fields of goodput, checked; the table of fields declares them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from perfatlas.answer import averaged, half_widths
from perfatlas.quantities import InvalidSpecError, Rule, two_digits
from perfatlas.scenario.fields import IDLE_POWER_RULE, InputFields
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

    from perfatlas.answer import Answer
    from perfatlas.scenario.fields import Columns

STEP: Final = ("model", "system", "step_time_s", "tokens_per_step")
MEASURED: Final = (
    *("goodput", "interruptions", "interruptions_per_day", "lost_gpu_hours", "useful_gpu_hours"),
    *("finish_s", "cost_usd", "usd_per_useful_gpu_hour", "job_energy_j", "lost_energy_j"),
    "lost_work_energy_j",
)


def seeds_of(inputs: Goodput) -> range:
    """Return the seeds of a job."""
    return range(inputs.seed, inputs.seed + inputs.num_seeds)


def over_seeds(answers: list[Answer]) -> Answer:
    """Return the means of the answers of several seeds, with their confidence intervals.

    Args:
        answers: One answer per seed, of the same job; a single one is returned as it is.
    """
    first, count = answers[0], len(answers)
    if count == 1:
        return first
    found = [answer.results for answer in answers]
    results: dict[str, Any] = averaged(found)
    measured = [{name: row[name] for name in MEASURED if name in row} for row in found]
    results |= half_widths(measured)
    results["replicas"] = sum(row["replicas"] for row in found)
    results |= {"seed": found[0]["seed"], "seeds_simulated": count}
    points = 100.0 * results["goodput_seed_half_width"]
    note = (
        f"results are means over {count:,} simulations with seeds {found[0]['seed']} to"
        f" {found[-1]['seed']}, each until half_width is met: goodput ± {two_digits(points)} points"
        " (90% confidence interval of the mean over seeds); the interval shown is the mean of"
        " theirs"
    )
    evidence = replace(first.evidence, assumptions=(note, *first.evidence.assumptions))
    warnings = dict.fromkeys(text for answer in answers for text in answer.warnings)
    return replace(
        first,
        scenario={**first.scenario, "num_seeds": count},
        results=results,
        breakdown=_rows([answer.breakdown for answer in answers]),
        evidence=evidence,
        warnings=tuple(warnings),
    )


def _rows(breakdowns: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the means of categories of time; one that a seed does not have is zero there."""
    totals: dict[str, dict[str, float]] = {}
    for rows in breakdowns:
        for row in rows:
            into = totals.setdefault(row["name"], {})
            for name, value in row.items():
                if name != "name":
                    into[name] = into.get(name, 0.0) + value / len(breakdowns)
    return [{"name": name, **values} for name, values in totals.items()]


# the groups from the last to the first: Python collects annotations from the last base on
class Goodput(
    InputFields, TrainedTokens, JobPower, MeasuredStep, JobOnFleet, JobFailures, ResilientJob
):
    """A job, how it lives with failures, and the step it runs. None means "derive it"."""

    required: ClassVar[tuple[str, ...]] = ()
    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: c.is_set("checkpoint_write_s") & c.is_set("checkpoint_bytes_per_s"),
            "checkpoint_write_s and checkpoint_bytes_per_s are mutually exclusive",
        ),
        Rule(
            lambda c: (
                c.is_set("checkpoint_bytes_per_s")
                & ~(c.is_set("checkpoint_bytes") | c.is_set("model"))
            ),
            "checkpoint_bytes_per_s needs the checkpoint size: set checkpoint_bytes or model",
        ),
        Rule(
            lambda c: (
                (c.is_set("step_time_s") | c.is_set("tokens_per_step"))
                & ~np.all([c.is_set(name) for name in STEP], axis=0)
            ),
            lambda c, row: (
                "the MFU of a step needs model, system, step_time_s and tokens_per_step:"
                f" {', '.join(name for name in STEP if not c.is_set(name)[row])} missing"
            ),
        ),
        Rule(
            lambda c: c.is_set("step_time_s") & c.is_set("mfu"),
            "mfu and step_time_s are mutually exclusive",
        ),
        IDLE_POWER_RULE,
    )

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return named fields as typed ones; None and empty text are unset.

        Raises:
            InvalidSpecError: A name is unknown, a value is invalid, or a required field is missing.

        Example:
            >>> from perfatlas.scenario.interrupted_jobs.job_fields import Goodput
            >>> Goodput.read({"mtti_s": "3h"}).mtti_s
            10800.0
        """
        inputs = super().read(fields)
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
    rules = (
        *Goodput.rules,
        Rule(
            lambda c: c["what_if"].differs & c.is_set("work_s"),
            "what_if requires duration_s and cannot be combined with work_s",
        ),
        Rule(
            lambda c: c["what_if"].differs & (c.numbers("num_seeds") > 1.0),
            "num_seeds = {num_seeds}: what_if compares changes on the failures of one seed",
            "leave num_seeds out, or set a smaller half_width",
        ),
    )
    if TYPE_CHECKING:
        fleet: str


class SpareNodes(InputFields, SparePool):
    """Nodes of a job, nodes beside them, and how often a job waits."""

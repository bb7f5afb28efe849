"""Fields of a search among training layouts: what the best one is, and failures of the job."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.vocabulary import fields

MAX_LAYOUTS: Final = 100


@fields.group("Search", 1)
class LayoutSearch:
    """What the best layout is."""

    max_gpus: Annotated[int, fields.Number(at_least=1, at_most=131_072)] | None = None
    objective: Literal["step_time_s", "tokens_per_s_per_gpu", "gpus", "effective_step_time_s"] = (
        "step_time_s"
    )
    max_step_time_s: Annotated[float, fields.Number(unit="s", above=0.0)] | None = None
    max_job_power_w: Annotated[float, fields.Number(unit="W", above=0.0, at_most=1e11)] | None = (
        None
    )
    num_layouts: Annotated[int, fields.Number(at_least=1, at_most=MAX_LAYOUTS)] = 5


WITH_FAILURES: Final = fields.Equals("objective", "effective_step_time_s")


@fields.group("Failures", 5)
class LayoutFailures:
    """Interruptions of the job, for step time over goodput."""

    node_mtbf_s: Annotated[
        fields.Duration | None, replace(fields.NODE_MTBF, needs=WITH_FAILURES)
    ] = None
    restart_s: Annotated[fields.Duration | None, replace(fields.RESTART, needs=WITH_FAILURES)] = (
        None
    )
    checkpoint_write_s: Annotated[fields.Duration | None, WITH_FAILURES] = None

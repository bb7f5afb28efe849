"""Fields of power over time: samples, racks, checkpoints, failures and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from perfatlas.vocabulary.fields import clusters
from perfatlas.vocabulary.fields.conditions import AllOf, AnySet
from perfatlas.vocabulary.fields.numbers import Count, Number
from perfatlas.vocabulary.fields.rows import group

TRACED: Final = AnySet("trace_duration_s", example="60")
FAILING: Final = AllOf(TRACED, AnySet("mtti_s", example="10800"))
Resolution = Annotated[float, Number(unit="s", at_least=1e-3, at_most=86_400.0)]
LimitW = Annotated[float, Number(unit="W", above=0.0, at_most=1e11)]
BoardW = Annotated[float, Number(unit="W", above=0.0, at_most=1e5)]
RampW = Annotated[float, Number(above=0.0, at_most=1e9)]


@group("Power over time", 8)
class PowerTrace:
    """Power of the racks and of the job over time."""

    trace_duration_s: clusters.Duration | None = None
    trace_resolution_s: Annotated[Resolution, TRACED] = 0.01
    ramp_window_s: Annotated[Resolution, TRACED] = 1.0
    trace_limit_w: Annotated[LimitW | None, TRACED] = None
    rack_gpus: Annotated[Count | None, TRACED] = None
    equal_jobs: Annotated[Annotated[int, Number(at_least=1, at_most=1000)], TRACED] = 1
    power_floor_w: Annotated[BoardW | None, TRACED] = None
    floor_hold_s: Annotated[
        clusters.Pause | None, AllOf(TRACED, AnySet("power_floor_w", example="600"))
    ] = None
    ramp_up_w_per_s: Annotated[RampW | None, TRACED] = None
    ramp_down_w_per_s: Annotated[RampW | None, TRACED] = None
    storage_j: Annotated[Annotated[float, Number(above=0.0, at_most=1e9)] | None, TRACED] = None
    checkpoint_interval_s: Annotated[
        clusters.Duration | None,
        replace(
            clusters.CHECKPOINT_INTERVAL,
            default="no checkpoints",
            needs=AllOf(TRACED, AnySet("checkpoint_bytes_per_s", example="100GB/s")),
        ),
    ] = None
    mtti_s: Annotated[clusters.Duration | None, TRACED] = None
    detection_s: Annotated[
        clusters.Pause, replace(clusters.DETECTION, default="0", needs=FAILING)
    ] = 0.0
    restart_s: Annotated[clusters.Pause, replace(clusters.RESTART, default="0", needs=FAILING)] = (
        0.0
    )
    seed: Annotated[
        clusters.Seed,
        replace(clusters.SEED, needs=AllOf(TRACED, AnySet("mtti_s", "equal_jobs"))),
    ] = 0

"""Fields of the power of GPUs, of a job or a cluster, and their electricity."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from perfatlas.vocabulary.fields import prices
from perfatlas.vocabulary.fields.conditions import AllOf, AnySet
from perfatlas.vocabulary.fields.numbers import Number
from perfatlas.vocabulary.fields.rows import Row, group

Watts = Annotated[float, Number(unit="W", above=0.0, at_most=1e5)]


@group("Power", 6)
class JobPower:
    """Power of the GPUs of the job, and its electricity."""

    power_w: Annotated[
        Watts | None,
        Row(
            "Mean power of a GPU board while the job computes [W].",
            default="that of the step with train, else no energy is reported",
            needs=AnySet("gpus", "fleet", "train"),
            elsewhere=("gpu_power_w", "watts_per_gpu", "power_per_gpu_w"),
        ),
    ] = None
    idle_power_w: Annotated[
        Watts | None,
        Row(
            "Power of a GPU board while the job waits: checkpoint stalls, detection, restarts [W].",
            default="that of a board without kernels with train, else power_w",
            needs=AnySet("power_w", "train"),
        ),
    ] = None
    pue: Annotated[
        prices.Pue | None,
        Row(
            "Power usage effectiveness: factor on the electricity of the GPUs.",
            default="1",
            needs=AllOf(AnySet("power_w", "train"), AnySet("usd_per_kwh", "gco2_per_kwh")),
            elsewhere=("power_usage_effectiveness",),
        ),
    ] = None
    usd_per_kwh: Annotated[
        prices.UsdPerKwh | None, replace(prices.USD_PER_KWH, needs=AnySet("power_w", "train"))
    ] = None
    gco2_per_kwh: Annotated[
        prices.Gco2PerKwh | None, replace(prices.GCO2_PER_KWH, needs=AnySet("power_w", "train"))
    ] = None


@group("Power", 5)
class ClusterPower:
    """Power of the GPUs of a cluster, its electricity, and their price."""

    usd_per_gpu_hour: Annotated[
        Annotated[float, Number(above=0.0, at_most=1e9)] | None,
        Row(
            "Price of one GPU-hour [USD].",
            default="no cost of GPUs is reported",
            elsewhere=prices.USD_PER_GPU_HOUR.elsewhere,
        ),
    ] = None

    power_w: Annotated[
        Watts | None,
        Row(
            "Mean power of a GPU board while its job computes, work that is lost later included"
            " [W].",
            default="no energy is reported",
            elsewhere=("gpu_power_w", "watts_per_gpu", "power_per_gpu_w"),
        ),
    ] = None
    idle_power_w: Annotated[
        Watts | None,
        Row(
            "Power of a GPU board without a job, or whose job waits: detection, restarts, waiting"
            " for a node [W].",
            default="required with power_w",
            needs=AnySet("power_w"),
        ),
    ] = None
    repair_power_w: Annotated[
        Annotated[float, Number(unit="W", at_least=0.0, at_most=1e5)],
        Row("Power of a GPU board whose node is under repair [W].", needs=AnySet("power_w")),
    ] = 0.0
    pue: Annotated[
        prices.Pue | None,
        Row(
            "Power usage effectiveness: factor on the electricity of the GPUs.",
            default="1",
            needs=AllOf(AnySet("power_w"), AnySet("usd_per_kwh", "gco2_per_kwh")),
            elsewhere=("power_usage_effectiveness",),
        ),
    ] = None
    usd_per_kwh: Annotated[
        prices.UsdPerKwh | None, replace(prices.USD_PER_KWH, needs=AnySet("power_w"))
    ] = None
    gco2_per_kwh: Annotated[
        prices.Gco2PerKwh | None, replace(prices.GCO2_PER_KWH, needs=AnySet("power_w"))
    ] = None

"""Fields of the power of GPUs, of a job or a cluster, and their electricity."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from perfatlas.vocabulary.fields import prices
from perfatlas.vocabulary.fields.conditions import AllOf, AnySet
from perfatlas.vocabulary.fields.numbers import Number
from perfatlas.vocabulary.fields.power_traces import LimitW, Resolution
from perfatlas.vocabulary.fields.rows import InputFile, Text, group

SITE: Final = ("trace_resolution_s", "site_cap_w", "site_profile")
Watts = Annotated[float, Number(unit="W", above=0.0, at_most=1e5)]


@group("Power", 6)
class JobPower:
    """Power of the GPUs of the job, and its electricity."""

    power_w: Annotated[Watts | None, AnySet("gpus", "fleet", "train")] = None
    idle_power_w: Annotated[Watts | None, AnySet("power_w", "train")] = None
    pue: Annotated[
        prices.Pue | None, AllOf(AnySet("power_w", "train"), AnySet("usd_per_kwh", "gco2_per_kwh"))
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

    usd_per_gpu_hour: Annotated[float, Number(above=0.0, at_most=1e9)] | None = None

    power_w: Watts | None = None
    idle_power_w: Annotated[Watts | None, AnySet("power_w")] = None
    repair_power_w: Annotated[
        Annotated[float, Number(unit="W", at_least=0.0, at_most=1e5)], AnySet("power_w")
    ] = 0.0
    pue: Annotated[
        prices.Pue | None,
        AllOf(AnySet("power_w"), AnySet("usd_per_kwh", "gco2_per_kwh", *SITE)),
    ] = None
    usd_per_kwh: Annotated[
        prices.UsdPerKwh | None, replace(prices.USD_PER_KWH, needs=AnySet("power_w"))
    ] = None
    gco2_per_kwh: Annotated[
        prices.Gco2PerKwh | None, replace(prices.GCO2_PER_KWH, needs=AnySet("power_w"))
    ] = None


OVERHEAD: Final = AllOf(AnySet("pue", example="1.3"), AnySet(*SITE))
OverheadShare = Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)]


@group("Power over time", 6)
class SitePowerFields:
    """Power of the site over time, its caps, and its overhead by load."""

    trace_resolution_s: Annotated[Resolution | None, AnySet("power_w", example="600")] = None
    trace_limit_w: Annotated[LimitW | None, AnySet("trace_resolution_s", example="1h")] = None
    pue_fixed_share: Annotated[OverheadShare, OVERHEAD] = 0.0
    pue_square_share: Annotated[OverheadShare, OVERHEAD] = 0.0
    site_cap_w: Annotated[LimitW | None, AnySet("power_w", example="600")] = None
    site_profile: Annotated[
        Annotated[str, Text(), InputFile()] | None, AnySet("power_w", example="600")
    ] = None

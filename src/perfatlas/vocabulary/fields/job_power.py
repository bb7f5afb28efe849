"""Fields of the power of GPUs, of a job or a cluster, and their electricity."""

from __future__ import annotations

from typing import Annotated

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
        Annotated[float, Number(unit="ratio", at_least=1, at_most=10)] | None,
        Row(
            "Power usage effectiveness: factor on the electricity of the GPUs.",
            default="1",
            needs=AllOf(AnySet("power_w", "train"), AnySet("usd_per_kwh")),
            elsewhere=("power_usage_effectiveness",),
        ),
    ] = None
    usd_per_kwh: Annotated[
        Annotated[float, Number(at_least=0.0, at_most=1e6)] | None,
        Row(
            "Price of a kWh of electricity [USD].",
            default="no cost of electricity is reported",
            needs=AnySet("power_w", "train"),
            elsewhere=("electricity_price", "price_per_kwh"),
        ),
    ] = None


@group("Power", 5)
class ClusterPower:
    """Power of the GPUs of a cluster, and its electricity."""

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
        Annotated[float, Number(unit="ratio", at_least=1, at_most=10)] | None,
        Row(
            "Power usage effectiveness: factor on the electricity of the GPUs.",
            default="1",
            needs=AllOf(AnySet("power_w"), AnySet("usd_per_kwh")),
            elsewhere=("power_usage_effectiveness",),
        ),
    ] = None
    usd_per_kwh: Annotated[
        Annotated[float, Number(at_least=0.0, at_most=1e6)] | None,
        Row(
            "Price of a kWh of electricity [USD].",
            default="no cost of electricity is reported",
            needs=AnySet("power_w"),
            elsewhere=("electricity_price", "price_per_kwh"),
        ),
    ] = None

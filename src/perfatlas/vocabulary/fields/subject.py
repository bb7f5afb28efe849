"""Fields of the model, the system, the engine and the pricing tier."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import prices
from perfatlas.vocabulary.fields.conditions import Equals
from perfatlas.vocabulary.fields.numbers import Number
from perfatlas.vocabulary.fields.rows import Catalog, Row, Text, group

Tier = Literal["auto", "bound", "physics", "measured"]
ModelName = Annotated[str, Text(), Catalog("models", ("perfatlas.networks:model_names",))]
SystemName = Annotated[str, Text(), Catalog("systems", ("perfatlas.hardware:system_names",))]
ENGINES: Final = ("perfatlas.engines:engine_names", "perfatlas.engines:engine_ids")
EngineName = Annotated[str, Text(), Catalog("engines", ENGINES)]
FormatName = Annotated[str, Text(), Catalog("formats", ("perfatlas.formats:formats",))]
InputDistribution = Literal["random", "zeros"]
ClockRatio = Annotated[float, Number(unit="ratio", at_least=0.05, at_most=2)]


@group("Scenario", 1)
class ModelChoice:
    """The model."""

    model: ModelName


@group("Scenario", 1)
class SystemChoice:
    """The system."""

    system: SystemName


@group("Scenario", 1)
class EngineChoice:
    """The inference engine."""

    engine: EngineName = "vllm"


@group("Scenario", 1)
class TierChoice:
    """The pricing tier."""

    tier: Tier = "auto"
    silicon_version: Annotated[Annotated[str, Text(64)] | None, Equals("tier", "measured")] = None


@group("Scenario", 1)
class ClockChoice:
    """The clock of the GPUs."""

    clock_ratio: ClockRatio = 1.0


PowerCapW = Annotated[float, Number(unit="W", at_least=1, at_most=100_000)]
POWER_CAP: Final = Row(
    "Power limit of a GPU [W]: its clock is lowered until it draws no more.",
    default="the TDP, at which kernels were measured",
    elsewhere=("power_limit", "power_cap", "power"),
)


@group("Scenario", 1)
class PowerLimit:
    """The power limit of the GPU, and the values of tensors that its power depends on."""

    power_cap_w: Annotated[PowerCapW | None, POWER_CAP] = None
    input_distribution: InputDistribution = "random"


@group("Prices", 7)
class Facility(prices.GpuPrices):
    """Prices of GPUs, the facility, the power of its nodes and its electricity."""

    node_power_cap_w: Annotated[float, Number(unit="W", at_least=1, at_most=1_000_000)] | None = (
        None
    )

    pue: Annotated[prices.Pue | None, prices.PUE] = None
    usd_per_kwh: Annotated[prices.UsdPerKwh | None, prices.USD_PER_KWH] = None
    gco2_per_kwh: Annotated[prices.Gco2PerKwh | None, prices.GCO2_PER_KWH] = None


@group("Prices", 7)
class TrainingPower(prices.GpuPrices):
    """Prices and the power limit of the GPUs of a training step, its facility and electricity."""

    power_cap_w: Annotated[PowerCapW | None, POWER_CAP] = None
    pue: Annotated[prices.Pue | None, prices.PUE] = None
    usd_per_kwh: Annotated[prices.UsdPerKwh | None, prices.USD_PER_KWH] = None
    gco2_per_kwh: Annotated[prices.Gco2PerKwh | None, prices.GCO2_PER_KWH] = None


class Subject(PowerLimit, ClockChoice, TierChoice, EngineChoice, SystemChoice, ModelChoice):
    """The model, the system and the engine."""

"""Fields of the model, the system, the engine and the pricing tier."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import prices
from perfatlas.vocabulary.fields.conditions import Equals
from perfatlas.vocabulary.fields.numbers import Number
from perfatlas.vocabulary.fields.rows import POOLS, Catalog, Row, Text, group

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

    model: Annotated[
        ModelName,
        Row(
            "Model: a Hugging Face id, a catalog name, or the path of a config.json or its folder;"
            " name{layers=48} overrides dimensions.",
            elsewhere=("model_path", "model_name", "model_id", "hf_id"),
            common=True,
        ),
    ]


@group("Scenario", 1)
class SystemChoice:
    """The system."""

    system: Annotated[
        SystemName,
        Row(
            "System: a catalog name, a TOML file, or a name with overrides such as"
            " h200_sxm{device.memory.bandwidth=6TB/s}.",
            pools=POOLS,
            by_replica=True,
            elsewhere=("gpu", "gpu_type", "gpu_name", "device", "hardware", "accelerator"),
            common=True,
        ),
    ]


@group("Scenario", 1)
class EngineChoice:
    """The inference engine."""

    engine: Annotated[
        EngineName,
        Row(
            "Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with"
            " a version, as in vllm@0.24, or the path of a TOML profile.",
            pools=POOLS,
            by_replica=True,
            elsewhere=("backend", "framework"),
            common=True,
        ),
    ] = "vllm"


@group("Scenario", 1)
class TierChoice:
    """The pricing tier."""

    tier: Annotated[
        Tier,
        Row(
            "Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured"
            " rows), or auto, the best available without measured rows."
        ),
    ] = "auto"
    silicon_version: Annotated[
        Annotated[str, Text(64)] | None,
        Row(
            "Engine version of the measured tables.",
            default="the version of the calibrations",
            needs=Equals("tier", "measured"),
        ),
    ] = None


@group("Scenario", 1)
class ClockChoice:
    """The clock of the GPUs."""

    clock_ratio: Annotated[
        ClockRatio, Row("GPU clock relative to the sustained clock.", elsewhere=("clock",))
    ] = 1.0


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
    input_distribution: Annotated[
        InputDistribution,
        Row(
            "Values of all tensors: random, or zeros as in some benchmarks, which take less energy"
            " and let a power-limited GPU run at a higher clock.",
            elsewhere=("input_values", "init_method"),
        ),
    ] = "random"


@group("Prices", 7)
class Facility(prices.GpuPrices):
    """Prices of GPUs, the facility, the power of its nodes and its electricity."""

    node_power_cap_w: Annotated[
        Annotated[float, Number(unit="W", at_least=1, at_most=1_000_000)] | None,
        Row(
            "Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share of one node.",
            default="no limit beside that of each GPU",
            elsewhere=("node_power_limit", "rack_power_cap_w"),
        ),
    ] = None

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

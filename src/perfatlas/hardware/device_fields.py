"""Fields of devices that every kind of machine shares, and how fields are declared."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perfatlas.files import Field, Flag, Number, Text, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMATS: Final = ("bf16", "fp16", "tf32", "fp32", "fp64", "fp64_vector", "fp8", "fp4", "int8")
# Formats computed by the matrix units; their dense peaks scale with the units' width.
MATRIX_FORMATS: Final = ("bf16", "fp16", "tf32", "fp8", "fp4", "int8")
LINK_KINDS: Final = (
    *("nvlink", "nvlink_mesh", "ualink", "pcie", "infinity_fabric", "ici", "upi"),
    *("c2c", "c2c_mesh", "neuronlink", "roce_mesh"),
)

# Consumers of a field.
OPERATORS: Final = ("matrix products", "attention", "experts")
KERNELS: Final = (*OPERATORS, "elementwise operators")
INSIDE: Final = ("collectives inside a scale-up domain",)
BETWEEN: Final = ("collectives between nodes",)
FLOWS: Final = ("routes of flows between nodes",)
COLLECTIVES: Final = (*INSIDE, *BETWEEN)
MEMORY: Final = ("KV cache capacity",)
OFFLOADING: Final = ("KV cache offloading",)
SECOND: Final = ("weight_offload and kv_offload",)
RULES: Final = ("rules of engines",)
POWER: Final = ("power and energy",)
NODE_POWER: Final = ("power of nodes",)
ATTENTION_DESIGN: Final = ("attention under design",)
DESIGNS: Final = ("matrix products under design", *ATTENTION_DESIGN)
CHIP_COST: Final = ("chip cost",)


@dataclass(frozen=True)
class SpecField(Field[Value]):
    """A field of a spec; `into` is its attribute, by default the last part of the path."""

    read_by: tuple[str, ...] = ()  # What may use its value; empty for descriptive fields
    default: float | None = None  # Value [SI] of a device that does not state it; None for none
    # Whether it defines a chip; peaks follow from primary fields where a base is given
    primary: bool = False
    # Its label among the sensitivities of an estimate, "" for fields that are none. Of the fields
    # of all kinds, `studies` has them.
    factor: str = ""


def text(
    meaning: str, *choices: str, required: bool = True, read_by: tuple[str, ...] = ()
) -> SpecField:
    """Return a field with a text, one of the choices if there are any."""
    return SpecField(Text(choices=choices), required=required, read_by=read_by, meaning=meaning)


def number(
    meaning: str,
    measure: tuple[str, str],
    bounds: tuple[float, float],
    *read_by: str,
    into: str = "",
    default: float | None = None,
) -> SpecField:
    """Return a field with a number.

    Args:
        measure: Dimension for `parse_quantity` and its SI unit; "whole" is a count.
        bounds: Least and most [SI]. Ranges are wide: they catch a missing unit ("6" for 6 TB/s),
            not an unusual chip.
        default: Value of a device that does not state it; None for none.
    """
    dimension, unit = measure
    whole = dimension == "whole"
    reader = Number(
        dimension="count" if whole else dimension,
        unit=unit,
        least=bounds[0],
        most=bounds[1],
        whole=whole,
    )
    return SpecField(
        reader,
        required=default is None,
        read_by=read_by,
        into=into,
        default=default,
        meaning=meaning,
    )


def count(meaning: str, *read_by: str, least: float = 1) -> SpecField:
    """Return a field with a whole number."""
    return number(meaning, ("whole", ""), (least, 1e9), *read_by)


def ratio(meaning: str, bounds: tuple[float, float], *read_by: str) -> SpecField:
    """Return a field with a number without a unit."""
    return number(meaning, ("count", ""), bounds, *read_by)


def size(meaning: str, *read_by: str, into: str = "") -> SpecField:
    """Return a field with a number of bytes."""
    return number(meaning, ("bytes", "B"), (1e3, 1e16), *read_by, into=into)


def rate(meaning: str, *read_by: str, into: str = "") -> SpecField:
    """Return a field with bytes per second."""
    return number(meaning, ("bytes_per_s", "B/s"), (1e6, 1e18), *read_by, into=into)


def latency(meaning: str, *read_by: str, into: str = "") -> SpecField:
    """Return a field with a time."""
    return number(meaning, ("s", "s"), (0.0, 1.0), *read_by, into=into)


def flag(meaning: str, *read_by: str) -> SpecField:
    """Return a field that is true or false."""
    return SpecField(Flag(), required=True, read_by=read_by, meaning=meaning)


def optional(declared: SpecField) -> SpecField:
    """Return a field that files may omit."""
    return replace(declared, required=False)


def primary(declared: SpecField) -> SpecField:
    """Return a field that defines a chip."""
    return replace(declared, primary=True)


def factor(label: str, declared: SpecField) -> SpecField:
    """Return a primary field to which an estimate has a sensitivity."""
    return replace(declared, primary=True, factor=label)


def _peak(name: str, *read_by: str) -> SpecField:
    return optional(number(f"dense {name} peak", ("flop_per_s", "FLOP/s"), (1e8, 1e20), *read_by))


def _clock(meaning: str, *read_by: str, into: str) -> SpecField:
    return primary(number(meaning, ("hz", "Hz"), (1e6, 1e11), *read_by, into=into))


def _power(meaning: str, *read_by: str, into: str) -> SpecField:
    return number(meaning, ("w", "W"), (0.01, 1e6), *read_by, into=into)


def identity(*architectures: str) -> dict[str, SpecField]:
    """Return the fields that name a device, and its peaks."""
    return {
        "device.kind": text("kind of machine, by default gpu", required=False, read_by=KERNELS),
        "device.vendor": text("vendor", read_by=RULES),
        "device.architecture": text(
            "family of instructions and kernels", *architectures, read_by=(*RULES, *POWER, *DESIGNS)
        ),
        "device.calibration_relative": text(
            "measured system whose kernels this device borrows",
            required=False,
            read_by=(*KERNELS, *COLLECTIVES, *POWER),
        ),
        "device.year": number("year of introduction", ("whole", ""), (1990, 2100)),
        "device.peak.bf16": _peak("bf16", *OPERATORS, *DESIGNS),
        "device.peak.fp16": _peak("fp16", "fp16 operators"),
        "device.peak.tf32": _peak("tf32"),
        "device.peak.fp32": _peak("fp32", "fp32 operators"),
        "device.peak.fp64": _peak("fp64", "fp64 operators", "fp64_vector operators"),
        "device.peak.fp64_vector": optional(
            number(
                "fp64 peak of the vector units, where tensor cores have a higher one",
                *(("flop_per_s", "FLOP/s"), (1e8, 1e20), "fp64_vector operators"),
            )
        ),
        "device.peak.fp8": _peak("fp8", "fp8 operators"),
        "device.peak.fp4": _peak("fp4", "fp4 operators"),
        "device.peak.int8": _peak("int8", "int8 operators"),
    }


PACKAGES: Final[Mapping[str, SpecField]] = {
    "device.packages": count("packages of one device"),
    "device.dies": count("compute dies of one device", *KERNELS, *DESIGNS, *CHIP_COST),
    "device.die_to_die.bandwidth": number(
        "bandwidth of the links of a die to all others, per direction, 0 for any that is needed",
        *(("bytes_per_s", "B/s"), (0.0, 1e18), *KERNELS, *DESIGNS, *CHIP_COST),
        into="die_to_die_bandwidth",
        default=0.0,
    ),
    "device.die_to_die.energy_per_byte": number(
        "energy of a byte that moves between dies, 0 where that of memory contains it",
        *(("j", "J"), (0.0, 1e-6), *POWER),
        into="die_to_die_j_per_byte",
        default=0.0,
    ),
}
# What the cost of a chip depends on beside its units
PACKAGING: Final[Mapping[str, SpecField]] = {
    "device.process": number(
        "process node, such as 4 for N4, 0 for that of the architecture",
        *(("count", ""), (0.0, 1000.0), *CHIP_COST),
        default=0.0,
    ),
    "device.interposer": text(
        "interposer of the package: silicon, organic or bridges",
        *("cowos_s", "cowos_r", "cowos_l"),
        required=False,
        read_by=CHIP_COST,
    ),
    "device.assembly_yield": number(
        "share of packages that assembly does not lose, 0 for that of their parts",
        *(("count", ""), (0.0, 1.0), *CHIP_COST),
        default=0.0,
    ),
}
CLOCKS: Final[Mapping[str, SpecField]] = {
    "device.clock.peak": _clock(
        "clock at which the dense peaks are stated",
        *KERNELS,
        *POWER,
        *DESIGNS,
        into="peak_clock_hz",
    ),
    "device.clock.boost": _clock(
        "highest clock", "elementwise operators", *POWER, *DESIGNS, into="boost_clock_hz"
    ),
    "device.clock.sustained": _clock(
        "clock at which kernels run", *KERNELS, *DESIGNS, into="sustained_clock_hz"
    ),
}
BOARD: Final[Mapping[str, SpecField]] = {
    "device.memory.capacity": primary(
        size("memory that a process can allocate", *MEMORY, into="memory_bytes")
    ),
    "device.memory.bandwidth": primary(
        rate(
            "peak memory bandwidth: stacks x rate of one stack",
            *KERNELS,
            *DESIGNS,
            into="memory_bandwidth",
        )
    ),
    "device.memory.stack": number(
        "nominal memory of one stack, 0 for that of the architecture",
        *(("bytes", "B"), (0.0, 1e16), *CHIP_COST),
        into="stack_bytes",
        default=0.0,
    ),
    "device.second_memory.capacity": number(
        "second memory of one device, such as LPDDR or high-bandwidth flash, 0 for none",
        *(("bytes", "B"), (0.0, 1e16), *SECOND, *CHIP_COST),
        into="second_memory_bytes",
        default=0.0,
    ),
    "device.second_memory.bandwidth": number(
        "read bandwidth of the second memory, 0 for that of the host link",
        *(("bytes_per_s", "B/s"), (0.0, 1e18), *SECOND),
        into="second_memory_bandwidth",
        default=0.0,
    ),
    "device.second_memory.latency": number(
        "latency of a read of the second memory",
        *(("s", "s"), (0.0, 1.0), *SECOND),
        into="second_memory_latency_s",
        default=0.0,
    ),
    "device.second_memory.energy_per_byte": number(
        "energy of a byte that is read from the second memory, 0 for that of the first",
        *(("j", "J"), (0.0, 1e-6), *SECOND),
        into="second_memory_j_per_byte",
        default=0.0,
    ),
    "device.second_memory.usd_per_gb": number(
        "price of a GB of the second memory in USD, 0 if unknown",
        *(("count", ""), (0.0, 1e6), *CHIP_COST),
        into="usd_per_gb",
        default=0.0,
    ),
    "device.scale_up.domain_size": primary(
        count("devices of a scale-up domain, such as one NVLink domain", *BETWEEN)
    ),
    "device.scale_up.links": primary(
        number(
            "scale-up links of one device; their bandwidth follows unless it is set",
            ("whole", ""),
            (0, 1e6),
            *COLLECTIVES,
        )
    ),
    "device.scale_up.bandwidth": primary(
        rate("bandwidth of all scale-up links, per direction", *COLLECTIVES)
    ),
    "device.scale_up.latency": latency(
        "latency of one hop inside the scale-up domain", *COLLECTIVES, into="latency_s"
    ),
    "device.scale_up.in_network_reduction": flag(
        "whether switches of the domain reduce", *COLLECTIVES
    ),
    "device.scale_up.kind": text(
        "kind of scale-up link", *LINK_KINDS, read_by=(*COLLECTIVES, *POWER)
    ),
    "device.host_link.bandwidth": rate(
        "bandwidth to the host, per direction", *OFFLOADING, *SECOND, into="host_link_bandwidth"
    ),
    "device.overhead_ratio": number(
        "fixed costs of kernels relative to those of the borrowed ones",
        ("count", ""),
        (1e-6, 1e6),
        *KERNELS,
        *COLLECTIVES,
        default=1.0,
    ),
    "device.tdp": primary(
        _power("power limit of one device", *KERNELS, *POWER, *DESIGNS, into="tdp_w")
    ),
    "device.idle": _power("power of an idle device", *POWER, into="idle_w"),
}
# Label of the values that an estimate depends on, most influential first.
CITED_FIRST: Final[Mapping[str, str]] = {
    "device.memory.bandwidth": "memory bandwidth",
    "device.memory.capacity": "memory",
    **{f"device.peak.{name}": "peaks" for name in MATRIX_FORMATS},
}
CITED_CLOCKS: Final[Mapping[str, str]] = {
    "device.clock.peak": "peak clock",
    "device.clock.sustained": "clock",
}


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """A kind of machine as hardware files describe it: a row `KIND` in its module of `kinds`."""

    name: str  # Value of `device.kind`, and name of the folder of `machines` that prices it
    # All fields of its devices by path, in the order in which they are shown. Numbers that `Device`
    # has no attribute for are in `Device.further`.
    fields: Mapping[str, SpecField]
    unit: str  # Name of the units that compute, such as "SM"
    count: str  # Field with the number of units of a device
    width: str  # Field with the dense FLOP of a unit per clock: peak = units x clock x width
    base: str  # A known system of the kind, from which others start
    # Label of the values that an estimate cites, by path, most influential first
    cited: Mapping[str, str] = field(default_factory=lambda: {**CITED_FIRST, **CITED_CLOCKS})
    orders: tuple[tuple[str, str], ...] = ()  # (lower, upper): the first may not exceed the second
    engine: str = ""  # The only engine that runs on its devices, "" for any
    # Whether, beside `ideal`, only engines that name their vendor run on its devices
    own_engines: bool = False

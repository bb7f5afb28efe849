"""Factors of an estimate: hardware fields, and the times of the engine, that change its results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from perfatlas.hardware import KINDS, field_values, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import System

Kind = Literal["rate", "latency", "per_clock", "capacity", "count", "power"]
Sides = Literal["both", "up", "down"]
HOST: Final = "engine.host"
FRONT_END: Final = "engine.front"
PEAK: Final = "device.peak."


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One factor of an estimate."""

    name: str  # Hardware field, or a group of times of the engine: engine.host, engine.front
    label: str
    # Physical kind. Times are homogeneous: scaling all rates by r and all latencies by 1/r scales
    # them by 1/r. The other kinds have no time in their unit.
    kind: Kind
    # Sides on which a change is small: a count is changed by one, a power limit lowered
    sides: Sides = "both"
    # Whether it can be the bottleneck: rates and latencies of separate parts. Peaks and
    # exponentials are parts of the clock.
    improves: bool = False
    unit: str = ""  # Name of what a count counts

    @property
    def of_engine(self) -> bool:
        """Whether it is a time of the engine instead of a field of the hardware."""
        return self.name.startswith("engine.")

    @property
    def is_latency(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.kind == "latency"


_RATES: Final = (
    Factor(name="device.clock.peak", label="clock and peaks", kind="rate", improves=True),
    Factor(name="device.memory.bandwidth", label="memory bandwidth", kind="rate", improves=True),
    Factor(
        name="device.scale_up.bandwidth", label="scale-up bandwidth", kind="rate", improves=True
    ),
    Factor(name="node.nic_bandwidth", label="NIC bandwidth", kind="rate", improves=True),
    Factor(name="device.host_link.bandwidth", label="host link bandwidth", kind="rate"),
    Factor(
        name="device.second_memory.bandwidth",
        label="second memory bandwidth",
        kind="rate",
        improves=True,
    ),
    Factor(
        name="device.second_memory.latency",
        label="second memory latency",
        kind="latency",
        improves=True,
    ),
    Factor(name="fabric.latency", label="fabric latency", kind="latency", improves=True),
    Factor(
        name="device.overhead_ratio",
        label="fixed kernel times",
        kind="latency",
        improves=True,
    ),
    Factor(name=HOST, label="host time per step", kind="latency", improves=True),
    Factor(name=FRONT_END, label="front end", kind="latency", improves=True),
    *(
        Factor(name=f"{PEAK}{name}", label=f"{name} FLOP per clock", kind="per_clock")
        for name in ("bf16", "fp16", "fp8", "fp4", "int8")
    ),
)
_KINDS: Final[dict[str, Kind]] = {"B": "capacity", "B/s": "rate", "s": "latency", "": "per_clock"}


def all_factors() -> tuple[Factor, ...]:
    """Return the factors of systems of any kind of machine.

    Those of one kind are the fields with a label in its schema, and the number of its units.
    """
    field_factors = [
        Factor(name=path, label=field.factor, kind=_KINDS[unit_of(path)])
        for kind in KINDS.values()
        for path, field in kind.fields.items()
        if field.factor
    ]
    counts = [
        Factor(
            name=kind.count,
            label=f"{kind.unit}s and peaks",
            kind="count",
            sides="up",
            unit=kind.unit,
        )
        for kind in KINDS.values()
    ]
    return (
        *_RATES,
        *dict.fromkeys(field_factors),
        Factor(name="device.memory.capacity", label="memory capacity", kind="capacity"),
        *dict.fromkeys(counts),
        Factor(name="device.tdp", label="board power limit", kind="power", sides="down"),
    )


def factors_of(systems: Sequence[System]) -> tuple[Factor, ...]:
    """Return the factors of some systems: the fields that all of them state, and the engine's.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.studies.factors import factors_of
        >>> names = [factor.name for factor in factors_of([resolve_system("a100_sxm")])]
        >>> "device.peak.bf16" in names, "device.peak.fp8" in names
        (True, False)
    """
    stated = [field_values(system) for system in systems]
    return tuple(
        factor
        for factor in all_factors()
        if factor.of_engine
        or all(isinstance(v.get(factor.name), int | float) and v[factor.name] for v in stated)
    )


def scaled_profile(profile: EngineProfile, host: float, front: float) -> EngineProfile:
    """Return an engine with other times of its host work and its front end."""
    work, client = profile.host, profile.front
    return replace(
        profile,
        host=replace(
            work,
            step_s=work.step_s * host,
            per_sequence_s=work.per_sequence_s * host,
            per_layer_prefill_s=work.per_layer_prefill_s * host,
            per_operator_prefill_s=work.per_operator_prefill_s * host,
            per_expert_layer_prefill_s=work.per_expert_layer_prefill_s * host,
            per_penalized_token_s=work.history_token_s() * host,
        ),
        front=replace(
            client,
            request_s=client.request_s * front,
            token_s=client.token_s * front,
            response_s=client.response_s * front,
            tokenizing_ratio=client.tokenizing_ratio * front,
        ),
    )

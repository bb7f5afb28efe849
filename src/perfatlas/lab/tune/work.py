"""What is tuned: kernels of one launch each that share a design, and the price of designs.

Shape legend: D designs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from perfatlas.lab.tune.designs import broken_rules, space_of
from perfatlas.lab.tune.loop import Times, blocks_per_sm, times_of
from perfatlas.lab.tune.products import Product

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.formats import Format
    from perfatlas.lab.tune.chip import Chip
    from perfatlas.lab.tune.designs import CompiledDesign, Designs
    from perfatlas.lab.tune.loop import Demand


class Part(Protocol):
    """One launch."""

    def demand(self, designs: Designs, chip: Chip) -> Demand:
        """Return what designs ask of a chip."""

    def rules(self, designs: Designs, chip: Chip) -> Mapping[str, NDArray[np.bool_]]:
        """Return, by reason, which designs cannot compute it (D)."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Launches that share a design."""

    kernel: str  # As `kernel tune` names it
    parts: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class PricedDesigns:
    """All designs of a search space with their times; illegal ones take forever."""

    designs: Designs
    demands: tuple[Demand, ...]  # of each part
    times: Times  # of all parts
    rejected: Mapping[str, int]  # Designs by the rule that they break
    legal_D: NDArray[np.bool_]


def _with_facts(demand: Demand, compiled: Mapping[int, CompiledDesign]) -> Demand:
    """Return a demand with the registers and shared memory of compiled designs."""
    registers_D, shared_D = demand.registers_D.copy(), np.array(demand.shared_bytes_D, float)
    for place, one in compiled.items():
        registers_D[place] = one.registers or registers_D[place]
        if one.shared_bytes is not None:
            shared_D[place] = one.shared_bytes
    return replace(demand, registers_D=registers_D, shared_bytes_D=shared_D)


def expert_layer(
    *,
    tokens: float,
    hidden: int,
    intermediate: int,
    experts: int,
    top_k: float,
    number_format: Format,
    chip: Chip,
) -> Work:
    """Return the two products of the experts of a layer, as an engine launches them.

    Args:
        tokens: Tokens whose experts are on this rank.
        intermediate: Width of an expert on this rank.
        experts: Experts on this rank.
        top_k: Experts of a token on this rank.
    """
    quantized = number_format.activation_bytes == 1.0
    common: dict[str, Any] = {
        "rows": tokens * top_k,
        "groups": experts,
        "element_bytes": number_format.activation_bytes,
        "block_scaled": number_format.name == "fp8_block",
        "routed": True,
    }
    fixed_s = chip.loop["layer_s"] * (chip.loop["layer_fp8_ratio"] if quantized else 1.0)
    up = Product(**common, n=2 * intermediate, k=hidden, fixed_s=fixed_s)
    return Work(kernel="grouped_gemm", parts=(up, Product(**common, n=hidden, k=intermediate)))


def price_designs(work: Work, chip: Chip, also: Sequence[Mapping[str, int]] = ()) -> PricedDesigns:
    """Return the time of every design of a search space.

    Args:
        work: What is computed.
        chip: Where.
        also: Designs beside those of the search space.
    """
    return price_these(work, chip, space_of(work.kernel, chip.target, also))


def price_these(
    work: Work, chip: Chip, designs: Designs, compiled: Mapping[int, CompiledDesign] | None = None
) -> PricedDesigns:
    """Return the time of designs.

    Args:
        work: What is computed.
        chip: Where.
        designs: Its designs.
        compiled: What a compiler made of some, by their place; needs of others are estimated.
    """
    demands = tuple(part.demand(designs, chip) for part in work.parts)
    broken: dict[str, NDArray[np.bool_]] = {}
    for part, demand in zip(work.parts, demands, strict=True):
        broken = broken_rules(designs, demand, chip, dict(part.rules(designs, chip))) | broken
    if compiled:
        places = np.array(list(compiled))
        spills_D, is_compiled_D = np.zeros((2, len(designs)), bool)
        is_compiled_D[places] = True
        spills_D[places] = [bool(one.problem or one.spilled_bytes) for one in compiled.values()]
        broken = {reason: mask_D & ~is_compiled_D for reason, mask_D in broken.items()}
        broken["spills, or does not compile"] = spills_D
        demands = tuple(_with_facts(demand, compiled) for demand in demands)
        for demand in demands:
            small_D = is_compiled_D & ~spills_D & (blocks_per_sm(demand, chip) < 1)
            broken["does not fit as compiled"] = small_D
    illegal_D = reduce(np.logical_or, broken.values(), np.zeros(len(designs), bool))
    each = [times_of(demand, chip) for demand in demands]
    time_s_D = np.sum([times.time_s_D for times in each], axis=0)
    times = Times(
        time_s_D=np.where(illegal_D, np.inf, time_s_D),
        blocks_per_sm_D=np.minimum.reduce([times.blocks_per_sm_D for times in each]),
        unit_s={
            unit: np.sum([times.unit_s[unit] for times in each], axis=0) for unit in each[0].unit_s
        },
    )
    return PricedDesigns(
        designs=designs,
        demands=demands,
        times=times,
        rejected={reason: int(mask_D.sum()) for reason, mask_D in broken.items()},
        legal_D=~illegal_D,
    )

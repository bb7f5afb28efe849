"""Which designs are worth measuring: few hypotheses, and what is lost by measuring no more.

Shape legend: D designs; C classes of designs with the same tile; R draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.lab.tune.designs import OPTIONS, Designs
from perfatlas.lab.tune.loop import FIXED, LATENCY, LINKS, MEMORY, TENSOR, times_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.lab.tune.chip import Chip
    from perfatlas.lab.tune.loop import Times
    from perfatlas.lab.tune.work import PricedDesigns

KEPT: Final = 16
FEW: Final = 8
OF_A_CLASS: Final = 2  # designs of one tile among those that are kept
FLAT: Final = 0.03  # gain over the default below which tuning is not worth it
DRAWS: Final = 512
PEAK: Final = 0.84  # time at peak rates over that at those which main loops reach (tuning.toml)
Z90: Final = 1.645
# Sizes in which designs of one tile differ
WITHIN: Final = ("group", "warps", "stages")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Designs to measure, in this order, and what to expect of them."""

    kept: list[int]  # Places of designs; the default is there
    default: int | None  # Place of the default; None if it cannot be launched
    regret: Mapping[
        int, float
    ]  # Expected time over that of the best, minus 1, of the first 1, 8, 16
    best_kept: float | None  # Probability that the best design has a tile that is kept
    gain: float  # Expected gain of the first design over the default: ratio of times
    gain_low: float | None
    gain_high: float | None
    legal: int
    near: float  # Share of legal designs within 5% of the first
    measured_gain: float | None  # Expected time of the default over that of the best of the first 8

    @property
    def is_flat(self) -> bool:
        """Whether the expected gain is too small to tune."""
        return self.measured_gain is not None and self.measured_gain < 1.0 + FLAT


def select(
    priced: PricedDesigns,
    default: Mapping[str, int] | None,
    error: Mapping[str, float] | None,
    keep: int = KEPT,
) -> Selection:
    """Return the designs that are worth measuring.

    Errors of predicted times are shared by designs of one tile: for each draw of them, the regret
    of what is kept follows. Their size is that under which designs that engines ship are the best
    of their lists as often as predicted.

    Args:
        priced: All designs.
        default: What the framework would take.
        error: Deviations of ln(time), of tiles and within one; None where they are not known.
        keep: Most designs.
    """
    time_s_D = priced.times.time_s_D
    place = None if default is None else priced.designs.find(default)
    place = place if place is not None and priced.legal_D[place] else None
    order = np.argsort(time_s_D, kind="stable")[: int(priced.legal_D.sum())]
    class_D = tile_classes(priced.designs)
    kept = [] if place is None else [place]
    taken: dict[int, list[tuple[int, ...]]] = {}
    for design in order.tolist():
        if len(kept) >= keep:
            break
        own = taken.setdefault(int(class_D[design]), [])
        options = tuple(
            int(priced.designs[name][design]) for name in OPTIONS if name in priced.designs.columns
        )
        if len(own) < OF_A_CLASS and options not in own and design not in kept:
            own.append(options)
            kept.append(design)
    ranked = sorted(kept, key=lambda design: float(time_s_D[design]))
    near = float(np.mean(time_s_D[order] <= 1.05 * time_s_D[order[0]]))
    gain = 1.0 if place is None else float(time_s_D[place] / time_s_D[ranked[0]])
    expected = _expected(error, priced.times, order, class_D, ranked, place, keep)
    return Selection(kept=ranked, default=place, gain=gain, legal=len(order), near=near, **expected)


def _expected(
    error: Mapping[str, float] | None,
    times: Times,
    order: NDArray[np.int64],
    class_D: NDArray[np.int64],
    ranked: list[int],
    default: int | None,
    keep: int,
) -> dict[str, Any]:
    """Return what measuring no more than kept designs is expected to lose, and the gain."""
    if error is None:
        unknown = ("best_kept", "gain_low", "gain_high", "measured_gain")
        return {"regret": {}, **dict.fromkeys(unknown)}
    drawn, time_s_D = np.random.default_rng(0), times.time_s_D
    logs_D = np.log(time_s_D[order])
    classes, of_class = np.unique(class_D[order], return_inverse=True)
    tiles_RC = drawn.normal(0.0, error["tile"], (DRAWS, len(classes)))
    true_RD = logs_D + tiles_RC[:, of_class]
    true_RD = true_RD + drawn.normal(0.0, error["within"], true_RD.shape)
    true_RD = np.maximum(true_RD, np.log(_floor_s(times)[order]))
    best_R = true_RD.min(1)
    at = {int(design): column for column, design in enumerate(order)}
    columns = [at[design] for design in ranked]
    lost = {
        count: float(np.mean(np.expm1(true_RD[:, columns[:count]].min(1) - best_R)))
        for count in (1, FEW, KEPT)
        if count <= keep
    }
    kept_classes = np.isin(classes, class_D[ranked])
    best_kept = float(np.mean(kept_classes[of_class[true_RD.argmin(1)]]))
    low = high = measured_gain = None
    if default is not None:
        few_R = true_RD[:, [*columns[:FEW], at[default]]].min(1)
        measured_gain = float(np.mean(np.exp(true_RD[:, at[default]] - few_R)))
        same = class_D[default] == class_D[ranked[0]]
        spread = Z90 * math.sqrt(2.0) * (error["within"] if same else error["tile"])
        ratio = float(time_s_D[default] / time_s_D[ranked[0]])
        low, high = ratio * math.exp(-spread), ratio * math.exp(spread)
    return {
        "regret": lost,
        "best_kept": best_kept,
        "gain_low": low,
        "gain_high": high,
        "measured_gain": measured_gain,
    }


def _floor_s(times: Times) -> NDArray[np.float64]:
    """Return the time of designs at the peak rates of tensor cores and memory (D)."""
    busy_D = np.maximum(times.unit_s[TENSOR], times.unit_s[MEMORY])
    return PEAK * busy_D + times.unit_s[FIXED]


def tile_classes(designs: Designs) -> NDArray[np.int64]:
    """Return a number of each design that designs of the same tile share (D)."""
    sizes = [column_D for name, column_D in designs.columns.items() if name not in WITHIN]
    _, class_D = np.unique(np.stack(sizes), axis=1, return_inverse=True)
    return class_D.ravel().astype(np.int64)


def relief(priced: PricedDesigns, design: int, chip: Chip) -> dict[str, Any]:
    """Return what limits a design, and its speedup if that were twice as fast.

    Args:
        priced: All designs.
        design: Place of one.
        chip: Where.
    """
    units = priced.times.limiting(design)
    first, second = units[0][0], units[1][0]
    chosen = np.array([design])
    time_s = 0.0
    for demand in priced.demands:
        columns = {
            name: value[chosen] if isinstance(value, np.ndarray) else value
            for name, value in vars(demand).items()
        }
        cycles = {unit: column_D[chosen] for unit, column_D in demand.unit_cycles_D.items()}
        columns["unit_cycles_D"] = cycles
        half = replace(demand, **columns)
        faster = chip
        if first in cycles:
            half = replace(half, unit_cycles_D=cycles | {first: cycles[first] / 2})
        elif first == MEMORY:
            faster = replace(chip, memory_bytes_per_s=2 * chip.memory_bytes_per_s)
        elif first == LINKS and half.links_s_D is not None:
            half = replace(half, links_s_D=half.links_s_D / 2)
        elif first == FIXED:
            half = replace(half, fixed_s=half.fixed_s / 2)
        elif first == LATENCY:
            faster = replace(chip, loop=chip.loop | {"latency_s": chip.loop["latency_s"] / 2})
            half = replace(
                half, tile_cycles_D=half.tile_cycles_D / 2, chain_cycles_D=half.chain_cycles_D / 2
            )
        time_s += float(times_of(half, faster).time_s_D[0])
    return {
        "limiting_unit": first,
        "next_unit": second,
        "speedup_if_twice_as_fast": float(priced.times.time_s_D[design]) / time_s,
    }

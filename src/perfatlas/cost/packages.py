"""Packages of dies and stacks of memory on an interposer: outline, how many a wafer holds, yield.

Shape legend: X horizontal and Y vertical positions of the grid in which a wafer is cut, N lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.cost.metered import FloatArray

WAFER_MM: Final = 300.0
RETICLE_MM: Final = (26.0, 33.0)  # sides of the largest field of a scanner
POSITIONS: Final = 20  # of the grid relative to the center of the wafer, in each direction
YIELD_RETICLES: Final = 2.0  # size of the interposers whose yield is published


@dataclass(frozen=True, kw_only=True)
class Package:
    """Dies and stacks of memory on an interposer."""

    interposer: str  # Its kind, a name of data/chips.toml
    sides_mm: tuple[float, float]  # Its outline [mm]
    per_wafer: int  # Interposers that a wafer holds
    good_share: float  # Share of the interposers without defects
    bonded: int  # Dies and stacks that are attached to it

    @property
    def area_mm2(self) -> float:
        """The area of the interposer [mm2]."""
        return math.prod(self.sides_mm)


def package_of(
    die_mm2: float, dies: int, stacks: int, data: Mapping[str, Any], interposer: str = ""
) -> Package:
    """Return the package of some dies and stacks of memory.

    Interposers are tested before dies are attached, so that bad ones lose no dies.

    Args:
        data: The table `package` of data/chips.toml.
        interposer: Its kind, "" for silicon below one die, as far as it reaches, and bridges below
            several, as H100 and B200 have.

    Source: yields at two reticles of data/chips.toml; other sizes have as many defects per area
        (Poisson).

    Raises:
        InvalidSpecError: There are no dies.
        InfeasibleError: The package is larger than its kind of interposer may be, or than a wafer.

    Example:
        >>> from perfatlas.cost import chip_data
        >>> from perfatlas.cost.packages import package_of
        >>> b200 = package_of(800.0, 2, 8, chip_data()["package"])
        >>> b200.interposer, b200.per_wafer, round(b200.area_mm2)
        ('cowos_l', 16, 2828)
    """
    if dies < 1 or stacks < 0 or not 0.0 < die_mm2 < math.inf:
        raise InvalidSpecError(
            f"a package of {dies} dies of {die_mm2:g} mm2 and {stacks} stacks of memory: set at"
            " least one die with an area above 0"
        )
    sides = _outline(die_mm2, dies, stacks, data)
    reticles = math.prod(sides) / math.prod(RETICLE_MM)
    on_silicon = dies == 1 and reticles <= data["cowos_s"]["max_reticles"]
    kind = interposer or ("cowos_s" if on_silicon else "cowos_l")
    row = data[kind]
    shape = f"a package of {sides[0]:.0f} x {sides[1]:.0f} mm ({dies} dies, {stacks} stacks)"
    if reticles > row["max_reticles"]:
        larger = "" if kind == "cowos_l" else "device.interposer = cowos_l, or "
        raise InfeasibleError(
            f"{shape} takes {reticles:.1f} reticles, and {kind} has at most"
            f" {row['max_reticles']:g}; set {larger}fewer units or less memory"
        )
    count, good_share = interposers_of(sides, kind, data)
    if count == 0:
        raise InfeasibleError(f"{shape} does not fit on a wafer of {WAFER_MM:g} mm")
    return Package(
        interposer=kind,
        sides_mm=sides,
        per_wafer=count,
        good_share=good_share,
        bonded=dies + stacks,
    )


def interposers_of(
    sides_mm: tuple[float, float], kind: str, data: Mapping[str, Any]
) -> tuple[int, float]:
    """Return how many interposers a wafer holds, and the share of them without defects.

    Args:
        kind: Name of the kind of interposer.
        data: The table `package` of data/chips.toml.
    """
    reticles = math.prod(sides_mm) / math.prod(RETICLE_MM)
    count = packages_per_wafer(sides_mm, WAFER_MM / 2.0 - data["edge_mm"]["value"])
    return count, data[kind]["yield_at_two"] ** (reticles / YIELD_RETICLES)


def _outline(
    die_mm2: float, dies: int, stacks: int, data: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the sides of the smallest package: rows of dies between two columns of stacks [mm].

    Dies have the proportions of a reticle; each may be turned, and so may stacks.
    """
    gap, border = data["gap_mm"]["value"], data["border_mm"]["value"]
    ratio = math.sqrt(die_mm2 / math.prod(RETICLE_MM))
    turns = [tuple(side * ratio for side in sides) for sides in (RETICLE_MM, RETICLE_MM[::-1])]
    stack = data["stack_mm"]["value"]
    found = []
    for wide, high in turns:
        for columns in range(1, dies + 1):
            rows, along_side = -(-dies // columns), -(-stacks // 2)
            for along, across in (stack, stack[::-1]):
                needed = along_side * (along + gap) - gap
                memory = 2.0 * (across + gap) if stacks else 0.0
                width = columns * (wide + gap) - gap + memory + 2.0 * border
                height = max(rows * (high + gap) - gap, needed) + 2.0 * border
                found.append((width * height, width, height))
    return min(found)[1:]


@cache
def packages_per_wafer(sides_mm: tuple[float, float], radius_mm: float) -> int:
    """Return how many rectangles a wafer holds that straight cuts separate.

    The cuts are one grid of lines in both directions, at the best of `POSITIONS` squared positions.

    Args:
        radius_mm: Radius of the wafer within its unusable edge.

    Example:
        >>> from perfatlas.cost.packages import packages_per_wafer
        >>> packages_per_wafer((100.0, 100.0), 71.0), packages_per_wafer((100.0, 100.0), 70.0)
        (1, 0)
    """
    width, height = sides_mm
    steps_P = np.arange(POSITIONS) / POSITIONS
    far_XN, far_YN = (_farther_edges(side, radius_mm, steps_P) for side in (width, height))
    inside_XYNN = far_XN[:, None, :, None] ** 2 + far_YN[None, :, None, :] ** 2 <= radius_mm**2
    return int(inside_XYNN.sum(axis=(2, 3)).max())


def _farther_edges(side_mm: float, radius_mm: float, steps_P: FloatArray) -> FloatArray:
    """Return how far the outer edge of each strip is from the center (P, N) [mm]."""
    count = math.ceil(radius_mm / side_mm) + 1
    first_PN = (steps_P[:, None] + np.arange(-count, count)[None, :]) * side_mm
    farther_PN: FloatArray = np.maximum(np.abs(first_PN), np.abs(first_PN + side_mm))
    return farther_PN

"""Designs of a kernel as columns: the search space, and which rule each illegal design breaks.

Shape legend: D designs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.lab.tune.chip import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.lab.static import Kernel
    from perfatlas.lab.tune.chip import Chip
    from perfatlas.lab.tune.loop import Array, Demand

OPTIONS: Final = ("warps", "stages")  # of a compiler; other sizes are constants of the source


@dataclass(frozen=True, kw_only=True)
class Designs:
    """Columns of designs, by name."""

    columns: Mapping[str, Array]

    def __len__(self) -> int:
        """Return the number of designs."""
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> Array:
        """Return the column of a size (D)."""
        return self.columns[name]

    def row(self, design: int) -> dict[str, int]:
        """Return one design."""
        return {name: int(column_D[design]) for name, column_D in self.columns.items()}

    def at(self, chosen: NDArray[Any]) -> Designs:
        """Return some designs."""
        return Designs(columns={name: column_D[chosen] for name, column_D in self.columns.items()})

    def find(self, design: Mapping[str, int]) -> int | None:
        """Return the place of a design; None if the space does not have it."""
        same_D = np.all([self.columns[name] == value for name, value in design.items()], axis=0)
        return int(np.argmax(same_D)) if same_D.any() else None


@dataclass(frozen=True, kw_only=True)
class CompiledDesign:
    """What a compiler made of a design."""

    registers: int | None = None  # of a thread
    spilled_bytes: int = 0  # of a thread
    shared_bytes: int | None = None  # of a block
    problem: str = ""  # Why it does not compile
    kernel: Kernel | None = None  # With its instructions, where nvdisasm is there


def space_of(kernel: str, target: str, also: Sequence[Mapping[str, int]] = ()) -> Designs:
    """Return all combinations of the sizes that a kernel is searched over, and some more designs.

    Args:
        kernel: As `kernel tune` names it.
        target: Such as sm_90.
        also: Designs that must be there, such as the default.
    """
    sizes = shipped_table(DATA)["space"][kernel]
    sizes = sizes["all"] | next((row for name, row in sizes.items() if target.startswith(name)), {})
    grid = np.meshgrid(*(np.array(values, float) for values in sizes.values()), indexing="ij")
    columns = {name: one.ravel() for name, one in zip(sizes, grid, strict=True)}
    designs = Designs(columns=columns)
    new = [one for one in also if designs.find(one) is None]
    if new:
        columns = {
            name: np.r_[column_D, [float(one[name]) for one in new]]
            for name, column_D in columns.items()
        }
    return Designs(columns=columns)


def broken_rules(
    designs: Designs, demand: Demand, chip: Chip, more: Mapping[str, NDArray[np.bool_]]
) -> dict[str, NDArray[np.bool_]]:
    """Return, by reason, which designs cannot be launched (D); the first that applies counts.

    Args:
        more: Reasons of the kernel itself.
    """
    limit = chip.block_shared_bytes
    rules = {
        **more,
        f"more shared memory than the {limit:,} bytes of a block": demand.shared_bytes_D > limit,
        f"spills: more than {chip.thread_registers} registers of a thread": (
            demand.registers_D > chip.thread_registers
        ),
        "more registers than an SM has": (demand.registers_D * demand.threads_D > chip.registers),
    }
    left_D = np.ones(len(designs), bool)
    found = {}
    for reason, mask_D in rules.items():
        found[reason] = mask_D & left_D
        left_D &= ~mask_D
    return {reason: mask_D for reason, mask_D in found.items() if mask_D.any()}

"""Output tiles of kernels for grouped products whose tile is fixed by their code."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import UnsupportedError
from perfatlas.scenario.resolution import format_of

if TYPE_CHECKING:
    from perfatlas.scenario.operator_queries.inputs import GemmInputs

_DATA: Final = "data/grouped_kernels.toml"
_FEWEST_ROWS: Final = 128
_MOST_ROWS: Final = 2048
_LARGE_SIZES: Final = 2  # of rows, columns and inner dimension


@cache
def _tiles() -> tuple[dict[str, Any], ...]:
    return tuple(shipped_table(_DATA)["tiles"])


def fixed_tile(inputs: GemmInputs) -> tuple[float, float]:
    """Return rows and columns of the output tile of a grouped product; zeros where it is chosen.

    Raises:
        UnsupportedError: The kernel does not support the format or the device.

    Source: data/grouped_kernels.toml, from the code of the kernels.
    """
    if inputs.grouped_kernel == "best_tile":
        return 0.0, 0.0
    device = resolve_system(inputs.system).device
    name, own = format_of(inputs.format).name, inputs.grouped_kernel
    for one in _tiles():
        if (one["kernel"], one["architecture"]) == (own, device.architecture) and (
            name in one["formats"]
        ):
            return _of_sizes(one, inputs)
    known = "; ".join(
        f"{', '.join(one['formats'])} on {one['architecture']}"
        for one in _tiles()
        if one["kernel"] == own
    )
    raise UnsupportedError(
        f"grouped_kernel = {own} has no kernel for {name} on {device.name}"
        f" ({device.architecture}); it has those for {known}. Leave grouped_kernel out"
    )


def _of_sizes(tiles: dict[str, Any], inputs: GemmInputs) -> tuple[float, float]:
    """Return the tile of the sizes of a mean group."""
    large = sum(size >= _MOST_ROWS for size in (inputs.m, inputs.n, inputs.k)) >= _LARGE_SIZES
    kind = "few" if min(inputs.m, inputs.n) <= _FEWEST_ROWS else "large" if large else "other"
    rows, columns = tiles[kind]
    return float(rows), float(columns)

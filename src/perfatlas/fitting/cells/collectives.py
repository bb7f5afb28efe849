"""Calibration cells of collectives, from the measured NCCL and custom all-reduce tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

import numpy as np

from perfatlas import collectives, hardware
from perfatlas.files import shipped_table
from perfatlas.fitting.cells.cell import (
    FAMILIES,
    Cell,
    CellMaker,
    Range,
    Rows,
    is_excluded,
    of_columns,
)
from perfatlas.fitting.cells.exchange import LIBRARY_PHYSICS, LIBRARY_RANGES, exchange_cells
from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.measurements import tables
from perfatlas.measurements.tables.comm_tables import FOLDER

OP_FORMATS: Final = {
    "all_reduce": ("bf16", "int8"),
    "reduce_scatter": ("bf16", "int8"),
    "all_gather": ("any",),
    "all_to_all": ("any",),
}
LIBRARY_PROTOCOL: Final = (
    "nccl-tests style loop, out of place; sizes as nccl-tests counts them; clocks not locked"
)
CUSTOM_PROTOCOL: Final = "CUDA graph replay of the engine's all-reduce; clocks not locked"

CUSTOM_RANGES: Final = {
    "overhead_s": Range(start=4e-6, low=5e-7, high=1e-4),
    "overhead_rank_s": Range(start=2e-7, low=1e-9, high=1e-5),
    "efficiency_one_shot": Range(start=0.6, low=0.02, high=1.0),
    "overhead_two_shot_s": Range(start=2e-6, low=1e-8, high=5e-5),
    "efficiency_two_shot": Range(start=0.6, low=0.02, high=1.0),
    "switch_bytes": Range(start=1e7, low=1e4, high=1e10),
    "overhead_bulk_s": Range(start=2e-5, low=1e-7, high=1e-3),
    "efficiency_two_ranks": Range(start=0.65, low=0.03, high=1.0),
    "efficiency_most_ranks": Range(start=0.75, low=0.01, high=1.0),
    "ranks_measured": Range(start=8.0, low=2.0, high=1024.0),
}
# Sizes per rank at which a library may change protocol: between the powers of two measured.
SWITCH_EXPONENTS: Final = (13.5, 14.5, 15.5, 16.5, 17.5, 18.5, 19.5, 20.5, 21.5)
CUSTOM_SWITCH_EXPONENTS: Final = (18.5, 19.5, 20.5, 21.5, 22.5, 23.5, 24.5, 25.5, 26.5)
MIB: Final = 2.0**20
EDGE: Final = 1e-4  # margin below a limit, as six digits are stored
NVLINK: Final = "nvlink"


def collective_cells(device: str) -> tuple[Cell, ...]:
    """Return the collective cells of a device: library per operation, custom per engine."""
    cells: list[Cell] = []
    if tables.has_table(device, FOLDER, tables.LIBRARY, tables.LIBRARY_TABLE):
        for op, formats in OP_FORMATS.items():
            cells += [library_cell(device, op, format_name) for format_name in formats]
    for family in FAMILIES:
        if tables.has_table(device, FOLDER, family, tables.CUSTOM_TABLE):
            cells.append(_custom_cell(device, family))
    cells += exchange_cells(device)
    return tuple(
        cell for cell in cells if not is_excluded(device, cell.operator, cell.family, cell.format)
    )


def library_cell(device: str, op: str, format_name: str) -> Cell:
    """Return the cell of one library collective.

    Args:
        device: Catalog name of a device with NCCL rows.
        op: Measured operation.
        format_name: bf16 or int8 for reductions, any for the others.
    """
    load = partial(_load, device, op, tables.LIBRARY, format_name)
    rows = load()
    most = float(np.max(collectives.CollectiveShape(*rows.shape_UD.T).ranks))
    # The grid keeps the fitted parameters at ten: either the overlap or the switch efficiency.
    path = {"efficiency_in_network": 0.0}
    if _beats_a_ring(rows):
        path = {"overlap_power": 1.0}
    switches = [{"switch_bytes_per_rank": 2.0**exponent} for exponent in SWITCH_EXPONENTS]
    measured = {"ranks_measured": most}
    return Cell(
        device=device,
        operator=op,
        family=tables.LIBRARY,
        format=format_name,
        load=load,
        physics=LIBRARY_PHYSICS,
        silicon=SiliconRow(),
        ranges=LIBRARY_RANGES,
        grid=tuple({**measured, **path, **switch} for switch in switches),
        protocol=LIBRARY_PROTOCOL,
    )


def _beats_a_ring(rows: Rows) -> bool:
    """Return whether the largest message exceeds ring speed, by in-switch reduction."""
    shape = collectives.CollectiveShape(*rows.shape_UD.T)
    largest = np.argmax(shape.bytes * shape.ranks)
    ring_share = (shape.wire_bytes / shape.bandwidth / rows.measured_s)[largest]
    offered = shape.in_network_bytes[largest] > 0.0
    return bool(offered and ring_share > LIBRARY_RANGES["efficiency_most_ranks"].high)


def hand_over_sizes(device: str, family: str, version: str) -> tuple[float, ...]:
    """Return the sizes up to which an engine's all-reduce may run its own kernels [bytes].

    Sizes from the engine's source; where it has none for these links, powers of two between the
    measured sizes.

    Source:
        data/collectives/hand_over.toml, each size with its source file.

    Example:
        >>> from perfatlas.fitting.cells.collectives import hand_over_sizes
        >>> [size / 2**20 for size in hand_over_sizes("a100_sxm", "vllm", "0.14.0")]  # below 8 MiB
        [7.9992]
    """
    chip = hardware.resolve_system(device).device
    sizes: set[float] = set()
    for rule in _hand_overs():
        ours = rule["family"] == family and version in rule.get("versions", (version,))
        if ours and chip.architecture in rule["architectures"] and chip.scale_up.kind == NVLINK:
            sizes |= {size * MIB * (1.0 - EDGE) for size in rule.get("below", ())}
            sizes |= {size * MIB * (1.0 + EDGE) for size in rule.get("up_to", ())}
    return tuple(sorted(sizes)) or tuple(2.0**exponent for exponent in CUSTOM_SWITCH_EXPONENTS)


@cache
def _hand_overs() -> tuple[dict[str, Any], ...]:
    """Return the limits of the engines' own all-reduce, as data."""
    return tuple(shipped_table("data/collectives/hand_over.toml")["hand_over"])


def _custom_cell(device: str, family: str) -> Cell:
    load = partial(_load, device, tables.CUSTOM, family, "bf16")
    rows = load()
    most = float(np.max(collectives.CollectiveShape(*rows.shape_UD.T).ranks))
    return Cell(
        device=device,
        operator=tables.CUSTOM,
        family=family,
        format="bf16",
        load=load,
        physics=of_columns(
            collectives.custom_time_s, collectives.CollectiveShape, collectives.CustomParameters
        ),
        silicon=SiliconRow(),
        ranges=CUSTOM_RANGES,
        grid=tuple(
            {"ranks_measured": most, "switch_bytes": size}
            for size in hand_over_sizes(device, family, rows.version)
        ),
        protocol=CUSTOM_PROTOCOL,
    )


def _load(device: str, operator: str, family: str, format_name: str) -> Rows:
    rows = tables.comm_rows(device, operator, family, format_name)
    scale_up = hardware.resolve_system(device).device.scale_up
    op = "all_reduce" if operator == tables.CUSTOM else operator
    link_U = np.full(rows.bytes_U.size, scale_up.bandwidth)
    reduces = float(scale_up.in_network_reduction and format_name == "bf16")
    reduces_U = np.full(link_U.size, reduces)
    shape = collectives.collective_shape(op, rows.bytes_U, rows.ranks_U, link_U, reduces_U)
    # The minimum wire bytes over the link bandwidth
    switch_U = np.where(shape.in_network_bytes > 0.0, shape.in_network_bytes, np.inf)
    roofline_s_U = np.minimum(shape.wire_bytes, switch_U) / shape.bandwidth
    return Rows.of(rows, np.column_stack(shape), roofline_s_U)


MAKER: Final = CellMaker(collective_cells, (), place=8)

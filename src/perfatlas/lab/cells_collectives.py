"""Calibration cells of collectives, from the measured NCCL and custom all-reduce tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import hardware
from perfatlas.collectives import (
    COLLECTIVE_SHAPE,
    FABRIC_SHAPE,
    collective_shape,
    custom_time_s,
    fabric_time_s,
    library_time_s,
)
from perfatlas.files import format_toml, write_atomic
from perfatlas.kernels.silicon import NUM_SILICON
from perfatlas.lab.cells import FAMILIES, MEASURED_DEVICES, Cell, Range, Rows, is_excluded
from perfatlas.measurements import SiliconTable, has_table, read_table, table_paths

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

LIBRARY: Final = "nccl"
LIBRARY_TABLE: Final = "nccl_perf"
CUSTOM_TABLE: Final = "custom_allreduce_perf"
# Our name of the operation -> the table's.
LIBRARY_OPS: Final = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall",
}
# The tables count elements; a reduction works on numbers, the other operations move bytes.
ELEMENT_BYTES: Final = {"half": 2.0, "bfloat16": 2.0, "int8": 1.0}
FORMAT_WORDS: Final = {"bf16": ("half", "bfloat16"), "int8": ("int8",), "any": ("half", "int8")}
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

LIBRARY_RANGES: Final = {
    "overhead_s": Range(start=6e-6, low=1e-7, high=1e-4),
    "overhead_rank_s": Range(start=1.5e-6, low=1e-8, high=1e-4),
    "overhead_ramp_s": Range(start=3e-6, low=1e-8, high=1e-4),
    "ramp_exponent": Range(start=0.6, low=0.1, high=1.0),
    "overhead_bulk_s": Range(start=1.6e-5, low=1e-7, high=5e-4),
    "overhead_bulk_rank_s": Range(start=6e-6, low=1e-8, high=1e-4),
    "efficiency_two_ranks": Range(start=0.6, low=0.03, high=1.0),
    "efficiency_most_ranks": Range(start=0.7, low=0.01, high=0.85),
    "overlap_power": Range(start=1.4, low=1.0, high=8.0),
    "switch_bytes_per_rank": Range(start=1e6, low=1e3, high=1e8),
    "efficiency_in_network": Range(start=0.7, low=0.45, high=1.0),
    "ranks_measured": Range(start=8.0, low=2.0, high=1024.0),
}
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
FABRIC_RANGES: Final = {
    "overhead_s": Range(start=5e-6, low=1e-7, high=1e-3),
    "overhead_doubling_s": Range(start=3e-6, low=1e-8, high=1e-4),
    "efficiency_fabric": Range(start=0.9, low=0.2, high=1.0),
}
# The package ships the same multi-node rows for h200_sxm: they count once.
FABRIC_DEVICE: Final = "h100_sxm"
FABRIC_TABLE: Final = "wideep_deepep_ll_perf"
FABRIC_PROTOCOL: Final = (
    "DeepEP low-latency kernels, 1 to 8 nodes of 8 GPUs; the time of one node and one token is"
    " taken as what stays inside a node; one 400 Gb/s NIC per GPU is assumed"
)
# Dispatch sends FP8 with a 4-byte scale per 128 elements, combine returns 16-bit rows.
PHASE_BYTES: Final = {"dispatch": 1.0 + 4.0 / 128.0, "combine": 2.0}
EXTRAPOLATED_RANKS: Final = 8.0
EXTRAPOLATION_HEADER: Final = (
    "# ln(measured/predicted) of NCCL times at 8 ranks for fits on 2 and 4 ranks, devices pooled.\n"
    "# Written by perfatlas.lab.cells_collectives.write_rank_extrapolation from the tables of\n"
    "# aiconfigurator-core 0.12.0 (ai-dynamo/aiconfigurator, Apache-2.0).\n\n"
)
# Sizes per rank at which a library may change protocol: between the powers of two measured.
SWITCH_EXPONENTS: Final = (13.5, 14.5, 15.5, 16.5, 17.5, 18.5, 19.5, 20.5, 21.5)
CUSTOM_SWITCH_EXPONENTS: Final = (18.5, 19.5, 20.5, 21.5, 22.5, 23.5, 24.5, 25.5, 26.5)


def collective_cells(device: str) -> tuple[Cell, ...]:
    """Return the collective cells of a device: library per operation, custom per engine.

    Args:
        device: Catalog name; devices without tables have no cells.
    """
    cells: list[Cell] = []
    if has_table(device, "comm", LIBRARY, LIBRARY_TABLE):
        for op, formats in OP_FORMATS.items():
            cells += [_library_cell(device, op, format_name) for format_name in formats]
    for family in FAMILIES:
        if has_table(device, "comm", family, CUSTOM_TABLE):
            cells.append(_custom_cell(device, family))
    if device == FABRIC_DEVICE and has_table(device, "comm", "sglang", FABRIC_TABLE):
        cells.append(_fabric_cell(device))
    return tuple(
        cell for cell in cells if not is_excluded(device, cell.operator, cell.family, cell.format)
    )


def _library_cell(device: str, op: str, format_name: str) -> Cell:
    load = partial(_load_library, device, op, format_name)
    rows = load()
    most = float(np.max(rows.shape_UD[:, 1]))
    # The grid keeps ten fitted parameters: either the overlap or the switch's efficiency.
    path = {"efficiency_in_network": 0.0}
    if _beats_a_ring(rows):
        path = {"overlap_power": 1.0}
    switches = [{"switch_bytes_per_rank": 2.0**exponent} for exponent in SWITCH_EXPONENTS]
    known = {"ranks_measured": most}
    return Cell(
        device=device,
        operator=op,
        family=LIBRARY,
        format=format_name,
        load=load,
        physics=library_time_s,
        silicon=np.zeros(NUM_SILICON),
        ranges=LIBRARY_RANGES,
        grid=tuple({**known, **path, **switch} for switch in switches),
        protocol=LIBRARY_PROTOCOL,
    )


def _beats_a_ring(rows: Rows) -> bool:
    """Return whether the largest message moves faster than a ring can: the switch reduces."""
    columns = dict(zip(COLLECTIVE_SHAPE, rows.shape_UD.T, strict=True))
    largest = np.argmax(columns["bytes"] * columns["ranks"])
    ring_share = (columns["wire_bytes"] / columns["bandwidth"] / rows.measured_s)[largest]
    offered = columns["in_network_bytes"][largest] > 0.0
    return bool(offered and ring_share > LIBRARY_RANGES["efficiency_most_ranks"].high)


def _custom_cell(device: str, family: str) -> Cell:
    most = float(
        np.max(_newest(device, family, CUSTOM_TABLE).columns["num_gpus"][_kept(device, family)])
    )
    return Cell(
        device=device,
        operator="custom_all_reduce",
        family=family,
        format="bf16",
        load=partial(_load_custom, device, family),
        physics=custom_time_s,
        silicon=np.zeros(NUM_SILICON),
        ranges=CUSTOM_RANGES,
        grid=tuple(
            {"ranks_measured": most, "switch_bytes": 2.0**exponent}
            for exponent in CUSTOM_SWITCH_EXPONENTS
        ),
        protocol=CUSTOM_PROTOCOL,
    )


def _fabric_cell(device: str) -> Cell:
    return Cell(
        device=device,
        operator="fabric_exchange",
        family="deepep",
        format="any",
        load=partial(_load_fabric, device),
        physics=fabric_time_s,
        silicon=np.zeros(NUM_SILICON),
        ranges=FABRIC_RANGES,
        protocol=FABRIC_PROTOCOL,
    )


def _load_fabric(device: str) -> Rows:
    versions = table_paths(device, "comm", "sglang", FABRIC_TABLE)
    tables = [read_table(device, "comm", "sglang", FABRIC_TABLE, version) for version in versions]
    table = max(tables, key=lambda one: int(np.max(one.columns["node_num"])))
    node = hardware.resolve_system(device).node
    nodes = table.columns["node_num"].astype(np.float64)
    share = np.full(nodes.size, node.nics * node.nic_bandwidth / node.devices)
    blocks, times = [], []
    for phase, element_bytes in PHASE_BYTES.items():
        time_s = table.columns[f"{phase}_avg_t_us"].astype(np.float64) * 1e-6
        rows = table.columns["num_token"] * table.columns["num_topk"]
        wire = rows * table.columns["hidden_size"] * element_bytes * (1.0 - 1.0 / nodes)
        inside = np.full(nodes.size, np.min(time_s[nodes == 1]))
        columns = dict(
            zip(FABRIC_SHAPE, (nodes, wire, share, inside, np.ones(nodes.size)), strict=True)
        )
        blocks.append(np.column_stack(list(columns.values()))[nodes > 1])
        times.append(time_s[nodes > 1])
    shape_UD, measured_s = np.concatenate(blocks), np.concatenate(times)
    return Rows(
        shape_UD=shape_UD,
        measured_s=measured_s,
        roofline_s=shape_UD[:, 1] / shape_UD[:, 2],
        version=table.version,
        data_hash=table.data_hash,
        excluded={"one node": 2 * int(np.sum(nodes == 1))},
    )


def rank_extrapolation(op: str) -> dict[str, float | int | str]:
    """Return how far fits on up to half the ranks are from the most ranks measured.

    Pools ln(measured/predicted) of the devices with an NVLink switch and 8 measured ranks: fitted
    on 2 and 4 ranks, predicted at 8.

    Args:
        op: Measured operation.

    Returns:
        op, q05, q50, q95, rows and devices of the pool.
    """
    from perfatlas.lab.calibrate import fit_cell  # noqa: PLC0415 - calibrate imports this file

    residuals = []
    for device in MEASURED_DEVICES:
        cell = _library_cell(device, op, OP_FORMATS[op][0])
        rows = cell.load()
        ranks = rows.shape_UD[:, 1]
        kind = hardware.resolve_system(device).device.scale_up.kind
        if np.max(ranks) < EXTRAPOLATED_RANKS or kind != "nvlink":
            continue
        few = ranks < EXTRAPOLATED_RANKS
        seen = rows._replace(shape_UD=rows.shape_UD[few], measured_s=rows.measured_s[few])
        known = {"ranks_measured": float(np.max(ranks[few]))}
        held = replace(cell, grid=tuple({**one, **known} for one in cell.grid))
        parameters = fit_cell(held, seen)
        predicted_s = held.predict(rows.shape_UD[~few], parameters)
        residuals.append(np.log(rows.measured_s[~few] / predicted_s))
    pool = np.concatenate(residuals)
    low, middle, high = (round(float(x), 4) for x in np.quantile(pool, (0.05, 0.5, 0.95)))
    return {
        "op": op,
        "q05": low,
        "q50": middle,
        "q95": high,
        "rows": pool.size,
        "devices": len(residuals),
    }


def write_rank_extrapolation(path: Path) -> None:
    """Write the extrapolation errors of every measured operation to a TOML file.

    Args:
        path: The file; `data/collectives/rank_extrapolation.toml` of the package is shipped.
    """
    rows = [rank_extrapolation(op) for op in LIBRARY_OPS]
    write_atomic(path, EXTRAPOLATION_HEADER + format_toml({"extrapolation": rows}))


def _newest(device: str, family: str, name: str) -> SiliconTable:
    """Return the newest version of a table."""
    return read_table(
        device, "comm", family, name, list(table_paths(device, "comm", family, name))[-1]
    )


def _load_library(device: str, op: str, format_name: str) -> Rows:
    table = _newest(device, LIBRARY, LIBRARY_TABLE)
    words = FORMAT_WORDS[format_name]
    keep = (table.columns["op_name"] == LIBRARY_OPS[op]) & np.isin(
        table.columns["nccl_dtype"].astype(str), words
    )
    return _rows(device, op, table, keep, format_name, {})


def _kept(device: str, family: str) -> NDArray[np.bool_]:
    """Return which rows of a custom table are the engine's own kernel in a CUDA graph (U,)."""
    table = _newest(device, family, CUSTOM_TABLE)
    source = table.columns["kernel_source"].astype(str)
    keep: NDArray[np.bool_] = np.char.find(source, "eager") < 0
    if family != "trtllm":  # beyond one node of GPUs these engines hand over to the library
        keep &= table.columns["num_gpus"] <= hardware.resolve_system(device).node.devices
    return keep


def _load_custom(device: str, family: str) -> Rows:
    table = _newest(device, family, CUSTOM_TABLE)
    keep = _kept(device, family)
    excluded = {"eager launch, or beyond one node where the library takes over": int(np.sum(~keep))}
    return _rows(device, "all_reduce", table, keep, "bf16", excluded)


def _rows(
    device: str,
    op: str,
    table: SiliconTable,
    keep: NDArray[np.bool_],
    format_name: str,
    excluded: dict[str, int],
) -> Rows:
    scale_up = hardware.resolve_system(device).device.scale_up
    word = "nccl_dtype" if "nccl_dtype" in table.columns else "allreduce_dtype"
    width = np.array([ELEMENT_BYTES[str(name)] for name in table.columns[word][keep]])
    size = table.columns["message_size"][keep].astype(np.float64) * width
    ranks = table.columns["num_gpus"][keep].astype(np.float64)
    reduces = np.full(size.size, float(scale_up.in_network_reduction and format_name == "bf16"))
    shape_UD = collective_shape(op, size, ranks, np.full(size.size, scale_up.bandwidth), reduces)
    return Rows(
        shape_UD=shape_UD,
        measured_s=table.measured_s()[keep],
        roofline_s=_roofline_s(shape_UD),
        version=table.version,
        data_hash=table.data_hash,
        excluded=excluded,
    )


def _roofline_s(shape_UD: FloatArray) -> FloatArray:
    """Return the least wire bytes over the link (U,) [s]."""
    columns = dict(zip(COLLECTIVE_SHAPE, shape_UD.T, strict=True))
    switch = np.where(columns["in_network_bytes"] > 0.0, columns["in_network_bytes"], np.inf)
    least: FloatArray = np.minimum(columns["wire_bytes"], switch) / columns["bandwidth"]
    return least

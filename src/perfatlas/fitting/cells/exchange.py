"""Calibration cells of expert exchanges (dispatch, combine) and of the level between nodes.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from perfatlas import collectives, hardware
from perfatlas.fitting.cells.cell import Cell, Range, Rows, of_columns
from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.measurements.tables import (
    DEEPEP_TABLE,
    EXCHANGE_FAMILY,
    FP8_ROW_BYTES,
    LOW_LATENCY_TABLE,
    NORMAL_TABLE,
    NVLINK_TABLE,
    TWO_MODE_FAMILY,
    comm_rows,
    comm_table,
    has_table,
    read_table,
    table_paths,
)
from perfatlas.measurements.tables.comm_tables import FOLDER
from perfatlas.quantities import MICROSECOND_S

LIBRARY_PHYSICS: Final = of_columns(
    collectives.library_time_s, collectives.CollectiveShape, collectives.LibraryParameters
)
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
# As for the library, with a wider latency range: engine kernels synchronise all ranks.
EXCHANGE_RANGES: Final = {
    **LIBRARY_RANGES,
    "overhead_s": Range(start=3e-5, low=1e-6, high=3e-4),
    "overhead_bulk_s": Range(start=6e-5, low=1e-7, high=1e-3),
    "efficiency_two_ranks": Range(start=0.4, low=0.03, high=1.0),
    "efficiency_most_ranks": Range(start=0.4, low=0.03, high=1.0),
}
FABRIC_RANGES: Final = {
    "overhead_s": Range(start=5e-6, low=1e-7, high=1e-3),
    "overhead_doubling_s": Range(start=3e-6, low=1e-8, high=1e-4),
    "efficiency_fabric": Range(start=0.9, low=0.2, high=1.0),
}
# The package has the same multi-node rows for h200_sxm: they count once.
FABRIC_DEVICE: Final = "h100_sxm"
FABRIC_PROTOCOL: Final = (
    "DeepEP low-latency kernels, 1 to 8 nodes of 8 GPUs; the time of one node and one token, mean"
    " of dispatch and combine, is taken as what stays inside a node; one 400 Gb/s NIC per GPU is"
    " assumed"
)
# Dispatch sends FP8 with its scales, combine returns 16-bit rows.
PHASE_BYTES: Final = {"dispatch": FP8_ROW_BYTES, "combine": 2.0}

# TensorRT-LLM runs its NVLink kernels on NVL72, not the DeepEP kernels the tables hold for four of
# its GPUs.
NVL72_DEVICES: Final = ("gb200", "gb300")
DEEPEP_PROTOCOL: Final = (
    "TensorRT-LLM with DeepEP, the faster of its low-latency and high-throughput kernels per size;"
    " bytes: one copy of a token per rank that holds one of its experts; latency column read as us"
)
NVLINK_PROTOCOL: Final = (
    "TensorRT-LLM NVLinkTwoSided kernels on NVL72, dispatch with its prepare step; bytes: one copy"
    " of a token per rank that holds one of its experts"
)
TWO_MODE_PROTOCOL: Final = (
    "DeepEP as SGLang ships it, inside a node, the faster per shape of its low-latency kernels (up"
    " to 1,024 tokens) and its normal kernels on 20 SMs (test_intranode); FP8 dispatch, 16-bit"
    " combine; bytes: one copy of a token per rank that holds one of its experts"
)
PROTOCOLS: Final = {
    DEEPEP_TABLE: DEEPEP_PROTOCOL,
    NVLINK_TABLE: NVLINK_PROTOCOL,
    LOW_LATENCY_TABLE: TWO_MODE_PROTOCOL,
}
SWITCH_EXPONENTS: Final = (13.5, 15.5, 17.5, 19.5, 21.5, 23.5)


def exchange_cells(device: str) -> tuple[Cell, ...]:
    """Return the cells of expert exchanges and of the fabric measured on a device."""
    cells: list[Cell] = []
    if has_table(device, FOLDER, EXCHANGE_FAMILY, NVLINK_TABLE) or (
        device not in NVL72_DEVICES and has_table(device, FOLDER, EXCHANGE_FAMILY, DEEPEP_TABLE)
    ):
        cells += [_exchange_cell(device, phase, EXCHANGE_FAMILY) for phase in PHASE_BYTES]
    two_modes = (LOW_LATENCY_TABLE, NORMAL_TABLE)
    both = all(has_table(device, FOLDER, TWO_MODE_FAMILY, name) for name in two_modes)
    if both and device not in NVL72_DEVICES:
        cells += [_exchange_cell(device, phase, TWO_MODE_FAMILY) for phase in PHASE_BYTES]
    if device == FABRIC_DEVICE and has_table(device, FOLDER, TWO_MODE_FAMILY, LOW_LATENCY_TABLE):
        cells.append(_fabric_cell(device))
    return tuple(cells)


def _exchange_cell(device: str, phase: str, family: str) -> Cell:
    load = partial(_load, device, phase, family)
    ranks = collectives.CollectiveShape(*load().shape_UD.T).ranks
    measured = {"ranks_measured": float(np.max(ranks)), "efficiency_in_network": 0.0}
    if np.min(ranks) == np.max(ranks):  # a single group size does not determine the cost per rank
        measured |= {"overhead_rank_s": 0.0, "overhead_bulk_rank_s": 0.0}
    switches = [{"switch_bytes_per_rank": 2.0**exponent} for exponent in SWITCH_EXPONENTS]
    ties = [{**measured, **switch} for switch in switches]
    return Cell(
        device=device,
        operator=phase,
        family=family,
        format="any",
        load=load,
        physics=LIBRARY_PHYSICS,
        silicon=SiliconRow(),
        ranges=EXCHANGE_RANGES,
        grid=tuple(ties),
        protocol=PROTOCOLS[comm_table(device, phase, family)[2]],
    )


def _load(device: str, phase: str, family: str) -> Rows:
    rows = comm_rows(device, phase, family, "any")
    link_U = np.full(rows.ranks_U.size, hardware.resolve_system(device).device.scale_up.bandwidth)
    none_U = np.zeros_like(link_U)
    shape = collectives.collective_shape("all_to_all", rows.bytes_U, rows.ranks_U, link_U, none_U)
    return Rows.of(rows, np.column_stack(shape), shape.wire_bytes / link_U)


def _fabric_cell(device: str) -> Cell:
    return Cell(
        device=device,
        operator="fabric_exchange",
        family="deepep",
        format="any",
        load=partial(_load_fabric, device),
        physics=of_columns(
            collectives.fabric_time_s, collectives.FabricShape, collectives.FabricParameters
        ),
        silicon=SiliconRow(),
        ranges=FABRIC_RANGES,
        protocol=FABRIC_PROTOCOL,
    )


def _load_fabric(device: str) -> Rows:
    versions = table_paths(device, FOLDER, "sglang", LOW_LATENCY_TABLE)
    tables = [
        read_table(device, FOLDER, "sglang", LOW_LATENCY_TABLE, version) for version in versions
    ]
    table = max(tables, key=lambda silicon_table: int(np.max(silicon_table.columns["node_num"])))
    node = hardware.resolve_system(device).node
    nodes = table.columns["node_num"].astype(np.float64)
    share = np.full(nodes.size, node.nics * node.nic_bandwidth / node.devices)
    measured = {
        phase: table.columns[f"{phase}_avg_t_us"].astype(np.float64) * MICROSECOND_S
        for phase in PHASE_BYTES
    }
    # The intra-node part differs by phase, but not for inter-node kernels.
    alone_s = float(np.mean([np.min(time_s[nodes == 1]) for time_s in measured.values()]))
    rows = table.columns["num_token"] * table.columns["num_topk"] * table.columns["hidden_size"]
    blocks, times = [], []
    for phase, time_s in measured.items():
        wire = rows * PHASE_BYTES[phase] * (1.0 - 1.0 / nodes)
        inside = np.full(nodes.size, alone_s)
        shape = collectives.FabricShape(nodes, wire, share, inside, np.ones(nodes.size))
        blocks.append(np.column_stack(shape)[nodes > 1])
        times.append(time_s[nodes > 1])
    shape_UD, measured_s = np.concatenate(blocks), np.concatenate(times)
    shape = collectives.FabricShape(*shape_UD.T)
    return Rows(
        shape_UD=shape_UD,
        measured_s=measured_s,
        roofline_s=shape.wire_bytes / shape.bandwidth,
        version=table.version,
        data_hash=table.data_hash,
        excluded={"one node": 2 * int(np.sum(nodes == 1))},
    )

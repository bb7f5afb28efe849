"""The measured rows of collectives: the rows and tables of each calibration cell.

Shape legend: U measured rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.measurements.tables.silicon import has_table, read_table, table_paths
from perfatlas.operators import GroupedGemm, Phase
from perfatlas.parallelism import expert_groups_reached
from perfatlas.quantities import MICROSECOND_S

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from perfatlas.measurements.tables.silicon import SiliconTable
    from perfatlas.operators import FloatArray

FOLDER: Final = "comm"
LIBRARY: Final = "nccl"
LIBRARY_TABLE: Final = "nccl_perf"
CUSTOM: Final = "custom_all_reduce"
CUSTOM_TABLE: Final = "custom_allreduce_perf"
# Operation -> its name in the tables.
LIBRARY_OPS: Final = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall",
}
# The tables count elements; only reductions depend on the format.
ELEMENT_BYTES: Final = {"half": 2.0, "bfloat16": 2.0, "int8": 1.0}
FORMAT_WORDS: Final = {"bf16": ("half", "bfloat16"), "int8": ("int8",), "any": ("half", "int8")}

EXCHANGE_FAMILY: Final = "trtllm"
DEEPEP_TABLE: Final = "moe_a2a_perf"
NVLINK_TABLE: Final = "trtllm_alltoall_perf"
# DeepEP as shipped with SGLang: two kernels, of which the faster per shape is used.
TWO_MODE_FAMILY: Final = "sglang"
LOW_LATENCY_TABLE: Final = "wideep_deepep_ll_perf"
NORMAL_TABLE: Final = "wideep_deepep_normal_perf"
NORMAL_SMS: Final = 20  # DeepEP's default, Buffer.num_sms
# Bytes per element with scales; rows of other types are excluded. Dispatch sends FP8 with a 4-byte
# scale per 128 elements.
FP8_ROW_BYTES: Final = 1.0 + 4.0 / 128.0
EXCHANGED_BYTES: Final[Mapping[str, Mapping[str, float]]] = {
    "dispatch": {"bfloat16": 2.0, "fp8": FP8_ROW_BYTES, "nvfp4": 0.5625},
    "combine": {"bfloat16": 2.0, "fp8": 2.0, "nvfp4": 2.0},
}


class CommRows(NamedTuple):
    """Measured rows of one collective cell."""

    bytes_U: FloatArray  # Size as counted by nccl-tests (U,) [bytes]
    ranks_U: FloatArray  # Ranks of the group (U,)
    measured_s: FloatArray  # Measured times (U,) [s]
    version: str  # Version of the library or engine
    data_hash: str  # Hash of the file
    excluded: Mapping[str, int]  # Reason -> excluded rows


def comm_table(device: str, operator: str, family: str) -> tuple[str, str, str]:
    """Return folder, framework and table of a cell.

    Args:
        operator: Measured operation, dispatch, combine or custom_all_reduce.
        family: Library or engine.
    """
    if operator in LIBRARY_OPS:
        return FOLDER, LIBRARY, LIBRARY_TABLE
    if operator in EXCHANGED_BYTES and family == TWO_MODE_FAMILY:
        return FOLDER, family, LOW_LATENCY_TABLE
    if operator in EXCHANGED_BYTES:
        nvlink = has_table(device, FOLDER, EXCHANGE_FAMILY, NVLINK_TABLE)
        return FOLDER, EXCHANGE_FAMILY, NVLINK_TABLE if nvlink else DEEPEP_TABLE
    return FOLDER, family, CUSTOM_TABLE


def comm_rows(
    device: str, operator: str, family: str, format_name: str, version: str = ""
) -> CommRows:
    """Return the measured rows of a collective cell.

    Args:
        device: Catalog name of a device that has the table.
        operator: Measured operation, dispatch, combine or custom_all_reduce.
        family: Library or engine.
        format_name: bf16 or int8 for reductions, any for the others.
        version: Version of the table; the newest by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: The package does not contain the table.
    """
    table_key = comm_table(device, operator, family)
    newest = list(table_paths(device, *table_key))[-1:] or [""]
    table = read_table(device, *table_key, version or newest[0] or None)
    if operator in LIBRARY_OPS:
        words = FORMAT_WORDS[format_name]
        keep = (table.columns["op_name"] == LIBRARY_OPS[operator]) & np.isin(
            table.columns["nccl_dtype"].astype(str), words
        )
        return _counted(table, "nccl_dtype", keep, {})
    if operator == CUSTOM:
        source = table.columns["kernel_source"].astype(str)
        keep = np.char.find(source, "eager") < 0
        if family != "trtllm":  # beyond one node these engines use the library
            keep &= table.columns["num_gpus"] <= resolve_system(device).node.devices
        reason = "eager launch, or beyond one node where the library takes over"
        return _counted(table, "allreduce_dtype", keep, {reason: int(np.sum(~keep))})
    if table_key[2] == LOW_LATENCY_TABLE:
        normal = read_table(device, FOLDER, family, NORMAL_TABLE, table.version)
        return _two_modes(table, normal, operator, resolve_system(device).node.devices)
    return _nvlink(table, operator) if table_key[2] == NVLINK_TABLE else _deepep(table, operator)


def _counted(
    table: SiliconTable, word: str, keep: NDArray[np.bool_], excluded: Mapping[str, int]
) -> CommRows:
    """Return the rows of a table whose sizes are in elements."""
    width = np.array([ELEMENT_BYTES[str(name)] for name in table.columns[word][keep]])
    return CommRows(
        bytes_U=table.columns["message_size"][keep].astype(np.float64) * width,
        ranks_U=table.columns["num_gpus"][keep].astype(np.float64),
        measured_s=table.measured_s()[keep],
        version=table.version,
        data_hash=table.data_hash,
        excluded=excluded,
    )


def _deepep(table: SiliconTable, phase: str) -> CommRows:
    """Return the faster backend of each shape; the table's latency is in microseconds."""
    columns, widths = table.columns, EXCHANGED_BYTES[phase]
    keep = (columns["phase"] == phase) & np.isin(columns["comm_dtype"].astype(str), list(widths))
    names = ("comm_dtype", "hidden_size", "topk", "num_experts", "num_tokens", "ep_size")
    best: dict[tuple[Hashable, ...], float] = {}
    for row in np.flatnonzero(keep):
        key = tuple(columns[name][row] for name in names)
        best[key] = min(best.get(key, np.inf), float(columns["latency"][row]) * MICROSECOND_S)
    shapes = np.array([[widths[str(key[0])], *key[1:]] for key in best], dtype=np.float64)
    return _exchanged(table, shapes, np.array(list(best.values())), int(np.sum(keep)))


def _two_modes(quick: SiliconTable, normal: SiliconTable, phase: str, devices: int) -> CommRows:
    """Return DeepEP rows inside a node: the faster of low-latency and normal kernels per shape.

    Shapes with measurements of the normal kernel only are included if they have more tokens than
    any of the low-latency kernel. The hash is that of the low-latency table.
    """
    names = ("hidden_size", "num_topk", "num_experts", "num_token")
    times_s: dict[tuple[float, ...], list[float]] = {}
    keep = quick.columns["node_num"] == 1
    max_tokens = float(np.max(quick.columns["num_token"][keep]))
    for row in np.flatnonzero(keep):
        key = tuple(float(quick.columns[name][row]) for name in names)
        time_us = float(quick.columns[f"{phase}_avg_t_us"][row])
        times_s.setdefault(key, []).append(time_us * MICROSECOND_S)
    table = normal.columns
    keep = (table["node_num"] == 1) & (table[f"{phase}_sms"] == NORMAL_SMS)
    for row in np.flatnonzero(keep):
        key = tuple(float(table[name][row]) for name in names)
        time_us = float(table[f"{phase}_transmit_us"][row] + table[f"{phase}_notify_us"][row])
        if key in times_s or key[-1] > max_tokens:
            times_s.setdefault(key, []).append(time_us * MICROSECOND_S)
    width = FP8_ROW_BYTES if phase == "dispatch" else EXCHANGED_BYTES[phase]["bfloat16"]
    shapes = np.array([[width, *key, float(devices)] for key in times_s])
    best_s = np.array([min(times) for times in times_s.values()])
    return _exchanged(quick, shapes, best_s, sum(len(times) for times in times_s.values()))


def _nvlink(table: SiliconTable, phase: str) -> CommRows:
    """Return the two-sided NVLink kernels of NVL72; dispatch includes its prepare step."""
    columns, widths = table.columns, EXCHANGED_BYTES[phase]
    two_sided = columns["kernel_source"] == "NVLinkTwoSided"
    names = ("moe_dtype", "hidden_size", "topk", "num_experts", "num_tokens", "moe_ep_size")
    prepare = two_sided & (columns["op_name"] == "alltoall_prepare")
    before_s = {
        tuple(columns[name][row] for name in names): table.measured_s()[row]
        for row in np.flatnonzero(prepare)
    }
    keep = two_sided & (columns["op_name"] == f"alltoall_{phase}")
    shapes, times = [], []
    for row in np.flatnonzero(keep):
        key = tuple(columns[name][row] for name in names)
        first_s = before_s[key] if phase == "dispatch" else 0.0
        shapes.append([widths[str(key[0])], *(float(value) for value in key[1:])])
        times.append(table.measured_s()[row] + first_s)
    return _exchanged(table, np.array(shapes), np.array(times), int(np.sum(keep)))


def _exchanged(
    table: SiliconTable, shapes: FloatArray, measured_s: FloatArray, measured_rows: int
) -> CommRows:
    """Return rows of measurements with (element bytes, hidden, top_k, experts, tokens, ep)."""
    width, hidden, top_k, experts, tokens, ranks = shapes.T
    reached = expert_groups_reached(_experts(hidden, top_k, experts, ranks))
    return CommRows(
        bytes_U=tokens * reached * hidden * width,
        ranks_U=ranks,
        measured_s=measured_s,
        version=table.version,
        data_hash=table.data_hash,
        excluded={"slower backend": measured_rows - measured_s.size},
    )


def _experts(
    hidden: FloatArray, top_k: FloatArray, experts: FloatArray, ranks: FloatArray
) -> GroupedGemm:
    """Return the MoE layers whose exchange was measured."""
    ones = np.ones_like(hidden)
    return GroupedGemm(
        name="experts",
        phase=Phase.DECODE,
        count=ones,
        tokens=ones,
        hidden=hidden,
        intermediate=ones,
        experts=experts,
        top_k=top_k,
        ep=ranks,
        moe_tp=ones,
        matrices=3,
        format="bf16",
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
    )

"""Predicted and measured watts of single kernels.

Shape legend: U measured rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import power_columns, with_energy
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.kernels.devices import DeviceColumns
from perfatlas.kernels.tiers import price_operators
from perfatlas.lab.power.splits import fold_of, power_splits
from perfatlas.measurements.tables import MOE_FORMATS, read_table
from perfatlas.operators import Attention, GroupedGemm, Phase

if TYPE_CHECKING:
    from perfatlas.measurements.tables import SiliconTable
    from perfatlas.operators import FloatArray, IntArray, Operator

PREFILL: Final = "context_attention_perf"
MOE: Final = "moe_perf"


@dataclass(frozen=True, kw_only=True)
class KernelWatts:
    """Measured watts of kernels with what predicts them, each (U,).

    Args:
        table: Name of the table of each row.
        fold: Half of the split.
        measured_w: Reading [W].
        dynamic_w: Dynamic energy over the measured time [W].
        on_w: Power without kernels [W].
        cap_w: Power limit [W].
        time_s: Measured time [s].
    """

    table: tuple[str, ...]
    fold: IntArray
    measured_w: FloatArray
    dynamic_w: FloatArray
    on_w: FloatArray
    cap_w: FloatArray
    time_s: FloatArray


def kernel_watts() -> KernelWatts:
    """Return the rows with a power reading of all tables of the splits.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: A table is missing.
    """
    kernels = power_splits().kernels
    found = []
    for name, one in kernels["tables"].items():
        table = read_table(
            kernels["device"], one["folder"], kernels["engine"], name, kernels["version"]
        )
        found.append(_watts(name, table, tuple(one["geometry"])))
    return KernelWatts(
        table=tuple(name for one in found for name in one.table),
        **{
            name: np.concatenate([getattr(one, name) for one in found])
            for name in ("fold", "measured_w", "dynamic_w", "on_w", "cap_w", "time_s")
        },
    )


def _watts(name: str, table: SiliconTable, geometry: tuple[str, ...]) -> KernelWatts:
    kernels, columns = power_splits().kernels, table.columns
    geometry_UD = np.stack([np.asarray(columns[one]) for one in geometry], axis=1)
    time_s = table.measured_s()
    devices = DeviceColumns(
        devices=(resolve_system(kernels["device"]).device,),
        index_C=np.zeros(table.rows, np.int64),
    )
    dynamic_j = np.zeros(table.rows)
    for word in dict.fromkeys(columns.text(_format_column(name)).words):
        rows = columns.text(_format_column(name)).holds((word,))
        operator = (_experts if name == MOE else _attention)(table, name, word, rows)
        own = replace(devices, index_C=devices.index_C[rows], gathered={})
        dynamic_j[rows] = _energy_j(operator, own, time_s[rows])
    power = power_columns(devices)
    return KernelWatts(
        table=(name,) * table.rows,
        fold=fold_of(geometry_UD, kernels["folds"]),
        measured_w=np.asarray(columns["power"], np.float64),
        dynamic_w=dynamic_j / time_s,
        on_w=power.on_w,
        cap_w=np.asarray(columns["power_limit"], np.float64),
        time_s=time_s,
    )


def _format_column(name: str) -> str:
    return "moe_dtype" if name == MOE else "kv_cache_dtype"


def _energy_j(operator: Operator, devices: DeviceColumns, time_s: FloatArray) -> FloatArray:
    """Return the dynamic energy of one execution (U,) [J]; tensors that fit are in cache."""
    prices = price_operators([operator], devices, family="", tier="bound")
    cached = operator.work().cold_bytes <= devices.gather("l2_bytes")
    moved_C = np.where(cached, 0.0, prices.memory_bytes_CO[:, 0])
    prices = replace(prices, time_s_CO=time_s[:, None], memory_bytes_CO=moved_C[:, None])
    found = with_energy([operator], prices, devices)
    energy_C: FloatArray = (found.chip_energy_j_CO + found.memory_energy_j_CO)[:, 0]
    return energy_C


def _attention(table: SiliconTable, name: str, word: str, rows: Any) -> Attention:  # noqa: ANN401 - a mask
    def size(column: str) -> FloatArray:
        return np.asarray(table.columns[column][rows], np.float64)

    q_len = size("isl") if name == PREFILL else np.ones(int(rows.sum()))
    cache = "fp8" if word == "fp8" else "bf16"
    return Attention(
        name="attention",
        phase=Phase.PREFILL if name == PREFILL else Phase.DECODE,
        count=np.ones_like(q_len),
        batch=size("batch_size"),
        q_len=q_len,
        kv_len=q_len + size("step"),
        num_heads=size("num_heads"),
        num_kv_heads=size("num_key_value_heads"),
        head_dim=size("head_dim"),
        value_head_dim=size("head_dim"),
        window=size("window_size"),
        format="bf16",
        kv_format="fp8_static" if cache == "fp8" else "bf16",
        kv_bytes_per_element=1.0 if cache == "fp8" else 2.0,
    )


def _experts(table: SiliconTable, name: str, word: str, rows: Any) -> GroupedGemm:  # noqa: ANN401 - a mask
    del name

    def size(column: str) -> FloatArray:
        return np.asarray(table.columns[column][rows], np.float64)

    layout = get_format(MOE_FORMATS[word])
    tokens = size("num_tokens")
    return GroupedGemm(
        name="experts",
        phase=Phase.PREFILL,
        count=np.ones_like(tokens),
        tokens=tokens,
        hidden=size("hidden_size"),
        intermediate=size("inter_size"),
        experts=size("num_experts"),
        top_k=size("topk"),
        ep=size("moe_ep_size"),
        moe_tp=size("moe_tp_size"),
        matrices=3,
        format=layout.name,
        weight_bytes_per_element=layout.weight_bytes,
        input_bytes_per_element=layout.activation_bytes,
    )

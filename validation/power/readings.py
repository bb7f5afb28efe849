"""Predicted and measured watts of single kernels.

Shape legend: U measured rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import board_energy, power_columns, with_energy
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.measurements.tables import MOE_FORMATS, read_table
from perfatlas.operators import Attention, GroupedGemm, Phase
from perfatlas.quantities import UnsupportedError
from validation.power.splits import fold_of, power_splits

if TYPE_CHECKING:
    from collections.abc import Collection

    from perfatlas.measurements.tables import SiliconTable
    from perfatlas.operators import FloatArray, IntArray, Operator

PREFILL: Final = "context_attention_perf"
MOE: Final = "moe_perf"
DIGITS: Final = 3  # significant, of fitted values
MILLIWATT: Final = 1e-3
MAX_SAMPLES: Final = 200
ROUNDING_TOLERANCE: Final = (
    1e-4  # distance from a whole number of milliwatts per sample, of rounded means
)
MIN_LIMITED_SHARE: Final = 0.8  # of the time beyond the roofline


@dataclass(frozen=True, kw_only=True)
class KernelWatts:
    """Measured watts of kernels with what predicts them, each (U,)."""

    table: tuple[str, ...]  # Name of the table of each row
    fold: IntArray  # Half of the split
    measured_w: FloatArray  # Reading [W]
    dynamic_w: FloatArray  # Dynamic energy of useful work over the measured time [W]
    active_w: FloatArray  # Power of SMs that issue for the time beyond the roofline [W]
    samples: IntArray  # Samples of the reading
    on_w: FloatArray  # Power without kernels [W]
    cap_w: FloatArray  # Power limit [W]
    time_s: FloatArray  # Measured time [s]


def kernel_watts(tables: Collection[str] | None = None) -> KernelWatts:
    """Return the rows with a power reading of tables of the splits.

    Args:
        tables: Names of tables, None for all.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: A table is missing.
    """
    kernels = power_splits().kernels
    found = []
    for name, one in kernels["tables"].items():
        if tables is not None and name not in tables:
            continue
        table = read_table(
            kernels["device"], one["folder"], kernels["engine"], name, kernels["version"]
        )
        found.append(_watts(name, table, tuple(one["geometry"])))
    return KernelWatts(
        table=tuple(name for watts in found for name in watts.table),
        **{
            name: np.concatenate([getattr(watts, name) for watts in found])
            for name in KernelWatts.__dataclass_fields__
            if name != "table"
        },
    )


def _watts(name: str, table: SiliconTable, geometry: tuple[str, ...]) -> KernelWatts:
    kernels, columns = power_splits().kernels, table.columns
    geometry_UD = np.stack([np.asarray(columns[key]) for key in geometry], axis=1)
    time_s = table.measured_s()
    devices = DeviceColumns(
        devices=(resolve_system(kernels["device"]).device,),
        index_C=np.zeros(table.rows, np.int64),
    )
    dynamic_j, bound_s = np.zeros(table.rows), np.zeros(table.rows)
    for word in dict.fromkeys(columns.text(_format_column(name)).words):
        rows = columns.text(_format_column(name)).holds((word,))
        operator = (_experts if name == MOE else _attention)(table, name, word, rows)
        own = replace(devices, index_C=devices.index_C[rows], gathered={})
        dynamic_j[rows], bound_s[rows] = _work(operator, own)
    power, measured_w = power_columns(devices), np.asarray(columns["power"], np.float64)
    issue_w = board_energy(devices.devices[0]).issue_w
    return KernelWatts(
        table=(name,) * table.rows,
        fold=fold_of(geometry_UD, kernels["folds"]),
        measured_w=measured_w,
        dynamic_w=dynamic_j / time_s,
        active_w=issue_w * np.maximum(1.0 - bound_s / time_s, 0.0),
        samples=sample_counts(measured_w),
        on_w=power.on_w,
        cap_w=np.asarray(columns["power_limit"], np.float64),
        time_s=time_s,
    )


def sample_counts(readings_w: FloatArray) -> IntArray:
    """Return the smallest numbers of samples whose means are the readings (U,).

    Args:
        readings_w: Means of whole milliwatts (U,) [W].

    Raises:
        UnsupportedError: A reading is the mean of no number of samples up to `MAX_SAMPLES`.

    Limits: A multiple of the number found has the same mean.

    Example:
        >>> import numpy as np
        >>> from validation.power import sample_counts
        >>> sample_counts(np.array([256.275, 936.0845, 466.5026666666667])).tolist()
        [1, 2, 3]
    """
    found = np.zeros(readings_w.shape, np.int64)
    for samples in range(MAX_SAMPLES, 0, -1):
        sums = readings_w * samples / MILLIWATT
        found[np.abs(sums - np.round(sums)) < ROUNDING_TOLERANCE * samples] = samples
    if not found.all():
        value = float(readings_w[found == 0][0])
        raise UnsupportedError(f"a reading of {value} W is no mean of up to {MAX_SAMPLES} samples")
    return found


def fit_kernels() -> dict[str, float]:
    """Return what is fitted to readings of single kernels: the power of an SM that issues [W].

    It is the median of what readings leave beyond the board without kernels and useful work, over
    the share of the time beyond the roofline, of experts that spend most of their time there.

    Source: readings of the most samples of `power_splits()`; no held-out score uses it, since each
        fits its own factor on this power.

    Returns:
        Value by its path in data/energy/energies.toml, three significant digits.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: A table is missing.
    """
    watts, kernels = kernel_watts((MOE,)), power_splits().kernels
    device = resolve_system(kernels["device"]).device
    excess = watts.active_w / board_energy(device).issue_w
    rows = (watts.samples >= max(kernels["samples"])) & (excess > MIN_LIMITED_SHARE)
    left_w = watts.measured_w - watts.on_w - watts.dynamic_w
    each_w = float(np.median(left_w[rows] / excess[rows])) / device.number("sm_count")
    return {"generation.blackwell.issue": float(f"{each_w:.{DIGITS}g}")}


def _format_column(name: str) -> str:
    return "moe_dtype" if name == MOE else "kv_cache_dtype"


def _work(operator: Operator, devices: DeviceColumns) -> tuple[FloatArray, FloatArray]:
    """Return dynamic energy [J] and roofline time [s] of one execution, each (U,).

    Tensors that fit are in cache. Nothing is charged for time.
    """
    prices = price_operators([operator], devices, family="", tier="bound")
    cached = operator.work().cold_bytes <= devices.gather("l2_bytes")
    moved_C = np.where(cached, 0.0, prices.memory_bytes_CO[:, 0])
    none_CO = np.zeros_like(prices.time_s_CO)
    work = replace(prices, time_s_CO=none_CO, memory_bytes_CO=moved_C[:, None])
    found = with_energy([operator], work, devices)
    energy_C: FloatArray = (found.chip_energy_j_CO + found.memory_energy_j_CO)[:, 0]
    return energy_C, prices.bound_s_CO[:, 0]


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

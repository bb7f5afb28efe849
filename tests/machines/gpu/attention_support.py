from __future__ import annotations

import numpy as np

from perfatlas.machines.gpu.declarations import KernelTime
from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.machines.gpu.kernels import attention

NO_LIMIT = 1e9
SHAPE = {
    "batch": 1.0,
    "q_len": 4096.0,
    "kv_len": 4096.0,
    "num_heads": 64.0,
    "num_kv_heads": 8.0,
    "head_dim": 128.0,
    "value_head_dim": 128.0,
    "window": 0.0,
    "kv_bytes_per_element": 2.0,
    "attention_bytes_per_element": 2.0,
    "hot": 0.0,
    "causal": 1.0,
    "append": 1.0,
}
# The fit to TensorRT-LLM bf16 prefill on H200 that the check values were computed with.
PREFILL = {
    "efficiency_compute": 0.608,
    "efficiency_bandwidth": 0.337,
    "overhead_launch_s": 13.436e-6,
    "overhead_tile_cycles": 3.621e-6 * 1.83e9,
    "exponential_cost": 0.310,
    "overlap_power": 2.003,
    "append_passes": 0.367,
    "l2_fraction": 0.037,
    "wide_head_cost": 0.0,
    "append_block_cycles": 0.0,
    "window_cost": 0.0,
    "tile_queries": 64.0,
    "key_block": 64.0,
    "append_queries": 1.0,
    "packed_query_max": 0.0,
    "padded_width": 0.0,
    "fixed_tile": 0.0,
    "append_threads": 0.0,
    "splits_keys": 0.0,
    "longest_last": 0.0,
}
# The same of vLLM with FlashAttention-3, bf16 decode on H200.
DECODE = {
    "efficiency_compute": 0.358,
    "efficiency_bandwidth": 1.008,
    "overhead_launch_s": 8.029e-6,
    "overhead_unit_cycles": 3.264e-6 * 1.83e9,
    "overhead_split_s": 1.038e-6,
    "feed_bytes_per_cycle": 20.651,
    "overlap_power": 3.058,
    "l2_fraction": 0.103,
    "unpacked_unit_cycles": 2000.0,
    "unpacked_feed_bytes_per_cycle": 30.0,
    "unit_width_power": 0.0,
    "units_per_sm": 1.0,
    "split_tokens": 256.0,
    "unpacked_group_max": 0.0,
    "packed_group_max": NO_LIMIT,
    "unpacked_window": 0.0,
    "unpacked_split": 0.0,
    "packed_split": 1.0,
    "unpacked_shared": 0.0,
    "grown_splits": 0.0,
    "least_blocks_per_sm": 0.0,
    "regroup_copies": 0.0,
}


def silicon() -> SiliconRow:
    return SiliconRow(
        peak=989e12, bandwidth=4.8e12, sm_count=132.0, clock=1.83e9, l2=50e6, exponentials=16.0
    )


def one_row(
    time_s: KernelTime, shape: dict[str, float], parameters: dict[str, float]
) -> tuple[float, int]:
    """Return time [s] and bound code of one shape."""
    time_s_U, code_U = time_s(
        np.array([[shape[name] for name in time_s.shape_names]]),
        np.array([silicon()]),
        np.array([[parameters[name] for name in time_s.parameter_names]]),
    )
    return float(time_s_U[0]), int(code_U[0])


def price(
    phase: str, changes: dict[str, float], parameters: dict[str, float] | None = None
) -> tuple[float, int]:
    if phase == "prefill":
        return one_row(
            attention.prefill_attention_time_s, SHAPE | changes, PREFILL | (parameters or {})
        )
    shape = SHAPE | {"q_len": 1.0} | changes
    return one_row(attention.decode_attention_time_s, shape, DECODE | (parameters or {}))

"""FlashAttention-3 of measured tables against its pipeline model, which they were not fitted to."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu import pipeline
from perfatlas.measurements.tables import has_silicon, read_table

SYSTEMS: Final = ("h100_sxm", "h200_sxm")
KERNEL: Final = "vllm_flash_attn_fa3"
MIN_LENGTH: Final = 256
MIN_S: Final = 200e-6
CALLED: Final = 2  # kernels before it: append to the cache, tiles of variable lengths
ROW_STRIDE: Final = 8  # rows are scored at this distance
SIZES: Final = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim")


def table_scores() -> list[dict[str, Any]]:
    """Return the errors on calls of vLLM with FlashAttention-3; nothing without the tables."""
    if not has_silicon():
        return []
    rows = [(system, *_times(system)) for system in SYSTEMS]
    return [
        row
        for system, predicted, measured in rows
        for row in (
            _row(f"{system}, all calls", predicted, measured),
            _row(
                f"{system}, above {MIN_S * 1e6:g} us",
                predicted[measured > MIN_S],
                measured[measured > MIN_S],
            ),
        )
    ]


def _times(system: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return predicted and measured times: the kernel and those that a call runs before it."""
    table = read_table(system, "attention", "vllm", "context_attention_perf")
    columns = table.columns
    size = {name: np.asarray(columns[name], dtype=np.int64) for name in SIZES}
    keep = (
        columns.text("kernel_source").holds([KERNEL])
        & columns.text("kv_cache_dtype").holds(["bfloat16"])
        & (np.asarray(columns["window_size"]) == 0)
        & (size["isl"] >= MIN_LENGTH)
        & np.isin(size["head_dim"], (64, 128))
    )
    chosen = np.flatnonzero(keep)[::ROW_STRIDE]
    device = resolve_system(system).device
    family, silicon = (
        pipeline.family_of("attention", device, "bf16"),
        pipeline.kernel_silicon(device, "bf16"),
    )
    bandwidth = device.memory_bandwidth * pipeline.sm_constants()["memory_efficiency"]
    predicted = []
    for at in chosen:
        batch, length, heads, kv_heads, head_dim = (int(size[name][at]) for name in SIZES)
        work = pipeline.AttentionWork(
            batch=batch,
            q_len=length,
            kv_len=length,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            causal=True,
        )
        append_s = CALLED * family.launch_s + 8.0 * batch * length * kv_heads * head_dim / bandwidth
        kernel_s = pipeline.design_kernel(work, family, silicon, family.factor_of(device)).time_s
        predicted.append(kernel_s + append_s)
    return np.array(predicted), table.measured_s()[chosen]


def _row(
    group: str, predicted: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]
) -> dict[str, Any]:
    ratio = predicted / measured
    return {
        "group": group,
        "rows": len(ratio),
        "median_error": float(np.median(np.abs(ratio - 1.0))),
        "mean_error": float(np.mean(np.abs(ratio - 1.0))),
        "median_ratio": float(np.median(ratio)),
    }

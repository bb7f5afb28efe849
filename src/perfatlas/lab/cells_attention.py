"""Calibration cells of softmax attention, from the measured context and generation tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import hardware
from perfatlas.kernels.attention import (
    DECODE_ATTENTION_SHAPE,
    PREFILL_ATTENTION_SHAPE,
    decode_attention_time_s,
    prefill_attention_time_s,
)
from perfatlas.kernels.silicon import BANDWIDTH, PEAK
from perfatlas.lab.cells import FAMILIES, Cell, Range, Rows, is_excluded, silicon_columns
from perfatlas.measurements import SiliconTable, has_table, read_table
from perfatlas.operators import Attention

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

# (word of the products, word of the cache) in the tables -> format of the calibration.
TABLE_FORMATS: Final = {
    ("bfloat16", "bfloat16"): "bf16",
    ("bfloat16", "fp8"): "bf16+fp8_kv",
    ("fp8", "fp8"): "fp8+fp8_kv",
}
TABLES: Final = {
    "prefill_attention": "context_attention_perf",
    "decode_attention": "generation_attention_perf",
}
# A kernel that ran fewer rows than this share of the engine's main kernel is not its default.
LEAST_SHARE: Final = 0.5
PROTOCOL: Final = (
    "kernel {kernel}; CUDA graph; 6 replays after 3 warm-ups read the same tensors (hot where they"
    " fit into the cache); {inside}clocks not locked"
)

PREFILL_RANGES: Final = {
    "efficiency_compute": Range(start=0.6, low=0.1, high=1.0),
    "efficiency_bandwidth": Range(start=0.5, low=0.15, high=1.0),
    "overhead_launch_s": Range(start=10e-6, low=1e-6, high=40e-6),
    "overhead_tile_cycles": Range(start=4000.0, low=100.0, high=30000.0),
    "exponential_cost": Range(start=0.3, low=0.005, high=4.0),
    "overlap_power": Range(start=2.0, low=1.0, high=8.0),
    "append_passes": Range(start=0.4, low=0.02, high=4.0),
    "l2_fraction": Range(start=0.1, low=0.005, high=3.0),
    "tile_queries": Range(start=128.0, low=64.0, high=128.0),
}
PREFILL_GRID: Final = tuple({"tile_queries": tile} for tile in (64.0, 128.0))

DECODE_RANGES: Final = {
    "efficiency_compute": Range(start=0.25, low=0.01, high=1.0),
    "efficiency_bandwidth": Range(start=0.85, low=0.4, high=1.0),
    "overhead_launch_s": Range(start=7e-6, low=1e-6, high=40e-6),
    "overhead_unit_cycles": Range(start=4000.0, low=100.0, high=30000.0),
    "overhead_split_s": Range(start=1.5e-6, low=0.02e-6, high=20e-6),
    "feed_bytes_per_cycle": Range(start=25.0, low=3.0, high=300.0),
    "overlap_power": Range(start=2.5, low=1.0, high=8.0),
    "l2_fraction": Range(start=0.3, low=0.01, high=3.0),
    "unpacked_unit_cycles": Range(start=3000.0, low=100.0, high=30000.0),
    "unpacked_feed_bytes_per_cycle": Range(start=20.0, low=2.0, high=300.0),
    "units_per_sm": Range(start=1.0, low=1.0, high=4.0),
    "split_tokens": Range(start=256.0, low=128.0, high=512.0),
    "unpacked_group_max": Range(start=0.0, low=0.0, high=3.0),
    "packed_group_max": Range(start=1024.0, low=32.0, high=1024.0),
    "unpacked_window": Range(start=0.0, low=0.0, high=1.0),
    "unpacked_split": Range(start=0.0, low=0.0, high=1.0),
    "unpacked_shared": Range(start=0.0, low=0.0, high=1.0),
}
NO_LIMIT: Final = 1024.0  # larger than any group


class KernelRule(NamedTuple):
    """When a decode kernel runs unpacked: what its source says or its measured steps show."""

    unpacked_group_max: float = 0.0
    packed_group_max: float = NO_LIMIT
    unpacked_window: float = 0.0
    unpacked_split: float = 0.0
    unpacked_shared: float = 0.0


ALWAYS_PACKED: Final = KernelRule()
# FlashAttention-2 packs a group (and only then splits the keys) if there is one and no window.
FLASH_ATTENTION_2: Final = KernelRule(unpacked_group_max=1.0, unpacked_window=1.0)
# FlashInfer gives groups below four to a kernel on ordinary cores.
FLASH_INFER: Final = KernelRule(unpacked_group_max=3.0, unpacked_split=1.0, unpacked_shared=1.0)
# TensorRT-LLM: a masked kernel with a block per query head takes groups above 32 and, where
# the generated Blackwell kernels do not exist, single heads.
MASKED_ABOVE_32: Final = KernelRule(packed_group_max=32.0, unpacked_split=1.0)
MASKED_AND_SINGLE: Final = MASKED_ABOVE_32._replace(unpacked_group_max=1.0)

KERNEL_RULES: Final[Mapping[str, tuple[KernelRule, ...]]] = {
    "vllm_flash_attn": (FLASH_ATTENTION_2,),
    "vllm_flash_attn_fa2": (FLASH_ATTENTION_2,),
    "flashinfer": (FLASH_INFER, ALWAYS_PACKED),
    "torch_flow": (MASKED_AND_SINGLE, MASKED_ABOVE_32),
}
UNUSED: Final = {"unpacked_unit_cycles": 3000.0, "unpacked_feed_bytes_per_cycle": 20.0}


def attention_cells(device: str) -> tuple[Cell, ...]:
    """Return the attention cells of a device: prefill and decode, one per engine and format.

    Args:
        device: Catalog name; devices without tables have no cells.
    """
    cells: list[Cell] = []
    for operator, family in product(TABLES, FAMILIES):
        if not has_table(device, "attention", family, TABLES[operator]):
            continue
        kernels = default_kernels(device, "attention", family, TABLES[operator])
        for format_name, kernel in kernels.items():
            if not is_excluded(device, operator, family, format_name):
                cells.append(_cell(device, operator, family, format_name))
    return tuple(cells)


@cache
def default_kernels(device: str, folder: str, family: str, name: str) -> dict[str, str]:
    """Return format -> the kernel the engine runs by default, of a measured attention table.

    Formats that only a side kernel ran have none.

    Args:
        device: Catalog name.
        folder: "attention" or "mla".
        family: Engine.
        name: Table.
    """
    table = read_table(device, folder, family, name)
    formats = format_names(table)
    counts: dict[tuple[str, str], int] = {}
    for pair in zip(formats, table.columns["kernel_source"], strict=True):
        counts[pair] = counts.get(pair, 0) + 1
    most = max(counts.values())
    chosen: dict[str, str] = {}
    for (format_name, kernel), rows in sorted(counts.items(), key=lambda item: -item[1]):
        if rows >= LEAST_SHARE * most and format_name:
            chosen.setdefault(format_name, kernel)
    return chosen


def format_names(table: SiliconTable) -> list[str]:
    """Return the calibration format of every row, "" where there is none."""
    products = table.columns["attn_dtype" if "attn_dtype" in table.columns else "mla_dtype"]
    pairs = zip(products, table.columns["kv_cache_dtype"], strict=True)
    return [TABLE_FORMATS.get(pair, "") for pair in pairs]

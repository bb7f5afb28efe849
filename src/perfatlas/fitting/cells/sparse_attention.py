"""Calibration cells of sparse attention: scores, selection, attention over selected keys.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import hardware
from perfatlas.fitting.cells.attention import product_silicon
from perfatlas.fitting.cells.cell import FAMILIES, Cell, CellMaker, Range, Rows, is_excluded
from perfatlas.machines.gpu.shapes import physics_model
from perfatlas.measurements.tables import SPARSE_FORMATS, SPARSE_TABLES, has_table, table_rows
from perfatlas.operators import visible_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray

OPERATORS: Final = tuple(SPARSE_TABLES)

SCORE_RANGES: Final = {
    "efficiency_compute": Range(start=0.4, low=0.05, high=1.0),
    "efficiency_bandwidth": Range(start=0.8, low=0.2, high=1.0),
    "overhead_launch_s": Range(start=3e-6, low=0.5e-6, high=20e-6),
    "overhead_tile_cycles": Range(start=1000.0, low=10.0, high=20000.0),
    "overlap_power": Range(start=2.0, low=1.0, high=8.0),
    "l2_fraction": Range(start=0.3, low=0.01, high=3.0),
}
# The decode loop has its keys in cache: the remaining memory traffic, the scores written, does not
# determine the read bandwidth of keys or its overlap. Both are fixed to the values of a pipeline
# with several loads in flight.
DECODE_SCORE_RANGES: Final = SCORE_RANGES | {
    "efficiency_bandwidth": Range(start=0.9, low=0.8, high=1.0),
    "overlap_power": Range(start=3.0, low=2.0, high=8.0),
}
SELECTION_RANGES: Final = {
    "efficiency_bandwidth": Range(start=0.8, low=0.1, high=1.0),
    "overhead_launch_s": Range(start=3e-6, low=0.5e-6, high=20e-6),
    "overhead_row_cycles": Range(start=1000.0, low=10.0, high=20000.0),
    "overhead_short_row_cycles": Range(start=500.0, low=10.0, high=20000.0),
    "feed_bytes_per_cycle": Range(start=15.0, low=1.0, high=300.0),
    "rows_at_once": Range(start=1.5, low=1.0, high=8.0),
    "overlap_power": Range(start=2.0, low=1.0, high=8.0),
    "l2_fraction": Range(start=0.3, low=0.01, high=3.0),
}
SPARSE_PREFILL_RANGES: Final = {
    "efficiency_compute": Range(start=0.6, low=0.05, high=1.0),
    "efficiency_bandwidth": Range(start=0.8, low=0.2, high=1.0),
    "overhead_launch_s": Range(start=5e-6, low=0.5e-6, high=40e-6),
    "overhead_tile_cycles": Range(start=1000.0, low=10.0, high=40000.0),
    "feed_bytes_per_cycle": Range(start=20.0, low=1.0, high=400.0),
    "overlap_power": Range(start=2.0, low=1.0, high=8.0),
    "l2_fraction": Range(start=0.3, low=0.005, high=3.0),
    "padded_heads": Range(start=64.0, low=64.0, high=128.0),
}
RANGES: Final[Mapping[str, Mapping[str, Range]]] = {
    "sparse_mla_prefill": SPARSE_PREFILL_RANGES,
    "key_scores_prefill": SCORE_RANGES,
    "key_scores_decode": DECODE_SCORE_RANGES,
    "key_selection": SELECTION_RANGES,
}
# Heads are padded to a multiple of this. Source: sgl-project/sglang, dsa_backend.py,
# _forward_flashmla_sparse: 128 from compute capability 10 on, else 64.
PADDED_HEADS: Final[Mapping[str, float]] = {"blackwell": 128.0}
MIN_HEADS: Final = 64.0

PROTOCOL: Final = (
    "{kernel}; CUDA graph on synthetic tensors that every replay reads again (hot where they fit"
    " into the cache); clocks not locked"
)
KERNELS: Final[Mapping[str, str]] = {
    "sparse_mla_prefill": "FlashMLA sparse prefill; all queries of a sequence select its first"
    " 2,048 keys",
    "key_scores_prefill": "DeepGEMM fp8_mqa_logits",
    "key_scores_decode": "DeepGEMM fp8_paged_mqa_logits; all queries read the same keys",
    "key_selection": "fast_topk_transform_fused; 2,048 clear winners",
}


def sparse_attention_cells(device: str) -> tuple[Cell, ...]:
    """Return the sparse-attention cells of a device, one per operator and engine with a table."""
    return tuple(
        _cell(device, operator, family)
        for operator, family in product(OPERATORS, FAMILIES)
        if has_table(device, SPARSE_TABLES[operator][0], family, SPARSE_TABLES[operator][1])
        and not is_excluded(device, operator, family, SPARSE_FORMATS[operator])
    )


def padding_grid(device: str) -> tuple[Mapping[str, float], ...]:
    """Return the head padding of the sparse prefill kernel on a device."""
    architecture = hardware.resolve_system(device).device.architecture
    return ({"padded_heads": PADDED_HEADS.get(architecture, MIN_HEADS)},)


def _cell(device: str, operator: str, family: str) -> Cell:
    return Cell(
        device=device,
        operator=operator,
        family=family,
        format=SPARSE_FORMATS[operator],
        load=partial(_load, device, operator, family),
        physics=physics_model(operator),
        silicon=product_silicon(device, SPARSE_FORMATS[operator]),
        ranges=RANGES[operator],
        grid=padding_grid(device) if operator == "sparse_mla_prefill" else ({},),
        protocol=PROTOCOL.format(kernel=KERNELS[operator]),
    )


def _load(device: str, operator: str, family: str) -> Rows:
    format_name = SPARSE_FORMATS[operator]
    rows = table_rows(device, operator, family, format_name)
    flop, moved = _least_work(operator, rows.columns)
    silicon = product_silicon(device, format_name)
    return Rows.of(
        rows,
        rows.shape_table(physics_model(operator).shape_names),
        np.maximum(flop / silicon.peak, moved / silicon.bandwidth),
    )


def _least_work(
    operator: str, columns: Mapping[str, FloatArray]
) -> tuple[FloatArray | float, FloatArray]:
    """Return FLOP and bytes of the measured calls, shared data counted once (U,)."""
    queries, q_len, kv_len = (columns[name] for name in ("queries", "q_len", "kv_len"))
    sequences = queries / q_len
    none = np.zeros_like(q_len)
    if operator == "sparse_mla_prefill":
        row = columns["kv_lora_rank"] + columns["rope_dim"]
        pairs = sequences * visible_pairs(q_len, kv_len, columns["selected"])
        width = columns["kv_lora_rank"] + row
        touched = sequences * np.minimum(kv_len, columns["selected"])
        moved = touched * row * columns["kv_bytes_per_element"]
        moved = moved + queries * columns["num_heads"] * width * 2.0
        return 2.0 * pairs * columns["num_heads"] * width, moved
    pairs = sequences * visible_pairs(q_len, kv_len, none)
    scores = pairs * columns["score_bytes"]
    if operator == "key_selection":
        return 0.0, scores + queries * columns["selected"] * columns["index_bytes"]
    width = columns["num_heads"] * columns["head_dim"]
    keys = columns["key_sequences"] * kv_len * columns["key_bytes"]
    return 2.0 * pairs * width, keys + queries * width + scores


MAKER: Final = CellMaker(sparse_attention_cells, OPERATORS, place=6)

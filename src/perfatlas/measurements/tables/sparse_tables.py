"""Measured rows of the stages of DeepSeek sparse attention: scores, selection, attention.

One row of these tables is one call of one kernel on synthetic tensors.

Source: ai-dynamo/aiconfigurator, collector/sglang/glm5_dsa_sparse_modules.py and
collector/sglang/deepseekv4_sparse_modules.py: shapes, protocol and meaning of the columns.

Shape legend: R rows of a table, U rows kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.measurements.tables.silicon import SiliconTable
    from perfatlas.operators import FloatArray

SPARSE_FOLDER: Final = "sparse_attention"
SPARSE_TABLES: Final = {
    "sparse_mla_prefill": (SPARSE_FOLDER, "glm5_dsa_attn_module_perf"),
    "key_scores_prefill": (SPARSE_FOLDER, "glm5_mqa_logits_module_perf"),
    "key_scores_decode": (SPARSE_FOLDER, "dsv4_paged_mqa_logits_module_perf"),
    "key_selection": (SPARSE_FOLDER, "glm5_topk_module_perf"),
}
# Format of the calibration; selection, without products, uses the activations' format.
SPARSE_FORMATS: Final = {
    "sparse_mla_prefill": "bf16",
    "key_scores_prefill": "fp8",
    "key_scores_decode": "fp8",
    "key_selection": "bf16",
}
# One geometry per table: config.json of zai-org/GLM-5 (index_n_heads, index_head_dim, index_topk,
# kv_lora_rank, qk_rope_head_dim) and of deepseek-ai/DeepSeek-V4-Flash for the paged scores.
SCORE_HEADS: Final = {"key_scores_prefill": 32.0, "key_scores_decode": 64.0}
SCORE_WIDTH: Final = 128.0
KEY_BYTES: Final = 132.0  # 128 elements of fp8 and one fp32 scale
SCORE_BYTES: Final = 4.0
SELECTED: Final = 2048.0
LATENT: Final = {"kv_lora_rank": 512.0, "rope_dim": 64.0}
# The scores of all sequences form one matrix, queries x keys of the batch. Above this size the
# collector computes it in pieces that are too small for the device.
MAX_SCORES: Final = 2.0**35  # [bytes]


class SparseRows(NamedTuple):
    """Rows of a cell: mask (R,), shape columns (U,), and reason -> excluded rows."""

    keep: NDArray[np.bool_]
    columns: Mapping[str, FloatArray | float]
    excluded: Mapping[str, int]


def sparse_rows(table: SiliconTable, operator: str, format_name: str) -> SparseRows:
    """Return the rows of a table that measure an operator, including their protocol.

    Args:
        table: A table of `SPARSE_TABLES`.
        operator: A key of `SPARSE_TABLES`.
    """
    right = np.full(table.rows, format_name == SPARSE_FORMATS[operator])
    if operator == "key_selection":
        return _selection(table, right)
    if operator == "sparse_mla_prefill":
        return _attention(table, right)
    return _prefill_scores(table, right) if operator.endswith("prefill") else _paged(table, right)


def _sizes(
    table: SiliconTable, keep: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sequences, queries per sequence, and keys per sequence including queries (U,)."""
    batch, q_len, cached = (
        np.asarray(table.columns[name], np.float64)[keep] for name in ("batch_size", "isl", "step")
    )
    return batch, q_len, cached + q_len


def _scores(operator: str) -> dict[str, FloatArray | float]:
    return {
        "num_heads": SCORE_HEADS[operator],
        "head_dim": SCORE_WIDTH,
        "key_bytes": KEY_BYTES,
        "score_bytes": SCORE_BYTES,
        "hot": 1.0,
    }


def _prefill_scores(table: SiliconTable, right: NDArray[np.bool_]) -> SparseRows:
    batch, q_len, kv_len = _sizes(table, np.ones_like(right))
    single = right & (q_len == 1.0)
    pieces = right & ~single & (batch * q_len * batch * kv_len * SCORE_BYTES > MAX_SCORES)
    keep = right & ~single & ~pieces
    batch, q_len, kv_len = _sizes(table, keep)
    return SparseRows(
        keep,
        _scores("key_scores_prefill")
        | {"queries": batch * q_len, "q_len": q_len, "kv_len": kv_len, "key_sequences": batch},
        {
            "one query per sequence: engines decode with the paged kernel": int(single.sum()),
            "score matrix above 32 GiB: computed in pieces": int(pieces.sum()),
        },
    )


def _paged(table: SiliconTable, keep: NDArray[np.bool_]) -> SparseRows:
    """Return the paged rows, in which each query is a sequence and all read the same keys.

    Four tokens share a key, and a query sees the keys before it, so the q queries of a sequence
    are equivalent to four sequences of q/4 queries. vLLM's collector counts the queries of all
    sequences as those of one.
    """
    batch, q_len, kv_len = _sizes(table, keep)
    if table.framework == "vllm":
        batch, q_len, kv_len = np.ones_like(batch), batch * q_len, kv_len + (batch - 1.0) * q_len
    shared = np.asarray(table.columns["compress_ratio"], np.float64)[keep]
    whole = q_len >= shared
    local = np.where(whole, q_len / shared, 1.0)
    return SparseRows(
        keep,
        _scores("key_scores_decode")
        | {
            "queries": batch * q_len,
            "q_len": local,
            "kv_len": np.maximum(np.floor(kv_len / shared), local),
            "key_sequences": 1.0,
        },
        {},
    )


def _selection(table: SiliconTable, right: NDArray[np.bool_]) -> SparseRows:
    flat = right & (table.columns["score_mode"].astype(str) == "flat")
    idle = right & ~flat & (np.asarray(table.columns["latency"], np.float64) <= 0.0)
    keep = right & ~flat & ~idle
    batch, q_len, kv_len = _sizes(table, keep)
    return SparseRows(
        keep,
        {
            "queries": batch * q_len,
            "q_len": q_len,
            "kv_len": kv_len,
            "selected": SELECTED,
            "score_bytes": SCORE_BYTES,
            "index_bytes": 4.0,
            "hot": 1.0,
        },
        {
            "all scores equal: the slowest case, no ranking has it": int(flat.sum()),
            "no more keys than are kept: recorded as 0": int(idle.sum()),
        },
    )


def _attention(table: SiliconTable, keep: NDArray[np.bool_]) -> SparseRows:
    batch, q_len, kv_len = _sizes(table, keep)
    return SparseRows(
        keep,
        LATENT
        | {
            "queries": batch * q_len,
            "q_len": q_len,
            "kv_len": kv_len,
            "num_heads": np.asarray(table.columns["num_heads"], np.float64)[keep],
            "selected": SELECTED,
            "kv_bytes_per_element": 2.0,
            "attention_bytes_per_element": 2.0,
            "hot": 1.0,
        },
        {},
    )

"""Rows of one shape kept together, so that no neighbour of a scored row is ever fitted.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives import COLLECTIVE_SHAPE, FABRIC_SHAPE
from perfatlas.kernels.attention import DECODE_ATTENTION_SHAPE
from perfatlas.kernels.gemm import GEMM_SHAPE
from perfatlas.kernels.key_scores import KEY_SCORES_DECODE_SHAPE
from perfatlas.kernels.key_selection import KEY_SELECTION_SHAPE
from perfatlas.kernels.latent_attention import MLA_DECODE_SHAPE
from perfatlas.kernels.moe import MOE_SHAPE
from perfatlas.kernels.recurrent import (
    CONV_DECODE_SHAPE,
    CONV_PREFILL_SHAPE,
    SCAN_DECODE_SHAPE,
    SCAN_PREFILL_SHAPE,
)
from perfatlas.kernels.sparse_attention import SPARSE_MLA_PREFILL_SHAPE
from perfatlas.kernels.streaming import STREAMING_SHAPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.lab.cells import Rows
    from perfatlas.operators import FloatArray

HELD_SHARE: Final = 0.2
LEAST_GROUPS: Final = 3
SPLIT_SEED: Final = 7
# operator -> columns of its shape and those that name a group: (n, k), heads, model
GROUPS: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "gemm": (GEMM_SHAPE, ("n", "k")),
    "moe": (MOE_SHAPE, ("hidden", "intermediate", "experts", "top_k")),
    "prefill_attention": (DECODE_ATTENTION_SHAPE, ("num_heads", "num_kv_heads")),
    "decode_attention": (DECODE_ATTENTION_SHAPE, ("num_heads", "num_kv_heads")),
    "mla_prefill": (MLA_DECODE_SHAPE, ("num_heads",)),
    "mla_decode": (MLA_DECODE_SHAPE, ("num_heads",)),
    "sparse_mla_prefill": (SPARSE_MLA_PREFILL_SHAPE, ("queries",)),
    "key_scores_prefill": (KEY_SCORES_DECODE_SHAPE, ("queries",)),
    "key_scores_decode": (KEY_SCORES_DECODE_SHAPE, ("queries",)),
    "key_selection": (KEY_SELECTION_SHAPE, ("queries",)),
    "scan_prefill": (SCAN_PREFILL_SHAPE, ("num_heads", "io_bytes_per_token")),
    "scan_decode": (SCAN_DECODE_SHAPE, ("num_heads", "io_bytes_per_token")),
    "conv_prefill": (CONV_PREFILL_SHAPE, ("channels",)),
    "conv_decode": (CONV_DECODE_SHAPE, ("channels",)),
}
GROUPED_BY: Final = {
    "gemm": "(n, k)",
    "moe": "model (hidden, intermediate, experts, top-k)",
    "prefill_attention": "(heads, KV heads)",
    "decode_attention": "(heads, KV heads)",
    "mla_prefill": "heads",
    "mla_decode": "heads",
    "sparse_mla_prefill": "queries",
    "key_scores_prefill": "queries",
    "key_scores_decode": "queries",
    "key_selection": "queries",
    "scan_prefill": "(value heads, key heads)",
    "scan_decode": "(value heads, key heads)",
    "conv_prefill": "channels",
    "conv_decode": "channels",
    "streaming": "row length",
    "collectives": "message size, in powers of two",
}


def row_groups(operator: str, rows: Rows) -> NDArray[np.int64]:
    """Return the group of every row (U,): rows that must not be divided by a split.

    Args:
        operator: What was measured.
        rows: Its measured rows.
    """
    if operator in GROUPS:
        names, keys = GROUPS[operator]
        values = rows.shape_UD[:, [list(names).index(key) for key in keys]]
    elif operator == "streaming":
        moved, _, tokens = (rows.shape_UD[:, column] for column in range(len(STREAMING_SHAPE)))
        values = np.round(moved / tokens)[:, None]
    else:
        fabric = operator == "fabric_exchange"
        names = FABRIC_SHAPE if fabric else COLLECTIVE_SHAPE
        size: FloatArray = rows.shape_UD[:, list(names).index("wire_bytes" if fabric else "bytes")]
        values = np.floor(np.log2(np.maximum(size, 1.0)))[:, None]
    _, group = np.unique(values, axis=0, return_inverse=True)
    return np.asarray(group, dtype=np.int64).reshape(-1)


def held_out(group: NDArray[np.int64], seed: int = SPLIT_SEED) -> NDArray[np.bool_] | None:
    """Return which rows are scored and not fitted (U,): whole groups, about a fifth of them.

    None where there are too few groups to hold any out.

    Args:
        group: Group of every row (U,).
        seed: Seed of the draw.

    Example:
        >>> import numpy as np
        >>> from perfatlas.lab.fitting import held_out
        >>> held = held_out(np.array([0, 0, 1, 1, 2, 2]))
        >>> int(held.sum()), bool(held[0] == held[1])
        (2, True)
    """
    count = int(np.max(group)) + 1
    if count < LEAST_GROUPS:
        return None
    order = np.random.default_rng(seed).permutation(count)
    held: NDArray[np.bool_] = np.isin(group, order[: max(1, round(HELD_SHARE * count))])
    return held


def taken(rows: Rows, index: NDArray[np.bool_] | NDArray[np.int64]) -> Rows:
    """Return some of the rows.

    Args:
        rows: Measured rows.
        index: Which: a mask (U,) or row numbers.
    """
    return rows._replace(
        shape_UD=np.ascontiguousarray(rows.shape_UD[index]),
        measured_s=rows.measured_s[index],
        roofline_s=rows.roofline_s[index],
    )

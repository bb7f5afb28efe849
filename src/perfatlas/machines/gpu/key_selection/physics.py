"""Time of the top-k selection of keys for each query in sparse attention.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.machines.gpu.attention import hot_share
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, L2, SM_COUNT
from perfatlas.operators import BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

KEY_SELECTION_SHAPE: Final = (
    "queries",  # total over sequences
    "q_len",  # per sequence
    "kv_len",  # scored keys per sequence, including the queries
    "selected",  # keys selected per query
    "score_bytes",  # per score
    "index_bytes",  # per selected position
    "hot",  # 1: a benchmark loop rereads the same scores; 0: they come from memory
)
KEY_SELECTION_PARAMETERS: Final = (
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_row_cycles",  # per query with a selection
    "overhead_short_row_cycles",  # per query with at most `selected` keys
    "feed_bytes_per_cycle",  # scores loaded by one SM, over all passes
    "rows_at_once",  # concurrent queries per SM
    "overlap_power",  # 1: no overlap; large: perfect overlap
    "l2_fraction",  # fraction of the L2 that retains scores between iterations of a hot loop
)


def key_selection_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return selection times (U,) [s] and their bound codes (U,).

    One thread block scans the scores of one query. A query that sees at most `selected` keys
    needs no selection and costs a fixed time.

    Args:
        shape_UD: Columns of `KEY_SELECTION_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`.
        parameters_UP: Columns of `KEY_SELECTION_PARAMETERS`.

    Source:
        Own model of rows per SM, validated against the measured tables.

    Limits: All sequences have one length. Times depend on the distribution of scores and hold for
    well-separated ones; equal scores took up to three times as long.
    """
    count = shape_UD.shape[0]
    time_s_U, code_U = np.empty(count), np.empty(count, np.int8)
    _key_selection(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@compiled
def _key_selection(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        queries, q_len, kv_len, selected, score_bytes, index_bytes, hot = shape_UD[u]
        bandwidth, launch_s, row_cycles, short_cycles, feed = parameters_UP[u, :5]
        together, power, l2_fraction = parameters_UP[u, 5:8]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        choosing = min(max(kv_len - selected, 0.0), q_len)
        scanned = kv_len - (choosing - 1.0) / 2.0 if choosing > 0 else 0.0
        rows = queries * choosing / q_len
        short = queries - rows
        row_s = (row_cycles + scanned * score_bytes / feed) / clock
        scan_s = max(rows / (sms * together), min(rows, 1.0)) * row_s
        short_s = max(short / (sms * together), min(short, 1.0)) * short_cycles / clock
        moved = rows * scanned * score_bytes + queries * selected * index_bytes
        miss = 1.0
        if hot > 0:
            miss = 1.0 - hot_share(moved, l2_fraction * silicon_US[u, L2])
        memory_s = miss * moved / (bandwidth * silicon_US[u, BANDWIDTH])
        body_s = ((scan_s + short_s) ** power + memory_s**power) ** (1.0 / power)
        time_s_U[u] = launch_s + body_s
        code_U[u] = BOUND_MEMORY if memory_s > launch_s + scan_s + short_s else BOUND_LATENCY

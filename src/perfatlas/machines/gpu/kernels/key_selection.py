"""Top-k selection of keys for each query in sparse attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas import operators
from perfatlas.machines.gpu import declarations
from perfatlas.machines.gpu.kernel_parts import hot_share
from perfatlas.operators import BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices import SiliconRow


class KeySelectionShape(NamedTuple):
    """Shape columns of a selection."""

    queries: float  # total over sequences
    q_len: float  # per sequence
    kv_len: float  # scored keys per sequence, including the queries
    selected: float  # keys selected per query
    score_bytes: float  # per score
    index_bytes: float  # per selected position
    hot: float  # 1: a benchmark loop rereads the same scores; 0: they come from memory


class KeySelectionParameters(NamedTuple):
    """Fitted parameters of a selection."""

    efficiency_bandwidth: float
    overhead_launch_s: float
    overhead_row_cycles: float  # per query with a selection
    overhead_short_row_cycles: float  # per query with at most `selected` keys
    feed_bytes_per_cycle: float  # scores loaded by one SM, over all passes
    rows_at_once: float  # concurrent queries per SM
    overlap_power: float  # 1: no overlap; large: perfect overlap
    l2_fraction: float  # fraction of the L2 that retains scores between iterations of a hot loop


@declarations.kernel_time(KeySelectionShape, KeySelectionParameters)
def key_selection_time_s(
    shape: KeySelectionShape, silicon: SiliconRow, parameters: KeySelectionParameters
) -> tuple[float, int]:
    """Return the time of a selection [s] and its bound code.

    One thread block scans the scores of one query. A query that sees at most `selected` keys
    needs no selection and costs a fixed time.

    Source:
        Own model of rows per SM, validated against the measured tables.

    Limits: All sequences have one length. Times depend on the distribution of scores and hold for
    well-separated ones; equal scores took up to three times as long.
    """
    launch_s, power = parameters.overhead_launch_s, parameters.overlap_power
    choosing = min(max(shape.kv_len - shape.selected, 0.0), shape.q_len)
    scanned = shape.kv_len - (choosing - 1.0) / 2.0 if choosing > 0 else 0.0
    rows = shape.queries * choosing / shape.q_len
    short_rows = shape.queries - rows
    at_once = silicon.sm_count * parameters.rows_at_once
    feed_cycles = scanned * shape.score_bytes / parameters.feed_bytes_per_cycle
    row_s = (parameters.overhead_row_cycles + feed_cycles) / silicon.clock
    scan_s = max(rows / at_once, min(rows, 1.0)) * row_s
    short_cycles = parameters.overhead_short_row_cycles
    short_s = max(short_rows / at_once, min(short_rows, 1.0)) * short_cycles / silicon.clock
    moved = rows * scanned * shape.score_bytes + shape.queries * shape.selected * shape.index_bytes
    miss = 1.0
    if shape.hot > 0:
        miss = 1.0 - hot_share(moved, parameters.l2_fraction * silicon.l2)
    memory_s = miss * moved / (parameters.efficiency_bandwidth * silicon.bandwidth)
    body_s = ((scan_s + short_s) ** power + memory_s**power) ** (1.0 / power)
    code = BOUND_MEMORY if memory_s > launch_s + scan_s + short_s else BOUND_LATENCY
    return launch_s + body_s, code


def _key(_: operators.KeySelection) -> declarations.CalibrationKey:
    return "key_selection", ("bf16",)


def _columns(operator: operators.KeySelection) -> declarations.Columns:
    """Return the shape columns; every sequence has its own keys."""
    return declarations.named(
        operator, ("q_len", "kv_len", "selected", "score_bytes", "index_bytes")
    ) | {
        "queries": operator.batch * operator.q_len,
        "hot": 0.0,
    }


DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.KeySelection,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "key_selection": declarations.KernelShape(
                axes=(
                    *(
                        declarations.Axis(("queries",)),
                        declarations.Axis(("q_len",)),
                        declarations.Axis(("kv_len",)),
                    ),
                    *(
                        declarations.Axis(("selected",), 4.0),
                        declarations.Axis(("kv_len",), over=("selected",)),
                    ),
                ),
                groups=("queries",),
                split_by=("queries",),
                split_words="queries",
            )
        },
    ),
)

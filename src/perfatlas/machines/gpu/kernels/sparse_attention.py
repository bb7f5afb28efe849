"""Sparse latent attention over the selected keys of each query, in prefill."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas import operators
from perfatlas.machines.gpu import declarations
from perfatlas.machines.gpu.kernel_parts import OUTPUT_BYTES, hot_share, largest_part
from perfatlas.machines.gpu.kernels import attention

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices import SiliconRow


class SparseMlaPrefillShape(NamedTuple):
    """Shape columns of sparse latent attention."""

    queries: float  # total over sequences
    q_len: float  # per sequence
    kv_len: float  # keys per sequence, including the cached prefix and the queries
    num_heads: float
    kv_lora_rank: float
    rope_dim: float
    selected: float  # selected keys per query
    kv_bytes_per_element: float
    attention_bytes_per_element: float
    # 1: a benchmark loop in which all queries select the same keys; 0: distinct, cold keys
    hot: float


class SparseMlaPrefillParameters(NamedTuple):
    """Fitted parameters of sparse latent attention."""

    efficiency_compute: float  # fraction of the dense peak inside a tile
    efficiency_bandwidth: float
    overhead_launch_s: float
    overhead_tile_cycles: float  # per query and tile of heads
    feed_bytes_per_cycle: float  # gathered latent rows loaded by one SM
    overlap_power: float  # 1: no overlap; large: perfect overlap
    l2_fraction: float  # fraction of the L2 that retains tensors between iterations of a hot loop
    padded_heads: float  # number of heads to which query heads are padded (chosen)


# Query heads per tile. Source: deepseek-ai/FlashMLA, csrc/sm90/prefill/sparse, csrc/sm100: B_H.
TILE_HEADS: Final = 64.0
KEY_BLOCK: Final = 64.0


@declarations.kernel_time(SparseMlaPrefillShape, SparseMlaPrefillParameters)
def sparse_mla_prefill_time_s(
    shape: SparseMlaPrefillShape, silicon: SiliconRow, parameters: SparseMlaPrefillParameters
) -> tuple[float, int]:
    """Return the time of sparse latent attention [s] and its bound code.

    A tile is one query with 64 of its heads; it gathers the selected latent rows and uses them as
    keys and values. A query with fewer visible keys gathers fewer rows, but multiplies a padded
    list of full length.

    Source:
        Own tile model, validated against the measured tables.

    Limits: Measured with 64 heads and 2,048 contiguous keys per query. TensorRT-LLM uses other
    kernels, and SGLang uses dense attention for prompts no longer than the selection; their
    measured blocks differ by up to a factor of two.
    """
    queries, heads, sms, clock = shape.queries, shape.num_heads, silicon.sm_count, silicon.clock
    rank, rope, padded = shape.kv_lora_rank, shape.rope_dim, parameters.padded_heads
    launch_s, power = parameters.overhead_launch_s, parameters.overlap_power

    keys = KEY_BLOCK * math.ceil(shape.selected / KEY_BLOCK)
    tiles = queries * math.ceil(heads / padded) * padded / TILE_HEADS
    waves = math.ceil(tiles / sms)
    tile_flop = 2.0 * TILE_HEADS * keys * (2.0 * rank + rope)
    products_s = waves * tile_flop * sms / (parameters.efficiency_compute * silicon.peak)
    tiles_s = waves * parameters.overhead_tile_cycles / clock

    row_bytes = (rank + rope) * shape.kv_bytes_per_element
    gathered = queries * math.ceil(heads / padded) * min(shape.kv_len, keys)
    fed_s = gathered * row_bytes / (parameters.feed_bytes_per_cycle * sms * clock)

    selected = shape.selected if shape.hot > 0 else shape.selected * shape.q_len
    moved = queries / shape.q_len * min(shape.kv_len, selected) * row_bytes
    query_bytes = (rank + rope) * shape.attention_bytes_per_element
    moved += queries * heads * (query_bytes + rank * OUTPUT_BYTES)
    miss = 1.0
    if shape.hot > 0:
        miss = 1.0 - hot_share(moved, parameters.l2_fraction * silicon.l2)
    memory_s = miss * moved / (parameters.efficiency_bandwidth * silicon.bandwidth)

    parts = (products_s + tiles_s) ** power + fed_s**power + memory_s**power
    code = largest_part(products_s, max(fed_s, memory_s), launch_s + tiles_s)
    return launch_s + parts ** (1.0 / power), code


def _accepts(operator: operators.LatentAttention) -> bool:
    return operator.phase != operators.Phase.DECODE and attention.selects_keys(operator)


def _key(operator: operators.LatentAttention) -> declarations.CalibrationKey | None:
    """Return the calibration key.

    Sparse prefill kernels read 16-bit rows: engines first expand an fp8 cache, in a pass that is
    not priced.
    """
    return (
        None
        if declarations.kernel_phase(operator.phase) is None
        else ("sparse_mla_prefill", ("bf16",))
    )


def _columns(operator: operators.LatentAttention) -> declarations.Columns:
    return (
        declarations.named(operator, attention.LATENT_SIZES)
        | attention.protocol_columns(operator)
        | {
            "queries": operator.batch * operator.q_len,
            "kv_bytes_per_element": 2.0,
            "attention_bytes_per_element": 2.0,
        }
    )


DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.LatentAttention,
        accepts=_accepts,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "sparse_mla_prefill": declarations.KernelShape(
                axes=(
                    *(
                        declarations.Axis(("queries",), 2.0),
                        declarations.Axis(("q_len",), 0.5),
                        declarations.Axis(("kv_len",), 0.5),
                    ),
                    *(declarations.Axis(("num_heads",)), declarations.Axis(("selected",))),
                    *(
                        declarations.Axis(("kv_lora_rank",), 4.0),
                        declarations.Axis(("rope_dim",), 4.0),
                    ),
                ),
                groups=("queries",),
                split_by=("queries",),
                split_words="queries",
            )
        },
    ),
)

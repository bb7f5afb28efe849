"""What a systolic machine executes for an operator: padded tiles, elements and bytes.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators import ACTIVATION_BYTES, Attention, Gemm, GroupedGemm, Streaming

if TYPE_CHECKING:
    from perfatlas.machines.contract import DeviceColumns
    from perfatlas.operators import FloatArray, Operator

# Rows of a vector register of 32-bit elements; narrower elements are packed below each other.
# Source: github.com/jax-ml/scaling-book, tpus.md: registers of 8 x 128 elements.
SUBLANES: Final = 8.0
WORD_BYTES: Final = 4.0
# Queries and keys of a block of attention: blocks on the diagonal are computed whole.
# Source: AI-Hypercomputer/maxtext src/maxtext/configs/base.yml, sa_block_q and sa_block_kv.
ATTENTION_BLOCK: Final = 512.0
# Vector operations for a score: maximum, difference, exponential, sum, scale and conversion.
# Source: assumption, one operation per lane and clock each.
SCORE_OPERATIONS: Final = 6.0
ACCUMULATOR_BYTES: Final = 4.0  # of a sum in VMEM
BUFFERS: Final = 2.0  # half of VMEM holds tiles that arrive while others are multiplied


class Executed(NamedTuple):
    """What the units of a machine do for an operator."""

    padded_flop: FloatArray  # Arithmetic of the matrix units with padding (C,) [FLOP]
    elements: FloatArray  # Operations of the vector units (C,)
    memory_bytes: FloatArray  # Bytes to and from device memory (C,) [bytes]


def executed(operator: Operator, devices: DeviceColumns) -> Executed:
    """Return what an operator executes, with tiles that fill the matrix units (C,).

    Operators without a rule here execute their minimum work.

    Args:
        operator: Columns over candidates.
        devices: Device of each candidate (C,).

    Source: github.com/jax-ml/scaling-book, tpus.md: operands come from HBM through VMEM in chunks,
        and results return to HBM.

    Limits: XLA keeps activations that fit VMEM between some operators (memory_space_assignment).
        Were all kept that fit, a small batch would have up to twice the rate of a large one.
    """
    work, none_C = operator.work(), np.zeros_like(operator.work().flop)
    vmem_C, moved_C = devices.gather("vmem_bytes"), work.cold_bytes + work.activation_bytes
    match operator:
        case Gemm():
            again_C = _read_again(operator, vmem_C)
            return Executed(_groups_flop(operator, devices), none_C, moved_C + again_C)
        case GroupedGemm():
            return Executed(_experts_flop(operator, devices), none_C, moved_C)
        case Attention():
            return Executed(*_attention(operator, devices), moved_C)
        case Streaming():
            elements_C = (work.cold_bytes + work.activation_bytes) / ACTIVATION_BYTES
            return Executed(work.flop, np.maximum(elements_C, operator.vector_flop), moved_C)
        case _:
            elements_C = (work.cold_bytes + work.activation_bytes) / ACTIVATION_BYTES
            return Executed(work.flop, np.where(work.flop > 0.0, none_C, elements_C), moved_C)


def product_flop(
    rows: FloatArray,
    weights: tuple[FloatArray, FloatArray],
    operator: Gemm | GroupedGemm | Attention,
    devices: DeviceColumns,
) -> FloatArray:
    """Return the arithmetic of the matrix units for a product, with padding (C,) [FLOP].

    Weights are cut into squares of a matrix unit's side s, through which all rows pass. Rows are
    padded to a register; a square takes s clocks to load, beside the square before it, so that it
    is occupied for at least s rows:

        2 max(rows, s) s^2 ceil(k / s) ceil(n / s)

    Devices may state fewer rows, where units change their shape.

    Args:
        rows: Rows that pass each square (C,).
        weights: Rows k and columns n of the weights (C,), (C,).
        operator: The product, for the width of its elements.
        devices: Device of each candidate (C,).

    Source: github.com/jax-ml/scaling-book, tpus.md: [8, 128] x [128, 128] every 8 clocks, weights
        loaded beside the product before; dimensions are padded to the side of a matrix unit.

    Example:
        A weight of 100 x 300 pads to 1 x 3 squares of 128; 130 rows of 16 bits to 144:

        >>> import numpy as np
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.machines import DeviceColumns
        >>> from perfatlas.machines.systolic.work import product_flop
        >>> from perfatlas.operators import Gemm, Phase
        >>> one = np.ones(1)
        >>> product = Gemm(
        ...     name="p", phase=Phase.PREFILL, count=one, m=130 * one, n=300 * one, k=100 * one,
        ...     format="bf16", weight_bytes_per_element=2.0, input_bytes_per_element=2.0,
        ... )
        >>> devices = DeviceColumns(
        ...     devices=(resolve_system("tpu_v5e").device,), index_C=np.array([0])
        ... )
        >>> padded = product_flop(product.m, (product.k, product.n), product, devices)
        >>> float(padded[0]) == 2 * 144 * 128 * 384
        True
    """
    side_C = devices.gather("matrix_side")
    packed = SUBLANES * WORD_BYTES / get_format(operator.format).activation_bytes
    passing_C = np.maximum(np.ceil(rows / packed) * packed, _fewest_rows(devices))
    k_C, n_C = (np.ceil(weight / side_C) * side_C for weight in weights)
    flop_C: FloatArray = 2.0 * passing_C * k_C * n_C
    return flop_C


def _groups_flop(operator: Gemm, devices: DeviceColumns) -> FloatArray:
    """Return the arithmetic of the products of all groups (C,) [FLOP].

    Each is padded by itself, or weights of all become one product that is zero between groups.

    Source: openxla/xla convolution_group_converter.cc: grouped convolutions become one without
        groups, whose weights are masked; that the cheaper way is taken is an assumption.
    """
    rows, groups = operator.m / operator.groups, operator.groups
    apart_C = groups * product_flop(rows, (operator.k, operator.n), operator, devices)
    if not operator.has_weights:
        return apart_C
    whole = (operator.k * groups, operator.n * groups)
    return np.minimum(apart_C, product_flop(rows, whole, operator, devices))


def _fewest_rows(devices: DeviceColumns) -> FloatArray:
    """Return the rows for which a square of weights occupies a matrix unit (C,)."""
    stated_C = devices.gather("fewest_rows")
    return np.where(stated_C > 0.0, stated_C, devices.gather("matrix_side"))


def _read_again(operator: Gemm, vmem_C: FloatArray) -> FloatArray:
    """Return the bytes that tiles of VMEM read more than once (C,) [bytes].

    Sums of a square of the output stay in VMEM; either the weights pass once for each of its rows,
    or the activations once for each of its columns. What fits VMEM whole is read once.
    """
    side_C = np.floor(np.sqrt(vmem_C / BUFFERS / ACCUMULATOR_BYTES))
    weight_C = operator.n * operator.k * operator.weight_bytes_per_element * operator.groups
    input_C = operator.m * operator.k * operator.input_bytes_per_element
    again_C = np.minimum(
        weight_C * (np.ceil(operator.m / operator.groups / side_C) - 1.0),
        input_C * (np.ceil(operator.n / side_C) - 1.0),
    )
    return np.where(np.minimum(weight_C, input_C) > vmem_C / BUFFERS, again_C, 0.0)


def _experts_flop(operator: GroupedGemm, devices: DeviceColumns) -> FloatArray:
    """Return the arithmetic of the products of all active experts of a rank (C,) [FLOP]."""
    hidden, width = operator.hidden, operator.width()
    each = operator.matrices * hidden * width * operator.weight_bytes_per_element
    active_C = np.maximum(operator.work().cold_bytes / each, 1.0)
    rows_C = operator.sent_rows() / active_C
    into_C = product_flop(rows_C, (hidden, width * (operator.matrices - 1)), operator, devices)
    return active_C * (into_C + product_flop(rows_C, (width, hidden), operator, devices))


def _attention(operator: Attention, devices: DeviceColumns) -> tuple[FloatArray, FloatArray]:
    """Return the arithmetic of attention (C,) [FLOP], and the operations of its softmax (C,).

    Keys and values are the weights of its products, through which the queries of all heads that
    share them pass. Heads narrower than a matrix unit leave part of it idle.
    """
    side_C = devices.gather("matrix_side")
    shared_C = operator.num_heads / operator.num_kv_heads
    causal_C = (operator.q_len > 1.0) & operator.causal
    diagonal_C = np.where(causal_C, np.minimum(ATTENTION_BLOCK, operator.kv_len) / 2.0, 0.0)
    pairs_C = operator.visible_pairs() + operator.q_len * diagonal_C
    pairs_C = np.minimum(pairs_C, operator.q_len * operator.kv_len)
    heads_C = operator.batch * operator.num_heads
    rows_C = operator.q_len * shared_C
    occupied_C = np.maximum(rows_C, _fewest_rows(devices))
    fed_C = occupied_C / np.maximum(rows_C, 1.0)  # squares that few rows pass
    widths = (operator.head_dim, operator.value_head_dim)
    width_C = sum((np.ceil(width / side_C) * side_C for width in widths), np.zeros_like(side_C))
    return 2.0 * heads_C * pairs_C * fed_C * width_C, heads_C * pairs_C * SCORE_OPERATIONS

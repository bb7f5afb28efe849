"""Physics model of a collective on one level of links.

Shape legend: U unique shapes, D shape columns, S silicon fields, P parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from perfatlas.collectives.wire import in_network_wire_bytes, one_shot_wire_bytes, ring_wire_bytes
from perfatlas.operators import BOUND_LATENCY, BOUND_NETWORK

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

# Column layout of `shape_UD`. in_network_bytes is 0 without in-network reduction.
COLLECTIVE_SHAPE: Final = ("bytes", "ranks", "bandwidth", "wire_bytes", "in_network_bytes")
# Reference wire time of `overhead_ramp_s`, which makes the ramp term dimensionless.
RAMP_WIRE_S: Final = 1e-6
# Doublings of the measured ranks over which the switch between protocols fades: of 1, 2 and 4 the
# one with which fits on 2 and 4 ranks predict 8 best.
FADING_DOUBLINGS: Final = 2.0

LIBRARY_PARAMETERS: Final = (
    "overhead_s",
    "overhead_rank_s",
    "overhead_ramp_s",
    "ramp_exponent",
    "overhead_bulk_s",
    "overhead_bulk_rank_s",
    "efficiency_two_ranks",
    "efficiency_most_ranks",
    "overlap_power",
    "switch_bytes_per_rank",
    "efficiency_in_network",
    "ranks_measured",
)
CUSTOM_PARAMETERS: Final = (
    "overhead_s",
    "overhead_rank_s",
    "efficiency_one_shot",
    "overhead_two_shot_s",
    "efficiency_two_shot",
    "switch_bytes",
    "overhead_bulk_s",
    "efficiency_two_ranks",
    "efficiency_most_ranks",
    "ranks_measured",
)

BoundArray = NDArray[np.int8]


def collective_shape(
    op: str,
    bytes_U: FloatArray,
    ranks_U: FloatArray,
    bandwidth_U: FloatArray,
    in_network_U: FloatArray,
) -> FloatArray:
    """Return the shape columns of a collective on one level of links (U, D).

    Args:
        bytes_U: Size as nccl-tests counts it (U,) [bytes].
        ranks_U: Ranks on this level (U,).
        bandwidth_U: Link of one rank, per direction (U,) [bytes/s].
        in_network_U: 1 where the switch reduces (U,).
    """
    switch_U = np.zeros_like(bytes_U)
    if op == "all_reduce":
        switch_U = np.where(in_network_U > 0.0, in_network_wire_bytes(bytes_U, ranks_U), 0.0)
    wire_U = ring_wire_bytes(op, bytes_U, ranks_U)
    return np.column_stack((bytes_U, ranks_U, bandwidth_U, wire_U, switch_U))


def library_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, BoundArray]:
    """Return the time of a library (NCCL) collective on one level, and its bound code.

    Small messages use a low-latency protocol, t = overhead + rank overhead (n-1) +
    ramp (wire time / 1 µs)^r. Above a size per rank the library switches to its bulk protocol,
    ((fixed + rank (n-1))^p + (wire/(efficiency bandwidth))^p)^(1/p), which is never faster than
    the low-latency protocol at the switch point. In-network reduction, S (1 + 1/n) at an efficiency
    of its own, is used where it is faster.

    Beyond the measured ranks m a tree of depth log2 n replaces the ring of small messages where it
    is shorter, and an in-network reduction takes its bytes over the bandwidth reached on m ranks.
    Over two doublings the switch fades: from 4 m ranks the faster protocol serves any message.

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
        silicon_US: Unused, as links are part of the shape (U, S).
        parameters_UP: Columns of `LIBRARY_PARAMETERS` (U, P).

    Returns:
        Times (U,) [s] and bound codes (U,).

    Source:
        Own formula, fitted to the NCCL tables of aiconfigurator-core 0.12.0; protocols LL, LL128
        and Simple of NCCL. OCI GB300 NCCL guide: all_reduce of 16 GiB in 35.7 ms on 8 and 36.4 ms
        on 64 GPUs, of 8 GiB in 17.9 and 18.8 ms: equal bandwidth, overhead linear in the ranks.
        SGLang's NCCL rows of GB300: no step at a switch on 16 ranks.

    Limits:
        One switch point replaces NCCL's two; ranks beyond `ranks_measured` are extrapolated.
    """
    del silicon_US
    size_U, wire_U = shape_UD[:, 0], shape_UD[:, 3]
    p_PU = parameters_UP.T
    ranks_U = shape_UD[:, 1]
    hops_U = latency_hops(ranks_U, p_PU[11])
    switch_U = p_PU[9] * np.minimum(ranks_U, p_PU[11])
    small_U = np.minimum(size_U, switch_U) / np.maximum(size_U, 1.0)
    wire_s_U = wire_U / shape_UD[:, 2]
    ramp_U = p_PU[2] * (np.maximum(wire_s_U * small_U, 0.0) / RAMP_WIRE_S) ** p_PU[3]
    doublings_U = np.log2(np.maximum(ranks_U, 1.0) / p_PU[11])
    far_U = np.clip(doublings_U / FADING_DOUBLINGS, 0.0, 1.0)
    latency_U = p_PU[0] + p_PU[1] * hops_U
    bulk_U = np.minimum(*bulk_times_s(shape_UD, p_PU))
    quick_U = latency_U + ramp_U
    if np.any(far_U > 0.0):
        efficiency_U = ring_efficiency(ranks_U, p_PU[6], p_PU[7], p_PU[11])
        whole_U = p_PU[2] * (wire_s_U / RAMP_WIRE_S) ** p_PU[3]
        whole_U = latency_U + np.maximum(whole_U, wire_s_U / efficiency_U)
        bulk_U = bulk_U * np.minimum(whole_U / bulk_U, 1.0) ** far_U
    time_U = np.where(size_U <= switch_U, quick_U, np.maximum(quick_U, bulk_U))
    time_U = np.where(ranks_U > 1.0, np.maximum(time_U, _floor_s(shape_UD)), 0.0)
    return time_U, _bound_codes(time_U, latency_U)


def bulk_times_s(shape_UD: FloatArray, p_PU: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bulk-protocol times of a ring and of in-network reduction (U,), (U,) [s].

    Where a switch reduces but the fitted rows do not tell it from a ring, larger groups than were
    measured keep the time that the transfer of the most ranks took.

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
        p_PU: Rows of `LIBRARY_PARAMETERS` (P, U).

    Returns:
        Ring and in-network times; the latter is infinite where the switch does not reduce.
    """
    power_U = p_PU[8]
    ranks_U = shape_UD[:, 1]
    efficiency_U = ring_efficiency(ranks_U, p_PU[6], p_PU[7], p_PU[11])
    ring_U = shape_UD[:, 3] / (efficiency_U * shape_UD[:, 2])
    fixed_U = p_PU[4] + p_PU[5] * (ranks_U - 1.0)
    time_U: FloatArray = (fixed_U**power_U + ring_U**power_U) ** (1.0 / power_U)
    adds_U, fitted_U = shape_UD[:, 4] > 0.0, p_PU[10] > 0.0
    seen = (shape_UD[:, 0], np.minimum(ranks_U, p_PU[11]))
    wire_U = np.where(fitted_U, in_network_wire_bytes(*seen), ring_wire_bytes("all_reduce", *seen))
    moved_U = wire_U / (np.where(fitted_U, p_PU[10], efficiency_U) * shape_UD[:, 2])
    start_U = np.where(fitted_U, p_PU[4], fixed_U)
    switch_U = (start_U**power_U + moved_U**power_U) ** (1.0 / power_U)
    return time_U, np.where(adds_U & (fitted_U | (ranks_U > p_PU[11])), switch_U, np.inf)


def custom_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, BoundArray]:
    """Return the time of an engine's custom all-reduce inside a domain, and its bound code.

    One-shot reads every peer's buffer, S (n-1); two-shot is a reduce-scatter and an all-gather,
    2 S (n-1)/n, with one more barrier; the faster one is used. Above a size the engine falls back
    to the library, whose bulk time has its own fixed time and efficiency.

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
        silicon_US: Unused, as links are part of the shape (U, S).
        parameters_UP: Columns of `CUSTOM_PARAMETERS` (U, P).

    Returns:
        Times (U,) [s] and bound codes (U,).

    Source:
        One- and two-shot kernels as in vLLM, SGLang and TensorRT-LLM; own formula, fitted to the
        custom all-reduce tables of aiconfigurator-core 0.12.0.

    Limits:
        One switch size for all numbers of ranks; engines use a size per group size.
    """
    del silicon_US
    size_U, ranks_U, bandwidth_U = shape_UD[:, 0], shape_UD[:, 1], shape_UD[:, 2]
    p_PU = parameters_UP.T
    latency_U = p_PU[0] + p_PU[1] * (ranks_U - 1.0)
    quick_U = np.minimum(*one_shot_times_s(shape_UD, p_PU))
    efficiency_U = ring_efficiency(ranks_U, p_PU[7], p_PU[8], p_PU[9])
    bulk_U = p_PU[6] + shape_UD[:, 3] / (efficiency_U * bandwidth_U)
    time_U = np.where(size_U <= p_PU[5], quick_U, np.maximum(quick_U, bulk_U))
    time_U = np.where(ranks_U > 1.0, np.maximum(time_U, _floor_s(shape_UD)), 0.0)
    return time_U, _bound_codes(time_U, latency_U)


def one_shot_times_s(shape_UD: FloatArray, p_PU: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return one-shot and two-shot times, valid up to the hand-over size (U,), (U,) [s].

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
        p_PU: Rows of `CUSTOM_PARAMETERS` (P, U).
    """
    ranks_U, bandwidth_U = shape_UD[:, 1], shape_UD[:, 2]
    kept_U = np.minimum(shape_UD[:, 0], p_PU[5])
    latency_U = p_PU[0] + p_PU[1] * (ranks_U - 1.0)
    one_U = latency_U + one_shot_wire_bytes(kept_U, ranks_U) / (p_PU[2] * bandwidth_U)
    two_U = latency_U + p_PU[3]
    two_U = two_U + 2.0 * kept_U * (ranks_U - 1.0) / ranks_U / (p_PU[4] * bandwidth_U)
    return one_U, two_U


def latency_hops(ranks_U: FloatArray, measured_U: FloatArray) -> FloatArray:
    """Return the serial hops of a small message, in units of one further rank of a ring (U,).

    n - 1 for the ring, 4 log2 n for the tree (up and down, two ring hops each). The tree is
    considered only beyond the measured ranks.

    Args:
        ranks_U: Ranks of the group (U,).
        measured_U: Maximum ranks the parameters were fitted on (U,).

    Source:
        Ring: measured, linear in n up to 16 ranks (GB300). Cost of a tree hop: assumed.
    """
    ring_U = ranks_U - 1.0
    tree_U = np.maximum(4.0 * np.log2(np.maximum(ranks_U, 1.0)), measured_U - 1.0)
    return np.where(ranks_U > measured_U, np.minimum(ring_U, tree_U), ring_U)


def ring_efficiency(
    ranks_U: FloatArray, two_U: FloatArray, most_U: FloatArray, measured_U: FloatArray
) -> FloatArray:
    """Return the link efficiency of a ring (U,), geometric between 2 and the maximum ranks.

    Args:
        ranks_U: Ranks of the group (U,).
        two_U: Efficiency at two ranks (U,).
        most_U: Efficiency at the maximum measured ranks and beyond (U,).
        measured_U: Maximum measured ranks (U,).
    """
    inside_U = np.clip(ranks_U, 2.0, measured_U)
    span_U = np.log2(np.maximum(measured_U, 2.0) / 2.0)
    place_U = np.log2(inside_U / 2.0) / np.where(span_U > 0.0, span_U, 1.0)
    efficiency_U: FloatArray = two_U * (most_U / two_U) ** place_U
    return efficiency_U


def _floor_s(shape_UD: FloatArray) -> FloatArray:
    """Return the time of the minimum bytes at full bandwidth (U,) [s]."""
    switch_U = np.where(shape_UD[:, 4] > 0.0, shape_UD[:, 4], np.inf)
    floor_U: FloatArray = np.minimum(shape_UD[:, 3], switch_U) / shape_UD[:, 2]
    return floor_U


def _bound_codes(time_U: FloatArray, latency_U: FloatArray) -> BoundArray:
    """Return latency if the size-independent part is over half of the time, else network (U,)."""
    half_U = 2.0 * latency_U > time_U
    return np.where(half_U, BOUND_LATENCY, BOUND_NETWORK).astype(np.int8)

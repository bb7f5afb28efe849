"""Formulas of a collective on one level of links.

Shape legend: U unique shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfatlas.collectives.wire import in_network_wire_bytes, one_shot_wire_bytes, ring_wire_bytes
from perfatlas.operators import BOUND_LATENCY, BOUND_NETWORK

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray

BoundArray = NDArray[np.int8]
Columns = TypeVar("Columns", bound=tuple[Any, ...])
# Reference wire time of `overhead_ramp_s`, which makes the ramp term dimensionless.
RAMP_WIRE_S: Final = 1e-6
# Doublings of the measured ranks over which the switch between protocols fades: of 1, 2 and 4 the
# one with which fits on 2 and 4 ranks predict 8 best.
FADING_DOUBLINGS: Final = 2.0
NVLS: Final = "nvls"  # the switch inside a domain reduces, which NCCL calls NVLS
LIBRARY_ALGORITHMS: Final = ("ring", "tree", NVLS)


class CollectiveShape(NamedTuple):
    """A collective on one level of links, as columns (U,)."""

    bytes: FloatArray  # Size as nccl-tests counts it [bytes]
    ranks: FloatArray  # Ranks on this level
    bandwidth: FloatArray  # Link of one rank, per direction [bytes/s]
    wire_bytes: FloatArray  # Bytes over that link without in-network reduction [bytes]
    in_network_bytes: FloatArray  # The same with it; 0 where the switch does not reduce [bytes]


class LibraryParameters(NamedTuple):
    """Fitted parameters of a library collective, as columns (U,)."""

    overhead_s: FloatArray
    overhead_rank_s: FloatArray
    overhead_ramp_s: FloatArray
    ramp_exponent: FloatArray
    overhead_bulk_s: FloatArray
    overhead_bulk_rank_s: FloatArray
    efficiency_two_ranks: FloatArray
    efficiency_most_ranks: FloatArray
    overlap_power: FloatArray
    switch_bytes_per_rank: FloatArray
    efficiency_in_network: FloatArray
    ranks_measured: FloatArray


class CustomParameters(NamedTuple):
    """Fitted parameters of an engine's all-reduce, as columns (U,)."""

    overhead_s: FloatArray
    overhead_rank_s: FloatArray
    efficiency_one_shot: FloatArray
    overhead_two_shot_s: FloatArray
    efficiency_two_shot: FloatArray
    switch_bytes: FloatArray
    overhead_bulk_s: FloatArray
    efficiency_two_ranks: FloatArray
    efficiency_most_ranks: FloatArray
    ranks_measured: FloatArray


def take_rows(columns: Columns, some_X: IntArray | NDArray[np.bool_]) -> Columns:
    """Return some rows of a named tuple of columns (X,)."""
    return type(columns)(*(column[some_X] for column in columns))


def collective_shape(
    op: str,
    bytes_U: FloatArray,
    ranks_U: FloatArray,
    bandwidth_U: FloatArray,
    in_network_U: FloatArray,
) -> CollectiveShape:
    """Return a collective on one level of links.

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
    return CollectiveShape(bytes_U, ranks_U, bandwidth_U, wire_U, switch_U)


def library_time_s(
    shape: CollectiveShape, parameters: LibraryParameters
) -> tuple[FloatArray, BoundArray]:
    """Return the time of a library (NCCL) collective on one level (U,) [s], and its bound code.

    Small messages use a low-latency protocol, t = overhead + rank overhead (n-1) +
    ramp (wire time / 1 µs)^r. Above a size per rank the library switches to its bulk protocol,
    ((fixed + rank (n-1))^p + (wire/(efficiency bandwidth))^p)^(1/p), which is never faster than
    the low-latency protocol at the switch point. In-network reduction, S (1 + 1/n) at an efficiency
    of its own, is used where it is faster.

    Beyond the measured ranks m a tree of depth log2 n replaces the ring of small messages where it
    is shorter, and an in-network reduction takes its bytes over the bandwidth reached on m ranks.
    Over two doublings the switch fades: from 4 m ranks the faster protocol serves any message.

    Source:
        Own formula, fitted to the NCCL tables of aiconfigurator-core 0.12.0; protocols LL, LL128
        and Simple of NCCL. OCI GB300 NCCL guide: all_reduce of 16 GiB in 35.7 ms on 8 and 36.4 ms
        on 64 GPUs, of 8 GiB in 17.9 and 18.8 ms: equal bandwidth, overhead linear in the ranks.
        SGLang's NCCL rows of GB300: no step at a switch on 16 ranks.

    Limits:
        One switch point replaces NCCL's two; ranks beyond `ranks_measured` are extrapolated.
    """
    ranks_U, measured_U = shape.ranks, parameters.ranks_measured
    ramp_s_U, exponent_U = parameters.overhead_ramp_s, parameters.ramp_exponent
    wire_s_U = shape.wire_bytes / shape.bandwidth

    switch_U = parameters.switch_bytes_per_rank * np.minimum(ranks_U, measured_U)
    small_U = np.minimum(shape.bytes, switch_U) / np.maximum(shape.bytes, 1.0)
    hops_U = latency_hops(ranks_U, measured_U)
    latency_U = parameters.overhead_s + parameters.overhead_rank_s * hops_U
    ramp_U = ramp_s_U * (np.maximum(wire_s_U * small_U, 0.0) / RAMP_WIRE_S) ** exponent_U
    quick_U = latency_U + ramp_U

    bulk_U = np.minimum(*bulk_times_s(shape, parameters))
    doublings_U = np.log2(np.maximum(ranks_U, 1.0) / measured_U)
    far_U = np.clip(doublings_U / FADING_DOUBLINGS, 0.0, 1.0)
    if np.any(far_U > 0.0):
        whole_U = ramp_s_U * (wire_s_U / RAMP_WIRE_S) ** exponent_U
        whole_U = latency_U + np.maximum(whole_U, wire_s_U / ring_efficiency(ranks_U, parameters))
        bulk_U = bulk_U * np.minimum(whole_U / bulk_U, 1.0) ** far_U

    time_U = np.where(shape.bytes <= switch_U, quick_U, np.maximum(quick_U, bulk_U))
    return _limited(shape, time_U, latency_U)


def bulk_times_s(
    shape: CollectiveShape, parameters: LibraryParameters
) -> tuple[FloatArray, FloatArray]:
    """Return bulk-protocol times of a ring and of in-network reduction (U,), (U,) [s].

    Where a switch reduces but the fitted rows do not tell it from a ring, larger groups than were
    measured keep the time that the transfer of the most ranks took. The in-network time is infinite
    where the switch does not reduce.
    """
    power_U, ranks_U, measured_U = parameters.overlap_power, shape.ranks, parameters.ranks_measured
    efficiency_U = ring_efficiency(ranks_U, parameters)
    ring_U = shape.wire_bytes / (efficiency_U * shape.bandwidth)
    fixed_U = parameters.overhead_bulk_s + parameters.overhead_bulk_rank_s * (ranks_U - 1.0)
    time_U: FloatArray = (fixed_U**power_U + ring_U**power_U) ** (1.0 / power_U)

    in_network_U = parameters.efficiency_in_network
    adds_U, fitted_U = shape.in_network_bytes > 0.0, in_network_U > 0.0
    seen = (shape.bytes, np.minimum(ranks_U, measured_U))
    wire_U = np.where(fitted_U, in_network_wire_bytes(*seen), ring_wire_bytes("all_reduce", *seen))
    moved_U = wire_U / (np.where(fitted_U, in_network_U, efficiency_U) * shape.bandwidth)
    start_U = np.where(fitted_U, parameters.overhead_bulk_s, fixed_U)
    switch_U = (start_U**power_U + moved_U**power_U) ** (1.0 / power_U)
    return time_U, np.where(adds_U & (fitted_U | (ranks_U > measured_U)), switch_U, np.inf)


def library_algorithm(
    op: str, shape: CollectiveShape, parameters: LibraryParameters
) -> NDArray[np.str_]:
    """Return the algorithm of a library collective: ring, tree, nvls or pairwise (U,)."""
    if op not in ("all_reduce", "all_gather", "reduce_scatter"):
        return np.full(shape.ranks.shape, "pairwise")
    ranks_U, measured_U = shape.ranks, parameters.ranks_measured
    ring_s_U, switch_s_U = bulk_times_s(shape, parameters)
    switch_U = parameters.switch_bytes_per_rank * np.minimum(ranks_U, measured_U)
    small_U = shape.bytes <= switch_U
    tree_U = small_U & (latency_hops(ranks_U, measured_U) < ranks_U - 1.0)
    named_U = np.where(tree_U, "tree", "ring")
    return np.where(~small_U & (switch_s_U < ring_s_U), NVLS, named_U)


def custom_time_s(
    shape: CollectiveShape, parameters: CustomParameters
) -> tuple[FloatArray, BoundArray]:
    """Return the time of an engine's all-reduce inside a domain (U,) [s], and its bound code.

    One-shot reads every peer's buffer, S (n-1); two-shot is a reduce-scatter and an all-gather,
    2 S (n-1)/n, with one more barrier; the faster one is used. Above a size the engine falls back
    to the library, whose bulk time has its own fixed time and efficiency.

    Source:
        One- and two-shot kernels as in vLLM, SGLang and TensorRT-LLM; own formula, fitted to the
        custom all-reduce tables of aiconfigurator-core 0.12.0.

    Limits:
        One switch size for all numbers of ranks; engines use a size per group size.
    """
    latency_U = parameters.overhead_s + parameters.overhead_rank_s * (shape.ranks - 1.0)
    quick_U = np.minimum(*one_shot_times_s(shape, parameters))
    efficiency_U = ring_efficiency(shape.ranks, parameters)
    bulk_U = parameters.overhead_bulk_s + shape.wire_bytes / (efficiency_U * shape.bandwidth)
    kept_U = shape.bytes <= parameters.switch_bytes
    time_U = np.where(kept_U, quick_U, np.maximum(quick_U, bulk_U))
    return _limited(shape, time_U, latency_U)


def one_shot_times_s(
    shape: CollectiveShape, parameters: CustomParameters
) -> tuple[FloatArray, FloatArray]:
    """Return one-shot and two-shot times, valid up to the hand-over size (U,), (U,) [s]."""
    ranks_U, bandwidth_U = shape.ranks, shape.bandwidth
    kept_U = np.minimum(shape.bytes, parameters.switch_bytes)
    latency_U = parameters.overhead_s + parameters.overhead_rank_s * (ranks_U - 1.0)
    one_rate_U = parameters.efficiency_one_shot * bandwidth_U
    one_U = latency_U + one_shot_wire_bytes(kept_U, ranks_U) / one_rate_U
    two_wire_U = 2.0 * kept_U * (ranks_U - 1.0) / ranks_U
    two_U = latency_U + parameters.overhead_two_shot_s
    two_U = two_U + two_wire_U / (parameters.efficiency_two_shot * bandwidth_U)
    return one_U, two_U


def custom_algorithm(shape: CollectiveShape, parameters: CustomParameters) -> NDArray[np.str_]:
    """Return the algorithm of an engine's all-reduce: one_shot, two_shot or library (U,)."""
    one_U, two_U = one_shot_times_s(shape, parameters)
    named_U = np.where(one_U <= two_U, "one_shot", "two_shot")
    return np.where(shape.bytes > parameters.switch_bytes, "library", named_U)


def latency_hops(ranks_U: FloatArray, measured_U: FloatArray) -> FloatArray:
    """Return the serial hops of a small message, in units of one further rank of a ring (U,).

    n - 1 for the ring, 4 log2 n for the tree (up and down, two ring hops each). The tree is
    considered only beyond the measured ranks.

    Source:
        Ring: measured, linear in n up to 16 ranks (GB300). Cost of a tree hop: assumed.
    """
    ring_U = ranks_U - 1.0
    tree_U = np.maximum(4.0 * np.log2(np.maximum(ranks_U, 1.0)), measured_U - 1.0)
    return np.where(ranks_U > measured_U, np.minimum(ring_U, tree_U), ring_U)


def ring_efficiency(
    ranks_U: FloatArray, parameters: LibraryParameters | CustomParameters
) -> FloatArray:
    """Return the link efficiency of a ring (U,), geometric between 2 and the maximum ranks."""
    two_U, most_U = parameters.efficiency_two_ranks, parameters.efficiency_most_ranks
    inside_U = np.clip(ranks_U, 2.0, parameters.ranks_measured)
    span_U = np.log2(np.maximum(parameters.ranks_measured, 2.0) / 2.0)
    place_U = np.log2(inside_U / 2.0) / np.where(span_U > 0.0, span_U, 1.0)
    efficiency_U: FloatArray = two_U * (most_U / two_U) ** place_U
    return efficiency_U


def _limited(
    shape: CollectiveShape, time_U: FloatArray, latency_U: FloatArray
) -> tuple[FloatArray, BoundArray]:
    """Return times of at least the minimum bytes at full bandwidth (U,) [s], and bound codes.

    The bound is latency if the size-independent part is over half of the time.
    """
    switch_U = np.where(shape.in_network_bytes > 0.0, shape.in_network_bytes, np.inf)
    floor_U = np.minimum(shape.wire_bytes, switch_U) / shape.bandwidth
    time_U = np.where(shape.ranks > 1.0, np.maximum(time_U, floor_U), 0.0)
    code_U = np.where(2.0 * latency_U > time_U, BOUND_LATENCY, BOUND_NETWORK)
    return time_U, code_U.astype(np.int8)

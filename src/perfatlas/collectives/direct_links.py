"""Collectives over links without switches or libraries: scheduled exchanges, tori and meshes.

Shape legend: U unique shapes, S distinct systems, L levels.
"""

from __future__ import annotations

from functools import cache
from math import gcd, prod
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.collectives.codes import EXCHANGES
from perfatlas.collectives.placement import DOMAIN, TORUS_LINKS, level_bytes
from perfatlas.collectives.wire import ring_wire_bytes
from perfatlas.hardware import slice_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfatlas.collectives.placement import Group, Links
    from perfatlas.hardware import Device, System
    from perfatlas.operators import FloatArray, IntArray

SCHEDULED_LINKS: Final = ("c2c", "roce")
DIRECT: Final = "scheduled_direct"  # names of the algorithms
TORUS: Final = "torus"
TWO_PHASES: Final = "all_reduce"  # every chip sums its share, then sends the sum to all others
# A ring sends half of an all-to-all each way, each part over a quarter of the ring on average.
# Source: github.com/jax-ml/scaling-book, sharding.md: a quarter of an all-gather.
EXCHANGE_SHARE: Final = 0.25


class Axis(NamedTuple):
    """An axis of a slice, or a part of one, over which a group communicates."""

    ranks: int  # Members along it
    ring: bool  # Whether its ends are linked
    stride: int  # Chips from a member to the next; as many groups share its links
    wrapped: bool  # Whether the ends of the whole axis are linked


class Mesh(NamedTuple):
    """What closed forms need of the axes of a group."""

    hops: float  # Sum over the axes of hops from a member to the farthest
    # Bandwidth of all axes together relative to that of one ring in both directions
    bandwidth: float
    exchange: float  # Members of the axis that an exchange waits for, over its relative bandwidth
    cut: float  # The same of the halves of an axis, whichever routes the exchange takes


def direct_algorithm(system: System) -> str:
    """Return the algorithm of a system whose links no library drives, "" for others."""
    scale_up = system.device.scale_up
    if scale_up.kind in TORUS_LINKS and "wraparound_multiple" in system.device.further:
        return TORUS
    return DIRECT if scale_up.link_type in SCHEDULED_LINKS else ""


def scheduled_levels(
    op: str, bytes_U: FloatArray, group: Group, links: Links
) -> tuple[FloatArray, FloatArray]:
    """Return the latency and the transfer of each level of a scheduled exchange (L, U), (L, U) [s].

    Each member sends its share to every other directly: a phase takes one hop of its level, then
    the bytes of a rank over its links. A reduction to all has two phases. Levels of reductions and
    gathers follow each other; other transfers pass theirs at the same time, and the slowest counts.

        domain of 8, all_reduce of S bytes: 2 (hop + S / 8 / (bytes/s of one link))

    Source: Abts et al., A software-defined tensor streaming multiprocessor, ISCA 2022.

    Limits: Transfers are not rounded up to vectors; adding takes no time beside receiving; the
        fabric has one latency for any distance.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives import CollectiveShapes, price_collectives
        >>> from perfatlas.hardware import resolve_system
        >>> priced = price_collectives(
        ...     CollectiveShapes(
        ...         op="all_reduce", bytes=np.array([16384.0]), ranks=np.array([8.0]),
        ...         stride=np.ones(1),
        ...     ),
        ...     systems=[resolve_system("lpu")],
        ...     system_index_U=np.array([0]),
        ...     tier="auto",
        ... )
        >>> round(float(priced.prices.time_s_CO[0, 0]) * 1e9)  # 2 x (240 + 2048 B / 50 GB/s)
        562
    """
    size_LU = level_bytes(op, bytes_U, group)
    talks_LU = group.ranks_LU > 1.0
    wire_LU = np.stack(
        [ring_wire_bytes(op, *pair) for pair in zip(size_LU, group.ranks_LU, strict=True)]
    )
    phases = 2.0 if op == TWO_PHASES else 1.0
    latency_LU = np.where(talks_LU, phases * links.latency_s_LU, 0.0)
    moving_LU = np.where(talks_LU, wire_LU / links.bandwidth_LU, 0.0)
    if op in (*EXCHANGES, "send_recv"):
        slowest_LU = np.arange(latency_LU.shape[0])[:, None] == np.argmax(
            latency_LU + moving_LU, axis=0
        )
        return np.where(slowest_LU, latency_LU, 0.0), np.where(slowest_LU, moving_LU, 0.0)
    return latency_LU, moving_LU


def torus_levels(
    op: str,
    bytes_U: FloatArray,
    group: Group,
    links: Links,
    systems: tuple[Sequence[System], IntArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return the latency and the transfer of each level, slice and network (L, U), (L, U) [s].

    With W the bandwidth of an axis in both directions and V the gathered bytes:

        all_gather, reduce_scatter   max(hop sum(X / 2), V / (W axes))
        all_reduce                   twice that
        all_to_all of b per rank     max(hop sum(X / 2), b max(X) / (4 W))

    An axis without linked ends has X - 1 hops, and half the bandwidth: its last member receives
    V (X - 1) / X over one link. Several slices follow with what each chip sends over its share of
    the network between them.

    `systems` holds the distinct systems, the position in them (U,), and the distance between
    neighbours (U,).

    Source: github.com/jax-ml/scaling-book, sharding.md, "How long does this take?" and AllToAll.

    Limits: Groups take whole axes of their slice where their sizes allow, as JAX assigns meshes;
        collectives of different groups do not slow each other down unless they share an axis.
    """
    distinct, index_U, _ = systems
    ranks_U = group.ranks_LU[DOMAIN]
    mesh_hops_U, mesh_bandwidth_U, exchange_U, _ = _meshes(group, systems)
    axis_U = _axis_bytes_per_s(distinct, index_U)
    if op == "send_recv":  # one link, one way
        hops_U, moving_U = np.ones_like(ranks_U), bytes_U / (axis_U / 2.0)
    elif op in EXCHANGES:
        own_bytes_U = bytes_U * group.inside_LU[DOMAIN] / np.maximum(group.ranks_U, 1.0)
        hops_U, moving_U = mesh_hops_U, EXCHANGE_SHARE * own_bytes_U * exchange_U / axis_U
    else:
        phases = 2.0 if op == TWO_PHASES else 1.0
        hops_U, moving_U = phases * mesh_hops_U, phases * bytes_U / (axis_U * mesh_bandwidth_U)
    latency_LU, moving_LU = (
        scheduled_level.copy() for scheduled_level in scheduled_levels(op, bytes_U, group, links)
    )
    hop_s_U = np.where(ranks_U > 1.0, hops_U * links.latency_s_LU[DOMAIN], 0.0)
    latency_LU[DOMAIN] = hop_s_U
    moving_LU[DOMAIN] = np.where(ranks_U > 1.0, np.maximum(moving_U - hop_s_U, 0.0), 0.0)
    return latency_LU, moving_LU


def exchange_least_s(
    bytes_U: FloatArray, group: Group, systems: tuple[Sequence[System], IntArray, FloatArray]
) -> FloatArray:
    """Return the time of an exchange through the links between the halves of an axis (U,) [s].

    Of N chips with links of b bytes/s each way, half of the bytes of one half crosses 2 N / a
    links of a ring of a chips, N / a of a line:

        S bytes per rank: S a / (8 b) of a ring, S a / (4 b) of a line; the longest axis counts

    A part of a ring may also send the other way around. `systems` is as in `torus_levels`.

    Limits: All groups of the plan exchange at once.
    """
    distinct, index_U, _ = systems
    own_bytes_U = bytes_U * group.inside_LU[DOMAIN] / np.maximum(group.ranks_U, 1.0)
    cut_U = _meshes(group, systems)[-1]
    least_U: FloatArray = (
        EXCHANGE_SHARE * own_bytes_U * cut_U / _axis_bytes_per_s(distinct, index_U)
    )
    return least_U


def _meshes(
    group: Group, systems: tuple[Sequence[System], IntArray, FloatArray]
) -> NDArray[np.float64]:
    """Return the fields of the mesh of each group (4, U)."""
    distinct, index_U, stride_U = systems
    rows = zip(index_U.tolist(), group.ranks_LU[DOMAIN].tolist(), stride_U.tolist(), strict=True)
    meshes = [_mesh(distinct[index].device, int(ranks), int(step)) for index, ranks, step in rows]
    return np.array(meshes, np.float64).reshape(-1, len(Mesh._fields)).T


def _axis_bytes_per_s(systems: Sequence[System], index_U: IntArray) -> FloatArray:
    """Return the bandwidth of an axis in both directions (U,) [bytes/s]."""
    axis_S = [system.device.scale_up.bandwidth / axes_of(system.device) for system in systems]
    bandwidth_U: FloatArray = np.array(axis_S)[index_U]
    return bandwidth_U


def axes_of(device: Device) -> int:
    """Return the axes of the torus of a device: two links each."""
    return max(device.scale_up.links // 2, 1)


@cache
def _mesh(device: Device, ranks: int, stride: int) -> Mesh:
    """Return what closed forms need of the axes of a group."""
    multiple = int(device.number("wraparound_multiple"))
    shape = slice_shape(device.scale_up.domain_size, axes_of(device))
    axes = axes_of_group(shape, multiple, ranks, stride)
    hops = bandwidth = exchange = cut = 0.0
    for axis in axes:
        share = (1.0 if axis.ring else 0.5) / axis.stride
        hops += axis.stride * (axis.ranks / 2.0 if axis.ring else axis.ranks - 1.0)
        bandwidth += share
        exchange = max(exchange, axis.ranks / share)
        halves = axis.ranks - axis.ranks % 2 / axis.ranks  # (a^2 - 1) / a of an odd number
        cut = max(cut, halves / share / (1.0 if axis.ring or not axis.wrapped else 2.0))
    if axes and not any(axis.ring for axis in axes):
        # the member at the corner of lines receives (N - 1) / N of all bytes
        members = prod(axis.ranks for axis in axes)
        bandwidth *= members / (members - 1.0)
    return Mesh(hops, bandwidth or 1.0, exchange, cut)


def axes_of_group(
    shape: tuple[int, ...], multiple: int, ranks: int, stride: int
) -> tuple[Axis, ...]:
    """Return the axes of a slice over which a group communicates.

    Ranks below `stride` take axes first, then the group; each takes whole axes whose lengths
    multiply to its size, else parts of axes.

    Args:
        multiple: Axes of lengths that are multiples of this have linked ends; of three axes, all
            or none.

    Example:
        >>> from perfatlas.collectives.direct_links import axes_of_group
        >>> [(axis.ranks, axis.ring) for axis in axes_of_group((4, 4, 4), 4, 16, 4)]
        [(4, True), (4, True)]
        >>> axes_of_group((16, 16), 16, 8, 1)
        (Axis(ranks=8, ring=False, stride=1, wrapped=True),)
    """
    rings = [length % multiple == 0 for length in shape]
    if len(shape) > 2:
        rings = [all(rings)] * len(shape)
    axes = [
        Axis(length, ring, 1, ring) for length, ring in zip(shape, rings, strict=True) if length > 1
    ]
    _, axes = _split_axes(axes, stride)
    taken, _ = _split_axes(axes, ranks)
    return tuple(taken)


def _split_axes(axes: list[Axis], size: int) -> tuple[list[Axis], list[Axis]]:
    """Return the axes that ranks take, and what is left of the others."""
    for subset in _subsets(axes):
        if prod(axis.ranks for axis in subset) == size:
            return subset, [axis for axis in axes if not any(axis is other for other in subset)]
    taken, rest = [], []
    for axis in sorted(axes, key=lambda axis: -gcd(axis.ranks, size)):
        part = gcd(axis.ranks, size)
        size //= part
        if part > 1:
            whole = axis.ring and part == axis.ranks
            taken.append(Axis(part, whole, axis.stride, axis.wrapped))
        if part < axis.ranks:
            rest.append(axis._replace(ranks=axis.ranks // part, stride=axis.stride * part))
    if size > 1:  # no divisor of the slice: a line
        taken.append(Axis(size, ring=False, stride=1, wrapped=True))
    return taken, rest


def _subsets(axes: list[Axis]) -> Iterable[list[Axis]]:
    """Return all subsets of axes, those with most axes first."""
    masks = sorted(range(1 << len(axes)), key=lambda mask: -mask.bit_count())
    return ([axis for index, axis in enumerate(axes) if mask >> index & 1] for mask in masks)

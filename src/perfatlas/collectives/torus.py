"""Collectives over the axes of a torus or mesh of links without switches.

Shape legend: U unique shapes, S distinct systems, A axes.
"""

from __future__ import annotations

from functools import cache
from math import gcd, prod
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.collectives.codes import EXCHANGES
from perfatlas.collectives.scheduled import TWO_PHASES, scheduled_levels
from perfatlas.hardware import slice_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfatlas.collectives.placement import Group, Links
    from perfatlas.hardware import Device, System
    from perfatlas.operators import FloatArray, IntArray

LINK_TYPES: Final = ("ici", "neuronlink")
TORUS: Final = "torus"  # name of the algorithm
# A ring sends half of an all-to-all each way, each part over a quarter of the ring on average.
# Source: github.com/jax-ml/scaling-book, sharding.md: a quarter of an all-gather.
EXCHANGE_SHARE: Final = 0.25


class Axis(NamedTuple):
    """An axis of a slice, or a part of one, over which a group communicates."""

    ranks: int  # Members along it
    ring: bool  # Whether its ends are linked
    apart: int  # Chips from a member to the next; as many groups share its links


class Mesh(NamedTuple):
    """What closed forms need of the axes of groups."""

    hops_U: FloatArray  # Sum over the axes of hops from a member to the farthest (U,)
    # Bandwidth of all axes together relative to that of one ring in both directions (U,)
    axes_U: FloatArray
    # Members of the axis that an exchange waits for, over its relative bandwidth (U,)
    exchange_U: FloatArray


def are_tori(systems: Sequence[System]) -> NDArray[np.bool_]:
    """Return whether the chips of each system form a torus or a mesh (S,)."""
    return np.array(
        [
            system.device.scale_up.kind in LINK_TYPES
            and "wraparound_multiple" in system.device.further
            for system in systems
        ],
        np.bool_,
    )


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

    Args:
        op: Collective operation.
        bytes_U: Size as counted by nccl-tests (U,) [bytes].
        group: Placement of the ranks.
        links: All links of each shape.
        systems: Distinct systems, position in them (U,), and distance between neighbours (U,).

    Source: github.com/jax-ml/scaling-book, sharding.md, "How long does this take?" and AllToAll.

    Limits: Groups take whole axes of their slice where their sizes allow, as JAX assigns meshes;
        collectives of different groups do not slow each other down unless they share an axis.
    """
    distinct, index_U, stride_U = systems
    ranks_U = group.ranks_LU[0]
    mesh = _meshes([system.device for system in distinct], index_U, ranks_U, stride_U)
    device_axes_U = np.array([axes_of(system.device) for system in distinct])[index_U]
    axis_U = (
        np.array([system.device.scale_up.bandwidth for system in distinct])[index_U] / device_axes_U
    )
    own_bytes_U = bytes_U * group.inside_LU[0] / np.maximum(group.ranks_U, 1.0)
    if op == "send_recv":  # one link, one way
        hops_U, moving_U = np.ones_like(ranks_U), bytes_U / (axis_U / 2.0)
    elif op in EXCHANGES:
        hops_U = mesh.hops_U
        moving_U = EXCHANGE_SHARE * own_bytes_U * mesh.exchange_U / axis_U
    else:
        phases = 2.0 if op == TWO_PHASES else 1.0
        hops_U, moving_U = phases * mesh.hops_U, phases * bytes_U / (axis_U * mesh.axes_U)
    latency_LU, moving_LU = (
        scheduled_level.copy() for scheduled_level in scheduled_levels(op, bytes_U, group, links)
    )
    hop_s_U = np.where(ranks_U > 1.0, hops_U * links.latency_s_LU[0], 0.0)
    latency_LU[0] = hop_s_U
    moving_LU[0] = np.where(ranks_U > 1.0, np.maximum(moving_U - hop_s_U, 0.0), 0.0)
    return latency_LU, moving_LU


def axes_of(device: Device) -> int:
    """Return the axes of the torus of a device: two links each."""
    return max(device.scale_up.links // 2, 1)


def _meshes(
    devices: Sequence[Device], index_U: IntArray, ranks_U: FloatArray, stride_U: FloatArray
) -> Mesh:
    """Return the axes of each group, found once for equal groups."""
    rows = zip(index_U.tolist(), ranks_U.tolist(), stride_U.tolist(), strict=True)
    each = [_mesh(devices[place], int(ranks), int(stride)) for place, ranks, stride in rows]
    hops_U, axes_U, exchange_U = np.array(each, np.float64).reshape(-1, 3).T
    return Mesh(hops_U, axes_U, exchange_U)


@cache
def _mesh(device: Device, ranks: int, stride: int) -> tuple[float, float, float]:
    """Return hops, relative bandwidth and exchange of a group, as in `Mesh`."""
    multiple = int(device.number("wraparound_multiple"))
    axes = axes_of_group(
        slice_shape(device.scale_up.domain_size, axes_of(device)), multiple, ranks, stride
    )
    hops = axis_bandwidth = exchange = 0.0
    for ring, own, each_hops in ((axis.ring, axis, _hops(axis)) for axis in axes):
        share = (1.0 if ring else 0.5) / own.apart
        hops += each_hops
        axis_bandwidth += share
        exchange = max(exchange, own.ranks / share)
    if axes and not any(axis.ring for axis in axes):
        # the member at the corner of lines receives (N - 1) / N of all bytes
        members = prod(axis.ranks for axis in axes)
        axis_bandwidth *= members / (members - 1.0)
    return hops, axis_bandwidth or 1.0, exchange


def _hops(axis: Axis) -> float:
    """Return the hops from a member to the farthest one of its axis."""
    return axis.apart * (axis.ranks / 2.0 if axis.ring else axis.ranks - 1.0)


def axes_of_group(
    shape: tuple[int, ...], multiple: int, ranks: int, stride: int
) -> tuple[Axis, ...]:
    """Return the axes of a slice over which a group communicates.

    Ranks below `stride` take axes first, then the group; each takes whole axes whose lengths
    multiply to its size, else parts of axes.

    Args:
        shape: Lengths of the axes.
        multiple: Axes of lengths that are multiples of this have linked ends; of three axes, all
            or none.
        ranks: Members of the group inside the slice.
        stride: Distance between neighbours in the rank order.

    Example:
        >>> from perfatlas.collectives.torus import axes_of_group
        >>> axes_of_group((4, 4, 4), 4, 16, 4)
        (Axis(ranks=4, ring=True, apart=1), Axis(ranks=4, ring=True, apart=1))
        >>> axes_of_group((16, 16), 16, 8, 1)
        (Axis(ranks=8, ring=False, apart=1),)
    """
    rings = [length % multiple == 0 for length in shape]
    if len(shape) > 2:
        rings = [all(rings)] * len(shape)
    left = [Axis(length, ring, 1) for length, ring in zip(shape, rings, strict=True) if length > 1]
    _, left = _taken(left, stride)
    return tuple(_taken(left, ranks)[0])


def _taken(left: list[Axis], size: int) -> tuple[list[Axis], list[Axis]]:
    """Return the axes that ranks take, and what is left of the others."""
    for some in _subsets(left):
        if prod(one.ranks for one in some) == size:
            return some, [one for one in left if not any(one is other for other in some)]
    taken, kept = [], []
    for axis in sorted(left, key=lambda axis: -gcd(axis.ranks, size)):
        part = gcd(axis.ranks, size)
        size //= part
        if part > 1:
            taken.append(Axis(part, axis.ring and part == axis.ranks, axis.apart))
        if part < axis.ranks:
            kept.append(Axis(axis.ranks // part, axis.ring, axis.apart * part))
    if size > 1:  # no divisor of the slice: a line
        taken.append(Axis(size, ring=False, apart=1))
    return taken, kept


def _subsets(axes: list[Axis]) -> Iterable[list[Axis]]:
    """Return all subsets of axes, those with most axes first."""
    masks = sorted(range(1 << len(axes)), key=lambda mask: -mask.bit_count())
    return ([axis for index, axis in enumerate(axes) if mask >> index & 1] for mask in masks)

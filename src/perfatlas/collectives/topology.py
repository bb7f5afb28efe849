"""Rings over PCIe, whose switches and sockets are not known.

Shape legend: U unique shapes, L levels.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.collectives.wire import ring_wire_bytes
from perfatlas.operators import with_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.collectives.query import CollectiveQuery, LevelTimes
    from perfatlas.operators import FloatArray

    BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

RINGS: Final = "data/collectives/pcie_rings.toml"
RING_OPS: Final = ("all_reduce", "all_gather", "reduce_scatter")
PAIR: Final = 2.0  # ranks whose path is one pair of links on every machine
NOTE: Final = (
    "groups of more than two GPUs over PCIe are priced on a typical machine: the median of"
    " published rings and the calibrated one; the interval spans them all"
    " (data/collectives/pcie_rings.toml)"
)


@cache
def published_rings() -> tuple[Mapping[str, Any], ...]:
    """Return the published machines: GPUs of the ring, share of the link, reference.

    Example:
        >>> from perfatlas.collectives.topology import published_rings
        >>> all(0.0 < ring["share"] < 1.0 for ring in published_rings())
        True
    """
    text = resources.files("perfatlas").joinpath(RINGS).read_text("utf-8")
    return tuple(tomllib.loads(text)["machine"])


def with_typical_rings(query: CollectiveQuery, inner: LevelTimes) -> LevelTimes:
    """Return the levels with groups of more than two GPUs over PCIe on a typical machine.

    The rate of the calibrated machine is one draw among those of the published ones. Latencies are
    those of the calibrated machine.

    Args:
        query: The collective.
        inner: Its levels as calibrated, on one machine of unknown topology.

    Limits: Published rings have four and eight GPUs; each group size uses the nearest. Measured
        rows keep their time.
    """
    pcie_S = np.array([system.device.scale_up.kind == "pcie" for system in query.systems])
    ranks_U = query.group.ranks_LU[0]
    unknown_U = pcie_S[query.index_U] & (ranks_U > PAIR) & (inner.match_U >= 0) & ~inner.measured_U
    if query.op not in RING_OPS or not np.any(unknown_U):
        return inner
    latency_U = inner.latency_s_LU[0]
    moving_U = inner.time_s_LU[0] - latency_U
    wire_s_U = ring_wire_bytes(query.op, query.size_LU[0], ranks_U) / query.links.bandwidth_LU[0]
    own_U = wire_s_U / np.maximum(moving_U, np.finfo(np.float64).tiny)
    typical_U, best_U = _shares(ranks_U, own_U)
    faster_s_U = latency_U + wire_s_U / typical_U
    time_U = np.where(unknown_U, faster_s_U, inner.time_s_LU[0])
    slow_U = _log_ratio(inner.time_s_LU[0], time_U, unknown_U)
    fast_U = _log_ratio(latency_U + wire_s_U / best_U, time_U, unknown_U)
    low_U, high_U = inner.tails_U2.T
    tails_U2 = np.column_stack(
        (
            np.where(unknown_U, np.minimum(low_U, fast_U), low_U),
            np.where(unknown_U, high_U + np.maximum(slow_U, 0.0), high_U),
        )
    )
    return with_fields(
        inner,
        time_s_LU=np.stack((time_U, *inner.time_s_LU[1:])),
        tails_U2=tails_U2,
        notes=(*inner.notes, NOTE),
    )


def _log_ratio(above_U: FloatArray, below_U: FloatArray, where_U: BoolArray) -> FloatArray:
    """Return the logarithm of a ratio where it is used, 0 elsewhere (U,)."""
    ratio_U = np.divide(above_U, below_U, out=np.ones_like(above_U), where=where_U)
    log_U: FloatArray = np.log(ratio_U)
    return log_U


def _shares(ranks_U: FloatArray, own_U: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median and the largest share of the link over machines, each (U,)."""
    sizes = np.array([ring["gpus"] for ring in published_rings()])
    share = np.array([ring["share"] for ring in published_rings()])
    typical_U, best_U = own_U.copy(), own_U.copy()
    for size in np.unique(sizes).tolist():
        near_U = np.abs(np.log2(ranks_U / size)) == _nearest(ranks_U, sizes)
        known = share[sizes == size]
        drawn = np.column_stack((own_U, np.broadcast_to(known, (own_U.size, known.size))))
        typical_U = np.where(near_U, np.median(drawn, axis=1), typical_U)
        best_U = np.where(near_U, drawn.max(axis=1), best_U)
    return typical_U, best_U


def _nearest(ranks_U: FloatArray, sizes: np.ndarray[Any, Any]) -> FloatArray:
    """Return the distance in octaves to the nearest published group size (U,)."""
    distance_U: FloatArray = np.abs(np.log2(ranks_U[:, None] / sizes)).min(axis=1)
    return distance_U

"""The time of a collective on each level of the network: domain, node, fabric.

Shape legend: U unique shapes, S distinct systems, L levels.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.collectives import notes, physics
from perfatlas.collectives.codes import EXPERT_EXCHANGES
from perfatlas.collectives.fabric import with_fabric
from perfatlas.collectives.parameters import (
    CUSTOM_OPERATOR,
    LIBRARY_FAMILY,
    adds_measured,
    all_reduce_cells,
    cell_format,
    cell_operator,
    cells_by_ranks,
    exchange_cells,
    gather_cells,
    one_doubling,
    unseen_fabric_tails,
    widened,
)
from perfatlas.collectives.placement import DOMAIN, FABRIC, NODE
from perfatlas.collectives.query import LevelTimes
from perfatlas.collectives.topology import with_pcie_rings
from perfatlas.operators import unique_rows, with_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfatlas.collectives.parameters import Cells
    from perfatlas.collectives.query import CollectiveQuery
    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray

    FlagArray = NDArray[np.bool_]
    Formula = Callable[
        [physics.CollectiveShape, physics.Columns], tuple[FloatArray, physics.BoundArray]
    ]


def level_times(query: CollectiveQuery) -> LevelTimes:
    """Return the time of each level of a collective."""
    inner = _library_levels(query)
    if query.op == "all_reduce" and query.custom_groups:
        inner = _with_custom(query, inner)
    return with_fabric(query, with_pcie_rings(query, inner))


def _library_levels(query: CollectiveQuery) -> LevelTimes:
    """Return domain and node levels with the library's collectives, without the fabric."""
    ranks_LU = query.group.ranks_LU
    cells, index_U = cells_by_ranks(
        partial(_library_cells, query), query.systems, query.index_U, ranks_LU[DOMAIN]
    )
    parameters = physics.take_rows(cells.parameters_S, index_U)
    reduces_U = query.adds_inside()
    nothing_U = np.zeros_like(reduces_U)
    domain = _level_shape(query, DOMAIN, reduces_U)
    domain_s_U, domain_latency_s_U = _with_latency(
        query, physics.library_time_s, domain, parameters
    )
    node = _level_shape(query, NODE, nothing_U)
    node_s_U, node_latency_s_U = _with_latency(query, physics.library_time_s, node, parameters)
    # A group with one member per node still launches the library's kernel.
    launches_U = (ranks_LU[:FABRIC] == 1.0).all(axis=0) & (ranks_LU[FABRIC] > 1.0)
    launch_U = np.where(launches_U, parameters.overhead_s, 0.0)

    match_U, across_U = cells.match_S[index_U], ranks_LU[NODE] > 1.0
    used_U, more_U = match_U >= 0, ranks_LU[DOMAIN] > parameters.ranks_measured
    found_notes = list(cells.notes)
    found_notes += [notes.SEND_NOTE] if query.op == "send_recv" and np.any(used_U) else []
    found_notes += [notes.RANKS_NOTE] if np.any(used_U & more_U) else []
    unseen_U = (reduces_U > 0.0) & (parameters.efficiency_in_network == 0.0) & used_U & more_U
    found_notes += [notes.SWITCH_NOTE] if query.op == "all_reduce" and np.any(unseen_U) else []
    found_notes += [notes.NODE_NOTE] if np.any(used_U & across_U) else []

    lent_U = index_U >= len(query.systems)  # measured on the ranks of another device
    beyond_U = lent_U | more_U | across_U
    wide_U2 = _over_doublings(query.op, ranks_LU[DOMAIN] / parameters.ranks_measured)
    unseen_U2 = widened(wide_U2, unseen_fabric_tails()[None])
    wide_U2 = np.where(across_U[:, None], unseen_U2, wide_U2)
    tails_U2 = cells.tails_S2[index_U]
    times = LevelTimes(
        time_s_LU=np.stack((domain_s_U + launch_U, node_s_U, nothing_U)),
        latency_s_LU=np.stack((domain_latency_s_U + launch_U, node_latency_s_U, nothing_U)),
        tails_U2=np.where(beyond_U[:, None], widened(tails_U2, wide_U2), tails_U2),
        least_s_U=nothing_U,
        algorithms=lambda: physics.library_algorithm(query.op, domain, parameters),
        measured_U=np.zeros(match_U.size, np.bool_),
        match_U=match_U,
        matches=cells.matches,
        notes=tuple(found_notes),
    )
    return _corrected(query, times, domain, parameters.ranks_measured)


def _library_cells(
    query: CollectiveQuery, systems: Sequence[System]
) -> Cells[physics.LibraryParameters]:
    """Return the calibrations of the domain level of some systems."""
    if query.op in EXPERT_EXCHANGES:
        return exchange_cells(systems, query.op, query.family)
    operator, format_name = cell_operator(query.op), cell_format(query.op, query.format_name)
    if query.op == "all_reduce":
        return all_reduce_cells(systems, format_name)
    return gather_cells(systems, operator, LIBRARY_FAMILY, format_name, physics.LibraryParameters)


def _over_doublings(op: str, times_U: FloatArray) -> FloatArray:
    """Return q05 and q95 of ln(measured/predicted) at some times the measured ranks (U, 2).

    The error of one doubling was measured. Over further ones it accumulates on the slow side.
    """
    doublings_U = np.log2(np.maximum(times_U, 2.0))
    return np.column_stack((np.ones_like(doublings_U), doublings_U)) * one_doubling(op)


def _corrected(
    query: CollectiveQuery, times: LevelTimes, shape: physics.CollectiveShape, most_U: FloatArray
) -> LevelTimes:
    """Return the levels corrected by measured rows, for groups in one domain of measured size.

    `shape` is that of the domain, `most_U` the maximum measured ranks (U,).
    """
    if query.version is None:
        return times
    if query.op in EXPERT_EXCHANGES:
        return with_fields(times, notes=(*times.notes, notes.EXPERTS_NOTE))
    from perfatlas.collectives import measured  # reads tables

    matches = tuple(measured.with_table(match, query.version) for match in times.matches)
    inside_U = _in_one_domain(query) & (query.group.ranks_LU[DOMAIN] <= most_U)
    correction = measured.correct_rows(matches, shape, np.where(inside_U, times.match_U, -1))
    scale_LU = np.stack((correction.factor_U, *np.ones((2, inside_U.size))))
    tails_U2 = np.column_stack((correction.low_U, correction.high_U))
    added = [note for match in matches for note in match.notes]
    return with_fields(
        times,
        time_s_LU=times.time_s_LU * scale_LU,
        latency_s_LU=times.latency_s_LU * scale_LU,
        tails_U2=np.where(correction.measured_U[:, None], tails_U2, times.tails_U2),
        measured_U=correction.measured_U,
        matches=matches,
        notes=tuple(dict.fromkeys((*times.notes, *added))),
    )


def _in_one_domain(query: CollectiveQuery) -> FlagArray:
    """Return the groups of several ranks inside one domain (U,)."""
    ranks_LU = query.group.ranks_LU
    inside_U: FlagArray = (ranks_LU[NODE:] == 1.0).all(axis=0) & (ranks_LU[DOMAIN] > 1.0)
    return inside_U


def _level_shape(
    query: CollectiveQuery, level: int, reduces_U: FloatArray
) -> physics.CollectiveShape:
    """Return the shape of one level (U,); a send counts as one pair of an exchange."""
    size_U, ranks_U = query.size_LU[level], query.group.ranks_LU[level]
    if query.op == "send_recv":
        size_U, ranks_U = 2.0 * size_U, np.minimum(ranks_U, 2.0)
    bandwidth_U = query.links.bandwidth_LU[level]
    return physics.collective_shape(
        cell_operator(query.op), size_U, ranks_U, bandwidth_U, reduces_U
    )


def _with_latency(
    query: CollectiveQuery,
    time_s: Formula[physics.Columns],
    shape: physics.CollectiveShape,
    parameters: physics.Columns,
) -> tuple[FloatArray, FloatArray]:
    """Return the time, and the time of an empty message of the same group (U,), (U,) [s].

    Groups of equal ranks and links of one system have one latency.
    """
    if not np.any(shape.ranks > 1.0):
        return np.zeros_like(shape.ranks), np.zeros_like(shape.ranks)
    time_U, _ = time_s(shape, parameters)
    first_G, group_U = unique_rows((shape.ranks, shape.bandwidth, query.index_U))
    some, none_G = physics.take_rows(shape, first_G), np.zeros(first_G.size)
    empty = some._replace(bytes=none_G, wire_bytes=none_G, in_network_bytes=none_G)
    latency_G, _ = time_s(empty, physics.take_rows(parameters, first_G))
    return time_U, np.minimum(latency_G[group_U], time_U)


def _with_custom(query: CollectiveQuery, inner: LevelTimes) -> LevelTimes:
    """Return the levels with the engine's custom all-reduce for groups within one domain."""
    ranks_U = query.group.ranks_LU[DOMAIN]
    cells, index_U = cells_by_ranks(
        lambda systems: gather_cells(
            systems, CUSTOM_OPERATOR, query.family, "bf16", physics.CustomParameters
        ),
        query.systems,
        query.index_U,
        ranks_U,
    )
    parameters = physics.take_rows(cells.parameters_S, index_U)
    shape = _level_shape(query, DOMAIN, np.zeros_like(query.links.in_network_U))
    time_U, latency_U = _with_latency(query, physics.custom_time_s, shape, parameters)
    match_U, tails_U2 = cells.match_S[index_U], cells.tails_S2[index_U]
    runs_U = (match_U >= 0) & _in_one_domain(query)
    pcie_U = query.links.one_link_U > 0.0
    sizes_U = np.isin(ranks_U, query.custom_groups)
    taken_U = sizes_U & (~pcie_U | np.isin(ranks_U, query.pcie_groups))
    many_U = ranks_U > parameters.ranks_measured
    handed_U = shape.bytes > parameters.switch_bytes
    most = [match.calibration.parameters["ranks_measured"] for match in inner.matches]
    library_U = np.array([*most, np.inf])[inner.match_U]
    # The library serves more ranks over PCIe, and sizes handed over to it where its rows have more.
    beyond_U = many_U & (pcie_U | (handed_U & (parameters.ranks_measured <= library_U)))
    left_out = (runs_U & ~sizes_U, runs_U & sizes_U & ~taken_U, runs_U & taken_U & beyond_U)
    # Larger groups that the engine leaves to the library may be as fast as the kernel.
    likely_U = runs_U & many_U & ~handed_U & ~pcie_U & ~taken_U
    inner = with_fields(
        inner,
        tails_U2=_or_kernel(inner, time_U, tails_U2, likely_U),
        notes=(*inner.notes, *notes.library_notes(query, *left_out, likely_U)),
    )
    runs_U &= taken_U & ~beyond_U
    # Sizes handed over to the library were measured with in-network reduction where available.
    runs_U &= ~handed_U | (query.adds_inside() == adds_measured(cells)[index_U])
    wide_U2 = _over_doublings(query.op, ranks_U / parameters.ranks_measured)
    # Priced as separate levels, so that measured rows correct them like the library's.
    alone = with_fields(
        inner,
        time_s_LU=np.stack((time_U, *np.zeros((2, time_U.size)))),
        latency_s_LU=np.stack((latency_U, *np.zeros((2, time_U.size)))),
        tails_U2=np.where(many_U[:, None], widened(tails_U2, wide_U2), tails_U2),
        algorithms=lambda: physics.custom_algorithm(shape, parameters),
        measured_U=np.zeros(time_U.size, np.bool_),
        match_U=match_U,
        matches=cells.matches,
        notes=(*cells.notes, *([notes.KERNEL_NOTE] if np.any(runs_U & many_U) else [])),
    )
    custom = _corrected(query, alone, shape, parameters.ranks_measured)
    return with_fields(
        inner,
        time_s_LU=np.where(runs_U, custom.time_s_LU, inner.time_s_LU),
        latency_s_LU=np.where(runs_U, custom.latency_s_LU, inner.latency_s_LU),
        tails_U2=np.where(runs_U[:, None], custom.tails_U2, inner.tails_U2),
        algorithms=lambda: np.where(runs_U, custom.algorithms(), inner.algorithms()),
        measured_U=np.where(runs_U, custom.measured_U, inner.measured_U),
        match_U=np.where(runs_U, match_U + len(inner.matches), inner.match_U),
        matches=(*inner.matches, *custom.matches),
        notes=(*inner.notes, *custom.notes) if np.any(runs_U) else inner.notes,
    )


def _or_kernel(
    inner: LevelTimes, time_U: FloatArray, tails_U2: FloatArray, likely_U: FlagArray
) -> FloatArray:
    """Return the quantiles of the library, widened to those of a kernel that may run (U, 2)."""
    low_U, _ = tails_U2.T
    library_s_U = inner.time_s_LU[DOMAIN]
    ratio_U = np.divide(time_U, library_s_U, out=np.ones_like(time_U), where=likely_U)
    kernel_U = np.where(likely_U, np.log(ratio_U) + low_U, np.inf)
    return widened(inner.tails_U2, np.column_stack((kernel_U, np.full_like(time_U, -np.inf))))

"""The time of a collective on each level of the network: domain, node, fabric.

Shape legend: U unique shapes, S distinct systems, L levels, P parameters, D shape columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.algorithms import across_nodes, custom_algorithm, library_algorithm
from perfatlas.collectives.codes import EXCHANGES, EXPERT_EXCHANGES
from perfatlas.collectives.fabric import (
    FABRIC_PARAMETERS,
    PASSES,
    exchanges,
    fabric_time_s,
    slowdown,
)
from perfatlas.collectives.measured import correct_rows, with_table
from perfatlas.collectives.notes import (
    CONGESTION_NOTE,
    EXPERTS_NOTE,
    FABRIC_NOTE,
    HOPS_NOTE,
    KERNEL_NOTE,
    NODE_NOTE,
    NODES_NOTE,
    PAIR_NOTE,
    RANKS_NOTE,
    SEND_NOTE,
    SWITCH_NOTE,
    TREE_NOTE,
    assumed_fabrics,
    library_notes,
    unseen_fabric,
)
from perfatlas.collectives.parameters import (
    CUSTOM_OPERATOR,
    FABRIC_FAMILY,
    FABRIC_OPERATOR,
    LIBRARY_FAMILY,
    Cells,
    adds_measured,
    all_reduce_cells,
    cell_format,
    cell_operator,
    cells_by_ranks,
    exchange_cells,
    fabric_cells,
    gather_cells,
    one_doubling,
    unseen_fabric_tails,
    widened,
)
from perfatlas.collectives.physics import (
    CUSTOM_PARAMETERS,
    LIBRARY_PARAMETERS,
    collective_shape,
    custom_time_s,
    library_time_s,
)
from perfatlas.collectives.query import CollectiveQuery, LevelTimes
from perfatlas.collectives.rings import HOP_OPS, Fabric, FabricTimes, ring_between_nodes_s
from perfatlas.collectives.topology import with_pcie_rings
from perfatlas.collectives.trees import sums_by_trees, tree_of_two_s, two_by_tree
from perfatlas.collectives.wire import between_nodes_wire_bytes, ring_wire_bytes
from perfatlas.operators import unique_rows, with_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.collectives.physics import BoundArray
    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray, IntArray

    FlagArray = NDArray[np.bool_]
    Names = NDArray[np.str_]

Physics = Callable[["FloatArray", "FloatArray", "FloatArray"], tuple["FloatArray", "BoundArray"]]
MEASURED: Final = LIBRARY_PARAMETERS.index("ranks_measured")
IN_NETWORK: Final = LIBRARY_PARAMETERS.index("efficiency_in_network")
CUSTOM_MEASURED: Final = CUSTOM_PARAMETERS.index("ranks_measured")
CUSTOM_HAND_OVER: Final = CUSTOM_PARAMETERS.index("switch_bytes")
NODES_MEASURED: Final = 8.0  # largest number of nodes in the fabric's calibration


def level_times(query: CollectiveQuery) -> LevelTimes:
    """Return the time of each level of a collective.

    Args:
        query: Sizes, placement and systems.
    """
    names = LIBRARY_PARAMETERS
    place_U = (query.index_U, query.group.ranks_LU[0])
    found = cells_by_ranks(partial(_inner_cells, query), query.systems, place_U, names)
    inner = _library_levels(query, *found)
    if query.op == "all_reduce" and query.custom_groups:
        inner = _with_custom(query, inner)
    return _with_fabric(query, with_pcie_rings(query, inner))


def _inner_cells(query: CollectiveQuery, systems: Sequence[System]) -> Cells:
    """Return the calibrations of the domain level of some systems."""
    if query.op in EXPERT_EXCHANGES:
        return exchange_cells(systems, query.op, query.family, LIBRARY_PARAMETERS)
    if query.op == "all_reduce":
        format_name = cell_format(query.op, query.format_name)
        return all_reduce_cells(systems, format_name, LIBRARY_PARAMETERS)
    return gather_cells(
        systems,
        cell_operator(query.op),
        LIBRARY_FAMILY,
        cell_format(query.op, query.format_name),
        LIBRARY_PARAMETERS,
    )


def _library_levels(query: CollectiveQuery, cells: Cells, index_U: IntArray) -> LevelTimes:
    """Return domain and node levels with the library's collectives, without the fabric."""
    parameters_UP = cells.parameters_SP[index_U]
    reduces_U = _adds_inside(query)
    shapes = [
        _level_shape(query, 0, reduces_U),
        _level_shape(query, 1, np.zeros_like(reduces_U)),
    ]
    timed = [_with_latency(query, library_time_s, one_UD, parameters_UP) for one_UD in shapes]
    nothing_U = np.zeros_like(reduces_U)
    ranks_LU = query.group.ranks_LU
    # A group with one member per node still launches the library's kernel.
    launches_U = (ranks_LU[:2] == 1.0).all(axis=0) & (ranks_LU[2] > 1.0)
    launch_U = np.where(launches_U, parameters_UP[:, 0], 0.0)
    lent_U = index_U >= len(query.systems)  # measured on the ranks of another device
    beyond_U = lent_U | (ranks_LU[0] > parameters_UP[:, MEASURED]) | (ranks_LU[1] > 1.0)
    tails_U2 = cells.tails_S2[index_U]
    match_U = cells.match_S[index_U]
    used_U = match_U >= 0
    unseen_U = (reduces_U > 0.0) & (parameters_UP[:, IN_NETWORK] == 0.0)
    wide_U2 = _over_doublings(query.op, ranks_LU[0] / parameters_UP[:, MEASURED])
    grown_U = used_U & (ranks_LU[0] > parameters_UP[:, MEASURED])
    notes = list(cells.notes)
    notes += [SEND_NOTE] if query.op == "send_recv" and np.any(used_U) else []
    notes += [RANKS_NOTE] if np.any(grown_U) else []
    all_reduce = query.op == "all_reduce"
    notes += [SWITCH_NOTE] if all_reduce and np.any(unseen_U & grown_U) else []
    notes += [NODE_NOTE] if np.any(used_U & (ranks_LU[1] > 1.0)) else []
    unseen_U2 = widened(wide_U2, unseen_fabric_tails()[None])
    wide_U2 = np.where((ranks_LU[1] > 1.0)[:, None], unseen_U2, wide_U2)
    times = LevelTimes(
        time_s_LU=np.stack((timed[0][0] + launch_U, timed[1][0], nothing_U)),
        latency_s_LU=np.stack((timed[0][1] + launch_U, timed[1][1], nothing_U)),
        tails_U2=np.where(beyond_U[:, None], widened(tails_U2, wide_U2), tails_U2),
        least_s_U=nothing_U,
        algorithms=lambda: library_algorithm(query.op, shapes[0], parameters_UP),
        measured_U=np.zeros(match_U.size, np.bool_),
        match_U=match_U,
        matches=cells.matches,
        notes=tuple(notes),
    )
    return _corrected(query, times, shapes[0], parameters_UP[:, MEASURED])


def _over_doublings(op: str, times_U: FloatArray) -> FloatArray:
    """Return q05 and q95 of ln(measured/predicted) at some times the measured ranks (U, 2).

    The error of one doubling was measured. Over further ones it accumulates on the slow side.
    """
    doublings_U = np.log2(np.maximum(times_U, 2.0))
    return np.column_stack((np.ones_like(doublings_U), doublings_U)) * one_doubling(op)


def _corrected(
    query: CollectiveQuery, times: LevelTimes, shape_UD: FloatArray, most_U: FloatArray
) -> LevelTimes:
    """Return the levels corrected by measured rows, for groups in one domain of measured size.

    Args:
        times: Its levels according to physics.
        shape_UD: Columns of `COLLECTIVE_SHAPE` on the innermost level (U, D).
        most_U: Maximum measured ranks (U,).
    """
    if query.version is None:
        return times
    if query.op in EXPERT_EXCHANGES:
        return with_fields(times, notes=(*times.notes, EXPERTS_NOTE))
    matches = tuple(with_table(match, query.version) for match in times.matches)
    ranks_LU = query.group.ranks_LU
    inside_U = (ranks_LU[1:] == 1.0).all(axis=0) & (ranks_LU[0] > 1.0) & (ranks_LU[0] <= most_U)
    correction = correct_rows(matches, shape_UD, np.where(inside_U, times.match_U, -1))
    scale_LU = np.stack((correction.factor_U, *np.ones((2, inside_U.size))))
    tails_U2 = np.column_stack((correction.low_U, correction.high_U))
    notes = dict.fromkeys(note for match in matches for note in match.notes)
    return with_fields(
        times,
        time_s_LU=times.time_s_LU * scale_LU,
        latency_s_LU=times.latency_s_LU * scale_LU,
        tails_U2=np.where(correction.measured_U[:, None], tails_U2, times.tails_U2),
        measured_U=correction.measured_U,
        matches=matches,
        notes=tuple(dict.fromkeys((*times.notes, *notes))),
    )


def _level_shape(query: CollectiveQuery, level: int, reduces_U: FloatArray) -> FloatArray:
    """Return the shape columns of one level (U, D); a send counts as one pair of an exchange."""
    size_U, ranks_U = query.size_LU[level], query.group.ranks_LU[level]
    if query.op == "send_recv":
        size_U, ranks_U = 2.0 * size_U, np.minimum(ranks_U, 2.0)
    bandwidth_U = query.links.bandwidth_LU[level]
    op = cell_operator(query.op)
    return collective_shape(op, size_U, ranks_U, bandwidth_U, reduces_U)


def _with_latency(
    query: CollectiveQuery, physics: Physics, shape_UD: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the time, and the time of an empty message of the same group (U,), (U,) [s].

    Groups of equal ranks and links of one system have one latency.
    """
    if not np.any(shape_UD[:, 1] > 1.0):
        return np.zeros(shape_UD.shape[0]), np.zeros(shape_UD.shape[0])
    time_U, _ = physics(shape_UD, np.zeros((shape_UD.shape[0], 0)), parameters_UP)
    first_G, group_U = unique_rows(np.column_stack((shape_UD[:, 1:3], query.index_U)))
    empty_GD = shape_UD[first_G]
    empty_GD[:, [0, 3, 4]] = 0.0
    latency_G, _ = physics(empty_GD, np.zeros((first_G.size, 0)), parameters_UP[first_G])
    return time_U, np.minimum(latency_G[group_U], time_U)


def _with_custom(query: CollectiveQuery, inner: LevelTimes) -> LevelTimes:
    """Return the levels with the engine's custom all-reduce for groups within one domain."""
    ranks_LU = query.group.ranks_LU
    place_U, names = (query.index_U, ranks_LU[0]), CUSTOM_PARAMETERS
    cells, index_U = cells_by_ranks(
        lambda systems: gather_cells(systems, CUSTOM_OPERATOR, query.family, "bf16", names),
        query.systems,
        place_U,
        names,
    )
    parameters_UP = cells.parameters_SP[index_U]
    shape_UD = _level_shape(query, 0, np.zeros_like(query.links.in_network_U))
    time_U, latency_U = _with_latency(query, custom_time_s, shape_UD, parameters_UP)
    match_U = cells.match_S[index_U]
    runs_U = (match_U >= 0) & (ranks_LU[1:] == 1.0).all(axis=0) & (ranks_LU[0] > 1.0)
    pcie_U = query.links.one_link_U > 0.0
    sizes_U = np.isin(ranks_LU[0], query.custom_groups)
    taken_U = sizes_U & (~pcie_U | np.isin(ranks_LU[0], query.pcie_groups))
    many_U = ranks_LU[0] > parameters_UP[:, CUSTOM_MEASURED]
    handed_U = shape_UD[:, 0] > parameters_UP[:, CUSTOM_HAND_OVER]
    most = [match.calibration.parameters["ranks_measured"] for match in inner.matches]
    library_U = np.array([*most, np.inf])[inner.match_U]
    # The library serves more ranks over PCIe, and sizes handed over to it where its rows have more.
    beyond_U = many_U & (pcie_U | (handed_U & (parameters_UP[:, CUSTOM_MEASURED] <= library_U)))
    left_out = (runs_U & ~sizes_U, runs_U & sizes_U & ~taken_U, runs_U & taken_U & beyond_U)
    # Larger groups that the engine leaves to the library may be as fast as the kernel.
    likely_U = runs_U & many_U & ~handed_U & ~pcie_U & ~taken_U
    inner = with_fields(
        inner,
        tails_U2=_or_kernel(inner, time_U, cells.tails_S2[index_U, 0], likely_U),
        notes=(*inner.notes, *library_notes(query, *left_out, likely_U)),
    )
    runs_U &= taken_U & ~beyond_U
    # Sizes handed over to the library were measured with in-network reduction where available.
    runs_U &= ~handed_U | (_adds_inside(query) == adds_measured(cells)[index_U])
    tails_U2 = cells.tails_S2[index_U]
    wide_U2 = _over_doublings(query.op, ranks_LU[0] / parameters_UP[:, CUSTOM_MEASURED])
    # Priced as separate levels, so that measured rows correct them like the library's.
    alone = with_fields(
        inner,
        time_s_LU=np.stack((time_U, *np.zeros((2, time_U.size)))),
        latency_s_LU=np.stack((latency_U, *np.zeros((2, time_U.size)))),
        tails_U2=np.where(many_U[:, None], widened(tails_U2, wide_U2), tails_U2),
        algorithms=lambda: custom_algorithm(shape_UD, parameters_UP),
        measured_U=np.zeros(time_U.size, np.bool_),
        match_U=match_U,
        matches=cells.matches,
        notes=(*cells.notes, *([KERNEL_NOTE] if np.any(runs_U & many_U) else [])),
    )
    own = _corrected(query, alone, shape_UD, parameters_UP[:, CUSTOM_MEASURED])
    return with_fields(
        inner,
        time_s_LU=np.where(runs_U, own.time_s_LU, inner.time_s_LU),
        latency_s_LU=np.where(runs_U, own.latency_s_LU, inner.latency_s_LU),
        tails_U2=np.where(runs_U[:, None], own.tails_U2, inner.tails_U2),
        algorithms=lambda: np.where(runs_U, own.algorithms(), inner.algorithms()),
        measured_U=np.where(runs_U, own.measured_U, inner.measured_U),
        match_U=np.where(runs_U, match_U + len(inner.matches), inner.match_U),
        matches=(*inner.matches, *own.matches),
        notes=(*inner.notes, *own.notes) if np.any(runs_U) else inner.notes,
    )


def _or_kernel(
    inner: LevelTimes, time_U: FloatArray, low_U: FloatArray, likely_U: FlagArray
) -> FloatArray:
    """Return the quantiles of the library, widened to those of a kernel that may run (U, 2)."""
    ratio_U = np.divide(time_U, inner.time_s_LU[0], out=np.ones_like(time_U), where=likely_U)
    kernel_U = np.where(likely_U, np.log(ratio_U) + low_U, np.inf)
    return widened(inner.tails_U2, np.column_stack((kernel_U, np.full_like(time_U, -np.inf))))


def _adds_inside(query: CollectiveQuery) -> FloatArray:
    """Return 1 where the switch of the domain reduces this format, else 0 (U,)."""
    adds = cell_format(query.op, query.format_name) == "bf16"
    helped_U: FloatArray = query.links.in_network_U * float(adds)
    return helped_U


def _with_fabric(query: CollectiveQuery, inner: LevelTimes) -> LevelTimes:
    """Return the levels with the fabric added, for groups that span nodes."""
    nodes_U = query.group.ranks_LU[2]
    crosses_U = nodes_U > 1.0
    if not np.any(crosses_U & (inner.match_U >= 0)):
        return inner
    cells = fabric_cells(query.systems, FABRIC_OPERATOR, FABRIC_FAMILY, FABRIC_PARAMETERS)
    parameters_UP = cells.parameters_SP[query.index_U].copy()
    hop = FABRIC_PARAMETERS.index("overhead_doubling_s")
    parameters_UP[:, hop] = np.maximum(parameters_UP[:, hop], query.links.latency_s_LU[2])
    time_U, latency_U, tree_U, hops = _between_nodes_s(query, inner, parameters_UP)
    # Only exchanges between up to 8 nodes were measured. The error of one doubling of the ranks is
    # assumed to accumulate over further doublings of the nodes, on the slow side only: neglected
    # effects take time, and more nodes are not faster.
    seen, fewer = (NODES_MEASURED, 0.0) if exchanges(query.op) else (1.0, 1.0)
    doublings_U = np.log2(np.maximum(nodes_U / seen, 1.0))
    wide_U2 = np.column_stack((np.full_like(doublings_U, fewer), doublings_U)) * one_doubling(
        query.op
    )
    tails_U2 = widened(inner.tails_U2, cells.tails_S2[query.index_U]) + wide_U2
    slow_U = np.array([bool(unseen_fabric(system)) for system in query.systems])[query.index_U]
    tails_U2 = np.where(slow_U[:, None], widened(tails_U2, unseen_fabric_tails()[None]), tails_U2)
    beyond = np.any(crosses_U & (nodes_U > NODES_MEASURED))
    # Inside a node, reductions and gathers are never faster than on that node alone.
    inside_s_U = inner.time_s_LU[0] * np.exp(inner.tails_U2[:, 0])
    hierarchical_U = crosses_U & (query.op not in EXCHANGES)
    return with_fields(
        inner,
        time_s_LU=np.stack((*inner.time_s_LU[:2], time_U)),
        latency_s_LU=np.stack((*inner.latency_s_LU[:2], latency_U)),
        tails_U2=np.where(crosses_U[:, None], tails_U2, inner.tails_U2),
        least_s_U=np.where(hierarchical_U, inside_s_U, 0.0),
        algorithms=lambda: np.where(
            tree_U,
            "hierarchical_tree",
            across_nodes(query, crosses_U, inner.algorithms(), hops),
        ),
        notes=(
            *inner.notes,
            *cells.notes,
            *_fabric_notes(query, crosses_U, beyond=bool(beyond)),
            *([TREE_NOTE] if sums_by_trees(query, crosses_U, inner) else []),
            *([PAIR_NOTE] if np.any(tree_U) else []),
        ),
    )


def _between_nodes_s(
    query: CollectiveQuery, inner: LevelTimes, parameters_UP: FloatArray
) -> tuple[FloatArray, FloatArray, FlagArray, FabricTimes | None]:
    """Return time and latency of the fabric, where a tree is used, and hops (U,) [s]."""
    wire_U = _fabric_bytes(query)
    bandwidth_U = query.links.bandwidth_LU[2] / slowdown(query)
    zero_U, passes_U = np.zeros_like(wire_U), np.full_like(wire_U, PASSES.get(query.op, 1.0))
    nodes_U = query.group.ranks_LU[2]
    crosses_U = nodes_U > 1.0
    talking_U = np.minimum(nodes_U, 2.0) if query.op == "send_recv" else nodes_U
    nothing_US = np.zeros((wire_U.size, 0))
    columns = (talking_U, wire_U, bandwidth_U, zero_U, passes_U)
    time_U, _ = fabric_time_s(np.column_stack(columns), nothing_US, parameters_UP)
    columns = (talking_U, zero_U, bandwidth_U, zero_U, passes_U)
    latency_U, _ = fabric_time_s(np.column_stack(columns), nothing_US, parameters_UP)
    hops = _with_hops(query, inner, time_U, latency_U) if query.op in HOP_OPS else None
    if hops is not None:
        latency_U = np.where(crosses_U, hops.latency_s_U, latency_U)
        time_U = np.where(crosses_U, latency_U + hops.moving_s_U, time_U)
    efficiency_U = parameters_UP[:, FABRIC_PARAMETERS.index("efficiency_fabric")]
    tree_s_U = tree_of_two_s(query, inner, bandwidth_U * efficiency_U)
    tree_U = two_by_tree(query, _adds_inside(query)) & (latency_U + tree_s_U < time_U)
    time_U = np.where(tree_U, latency_U + tree_s_U, time_U)
    return time_U, latency_U, tree_U, hops


def _with_hops(
    query: CollectiveQuery, inner: LevelTimes, time_U: FloatArray, latency_U: FloatArray
) -> FabricTimes:
    """Return latency and transfer of the fabric, with the hops over all ranks (U,), (U,) [s].

    Hops inside nodes are counted here, less the latency of the levels inside a node.
    """
    group, links = query.group, query.links
    inner_s_U = inner.latency_s_LU.sum(axis=0)
    fabric = Fabric(
        wire_s_U=time_U - latency_U,
        nics_U=links.bandwidth_LU[2] * group.inside_LU[1],
        pcie_U=links.one_link_U > 0.0,
        network_s_U=links.latency_s_LU[2],
        least_s_U=inner_s_U + latency_U,
        inside_s_U=(inner.time_s_LU - inner.latency_s_LU).max(axis=0),
    )
    hops = ring_between_nodes_s(group.ranks_U, np.maximum(group.ranks_LU[2], 1.0), fabric)
    return hops._replace(latency_s_U=hops.latency_s_U - inner_s_U)


def _fabric_notes(query: CollectiveQuery, crosses_U: FlagArray, *, beyond: bool) -> list[str]:
    """Return the notes on groups that span nodes."""
    places = np.flatnonzero(np.bincount(query.index_U[crosses_U])).tolist()
    crossed = [query.systems[index] for index in places]
    hops, many = ([HOPS_NOTE], CONGESTION_NOTE) if query.op in HOP_OPS else ([], NODES_NOTE)
    unseen = filter(None, map(unseen_fabric, crossed))
    return [FABRIC_NOTE, *hops, *assumed_fabrics(crossed), *unseen, *([many] if beyond else [])]


def _fabric_bytes(query: CollectiveQuery) -> FloatArray:
    """Return the bytes through one rank's share of its node's NICs (U,)."""
    group, bytes_U = query.group, query.bytes_U
    if exchanges(query.op):
        return ring_wire_bytes(query.op, query.size_LU[2], group.ranks_LU[2])
    nodes_U = group.ranks_LU[2]
    adds_U = _adds_inside(query) * (group.ranks_LU[0] > 1.0)
    node_U = between_nodes_wire_bytes(query.op, bytes_U, group.ranks_U, nodes_U, adds_U)
    if query.op == "all_reduce":  # in-network reduction: each node sends S and receives S
        once_U = np.where(nodes_U > 1.0, bytes_U, 0.0)
        node_U = np.where(query.links.fabric_adds_U > 0.0, np.minimum(node_U, once_U), node_U)
    shared_U: FloatArray = node_U / group.inside_LU[1]
    return shared_U

"""Collectives over PCIe: on the topology that the node states, otherwise on a typical machine.

Shape legend: U unique shapes, L levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.collectives.codes import EXCHANGES
from perfatlas.collectives.placement import DOMAIN, HOST_LINK, NODE
from perfatlas.collectives.wire import ring_wire_bytes
from perfatlas.files import shipped_table
from perfatlas.hardware import SWITCH_PATHS, UNKNOWN_ROUTE, ring_route
from perfatlas.operators import with_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.collectives.placement import Group, Links
    from perfatlas.collectives.query import CollectiveQuery, LevelTimes
    from perfatlas.hardware import Route, System
    from perfatlas.operators import FloatArray, IntArray

    BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

RINGS: Final = "data/collectives/pcie_rings.toml"
RING_OPS: Final = ("all_reduce", "all_gather", "reduce_scatter")
MIN_PUBLISHED_RINGS: Final = (
    3  # published rings below which the interval spans those of other paths too
)
SAME_SIZE_OCTAVES: Final = 0.5  # octaves of GPUs
PAIR: Final = 2.0  # ranks whose path is one pair of links on every machine
NOTE: Final = (
    "groups of more than two GPUs over PCIe are priced on a typical machine: the median of"
    " published {rings} and the calibrated one; the interval spans them all"
    " (data/collectives/pcie_rings.toml); node.topology states a topology, where such are published"
)
PAIR_NOTE: Final = (
    "pairs of GPUs over PCIe are priced as on the machine of the table, whose topology is not"
    " published"
)

POSSIBLE_NOTE: Final = (
    f"{PAIR_NOTE}; the interval spans a pair with NVLink bridges too"
    " (data/collectives/pcie_rings.toml)"
)


class Rings(NamedTuple):
    """The rings that a group may run on."""

    # Shares of one direction of a GPU's link that published rings reach; their median is the price
    shares: tuple[float, ...]
    spanned: tuple[float, ...]  # Shares that the interval spans
    calibrated: bool  # Whether the machine of the calibration is one of them
    note: str  # What was assumed, "" for nothing


def published_rings(op: str = "all_reduce") -> tuple[Mapping[str, Any], ...]:
    """Return the published machines: GPUs of the group, share of the link, path, transport.

    Example:
        >>> from perfatlas.collectives.topology import published_rings
        >>> all(0.0 < ring["share"] < 1.0 for ring in published_rings())
        True
    """
    return tuple(shipped_table(RINGS)["exchange" if op in EXCHANGES else "machine"])


def with_pcie_rings(query: CollectiveQuery, inner: LevelTimes) -> LevelTimes:
    """Return the levels with groups over PCIe on the rings that they may run on.

    Latencies are those of the calibrated machine. Without a stated topology the rate of the
    calibrated machine is one draw among those of the published ones.

    Limits: Published groups have four and eight GPUs; each group size uses the nearest. Measured
        rows keep their time where no topology is stated. Exchanges of eight GPUs are copies of all
        pairs at once, not NCCL's.
    """
    pcie_S = np.array([system.device.scale_up.kind == "pcie" for system in query.systems])
    inside_U = pcie_S[query.index_U] & (query.group.ranks_LU[DOMAIN] > 1.0) & (inner.match_U >= 0)
    if query.op not in (*RING_OPS, *EXCHANGES) or not np.any(inside_U):
        return inner
    notes: dict[str, None] = {}
    ranks_U = query.group.ranks_LU[DOMAIN]
    for index in np.unique(query.index_U[inside_U]).tolist():
        of_system_U = inside_U & (query.index_U == index)
        for ranks in np.unique(ranks_U[of_system_U]).tolist():
            where_U = of_system_U & (ranks_U == ranks)
            rings = rings_of(query.systems[index], int(ranks), query.op)
            if rings.calibrated:
                where_U &= ~inner.measured_U
            if not np.any(where_U):
                continue
            notes[rings.note] = None
            if rings.spanned:
                inner = _on_rings(query, inner, rings, where_U)
    return with_fields(inner, notes=(*inner.notes, *notes))


def rings_of(system: System, ranks: int, op: str = "all_reduce") -> Rings:
    """Return the rings, or exchanges of all pairs, that a group of GPUs of a node may run on.

    Example:
        >>> from perfatlas.collectives.topology import rings_of
        >>> from perfatlas.hardware import resolve_system
        >>> rings_of(resolve_system("l40s{node.topology=two_sockets_8}"), 8).shares
        (0.44,)
    """
    route = ring_route(system.node.paths, ranks, system.node.peer_access)
    if bridge_rate(system, ranks):
        return _bridged(route)
    if route.path == "NV":  # this architecture has no bridges
        route = UNKNOWN_ROUTE
    published = published_rings(op)
    kind, rings = ("exchange", "exchanges") if op in EXCHANGES else ("ring", "rings")
    usual = [ring for ring in published if ring["usual"]]
    if ranks <= PAIR:
        over = bridge_rate(system, ranks, possible=True) / system.device.scale_up.bandwidth
        shares = shipped_table(RINGS)["bridge"]["shares"] if over else ()
        spanned = tuple(share * over for share in shares)
        return Rings((), spanned, calibrated=True, note=POSSIBLE_NOTE if over else PAIR_NOTE)
    if op in EXCHANGES:
        alike, what = _exchanges(route, usual, ranks)
    else:
        alike, what = _alike(route, published)
    if not alike or not (route.path or route.transport):
        typical = _nearest_size(usual, ranks)
        return Rings(typical, typical, calibrated=True, note=NOTE.format(rings=rings))
    shares = _nearest_size(alike, ranks)
    few = len(shares) < MIN_PUBLISHED_RINGS
    spanned = _nearest_size(published, ranks) if few else shares
    note = (
        f"the {kind} of {ranks} GPUs takes {route.path or 'unknown'} paths with {route.transport}:"
        f" priced at the median of published {rings} {what} ({len(shares)}); the interval spans"
        f" {f'all published {rings}' if few else 'them'} (data/collectives/pcie_rings.toml)"
    )
    return Rings(shares, spanned, calibrated=False, note=note)


def _exchanges(
    route: Route, published: Sequence[Mapping[str, Any]], ranks: int
) -> tuple[list[Mapping[str, Any]], str]:
    """Return published exchanges of a group's size, transport and sockets, if there are several.

    What four GPUs of a socket exchange says nothing of eight on two.
    """
    across = route.path == "SYS"
    exchanges = [
        exchange
        for exchange in published
        if exchange["transport"] == route.transport
        and (exchange["path"] == "SYS") == across
        and abs(float(np.log2(ranks / exchange["gpus"]))) <= SAME_SIZE_OCTAVES
    ]
    exchanges = exchanges if len(exchanges) > 1 else []
    return exchanges, f"with {route.transport} {'across sockets' if across else 'in one socket'}"


def _alike(
    route: Route, published: Sequence[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], str]:
    """Return the published machines nearest to a route, and what they have in common with it."""
    same = [ring for ring in published if ring["transport"] == route.transport]
    levels = {True: "behind switches", False: "across host bridges"}
    if not route.path:
        return same, f"with {route.transport}"
    if route.path == "SYS":
        level = [ring for ring in same if ring["path"] == "SYS"]
        return (level, "across sockets") if level else (same, f"with {route.transport}")
    switched = route.path in SWITCH_PATHS
    level = [
        ring
        for ring in same
        if ring["path"] not in ("", "SYS") and (ring["path"] in SWITCH_PATHS) == switched
    ]
    if level:
        return level, levels[switched]
    # switches alone were not published: rings with peer access in one socket are no faster
    one_socket = [ring for ring in same if ring["path"] not in ("", "SYS")]
    return one_socket or same, f"with {route.transport} in one socket"


def bridge_rate(system: System, ranks: int, *, possible: bool = False) -> float:
    """Return the rate of NVLink bridges between all GPUs of a group, 0 without [bytes/s].

    Args:
        possible: Whether pairs of cards with bridges have one where no topology is stated.
    """
    links = ring_route(system.node.paths, ranks, system.node.peer_access).links
    device, bridge = system.device, shipped_table(RINGS)["bridge"]
    card = bridge["cards"].get(device.name)
    if device.scale_up.kind != HOST_LINK:
        return 0.0
    if possible and card is not None and ranks == PAIR and not system.node.paths:
        links = card["links"]
    if card is not None:
        return float(min(links, card["links"]) * card["link_rate"])
    return float(links * bridge["link_rate"].get(device.architecture, 0.0))


def unstated_bridge(system: System, ranks: int) -> str:
    """Return a note on a pair of cards that a bridge may join, "" where none does or it is stated.

    Example:
        >>> from perfatlas.collectives.topology import unstated_bridge
        >>> from perfatlas.hardware import resolve_system
        >>> unstated_bridge(resolve_system("l40s"), 2)
        ''
    """
    rate = bridge_rate(system, ranks, possible=True) / 1e9
    if system.node.paths or not rate:
        return ""
    return (
        f"pairs of {system.device.name} are priced over PCIe, and the interval covers an NVLink"
        f" bridge of {rate:.4g} GB/s per direction; for that bridge, set"
        " node.topology = bridged_2, node.devices = 2 and device.scale_up.domain_size = 2"
    )


def with_bridges(
    links: Links,
    group: Group,
    systems: Sequence[System],
    index_U: IntArray,
    *,
    possible: bool = False,
) -> Links:
    """Return the links with those of NVLink bridges for groups that they join completely.

    Args:
        possible: Whether pairs have those that their cards allow where no topology is stated.
    """
    if not possible and not any(system.node.paths for system in systems):
        return links
    inside_U = (group.ranks_LU[NODE:] == 1.0).all(axis=0)
    groups = zip(index_U.tolist(), group.ranks_LU[DOMAIN].tolist(), strict=True)
    rate_U = np.array(
        [bridge_rate(systems[index], int(ranks), possible=possible) for index, ranks in groups]
    )
    joined_U = inside_U & (rate_U > 0.0)
    bandwidth_LU = links.bandwidth_LU.copy()
    bandwidth_LU[DOMAIN] = np.where(joined_U, rate_U, bandwidth_LU[DOMAIN])
    one_link_U = np.where(joined_U, 0.0, links.one_link_U)
    return links._replace(bandwidth_LU=bandwidth_LU, one_link_U=one_link_U)


def _bridged(route: Route) -> Rings:
    """Return the rings of a group whose GPUs are all joined by NVLink bridges."""
    shares = tuple(shipped_table(RINGS)["bridge"]["shares"])
    note = (
        f"GPUs joined by {route.links} NVLinks: the median of a published run and of NCCL's own"
        " constant; the interval spans both (data/collectives/pcie_rings.toml)"
    )
    return Rings(shares, shares, calibrated=False, note=note)


def _nearest_size(rings: Sequence[Mapping[str, Any]], ranks: int) -> tuple[float, ...]:
    """Return the shares of the rings whose number of GPUs is nearest, in octaves."""
    distance = [abs(float(np.log2(ranks / ring["gpus"]))) for ring in rings]
    near = min(distance, default=0.0)
    pairs = zip(rings, distance, strict=True)
    return tuple(float(ring["share"]) for ring, far in pairs if far == near)


def _on_rings(
    query: CollectiveQuery, inner: LevelTimes, rings: Rings, where_U: BoolArray
) -> LevelTimes:
    """Return the levels with the median rate of some rings, and an interval that spans them."""
    latency_U, own_s_U = inner.latency_s_LU[DOMAIN], inner.time_s_LU[DOMAIN]
    wire_U = ring_wire_bytes(query.op, query.size_LU[DOMAIN], query.group.ranks_LU[DOMAIN])
    wire_s_U = wire_U / query.links.bandwidth_LU[DOMAIN]
    moving_U = np.maximum(own_s_U - latency_U, np.finfo(np.float64).tiny)
    own_U = np.divide(wire_s_U, moving_U, out=np.ones_like(wire_s_U), where=where_U)
    drawn = [np.full_like(wire_s_U, share) for share in rings.shares]
    drawn += [own_U] if rings.calibrated else []
    typical_U = np.median(np.stack(drawn), axis=0)
    wide_DU = np.stack([*drawn, *(np.full_like(wire_s_U, share) for share in rings.spanned)])
    time_U = latency_U + wire_s_U / typical_U
    fast_U = _log_ratio(latency_U + wire_s_U / wide_DU.max(axis=0), time_U, where_U)
    slow_U = _log_ratio(latency_U + wire_s_U / wide_DU.min(axis=0), time_U, where_U)
    low_U, high_U = inner.tails_U2.T
    tails_U2 = np.column_stack((np.minimum(low_U, fast_U), high_U + np.maximum(slow_U, 0.0)))
    return with_fields(
        inner,
        time_s_LU=np.stack((np.where(where_U, time_U, own_s_U), *inner.time_s_LU[NODE:])),
        tails_U2=np.where(where_U[:, None], tails_U2, inner.tails_U2),
        measured_U=inner.measured_U & ~where_U,
    )


def _log_ratio(above_U: FloatArray, below_U: FloatArray, where_U: BoolArray) -> FloatArray:
    """Return the logarithm of a ratio where it is used, 0 elsewhere (U,)."""
    ratio_U = np.divide(above_U, below_U, out=np.ones_like(above_U), where=where_U)
    log_U: FloatArray = np.log(ratio_U)
    return log_U

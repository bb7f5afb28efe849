"""Price collectives in any tier: time, bound and evidence for sizes and groups.

Shape legend: U unique shapes, S distinct systems, L levels, P parameters, D shape columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from perfatlas.collectives import direct_links, placement
from perfatlas.collectives.codes import EXCHANGES, check_op
from perfatlas.collectives.fabric import uplink_slowdown
from perfatlas.collectives.levels import level_times
from perfatlas.collectives.query import CollectiveQuery, LevelTimes
from perfatlas.collectives.topology import with_bridges
from perfatlas.collectives.wire import least_wire_bytes, ring_wire_bytes
from perfatlas.measurements.calibrations import EFFICIENCY_LINKS, find_schedules
from perfatlas.operators import BOUND_LATENCY, BOUND_NETWORK, with_fields
from perfatlas.pricing import COMMUNICATION, PricedOperators, choose, merge, of_one_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray, IntArray

ROOFLINE_ALGORITHM: Final = "least_bytes"
Tier = Literal["auto", "bound", "physics", "measured"]


@dataclass(frozen=True, kw_only=True)
class CollectiveShapes:
    """A collective operation at many sizes and groups."""

    op: str  # all_reduce, all_gather, reduce_scatter, all_to_all, dispatch, combine or send_recv
    bytes: FloatArray  # Size as counted by nccl-tests (U,) [bytes]
    ranks: FloatArray  # Size of the group (U,)
    stride: FloatArray  # Distance between neighbours in the global rank order (U,)
    format_name: str = "bf16"  # Number format of the elements; used only by reductions
    # Slowdown by flows that share links between nodes, or of a torus (U,); None for closed forms
    slowdown: FloatArray | None = None
    # Of the fullest link of a torus by such flows, 0 for other links (U,) [s]; None likewise
    least_s: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """The collective implementation, and the tables that correct it in tier measured."""

    # Engine whose all-reduce is used, "" for the fastest of all, including the library
    family: str = ""
    # Kernel family -> group sizes inside a domain that its custom all-reduce supports; the
    # calibration holds the buffer size above which the library is used. If empty, all all-reduces
    # use the library.
    custom_groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # The same between GPUs without NVLink; None if it makes no difference
    pcie_groups: Mapping[str, tuple[int, ...]] | None = None
    # Engine version whose tables tier measured reads; "" for those that the calibrations were
    # fitted on
    silicon_version: str = ""

    def over_pcie(self, family: str) -> tuple[int, ...]:
        """Return the group sizes of a family's custom all-reduce between GPUs without NVLink."""
        groups = self.custom_groups if self.pcie_groups is None else self.pcie_groups
        return groups.get(family, ())


LIBRARY_ALONE: Final = Implementation()


@dataclass(frozen=True, kw_only=True)
class PricedCollectives:
    """Cost of one execution of a collective at many shapes."""

    prices: PricedOperators  # Prices, with each shape as a candidate (U, 1)
    # Returns the name of the fastest algorithm of each shape (U,)
    algorithms: Callable[[], NDArray[np.str_]]

    @property
    def algorithm_U(self) -> NDArray[np.str_]:  # noqa: N802 - shape
        """Name of the fastest algorithm (U,)."""
        return self.algorithms()


def price_collectives(
    shapes: CollectiveShapes,
    *,
    systems: Sequence[System],
    system_index_U: IntArray,
    tier: Tier,
    implementation: Implementation = LIBRARY_ALONE,
) -> PricedCollectives:
    """Return the prices of a collective on the system of each shape.

    Args:
        shapes: The operation at many sizes and groups (U,); groups of one rank take no time.
        system_index_U: Position in `systems` of each shape (U,).
        tier: "bound"; "physics" or "auto": physics where the device (or its nearest relative) was
            measured, otherwise bound (see `match_CO`); "measured": inside a domain, physics
            corrected by the residuals at the nearest measured sizes, where there are any (see
            `measured_CO`).

    Returns:
        Times, bounds, intervals and evidence.

    Raises:
        UsageError: There is no such operation.
        MissingDependencyError: Tier measured is used without the measured tables.

    Limits:
        The network carries only the groups of the same plan, which start together.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives import CollectiveShapes, price_collectives
        >>> from perfatlas.hardware import resolve_system
        >>> size, ranks, stride = np.array([2.0**29]), np.array([8.0]), np.array([1.0])
        >>> priced = price_collectives(
        ...     CollectiveShapes(op="all_reduce", bytes=size, ranks=ranks, stride=stride),
        ...     systems=[resolve_system("h200_sxm")],
        ...     system_index_U=np.array([0]),
        ...     tier="bound",
        ... )
        >>> round(float(priced.prices.bound_s_CO[0, 0]) * 1e3, 3)
        1.342
    """
    check_op(shapes.op)
    direct_S = np.array([direct_links.direct_algorithm(system) for system in systems])
    if len(set(direct_S)) > 1:
        direct_U = direct_S[system_index_U]
        parts = []
        for direct in np.unique(direct_U):  # links with a library, and each other type
            some_X = np.flatnonzero(direct_U == direct)
            used, index_X = np.unique(system_index_U[some_X], return_inverse=True)
            columns = {name: getattr(shapes, name)[some_X] for name in ("bytes", "ranks", "stride")}
            if shapes.slowdown is not None and shapes.least_s is not None:
                columns["slowdown"] = shapes.slowdown[some_X]
                columns["least_s"] = shapes.least_s[some_X]
            priced = price_collectives(
                with_fields(shapes, **columns),
                systems=[systems[index] for index in used.tolist()],
                system_index_U=index_X,
                tier=tier,
                implementation=implementation,
            )
            parts.append((some_X, priced))
        return _merged(parts)
    shapes = with_fields(shapes, ranks=np.maximum(shapes.ranks, 1.0))
    group, links = _placed(shapes, systems, system_index_U)
    fastest = with_bridges(links, group, systems, system_index_U, possible=True)
    bound = _bound(shapes, group, fastest)
    if shapes.op in EXCHANGES and set(direct_S) == {direct_links.TORUS}:
        halves_U = direct_links.exchange_least_s(
            shapes.bytes, group, (systems, system_index_U, shapes.stride)
        )
        bound = bound._replace(time_s_U=np.maximum(bound.time_s_U, halves_U))
    if tier == "bound":
        return PricedCollectives(
            prices=_at_bound(bound),
            algorithms=lambda: np.full(bound.time_s_U.shape, ROOFLINE_ALGORITHM),
        )
    if any(direct_S):
        (algorithm,) = set(direct_S.tolist())
        return _direct(algorithm, shapes, bound, (group, links), (systems, system_index_U))
    question = CollectiveQuery(
        op=shapes.op,
        bytes_U=shapes.bytes,
        size_LU=_on_one_link(shapes, group, links),
        group=group,
        links=links,
        systems=systems,
        index_U=system_index_U,
        family=implementation.family,
        custom_groups=implementation.custom_groups.get(implementation.family, ()),
        pcie_groups=implementation.over_pcie(implementation.family),
        format_name=shapes.format_name,
        version=implementation.silicon_version if tier == "measured" else None,
        slowdown_U=shapes.slowdown,
    )
    # Without an engine, kernels reduce groups of any size: what engines refuse was not compiled.
    sizes = tuple(sorted({int(size) for size in group.ranks_LU[placement.DOMAIN].tolist()}))
    engines = [
        with_fields(
            question,
            family=name,
            custom_groups=sizes,
            pcie_groups=implementation.over_pcie(name),
        )
        for name in implementation.custom_groups
    ]
    if question.family or not engines or shapes.op != "all_reduce":
        return _compose(shapes, bound, level_times(question))
    return _fastest(
        [_compose(shapes, bound, level_times(engine)) for engine in (question, *engines)]
    )


def one_hop_s(
    shapes: CollectiveShapes, systems: Sequence[System], system_index_U: IntArray
) -> FloatArray:
    """Return one hop of the links of collectives, a lower limit on their times (U,) [s].

    Args:
        shapes: Sizes and groups (U).
        systems: Distinct systems.
        system_index_U: Position in `systems` (U,).
    """
    shapes = with_fields(shapes, ranks=np.maximum(shapes.ranks, 1.0))
    return _hop_s(*_placed(shapes, systems, system_index_U))


def _placed(
    shapes: CollectiveShapes, systems: Sequence[System], system_index_U: IntArray
) -> tuple[placement.Group, placement.Links]:
    """Return the placement of collectives, and the links of their groups."""
    links = placement.link_columns(systems, system_index_U)
    group = placement.talking_group(
        shapes.op, placement.place_group(shapes.ranks, shapes.stride, links)
    )
    return group, with_bridges(placement.within_group(links, group), group, systems, system_index_U)


def _merged(parts: Sequence[tuple[IntArray, PricedCollectives]]) -> PricedCollectives:
    """Return the prices of all shapes, from those on each type of links."""
    prices = merge([priced.prices for _, priced in parts], [some_X for some_X, _ in parts])

    def algorithms() -> NDArray[np.str_]:
        named_U = np.concatenate([priced.algorithm_U for _, priced in parts])
        return named_U[np.argsort(np.concatenate([some_X for some_X, _ in parts]))]

    return PricedCollectives(prices=prices, algorithms=algorithms)


def _fastest(priced: Sequence[PricedCollectives]) -> PricedCollectives:
    """Return the fastest implementation for each shape, of equally fast ones the lowest low end."""
    records = [p.prices for p in priced]
    time_FU1 = np.stack([p.time_s_CO for p in records])
    low_FU1 = np.stack([p.low_s_CO for p in records])
    chosen_U1 = np.argmin(np.where(time_FU1 == time_FU1.min(axis=0), low_FU1, np.inf), axis=0)

    def algorithms() -> NDArray[np.str_]:
        named_FU = np.stack([p.algorithm_U for p in priced])
        (named_U,) = np.take_along_axis(named_FU, chosen_U1.T, axis=0)
        return named_U  # type: ignore[no-any-return] # as unpacked

    return PricedCollectives(prices=choose(records, chosen_U1), algorithms=algorithms)


class _Bound(NamedTuple):
    """Lower bound on the time of a collective, and the bytes it is based on."""

    time_s_U: FloatArray  # Lower bound (U,) [s]
    # Minimum bytes one rank sends, over the links of all levels (U,) [bytes]
    link_bytes_U: FloatArray
    hop_s_U: FloatArray  # One hop of the slowest level, which no message undercuts (U,) [s]


def _bound(shapes: CollectiveShapes, group: placement.Group, links: placement.Links) -> _Bound:
    """Return the lower bound: minimum bytes over full bandwidth, all links in parallel."""
    size_LU = placement.level_bytes(shapes.op, shapes.bytes, group)
    none_U = np.zeros_like(shapes.bytes)
    helped_LU = (links.in_network_U, none_U, none_U)
    least_LU = [
        least_wire_bytes(shapes.op, size_U, ranks_U, helped_U)
        for size_U, ranks_U, helped_U in zip(size_LU, group.ranks_LU, helped_LU, strict=True)
    ]
    if shapes.op == "all_reduce":  # in-network reduction: each node sends S and receives S
        once_U = np.minimum(least_LU[placement.FABRIC], size_LU[placement.FABRIC])
        least_LU[placement.FABRIC] = np.where(
            links.fabric_adds_U > 0.0, once_U, least_LU[placement.FABRIC]
        )
    times = [each_U / rate_U for each_U, rate_U in zip(least_LU, links.bandwidth_LU, strict=True)]
    if shapes.op in EXCHANGES:  # what leaves a leaf or pod has no other way
        times[placement.FABRIC] *= uplink_slowdown(shapes.op, group, links)
    times.append(_host_link_bytes(shapes, links) / links.bandwidth_LU[placement.NODE])
    times.append(none_U if shapes.least_s is None else shapes.least_s)
    return _Bound(np.max(np.stack(times), axis=0), np.sum(least_LU, axis=0), _hop_s(group, links))


def _hop_s(group: placement.Group, links: placement.Links) -> FloatArray:
    """Return one hop of the slowest level on which a group talks (U,) [s]."""
    hop_U: FloatArray = np.where(group.ranks_LU > 1.0, links.latency_s_LU, 0.0).max(axis=0)
    return hop_U


def _on_one_link(
    shapes: CollectiveShapes, group: placement.Group, links: placement.Links
) -> FloatArray:
    """Return the size on each level, enlarged inside a node where levels share a link.

    There, a rank sends bytes for other nodes and for its own node over the same link, so the size
    of the inner level covers both. A ring of domains of a node crosses the host link with the bytes
    of the whole ring. Returns (L, U) [bytes].
    """
    size_LU = placement.level_bytes(shapes.op, shapes.bytes, group).copy()
    whole_U = _host_link_bytes(shapes, links)
    for level in (placement.DOMAIN, placement.NODE):
        wire_U = ring_wire_bytes(shapes.op, size_LU[level], group.ranks_LU[level])
        more_U = whole_U / np.where(wire_U > 0.0, wire_U, np.inf)
        size_LU[level] *= np.maximum(more_U, 1.0)
    if shapes.op not in (*EXCHANGES, "send_recv"):
        ranks_U, inside_U = group.ranks_LU[placement.NODE], group.inside_LU[placement.NODE]
        crosses_U = (ranks_U > 1.0) & (group.ranks_LU[placement.DOMAIN] > 1.0)
        ring_U = ring_wire_bytes(shapes.op, shapes.bytes, inside_U)
        own_U = ring_wire_bytes(shapes.op, np.ones_like(ranks_U), np.maximum(ranks_U, 2.0))
        whole_U = np.maximum(size_LU[placement.NODE], ring_U / own_U)
        size_LU[placement.NODE] = np.where(crosses_U, whole_U, size_LU[placement.NODE])
    return size_LU


def _host_link_bytes(shapes: CollectiveShapes, links: placement.Links) -> FloatArray:
    """Return the bytes of one rank on a link shared by all levels, 0 without one (U,).

    They are those of the whole group for any placement; with in-network reduction in the fabric,
    the buffer may be sent once.
    """
    whole_U = ring_wire_bytes(shapes.op, shapes.bytes, shapes.ranks)
    if shapes.op == "all_reduce":
        adds_U = links.fabric_adds_U > 0.0
        whole_U = np.where(adds_U, np.minimum(whole_U, shapes.bytes), whole_U)
    return links.one_link_U * whole_U


def _direct(
    algorithm: str,
    shapes: CollectiveShapes,
    bound: _Bound,
    placed: tuple[placement.Group, placement.Links],
    on: tuple[Sequence[System], IntArray],
) -> PricedCollectives:
    """Return the prices of exchanges over direct links, with the errors of whole steps.

    Levels add. Calibrations may state the speed of links over their closed forms.
    """
    systems, system_index_U = on
    sizes = (shapes.op, shapes.bytes, *placed)
    levels = (
        direct_links.torus_levels(*sizes, (systems, system_index_U, shapes.stride))
        if algorithm == direct_links.TORUS
        else direct_links.scheduled_levels(*sizes)
    )
    matches, match_S, tails_S2 = find_schedules([system.device for system in systems])
    speeds = [
        calibration_match.calibration.parameters.get(EFFICIENCY_LINKS, 1.0)
        for calibration_match in matches
    ]
    speed_U = np.array([*speeds, 1.0])[match_S[system_index_U]]  # the last without a calibration
    latency_U, moving_U = (each_LU.sum(axis=0) / speed_U for each_LU in levels)
    moving_U = moving_U if shapes.slowdown is None else moving_U * shapes.slowdown
    time_U = np.maximum(latency_U + moving_U, bound.time_s_U)
    low_U, high_U = time_U * np.exp(tails_S2[system_index_U]).T
    low_U = np.where(match_S[system_index_U] < 0, 0.0, low_U)  # an assumed latency is no limit
    prices = with_fields(
        _at_bound(bound),
        time_s_CO=time_U[:, None],
        low_s_CO=np.minimum(np.maximum(low_U, bound.time_s_U), time_U)[:, None],
        high_s_CO=high_U[:, None],
        code_CO=np.where(latency_U > moving_U, BOUND_LATENCY, BOUND_NETWORK).astype(np.int8)[
            :, None
        ],
        match_CO=match_S[system_index_U][:, None],
        matches=matches,
    )
    return PricedCollectives(prices=prices, algorithms=lambda: np.full(time_U.shape, algorithm))


def _at_bound(bound: _Bound) -> PricedOperators:
    """Return the tier-bound prices of a collective (U, 1)."""
    bound_U = bound.time_s_U
    return of_one_operator(
        PricedOperators,
        bound_U.size,
        time_s_CO=bound_U,
        low_s_CO=bound_U,
        high_s_CO=bound_U,
        bound_s_CO=bound_U,
        code_CO=np.full(bound_U.shape, BOUND_NETWORK, np.int8),
        link_bytes_CO=bound.link_bytes_U,
        stream_O=np.array([COMMUNICATION], np.int8),
    )


def _compose(shapes: CollectiveShapes, bound: _Bound, levels: LevelTimes) -> PricedCollectives:
    """Return the pipelined time of all levels: latencies add, the slowest sets the bandwidth."""
    bound_U = bound.time_s_U
    latency_U = levels.latency_s_LU.sum(axis=0)
    moving_U = np.max(levels.time_s_LU - levels.latency_s_LU, axis=0)
    known_U = (levels.match_U >= 0) & (shapes.ranks > 1.0)
    time_U = np.where(known_U, np.maximum(latency_U + moving_U, bound_U), bound_U)
    faster_U, slower_U = np.where(known_U, np.exp(levels.tails_U2.T), 1.0)
    least_U = np.where(known_U, np.maximum(bound.hop_s_U, levels.least_s_U), 0.0)
    least_U = np.maximum(bound_U, least_U)
    waits_U = known_U & (2.0 * latency_U > time_U)
    low_U = np.minimum(np.maximum(time_U * faster_U, least_U), time_U)
    prices = with_fields(
        _at_bound(bound),
        time_s_CO=time_U[:, None],
        low_s_CO=low_U[:, None],
        high_s_CO=np.maximum(time_U * slower_U, time_U)[:, None],
        code_CO=np.where(waits_U, BOUND_LATENCY, BOUND_NETWORK).astype(np.int8)[:, None],
        match_CO=levels.match_U[:, None],
        measured_CO=(levels.measured_U & known_U)[:, None],
        matches=levels.matches,
        notes=levels.notes,
    )
    return PricedCollectives(
        prices=prices, algorithms=lambda: np.where(known_U, levels.algorithms(), ROOFLINE_ALGORITHM)
    )

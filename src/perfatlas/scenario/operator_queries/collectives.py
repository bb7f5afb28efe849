"""Queries for one collective: reading, checks, prices of those that share all but sizes, remarks.

Shape legend: U queries, M calibrations, N rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import collectives, parallelism
from perfatlas.answer import (
    MEASURED_STANDING,
    ROUTES,
    collective_readers,
    other_vendors_note,
    price_columns,
    require_tier,
    require_vendor,
    unread_overrides,
)
from perfatlas.engines import all_reduce_groups
from perfatlas.hardware import is_pod, resolve_system, slice_of_pod
from perfatlas.quantities import InvalidSpecError, PerfatlasError, Rule, format_quantity
from perfatlas.scenario.fields import InputFields, number_columns
from perfatlas.scenario.resolution import format_of, kernel_engine
from perfatlas.vocabulary.fields import (
    CollectiveKernels,
    CollectiveRoutes,
    CollectiveShape,
    SystemChoice,
    TierChoice,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import System
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.quantities import Remark, Remarks
    from perfatlas.scenario.fields import BoolArray, Columns

COLLECTIVE_SIZES: Final = ("bytes", "gpus", "nodes")  # fields that are columns here
RESULTS: Final = (
    *("time_s", "time_s_low", "time_s_high", "tabulated_low_s", "tabulated_high_s"),
    *("bus_bandwidth_bytes_per_s", "algorithm", "bound", "bound_time_s", "tier"),
)

# Results of collectives whose flows have routes
CONGESTION: Final[Mapping[str, Callable[[collectives.Congestion], Any]]] = {
    "fabric_slowdown": lambda one: one.slowdown,
    "fabric_slowdown_alone": lambda one: one.alone,
    "fabric_slowdown_links_up": lambda one: one.links_up,
    "slowest_flow_bytes_per_s": lambda one: one.slowest_flow_bytes_per_s,
    "stall_s": lambda one: one.stall_s,
    "link_use": lambda one: [vars(use) for use in one.uses],
}
SINGLE_GPU: Final = "gpus = 1: one GPU exchanges no data, so the time is 0; set gpus to 2 or more"
NOT_NEAR: Final = "no measured rows near this size and ranks in one domain; tier physics is used"


def _gpus_per_node(c: Columns) -> FloatArray:
    """Return the GPUs per node of rows that state nodes, else NaN (N,)."""
    each_N: FloatArray = c.numbers("gpus") / c.numbers("nodes")
    return each_N


def _domain(name: str) -> float:
    """Return the GPUs of a scale-up domain; unknown systems are refused elsewhere."""
    try:
        return float(resolve_system(name).device.scale_up.domain_size)
    except PerfatlasError:
        return math.inf


def _beyond_domain(c: Columns) -> BoolArray:
    """Return the rows whose nodes would need larger scale-up domains (N,)."""
    named = c["system"]
    domain_N = np.array([_domain(name) if name else math.inf for name in named.values])
    beyond_N: BoolArray = _gpus_per_node(c) > domain_N[named.codes_N]
    return beyond_N


def _domain_message(c: Columns, row: int) -> str:
    fields = c.row(row)
    gpus, nodes, system = fields["gpus"], fields["nodes"], resolve_system(fields["system"])
    domain = system.device.scale_up.domain_size
    return (
        f"{gpus} gpus on {nodes} nodes are {gpus // nodes} per node; a scale-up domain of"
        f" {system.name} holds {domain}; use nodes = {-(-gpus // domain)} or more"
    )


# groups in reverse order: Python collects annotations from the last base on
class CollectiveInputs(
    InputFields, CollectiveKernels, CollectiveRoutes, TierChoice, CollectiveShape, SystemChoice
):
    """A collective between GPUs of one system."""

    rules = (
        Rule(
            lambda c: np.nan_to_num(c.numbers("gpus") % c.numbers("nodes")) > 0.0,
            "nodes = {nodes} must divide gpus = {gpus}",
        ),
        Rule(_beyond_domain, _domain_message),
    )


def spread(system: System, gpus: int, nodes: int | None) -> System:
    """Return a system whose scale-up domain is reduced to the GPUs per node.

    Servers of a rack that is one domain (GB300: 18 of 4 GPUs) share it; more GPUs per node than a
    server has mean racks.

    Args:
        gpus: Participating GPUs, a multiple of `nodes`.
        nodes: Number of nodes, None for the minimum.
    """
    scale_up, node = system.device.scale_up, system.node
    if nodes is not None and not is_pod(system) and gpus <= nodes * node.devices:
        nodes = math.ceil(nodes / max(scale_up.domain_size // node.devices, 1))
    if nodes is None or nodes == 1:
        return slice_of_pod(system, gpus)
    inside = math.ceil(gpus / nodes)
    nics = max(round(node.nics * inside / node.devices), 1)
    return replace(
        system,
        device=replace(system.device, scale_up=replace(scale_up, domain_size=inside)),
        node=replace(node, devices=inside, nics=nics),
    )


@dataclass(frozen=True, kw_only=True)
class PricedCollectiveQueries:
    """Queries that differ in `COLLECTIVE_SIZES` alone, priced as shapes of one collective."""

    inputs: Sequence[CollectiveInputs]  # The queries (U)
    systems: Sequence[System]  # Distinct ones, with a reduced domain if nodes are given
    index_U: IntArray  # Position of the system of each query (U,)
    nodes: FloatArray  # Stated nodes, NaN for the minimum (U,)
    shapes: collectives.CollectiveShapes  # Sizes and groups (U)
    found: collectives.PricedCollectives  # Prices and algorithms (U)
    hop_s_U: FloatArray  # One hop of their links (U,) [s]
    congestion: Sequence[collectives.Congestion] | None  # On links (U); None without routes
    algorithm: collectives.Algorithm | None  # Of the user's own

    def system(self, u: int) -> System:
        """Return the system of a query."""
        return self.systems[int(self.index_U[u])]

    def of_systems(self, fact: Callable[[System], object]) -> NDArray[Any]:
        """Return a fact of the system of each query (U,)."""
        return np.array([fact(system) for system in self.systems])[self.index_U]

    def match(self, u: int) -> CalibrationMatch | None:
        """Return the calibration of a query, None in tier bound."""
        position = int(self.found.prices.match_CO[u, 0])
        return self.found.prices.matches[position] if position >= 0 else None

    @property
    def calibrated(self) -> BoolArray:
        """Whether a calibration prices each query (U,)."""
        return self.found.prices.match_CO[:, 0] >= 0

    @property
    def predicted(self) -> bool:
        """Whether the queries are asked for more than rooflines."""
        return self.inputs[0].tier != "bound" and self.algorithm is None

    @cached_property
    def fewest_nodes(self) -> FloatArray:
        """The fewest nodes that hold the GPUs of each query (U,)."""
        nodes_U: FloatArray = np.ceil(self.shapes.ranks / self.of_systems(parallelism.node_gpus))
        return nodes_U

    @property
    def stated_nodes(self) -> FloatArray:
        """The nodes of each query, the fewest where none are stated (U,)."""
        return np.where(np.isnan(self.nodes), self.fewest_nodes, self.nodes)

    @cached_property
    def results(self) -> dict[str, list[Any]]:
        """Results of all queries by name, each (U)."""
        prices, shapes = self.found.prices, self.shapes
        bandwidth_U = collectives.bus_bandwidth(
            shapes.op, shapes.bytes, shapes.ranks, prices.time_s_CO[:, 0]
        )
        machine = price_columns(prices)
        # no machine delivers a message within less than a hop
        least_s_U = np.minimum(self.hop_s_U, machine["tabulated_low_s"])
        columns = {
            **machine,
            "time_s_low": np.maximum(machine["time_s_low"], least_s_U).tolist(),
            "bus_bandwidth_bytes_per_s": bandwidth_U.tolist(),
            "algorithm": self.found.algorithm_U.tolist(),
        }
        found = {name: columns[name] for name in RESULTS}
        if self.algorithm is not None:
            return found | self._of_algorithm(self.algorithm)
        if self.congestion is not None:
            stall_U = [one.stall_s or 0.0 for one in self.congestion]
            for name in RESULTS[:5]:  # times; the tabulated ones may be unknown
                pairs = zip(found[name], stall_U, strict=True)
                found[name] = [None if time is None else time + more for time, more in pairs]
            found["bus_bandwidth_bytes_per_s"] = collectives.bus_bandwidth(
                shapes.op, shapes.bytes, shapes.ranks, np.array(found["time_s"])
            ).tolist()
            for name, fact in CONGESTION.items():
                found[name] = [fact(one) for one in self.congestion]
        return found

    def _of_algorithm(self, algorithm: collectives.Algorithm) -> dict[str, list[Any]]:
        """Return the results of an algorithm of the user's own, at the full rate of links (U)."""
        for ranks in self.shapes.ranks:
            if int(ranks) != algorithm.ranks or self.shapes.op != algorithm.op:
                raise InvalidSpecError(
                    f"algorithm_file = {self.inputs[0].algorithm_file} is {algorithm.op} of"
                    f" {algorithm.ranks} ranks; set op and gpus to the same"
                )
        times = self.algorithm_times(algorithm, _traffic(self.inputs[0]))
        time_U = np.array([one.time_s for one in times])
        bandwidth_U = collectives.bus_bandwidth(
            self.shapes.op, self.shapes.bytes, self.shapes.ranks, time_U
        )
        return {
            **dict.fromkeys(RESULTS[:5], time_U.tolist()),
            "bus_bandwidth_bytes_per_s": bandwidth_U.tolist(),
            "algorithm": [algorithm.name] * len(times),
            "slowest_flow_bytes_per_s": [one.slowest_bytes_per_s for one in times],
        }

    def algorithm_times(
        self, algorithm: collectives.Algorithm, traffic: collectives.Traffic
    ) -> list[collectives.AlgorithmTime]:
        """Return the times of an algorithm of the user's own (U)."""
        return [
            collectives.algorithm_time(algorithm, self.system(u), float(size), traffic)
            for u, size in enumerate(self.shapes.bytes)
        ]


def price_collective_queries(inputs: Sequence[CollectiveInputs]) -> PricedCollectiveQueries:
    """Return the prices of queries that differ in `COLLECTIVE_SIZES` alone.

    Args:
        inputs: The queries (U).

    Raises:
        InvalidSpecError: The system or engine is unknown, or a node would need more GPUs than a
            scale-up domain holds.
        UnsupportedError: The format is unknown, or there is no data for the tier.
    """
    first, named = inputs[0], resolve_system(inputs[0].system)
    sized = is_pod(named)
    placed = [
        (collective_inputs.gpus if collective_inputs.nodes or sized else 0, collective_inputs.nodes)
        for collective_inputs in inputs
    ]
    places = list(dict.fromkeys(placed))
    systems = [spread(named, gpus, nodes) for gpus, nodes in places]
    index_U = np.array([places.index(pair) for pair in placed])
    implementation = _implementation(first, named)
    algorithm = collectives.read_algorithm(first.algorithm_file) if first.algorithm_file else None
    tier = first.tier if algorithm is None else "bound"
    require_tier(named, tier, implementation.family, implementation.silicon_version or None)
    size = number_columns(inputs, COLLECTIVE_SIZES)
    congestion = _congestion(first, [systems[index] for index in index_U], size["gpus"])
    shapes = collectives.CollectiveShapes(
        op=first.op,
        bytes=size["bytes"],
        ranks=size["gpus"],
        stride=np.ones(len(inputs)),
        format_name=format_of(first.format).name,
        slowdown=np.array([one.slowdown for one in congestion]) if congestion else None,
        least_s=(
            size["bytes"] * np.array([one.least_s_per_byte for one in congestion])
            if congestion
            else None
        ),
    )
    found = collectives.price_collectives(
        shapes,
        systems=systems,
        system_index_U=index_U,
        tier=tier,
        implementation=implementation,
    )
    return PricedCollectiveQueries(
        inputs=inputs,
        systems=systems,
        index_U=index_U,
        nodes=size["nodes"],
        shapes=shapes,
        found=found,
        hop_s_U=collectives.one_hop_s(shapes, systems, index_U),
        congestion=congestion,
        algorithm=algorithm,
    )


def _traffic(inputs: CollectiveInputs) -> collectives.Traffic:
    """Return how flows are routed, and what else is on their links."""
    return collectives.Traffic(
        routing=str(inputs.fabric_routing),
        queue_pairs=inputs.queue_pairs,
        jobs=inputs.concurrent_jobs,
        scattered=inputs.job_placement == "scattered",
        failed_links=inputs.failed_links,
        flapping=inputs.link_failure == "flapping",
        seed=inputs.seed,
    )


def _congestion(
    inputs: CollectiveInputs, systems: Sequence[System], gpus_U: FloatArray
) -> list[collectives.Congestion] | None:
    """Return the congestion of queries on systems of their own (U), None without routes."""
    if inputs.fabric_routing is None or inputs.algorithm_file is not None:
        return None
    traffic = _traffic(inputs)
    known: dict[tuple[int, float], collectives.Congestion] = {}
    pairs = list(zip(systems, gpus_U.tolist(), strict=True))
    for system, gpus in pairs:
        if (id(system), gpus) not in known:
            known[id(system), gpus] = collectives.congestion(system, inputs.op, int(gpus), traffic)
    return [known[id(system), gpus] for system, gpus in pairs]


def _implementation(inputs: CollectiveInputs, system: System) -> collectives.Implementation:
    """Return the collective implementation."""
    if inputs.kernel_family == collectives.LIBRARY_FAMILY:
        return collectives.Implementation()
    engine = kernel_engine(inputs.kernel_family)
    require_vendor(system, engine, "kernel_family")
    return collectives.Implementation(
        family=engine.kernel_family,
        custom_groups=all_reduce_groups(engine),
        pcie_groups=all_reduce_groups(engine, pcie=True),
        silicon_version=inputs.silicon_version or "",
    )


def _foreign_kernels(q: PricedCollectiveQueries) -> Remarks:
    foreign = [match.foreign_device for match in q.found.prices.matches]
    foreign_U = np.array([*foreign, ""])[q.found.prices.match_CO[:, 0]]
    return foreign_U != "", lambda u: other_vendors_note([foreign_U[u]])


def _unread_overrides(q: PricedCollectiveQueries) -> Remarks:
    if not any(system.overridden for system in q.systems):
        return False, ""
    routed = () if q.inputs[0].fabric_routing is None else (ROUTES,)
    unread = [
        unread_overrides(system, {*collective_readers(system, gpus), *routed})
        for system, gpus in zip(map(q.system, range(len(q.inputs))), q.shapes.ranks, strict=True)
    ]
    return np.array([bool(texts) for texts in unread]), unread.__getitem__


def _reduced_by_library(q: PricedCollectiveQueries) -> Remarks:
    """Return small all-reduces that no faster kernel of an engine supports."""
    first, algorithm_U = q.inputs[0], q.found.algorithm_U
    engine = first.kernel_family or "an engine"
    by_library_U = np.isin(algorithm_U, collectives.LIBRARY_ALGORITHMS) & (q.fewest_nodes == 1.0)
    small_U = by_library_U & (np.array(q.results["bound"]) == "latency")
    has_faster = first.op == "all_reduce" and engine != collectives.LIBRARY_FAMILY
    return (
        small_U & has_faster & q.predicted,
        lambda u: (
            f"small buffers of {q.shapes.ranks[u]:.0f} GPUs of {first.system} are reduced by NCCL"
            f" ({algorithm_U[u]}): faster kernels of {engine} do not support this number of GPUs or"
            " were not measured on it"
        ),
    )


def _unseen_fabric(q: PricedCollectiveQueries) -> Remarks:
    notes_U = q.of_systems(collectives.unseen_fabric)
    return (notes_U != "") & (q.stated_nodes > 1.0) & q.predicted, notes_U.__getitem__


def _leaves_domain(q: PricedCollectiveQueries) -> Remarks:
    """Return collectives that leave a scale-up domain inside a node."""
    domain_U = q.of_systems(lambda system: system.device.scale_up.domain_size)
    leaves_U = q.shapes.ranks > domain_U * np.nan_to_num(q.nodes, nan=1.0)
    smaller_U = domain_U < q.of_systems(lambda system: system.node.devices)
    return smaller_U & leaves_U & q.predicted, collectives.NODE_NOTE


def _unstated_bridge(q: PricedCollectiveQueries) -> Remarks:
    notes_U = q.of_systems(
        lambda system: collectives.unstated_bridge(system, int(collectives.PAIR))
    )
    pairs_U = np.ceil(q.shapes.ranks / q.stated_nodes) == collectives.PAIR
    return (notes_U != "") & pairs_U & q.predicted, notes_U.__getitem__


def _many_nodes(q: PricedCollectiveQueries) -> Remarks:
    most = collectives.NODES_MEASURED
    return (
        (q.fewest_nodes > most) & q.predicted,
        lambda u: (
            f"{q.fewest_nodes[u]:,.0f} nodes: collectives between nodes were measured on at most"
            f" {most:.0f}; {q.found.algorithm_U[u]} is extrapolated"
            f"{'' if q.congestion else ' without congestion'}, and the upper end of the interval"
            " grows with each doubling of the nodes"
        ),
    )


def _links_down(q: PricedCollectiveQueries, algorithm: collectives.Algorithm) -> Remarks:
    """Return what links that are down cost an algorithm of the user's own."""
    failed = q.inputs[0].failed_links
    if not failed:
        return False, ""
    traffic = replace(_traffic(q.inputs[0]), failed_links=0)
    up_U = [one.time_s for one in q.algorithm_times(algorithm, traffic)]

    def message(u: int) -> str:
        slower = q.results["time_s"][u] / up_U[u]
        if slower > 1.0:
            return (
                f"failed_links = {failed} slows {algorithm.name} down by {slower - 1.0:.1%}: with"
                f" all links up it takes {format_quantity(up_U[u], 's')}"
            )
        return (
            f"failed_links = {failed} has no effect: no send of {algorithm.name} waits for the"
            " links that are left; ask for more failed_links, or another seed"
        )

    return True, message


def _unused_links(q: PricedCollectiveQueries) -> Remarks:
    """Return collectives without flows between nodes, or without any on links that fail."""
    if q.algorithm is not None:
        return _links_down(q, q.algorithm)
    congestion, failed = q.congestion or (), q.inputs[0].failed_links
    idle_U = [all(use.tier in collectives.NIC_TIERS for use in one.uses) for one in congestion]
    none_U = np.array([one.slowest_flow_bytes_per_s is None for one in congestion] or False)
    effects = "fabric_routing and failed_links have" if failed else "fabric_routing has"
    within = (
        f"all GPUs share a scale-up domain: no link between nodes is used, and {effects} no effect"
    )
    beside = (
        f"failed_links = {failed} has no effect: no flow leaves its leaf switch for an uplink; ask"
        " for more gpus, or set fabric.leaf_nodes"
    )
    idle = np.array(idle_U or False) & (failed > 0)
    return none_U | idle, lambda u: within if none_U[u] else beside


COLLECTIVE_WARNINGS: Final[tuple[Remark, ...]] = (
    _foreign_kernels,
    lambda q: (q.shapes.ranks == 1.0, SINGLE_GPU),
    *(_unread_overrides, _reduced_by_library, _unseen_fabric, _leaves_domain, _unstated_bridge),
    *(_many_nodes, _unused_links),
    lambda q: (
        np.array(False if q.predicted or q.shapes.least_s is None else q.shapes.least_s == 0.0),
        "in tier bound, shared links do not slow the time down",
    ),
)


def _unread_format(q: PricedCollectiveQueries) -> Remarks:
    name, cell = q.shapes.format_name, collectives.cell_format(q.inputs[0].op, q.shapes.format_name)
    other_U = np.where(q.calibrated, name not in ("bf16", cell), name != "bf16")
    priced, unread = f"is priced as {cell}", "has no effect in tier bound"
    return other_U, lambda u: f"format = {name} {priced if q.calibrated[u] else unread}"


def _unread_kernels(q: PricedCollectiveQueries) -> Remarks:
    family = q.inputs[0].kernel_family
    return ~q.calibrated & (family is not None), (
        f"kernel_family = {family} has no effect in tier bound"
    )


def _far_from_tables(q: PricedCollectiveQueries) -> Remarks:
    has_table = [*(bool(match.table[0]) for match in q.found.prices.matches), False]
    by_physics_U = np.array(q.results["tier"]) == "physics"
    tables_U = np.array(has_table)[q.found.prices.match_CO[:, 0]]
    return by_physics_U & tables_U & (q.inputs[0].tier == "measured"), NOT_NEAR


def _lost_packets(q: PricedCollectiveQueries) -> Remarks:
    waits_U = [bool(one.stall_s) for one in q.congestion or ()]
    return np.array(waits_U or False), lambda _: collectives.timeout_note()


FLOWS_NOTE: Final = (
    "flows between nodes are those of rings ordered by node, for trees and reductions in switches"
    " too, or of exchanges of all pairs; those of a job have the rate of its slowest"
)
COLLECTIVE_ASSUMPTIONS: Final[tuple[Remark, ...]] = (
    lambda q: (True, q.found.prices.notes),
    lambda q: (q.congestion is not None, FLOWS_NOTE),
    _lost_packets,
    _unread_kernels,
    _unread_format,
    lambda q: (q.inputs[0].tier == "measured", MEASURED_STANDING),
    _far_from_tables,
)

"""Queries for one collective: reading, checks, and prices of those that share all but sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import collectives
from perfatlas.answer import price_columns, require_tier, require_vendor
from perfatlas.engines import all_reduce_groups
from perfatlas.hardware import is_pod, resolve_system, slice_of_pod
from perfatlas.quantities import PerfatlasError, Rule
from perfatlas.scenario.fields import InputFields, number_columns
from perfatlas.scenario.resolution import format_of, kernel_engine
from perfatlas.vocabulary.fields import (
    CollectiveKernels,
    CollectiveShape,
    SystemChoice,
    TierChoice,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import BoolArray, Columns

COLLECTIVE_SIZES: Final = ("bytes", "gpus", "nodes")  # fields that are columns here
RESULTS: Final = (
    *("time_s", "time_s_low", "time_s_high", "tabulated_low_s", "tabulated_high_s"),
    *("bus_bandwidth_bytes_per_s", "algorithm", "bound", "bound_time_s", "tier"),
)


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
class CollectiveInputs(InputFields, CollectiveKernels, TierChoice, CollectiveShape, SystemChoice):
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

    Args:
        gpus: Participating GPUs, a multiple of `nodes`.
        nodes: Number of nodes, None for the minimum.
    """
    if nodes is None:
        return slice_of_pod(system, gpus)
    if nodes == 1:
        return slice_of_pod(system, gpus)
    inside, scale_up, node = gpus // nodes, system.device.scale_up, system.node
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
    # The system of each query, with a reduced domain if nodes are given (U)
    systems: Sequence[System]
    shapes: collectives.CollectiveShapes  # Sizes and groups (U)
    found: collectives.PricedCollectives  # Prices and algorithms (U)
    hop_s_U: FloatArray  # One hop of their links (U,) [s]

    def results(self) -> dict[str, list[Any]]:
        """Return the results of all queries by name, each (U)."""
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
        return {name: columns[name] for name in RESULTS}


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
    require_tier(named, first.tier, implementation.family, implementation.silicon_version or None)
    size = number_columns(inputs, COLLECTIVE_SIZES)
    shapes = collectives.CollectiveShapes(
        op=first.op,
        bytes=size["bytes"],
        ranks=size["gpus"],
        stride=np.ones(len(inputs)),
        format_name=format_of(first.format).name,
    )
    found = collectives.price_collectives(
        shapes,
        systems=systems,
        system_index_U=index_U,
        tier=first.tier,
        implementation=implementation,
    )
    return PricedCollectiveQueries(
        inputs=inputs,
        systems=[systems[place] for place in index_U],
        shapes=shapes,
        found=found,
        hop_s_U=collectives.one_hop_s(shapes, systems, index_U),
    )


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

"""The cluster of a schedule: nodes and their domains, as set, of a fleet, or of a system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.fleet.model import failure_domains, resolve_fleet
from perfatlas.reliability.jobs.model import Cluster

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import FailureDomains
    from perfatlas.scenario.cluster_schedules.schedule_fields import ScheduleFields

GPUS_PER_NODE: Final = 8


class Topology(NamedTuple):
    """Domains of the nodes of a cluster."""

    nodes_per_domain: int | None  # Nodes per domain; None for none
    nodes_per_leaf: int | None  # Nodes per leaf switch; None for none
    notes: tuple[str, ...]  # What was derived from the system


def cluster_of(inputs: ScheduleFields) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster, and its topology as text."""
    nodes, gpus = inputs.nodes, inputs.gpus_per_node
    tree = None if inputs.system is None else failure_domains(resolve_system(inputs.system))
    if inputs.fleet is not None:
        fleet = resolve_fleet(inputs.fleet)
        nodes = fleet.units if nodes is None else nodes
        if gpus not in (None, fleet.gpus_per_unit):
            raise InvalidSpecError(
                f"gpus_per_node = {gpus}: a unit of fleet {inputs.fleet!r} has"
                f" {fleet.gpus_per_unit}; omit gpus_per_node"
            )
        gpus = fleet.gpus_per_unit
    if gpus is None:
        gpus = GPUS_PER_NODE if tree is None else tree.gpus_per_node
    found = Topology(inputs.nodes_per_domain, inputs.nodes_per_leaf, ())
    if tree is not None:
        found = _of_system(inputs, tree, gpus, nodes or 0)
    _check_known(inputs, found)
    cluster = Cluster(
        nodes=nodes or 0,
        gpus_per_node=gpus,
        nodes_per_domain=found.nodes_per_domain,
        nodes_per_leaf=found.nodes_per_leaf,
    )
    return cluster, found.notes


def unused_system(inputs: ScheduleFields) -> str:
    """Return a remark on a system whose cluster is the default one, or ""."""
    if inputs.system is None or inputs.watches_site:
        return ""
    try:
        without, _ = cluster_of(inputs.changed(system=None))
    except InvalidSpecError:
        return ""  # its domains are asked for
    if cluster_of(inputs)[0] != without:
        return ""
    return f"system = {inputs.system} has no effect: the cluster is the same without it"


def _of_system(inputs: ScheduleFields, tree: FailureDomains, gpus: int, nodes: int) -> Topology:
    """Return the domains of nodes that are those of a system, or its whole scale-up domains."""
    domain, leaf, notes = tree.nodes_per_domain, tree.nodes_per_leaf, [tree.text()]
    if gpus == tree.gpus_per_domain != tree.gpus_per_node:
        notes.append(f"a node of the schedule is a scale-up domain of {counted(gpus, 'GPU')}")
        within = domain or 1
        leaf = leaf // within if leaf is not None and leaf % within == 0 else None
        domain = None
    elif gpus != tree.gpus_per_node:
        raise InvalidSpecError(
            f"{counted(gpus, 'GPU')} per node of the schedule, but a node of {inputs.system} has"
            f" {tree.gpus_per_node} and its scale-up domain {tree.gpus_per_domain}: leave out"
            " gpus_per_node, or system"
        )
    domain = inputs.nodes_per_domain or (domain if domain and domain < nodes else None)
    leaf = leaf if leaf and leaf < nodes else None
    if inputs.nodes_per_leaf is None and leaf and domain and leaf % domain:
        notes.append(
            f"leaf switches are left out: {leaf} nodes are no whole domains of {domain}; set"
            " nodes_per_leaf"
        )
        leaf = None
    return Topology(domain, inputs.nodes_per_leaf or leaf, tuple(notes))


def _check_known(inputs: ScheduleFields, found: Topology) -> None:
    """Raise where jobs ask for a kind of domain that is not known."""
    of_system = f"; {inputs.system} has none that part these nodes" if inputs.system else ""
    if inputs.together == "domain" and found.nodes_per_domain is None:
        raise InvalidSpecError(
            "together = 'domain' requires nodes_per_domain, such as 18, or a system such as"
            f" gb200{of_system}"
        )
    if inputs.together == "leaf" and found.nodes_per_leaf is None:
        raise InvalidSpecError(
            "together = 'leaf' requires nodes_per_leaf, such as 32, or a system such as"
            f" h100_sxm{of_system}"
        )

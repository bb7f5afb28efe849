"""The links between NICs and switches, numbered by tier, with what each of them carries.

Shape legend: L links, T tiers.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.hardware import DRAGONFLIES, RAILS
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray, IntArray

NIC_UP, NIC_DOWN, LEAF_UP, LEAF_DOWN, POD_UP, POD_DOWN = range(6)  # tiers
TIERS: Final = (
    *("nic_to_leaf", "leaf_to_nic", "leaf_to_spine", "spine_to_leaf", "spine_to_core"),
    "core_to_spine",
)
NIC_TIERS: Final = TIERS[:LEAF_UP]
GROUP_TIERS: Final = (*TIERS[:POD_UP], "group_to_group", "")  # of a dragonfly
NONMINIMAL_TIERS: Final = (*TIERS[:POD_UP], "from_group", "to_group")


class Switches(NamedTuple):
    """A network of switches as compiled code takes it.

    Links of a tier are numbered by (node, NIC, plane), (leaf set, rail, plane, uplink), and (pod,
    plane, uplink, core) or, of a dragonfly, (group, other group, plane, link).
    """

    nics: int  # NICs of a node
    planes: int  # Separate networks, each with a port of every NIC
    rails: int  # Leaf switches of a leaf set in each plane
    leaf_nodes: int  # Nodes of a leaf set
    pod_leaves: int  # Leaf sets of a pod
    pods: int  # Pods, or groups of a dragonfly
    uplinks: int  # Uplinks of a leaf switch, one to each spine
    cores: int  # Uplinks of a spine, or links to another group
    dragonfly: bool  # Whether pods are linked to each other, without cores
    first_T: IntArray  # First link of each tier, then the number of links (T + 1,)
    bandwidth_L: FloatArray  # Of each link, 0 where it is down or missing (L,) [bytes/s]

    def tier(self, tier: int) -> slice:
        """Return the links of a tier."""
        return slice(int(self.first_T[tier]), int(self.first_T[tier + 1]))


def switches_of(system: System, nodes: int) -> Switches:
    """Return the network between the first nodes of a system.

    Uplinks have about the rate of a port; their number times their rate is the stated bandwidth.

    Args:
        nodes: Servers of all jobs.

    Raises:
        InvalidSpecError: The machine has fewer pods.

    Limits: Without `fabric.pod_nodes`, leaves of more than the ports of a spine are pods of as many
        leaves as a spine has ports, below a core of the bandwidth of the leaves' uplinks.
    """
    node, fabric = system.node, system.fabric
    rails = node.nics if fabric.topology == RAILS else 1
    sets, pod_leaves = ceil(nodes / fabric.leaf_nodes), fabric.pod_nodes // fabric.leaf_nodes
    dragonfly = fabric.topology in DRAGONFLIES
    if not pod_leaves:
        many = fabric.radix and sets * rails > fabric.radix
        pod_leaves = max(fabric.radix // rails, 1) if many else sets
    used = ceil(sets / pod_leaves)
    if fabric.pods and used > fabric.pods:
        raise InvalidSpecError(
            f"{nodes:,} nodes fill {used} pods of {pod_leaves * fabric.leaf_nodes} nodes;"
            f" {system.name} has fabric.pods = {fabric.pods}: ask for fewer, or set fabric.pods"
        )
    pods = max(fabric.pods, used) if dragonfly else used
    port = node.nic_bandwidth / fabric.planes
    below = fabric.leaf_nodes * node.nics // rails * port / fabric.oversubscription
    uplinks = max(round(below / port), 1)
    ratio = max(fabric.pod_oversubscription, fabric.oversubscription)
    pod = pod_leaves * fabric.leaf_nodes * node.nics * port / ratio  # of one plane
    ways = max(pods - 1, 1) if dragonfly else uplinks
    cores = max(round(pod / port / ways), 1)
    pairs = pods * pods * cores if dragonfly else pods * uplinks * cores
    ports = sets * fabric.leaf_nodes * node.nics
    leaves = sets * rails * uplinks
    counts = [ports, ports, leaves, leaves, pairs, 0 if dragonfly else pairs]
    rates = [port, port, below / uplinks, below / uplinks, pod / ways / cores, pod / ways / cores]
    first_T = np.cumsum([0, *(count * fabric.planes for count in counts)])
    bandwidth_L = np.repeat(rates, np.array(counts) * fabric.planes)
    for tier in (NIC_UP, NIC_DOWN):  # places on the last leaves without a node
        bandwidth_L[first_T[tier] + nodes * node.nics * fabric.planes : first_T[tier + 1]] = 0.0
    if dragonfly:  # no group has links to itself
        pair_GG = bandwidth_L[first_T[POD_UP] : first_T[POD_DOWN]].reshape(pods, pods, -1)
        pair_GG[np.arange(pods), np.arange(pods)] = 0.0
    return Switches(
        nics=node.nics,
        planes=fabric.planes,
        rails=rails,
        leaf_nodes=fabric.leaf_nodes,
        pod_leaves=pod_leaves,
        pods=pods,
        uplinks=uplinks,
        cores=cores,
        dragonfly=dragonfly,
        first_T=first_T,
        bandwidth_L=bandwidth_L,
    )


def with_links_down(switches: Switches, links: int, nodes: IntArray, seed: int) -> Switches:
    """Return the network with some links down between the leaves of some nodes and their spines.

    Args:
        links: Cables, drawn without replacement; both directions of each are down.
        nodes: The nodes.

    Raises:
        InvalidSpecError: The leaves have not so many.
    """
    per_set = switches.rails * switches.planes * switches.uplinks
    sets = np.unique(nodes // switches.leaf_nodes)
    cables = (sets[:, None] * per_set + np.arange(per_set)).ravel()
    if links >= cables.size:
        raise InvalidSpecError(
            f"failed_links = {links:,}: the {sets.size * switches.rails * switches.planes} leaf"
            f" switches of the collective have {cables.size:,} uplinks; leave at least one up"
        )
    down = np.random.default_rng(seed).choice(cables, links, replace=False)
    bandwidth_L = switches.bandwidth_L.copy()
    for tier in (LEAF_UP, LEAF_DOWN):
        bandwidth_L[switches.first_T[tier] + down] = 0.0
    return switches._replace(bandwidth_L=bandwidth_L)


def spread(switches: Switches) -> Switches:
    """Return the network whose parallel links, of all planes, are one link of their bandwidth each.

    Source: adaptive routing chooses a link for every packet, so that a flow uses all of them.
    """
    s = switches
    shapes = [(-1, s.planes), (-1, s.planes), *(2 * ((-1, s.planes * s.uplinks),))]
    over = s.planes * s.cores * (1 if s.dragonfly else s.uplinks)
    shapes += [(-1, over), (-1, over)]
    sums = [s.bandwidth_L[s.tier(t)].reshape(shape).sum(axis=1) for t, shape in enumerate(shapes)]
    first_T = np.cumsum([0, *(links.size for links in sums)])
    return s._replace(
        planes=1, uplinks=1, cores=1, first_T=first_T, bandwidth_L=np.concatenate(sums)
    )


def nonminimal(
    switches: Switches, count_JL: FloatArray
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return links and flows of a dragonfly whose flows pass any other group on the way.

    All links of a group are one way out of it and one into it; a flow takes each of them with equal
    probability, so that other groups pass on what the direct link does not carry.

    Args:
        switches: A spread network.
        count_JL: Flows of each job on each link, all direct (J, L).

    Returns:
        Bandwidth of the links (L',) [bytes/s], flows (J, L') and the names of the tiers.
    """
    groups, pairs = switches.pods, switches.tier(POD_UP)
    capacity_GG = switches.bandwidth_L[pairs].reshape(groups, groups)
    total_G = capacity_GG.sum(axis=1)
    count_JGG = count_JL[:, pairs].reshape(-1, groups, groups)
    out_JG, in_JG = count_JGG.sum(axis=2), count_JGG.sum(axis=1)
    passed_JG = (out_JG.sum(axis=1, keepdims=True) - out_JG - in_JG) / max(groups - 1, 1)
    bandwidth_L = np.concatenate((switches.bandwidth_L[: pairs.start], total_G, total_G))
    flows = (count_JL[:, : pairs.start], out_JG + passed_JG, in_JG + passed_JG)
    return bandwidth_L, np.concatenate(flows, axis=1), NONMINIMAL_TIERS

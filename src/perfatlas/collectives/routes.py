"""Routes of flows: how many flows of a collective pass each link, counted in compiled code.

Shape legend: L links, U units (nodes, or scale-up domains of several), A members of an axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.collectives.switches import LEAF_DOWN, LEAF_UP, NIC_DOWN, NIC_UP, POD_DOWN, POD_UP
from perfatlas.compiled import entry, part, replica_key, uniform

if TYPE_CHECKING:
    from perfatlas.collectives.switches import Switches
    from perfatlas.operators import FloatArray, IntArray

MOST_LINKS: Final = 6  # of a route
REHASHES: Final = 16  # after which a route takes the first link that is up


@part
def _hashed(
    bandwidth_L: Any,  # noqa: ANN401 - compiled
    up: int,
    down: int,
    links: int,
    seed: int,
    flow: int,
    hop: int,
) -> int:
    """Return which of some parallel links a flow takes by ECMP, -1 where none is up both ways.

    Args:
        up: First of the links on the way up.
        down: First of the links on the way down, of which it takes the same.
    """
    for attempt in range(REHASHES):
        index = 0 if links == 1 else int(uniform(replica_key(seed, attempt), hop, flow) * links)
        if bandwidth_L[up + index] > 0.0 and bandwidth_L[down + index] > 0.0:
            return index
    for index in range(links):
        if bandwidth_L[up + index] > 0.0 and bandwidth_L[down + index] > 0.0:
            return index
    return -1


@part
def _route(
    net: Switches,
    path_P: Any,  # noqa: ANN401 - compiled
    seed: int,
    source: int,
    target: int,
    nic: int,
    pair: int,
) -> int:
    """Write the links of a flow between equal NICs of two nodes; return how many, -1 if cut off."""
    bandwidth_L, first_T = net.bandwidth_L, net.first_T
    port_up = first_T[NIC_UP] + (source * net.nics + nic) * net.planes
    port_down = first_T[NIC_DOWN] + (target * net.nics + nic) * net.planes
    plane, tried = pair % net.planes, 0
    while bandwidth_L[port_up + plane] == 0.0 or bandwidth_L[port_down + plane] == 0.0:
        plane, tried = (plane + 1) % net.planes, tried + 1
        if tried == net.planes:
            return -1
    path_P[0], path_P[1] = port_up + plane, port_down + plane
    from_set, to_set = source // net.leaf_nodes, target // net.leaf_nodes
    if from_set == to_set:
        return 2
    rail = nic % net.rails
    up = first_T[LEAF_UP]
    up += ((from_set * net.rails + rail) * net.planes + plane) * net.uplinks
    down = first_T[LEAF_DOWN]
    down += ((to_set * net.rails + rail) * net.planes + plane) * net.uplinks
    from_pod, to_pod = from_set // net.pod_leaves, to_set // net.pod_leaves
    flow = ((source * net.nics + nic) * (1 << 20) + target) * 64 + pair
    if from_pod != to_pod and net.dragonfly:
        across = first_T[POD_UP]
        across += ((from_pod * net.pods + to_pod) * net.planes + plane) * net.cores
        out = _hashed(bandwidth_L, up, up, net.uplinks, seed, flow, 1)
        link = _hashed(bandwidth_L, across, across, net.cores, seed, flow, 2)
        into = _hashed(bandwidth_L, down, down, net.uplinks, seed, flow, 3)
        path_P[2], path_P[3], path_P[4] = up + out, down + into, across + link
        return 5 if min(out, link, into) >= 0 else -1
    spine = _hashed(bandwidth_L, up, down, net.uplinks, seed, flow, 1)
    path_P[2], path_P[3] = up + spine, down + spine
    if spine < 0 or from_pod == to_pod:
        return 4 if spine >= 0 else -1
    up = first_T[POD_UP]
    up += ((from_pod * net.planes + plane) * net.uplinks + spine) * net.cores
    down = first_T[POD_DOWN]
    down += ((to_pod * net.planes + plane) * net.uplinks + spine) * net.cores
    core = _hashed(bandwidth_L, up, down, net.cores, seed, flow, 2)
    path_P[4], path_P[5] = up + core, down + core
    return 6 if core >= 0 else -1


@entry
def count_flows(
    net: Switches,
    unit_U: IntArray,
    servers: int,
    exchange: bool,  # noqa: FBT001 - compiled
    pairs: int,
    seed: int,
    path_P: IntArray,
    count_L: FloatArray,
) -> int:
    """Add the flows of a collective to the links; return how many have no route.

    A ring has a flow from each NIC of a unit to the equal one of the next; an exchange has one to
    that of every other unit, since a library passes data over the scale-up links to the GPU whose
    NIC is on the rail of the receiver (PXN).

    Args:
        unit_U: Units of the group, in the order of its ring (U,).
        servers: Nodes of a unit.
        pairs: Queue pairs of a connection, each with a route of its own, over all planes.
        path_P: Room for a route (`MOST_LINKS`,).
    """
    lost, count = 0, unit_U.shape[0]
    for at in range(count):
        for step in range(1, count if exchange else 2):
            to = (at + step) % count
            for server in range(servers):
                source, target = unit_U[at] * servers + server, unit_U[to] * servers + server
                for nic in range(net.nics):
                    for pair in range(pairs):
                        links = _route(net, path_P, seed, source, target, nic, pair)
                        lost += links < 0
                        for hop in range(links):
                            count_L[path_P[hop]] += 1.0
    return lost


@entry
def route_sends(
    net: Switches,
    send_F3: IntArray,
    pairs: int,
    seed: int,
    path_P: IntArray,
    link_FQP: IntArray,
) -> int:
    """Write the links of sends between nodes, of each queue pair; return how many have no route.

    Args:
        send_F3: Node, other node and NIC of each send (F, 3).
        path_P: Room for a route (`MOST_LINKS`,).
        link_FQP: Result: links, -1 after the last (F, Q, P).
    """
    lost = 0
    for send in range(send_F3.shape[0]):
        source, target, nic = send_F3[send, 0], send_F3[send, 1], send_F3[send, 2]
        for pair in range(pairs):
            links = _route(net, path_P, seed, source, target, nic, pair)
            lost += links < 0
            for hop in range(links):
                link_FQP[send, pair, hop] = path_P[hop]
    return lost


@entry
def count_ring_exchange(
    up_A: FloatArray,
    wrapped: bool,  # noqa: FBT001 - compiled
    reach: int,
    count_A2: FloatArray,
) -> int:
    """Count the flows of pairs along an axis of a torus by link and direction; return the lost.

    Each takes the shorter way; halfway around a ring, half of it goes each way. Around a link that
    is down, a flow takes the other way of its ring; a line has none.

    Args:
        up_A: Whether the link from each member to the next is up, the last to the first (A,).
        wrapped: Whether the last member is linked to the first.
        reach: Hops up to which members are pairs.
        count_A2: Result: flows on each link forwards and backwards (A, 2).
    """
    lost, size = 0, up_A.shape[0]
    for source in range(size):
        for hops in range(1, size):
            target = (source + hops) % size
            straight = source + hops < size  # without the link from the last to the first
            distance = min(hops, size - hops) if wrapped else abs(target - source)
            if distance > reach:
                continue
            forwards = wrapped or straight
            backwards = wrapped or not straight
            for hop in range(hops):
                forwards = forwards and up_A[(source + hop) % size] > 0.0
            for hop in range(size - hops):
                backwards = backwards and up_A[(target + hop) % size] > 0.0
            if not forwards and not backwards:
                lost += 1
                continue
            share = 0.5
            if not backwards or (forwards and 2 * hops < size):
                share = 1.0
            elif not forwards or 2 * hops > size:
                share = 0.0
            for hop in range(hops):
                count_A2[(source + hop) % size, 0] += share
            for hop in range(size - hops):
                count_A2[(target + hop) % size, 1] += 1.0 - share
    return lost

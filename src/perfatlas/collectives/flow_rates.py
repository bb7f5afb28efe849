"""Congestion between nodes: flows of collectives and of other jobs on links, by their routes.

Shape legend: J jobs, L links, U units (nodes, or domains of several), A members of an axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.collectives.codes import EXCHANGES
from perfatlas.collectives.direct_links import (
    DIRECT,
    TORUS,
    axes_of,
    axes_of_group,
    direct_algorithm,
)
from perfatlas.collectives.max_min import max_min_rates
from perfatlas.collectives.placement import fabric_units
from perfatlas.collectives.routes import MOST_LINKS, count_flows, count_ring_exchange
from perfatlas.collectives.switches import (
    GROUP_TIERS,
    POD_UP,
    TIERS,
    Switches,
    nonminimal,
    spread,
    switches_of,
    with_links_down,
)
from perfatlas.files import shipped_table
from perfatlas.hardware import slice_shape
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray

ECMP: Final = "ecmp"
MOST_FLOWS: Final = 1_000_000_000  # of all jobs, about a minute of counting
MOST_NODES: Final = 1 << 20  # of all jobs, as hashes of flows tell apart
LINKS: Final = "data/collectives/links.toml"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """How the flows of collectives between nodes are routed, and what else is on their links."""

    routing: str  # "ecmp" (a hash of each queue pair) or "adaptive" (every packet chooses)
    queue_pairs: int = 1  # Of a connection, in each plane
    jobs: int = 1  # Equal collectives at the same time
    scattered: bool = False  # Whether jobs have random nodes instead of consecutive ones
    failed_links: int = 0  # Cables between leaves and spines, or of a torus, that are down
    flapping: bool = False  # Whether these go down while the collective runs
    seed: int = 0  # Of hashes, of random nodes, and of the choice of links that are down


@dataclass(frozen=True)
class LinkUse:
    """The use of the links of a tier that are up."""

    tier: str
    count: int
    bandwidth_bytes_per_s: float  # Of the slowest of them
    mean_share: float
    max_share: float


@dataclass(frozen=True, kw_only=True)
class Congestion:
    """What flows on shared links cost a collective."""

    slowdown: float = 1.0  # Of its slowest flow, against NICs alone
    alone: float | None = None  # The same without other jobs; None without any
    links_up: float | None = None  # The same with all links up; None where they are
    slowest_flow_bytes_per_s: float | None = None  # Of a connection; None without flows
    # Until the transport resends what a flapping link lost [s]; None without flapping links
    stall_s: float | None = None
    # Of the fullest link of a torus, per byte of an exchange of each rank [s]; 0 for others
    least_s_per_byte: float = 0.0
    uses: tuple[LinkUse, ...] = ()


def congestion(system: System, op: str, ranks: int, traffic: Traffic) -> Congestion:
    """Return the congestion of a collective of consecutive ranks.

    Reductions and gathers are rings, ordered by node; a send_recv goes from every node to the next.

    Raises:
        InvalidSpecError: The network has fewer links or pods.
        UnsupportedError: The links have no routes to choose, or there are too many flows.

    Limits: A ring moves at the rate of its slowest flow, and an exchange ends with it, so that the
        flows of a job have one rate. Trees and reductions in switches send as rings do.
    """
    algorithm = direct_algorithm(system)
    if algorithm == DIRECT:
        raise UnsupportedError(
            f"fabric_routing = {traffic.routing}: a compiler schedules the links of {system.name},"
            " so that flows never share one; leave fabric_routing out"
        )
    if algorithm == TORUS:
        return _of_torus(system, op, ranks, traffic)
    units = fabric_units(system, ranks)
    if units <= 1:
        return Congestion()
    return _of_switches(system, op, units, traffic)


def _of_switches(system: System, op: str, units: int, traffic: Traffic) -> Congestion:
    """Return the congestion of a collective on a network of switches."""
    servers = max(ceil(system.device.scale_up.domain_size / system.node.devices), 1)
    total, exchange = units * traffic.jobs, op in EXCHANGES
    pairs = traffic.queue_pairs * system.fabric.planes if traffic.routing == ECMP else 1
    flows = total * servers * system.node.nics * pairs * (units - 1 if exchange else 1)
    if flows > MOST_FLOWS or total * servers > MOST_NODES:
        raise UnsupportedError(
            f"{total * servers:,} nodes with {flows:,} flows are more than {MOST_NODES:,} nodes or"
            f" {MOST_FLOWS:,} flows: ask for fewer gpus, concurrent_jobs or queue_pairs"
        )
    network = switches_of(system, total * servers)
    order_U = np.arange(total, dtype=np.int64)
    if traffic.scattered:
        order_U = np.random.default_rng(traffic.seed).permutation(order_U)
    unit_JU = np.sort(order_U.reshape(traffic.jobs, units), axis=1)

    def rates(net: Switches, jobs: int) -> tuple[FloatArray, LinkRates]:
        if traffic.routing != ECMP:
            net = spread(net)
        count_JL = np.zeros((jobs, net.bandwidth_L.size))
        lost, path_P = 0, np.empty(MOST_LINKS, np.int64)
        for unit_U, count_L in zip(unit_JU, count_JL, strict=False):
            how = (servers, exchange, pairs, traffic.seed)
            lost += count_flows(net, unit_U, *how, path_P, count_L)
        if lost:
            raise InvalidSpecError(
                f"failed_links = {traffic.failed_links} cuts off {lost:,} flows of the collective:"
                " ask for fewer, or another seed"
            )
        ways = [(net.bandwidth_L, count_JL, GROUP_TIERS if net.dragonfly else TIERS)]
        if net.dragonfly and traffic.routing != ECMP and net.pods > 2:
            ways.append(nonminimal(net, count_JL))
        # adaptive routing takes minimal paths or any, whichever are faster
        return max((_shared(*way) for way in ways), key=lambda found: float(found[0][0]))

    peers = (units - 1 if exchange else 1) * pairs
    nic_rate = system.node.nic_bandwidth / peers  # of a flow where NICs alone limit it
    down = network
    if traffic.failed_links:
        nodes = (unit_JU[0][:, None] * servers + np.arange(servers)).ravel()
        down = with_links_down(network, traffic.failed_links, nodes, traffic.seed)
    rate_J, found = rates(down, traffic.jobs)
    alone, links_up, stall_s = None, None, None
    if traffic.jobs > 1:
        alone = float(nic_rate / rates(down, 1)[0][0])
    if traffic.failed_links:
        links_up = float(nic_rate / rates(network, traffic.jobs)[0][0])
    if traffic.flapping:
        before, after = ((n if traffic.routing == ECMP else spread(n)) for n in (network, down))
        failed_L = np.flatnonzero(after.bandwidth_L < before.bandwidth_L)
        lost = bool(np.any(rates(network, 1)[1].used_L[failed_L] > 0.0))  # of this collective
        stall_s = timeout_s() if lost else 0.0
    return Congestion(
        slowdown=float(nic_rate / rate_J[0]),
        alone=alone,
        links_up=links_up,
        slowest_flow_bytes_per_s=float(rate_J[0] * pairs),
        stall_s=stall_s,
        uses=found.by_tier(down if traffic.routing == ECMP else spread(down)),
    )


class LinkRates(NamedTuple):
    """Links of a network with their use."""

    bandwidth_L: FloatArray  # (L,) [bytes/s]
    used_L: FloatArray  # (L,) [bytes/s]
    names: Sequence[str]  # Of the tiers

    def by_tier(self, net: Switches) -> tuple[LinkUse, ...]:
        """Return the use of the links that are up, by tier."""
        first, tiers = net.first_T.tolist(), list(self.names)
        if self.bandwidth_L.size != net.bandwidth_L.size:  # by way of other groups
            first = [*first[: POD_UP + 1], first[POD_UP] + net.pods, self.bandwidth_L.size]
        rows = []
        for name, start, end in zip(tiers, first, first[1:], strict=False):
            up_L = self.bandwidth_L[start:end] > 0.0
            share_L = self.used_L[start:end][up_L] / self.bandwidth_L[start:end][up_L]
            if share_L.size and share_L.max() > 0.0:
                slowest = float(self.bandwidth_L[start:end][up_L].min())
                mean, most = float(share_L.mean()), float(share_L.max())
                rows.append(LinkUse(name, int(share_L.size), slowest, mean, most))
        return tuple(rows)


def _shared(
    bandwidth_L: FloatArray, count_JL: FloatArray, names: Sequence[str]
) -> tuple[FloatArray, LinkRates]:
    """Return the rate of a flow of each job (J,) [bytes/s], and the use of links."""
    job_E, link_E = map(np.ascontiguousarray, np.nonzero(count_JL))
    start_F = np.searchsorted(job_E, np.arange(len(count_JL) + 1))
    rate_J, used_L = max_min_rates(start_F, link_E, count_JL[job_E, link_E], bandwidth_L)
    return rate_J, LinkRates(bandwidth_L, used_L, names)


def timeout_s() -> float:
    """Return the time after which the transport of a NIC resends what was lost [s]."""
    row = shipped_table(LINKS)["transport"]
    return float(row["unit_s"] * 2.0 ** row["timeout_exponent"])


def timeout_note() -> str:
    """Return what a wait for lost packets assumes."""
    return (
        f"packets lost on a flapping link are resent once, after {timeout_s():.3g} s:"
        f" {shipped_table(LINKS)['transport']['source']}; no published times of recovery give an"
        " interval, and resending that fails waits as long again"
    )


def _of_torus(system: System, op: str, ranks: int, traffic: Traffic) -> Congestion:
    """Return the congestion of a collective of a whole slice, of which some links are down.

    Flows take one axis after the other, and along each the shorter way; neighbours of an all-reduce
    whose link is down send around their ring.

    Source: dimension-ordered routes, of which every member of an axis carries those of all chips
        of the other axes; github.com/jax-ml/scaling-book, sharding.md.
    """
    scale_up, multiple = system.device.scale_up, int(system.device.number("wraparound_multiple"))
    if ranks != scale_up.domain_size:
        raise UnsupportedError(
            f"fabric_routing = {traffic.routing} counts flows of whole slices: {system.name} has"
            f" {scale_up.domain_size} chips; set gpus to that, or name a slice of {ranks}"
        )
    if traffic.jobs > 1:
        raise UnsupportedError(
            f"concurrent_jobs = {traffic.jobs}: slices of {system.device.name} share no links;"
            " leave concurrent_jobs out"
        )
    if traffic.flapping:
        raise UnsupportedError(
            f"link_failure = flapping: how long links of {system.device.name} wait for lost packets"
            " is not published; set link_failure = down"
        )
    shape = slice_shape(scale_up.domain_size, axes_of(system.device))
    axes = axes_of_group(shape, multiple, scale_up.domain_size, 1)
    lines = [scale_up.domain_size // axis.ranks for axis in axes]
    cables = [
        (number, line, at)
        for number, axis in enumerate(axes)
        for line in range(lines[number])
        for at in range(axis.ranks if axis.ring else axis.ranks - 1)
    ]
    if traffic.failed_links >= max(len(cables), 1):
        raise InvalidSpecError(
            f"failed_links = {traffic.failed_links:,}: the slice has {len(cables):,} links; leave"
            " at least one up"
        )
    rng, link = np.random.default_rng(traffic.seed), scale_up.bandwidth / max(scale_up.links, 1)
    down = [cables[index] for index in rng.choice(len(cables), traffic.failed_links, replace=False)]
    up_flows, down_flows, tiers, lost = 0.0, 0.0, [], 0
    for number, axis in enumerate(axes):
        reach = axis.ranks if op in EXCHANGES else 1
        weight = lines[number] if op in EXCHANGES else 1  # pairs that differ in other axes too
        failed = {line for other, line, _ in down if other == number}
        flows, shares, ups = 0.0, 0.0, 0
        for line in [-1, *sorted(failed)]:  # the first stands for all whose links are up
            up_A = np.ones(axis.ranks)
            up_A[[at for other, on, at in down if (other, on) == (number, line)]] = 0.0
            count_A2 = np.zeros((axis.ranks, 2))
            lost += count_ring_exchange(up_A, axis.ring, reach, count_A2)
            most = weight * float(count_A2.max())
            up_flows = max(up_flows, most) if line < 0 else up_flows
            flows, like = max(flows, most), lines[number] - len(failed) if line < 0 else 1
            shares += like * weight * float(count_A2.sum())
            ups += like * 2 * int(up_A[: None if axis.ring else -1].sum())
        down_flows = max(down_flows, flows)
        tiers.append((f"axis_{number + 1}_of_{axis.ranks}", ups, shares / ups, flows))
    if lost:
        raise InvalidSpecError(
            f"failed_links = {traffic.failed_links} cuts lines of the slice apart: an axis without"
            " linked ends has one way; ask for fewer, or another seed"
        )
    return Congestion(
        slowdown=down_flows / up_flows,
        links_up=1.0 if traffic.failed_links else None,
        slowest_flow_bytes_per_s=link / down_flows,
        least_s_per_byte=down_flows / link / ranks if op in EXCHANGES else 0.0,
        uses=tuple(
            LinkUse(name, ups, link, mean / down_flows, most / down_flows)
            for name, ups, mean, most in tiers
        ),
    )

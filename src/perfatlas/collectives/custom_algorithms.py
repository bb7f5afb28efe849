"""Algorithms of collectives from a user's file: steps of sends, timed as flows on links.

Shape legend: F sends, A sends under way, S steps, L links, P links of a route, Q queue pairs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.collectives.flow_rates import ECMP
from perfatlas.collectives.max_min import SLACK, max_min_rates
from perfatlas.collectives.placement import HOST_LINK, POINT_TO_POINT
from perfatlas.collectives.routes import MOST_LINKS, route_sends
from perfatlas.collectives.switches import spread, switches_of, with_links_down
from perfatlas.files import known_keys, read_toml
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.collectives.flow_rates import Traffic
    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray, IntArray

KEYS: Final = dict.fromkeys(("name", "op", "ranks", "step"))
STEP_KEYS: Final = dict.fromkeys(("name", "after", "sends"))
MOST_RANKS: Final = 100_000
MOST_SENDS: Final = 4_000_000  # of all queue pairs
MOST_FOLLOWED: Final = 1024  # ranks whose data are followed through an algorithm
WORD_BITS: Final = 64
MOST_SHARE: Final = 1e6  # of a send
ROUNDING: Final = 1e-6  # of shares in a file
# What each rank sends and receives at least, and all ranks send, as shares of the size of the
# operation on n ranks. Every element of a reduction meets the others once per rank.
LEAST: Final[Mapping[str, Callable[[int], tuple[float, float, float]]]] = {
    "all_reduce": lambda n: (1.0, 1.0, 2.0 * (n - 1)),
    "all_gather": lambda n: (1.0 / n, (n - 1) / n, n - 1.0),
    "reduce_scatter": lambda n: ((n - 1) / n, 1.0 / n, n - 1.0),
    "all_to_all": lambda n: ((n - 1) / n, (n - 1) / n, n - 1.0),
}


class Algorithm(NamedTuple):
    """The sends of a collective, in steps."""

    name: str
    op: str
    ranks: int
    after: tuple[tuple[int, ...], ...]  # Steps that each step waits for (S)
    step_F: IntArray  # Step of each send (F,)
    ends_F2: IntArray  # Ranks that send and receive (F, 2)
    share_F: FloatArray  # Share of the size of the operation (F,)


class AlgorithmTime(NamedTuple):
    """The time of an algorithm on links at full rate."""

    time_s: float
    slowest_bytes_per_s: float  # Lowest rate that a send has had at any time


def read_algorithm(path: str) -> Algorithm:
    """Return the algorithm of a file.

    Args:
        path: TOML with `op`, `ranks`, `name` and tables `[[step]]`, each with `sends = [[source,
            destination, share], ...]`, by default after the step before, or after those of `after`.

    Raises:
        InvalidSpecError: A key is unknown, ranks or shares are out of range, steps wait for each
            other, bytes do not add up to the operation, or data of a rank do not reach another.
    """
    table = read_toml(path)
    known_keys(table, KEYS, path)
    op, ranks, steps = table.get("op"), table.get("ranks"), table.get("step")
    if not isinstance(op, str) or op not in LEAST:
        raise InvalidSpecError(
            f"{path}: op = {repr_for_error(op)} is not one of {', '.join(LEAST)}"
            f"{did_you_mean(str(op), LEAST)}"
        )
    if type(ranks) is not int or not 2 <= ranks <= MOST_RANKS:
        raise InvalidSpecError(
            f"{path}: ranks = {repr_for_error(ranks)}: expected a whole number from 2 to"
            f" {MOST_RANKS:,}"
        )
    if not isinstance(steps, list) or not steps or not all(isinstance(s, dict) for s in steps):
        raise InvalidSpecError(f"{path} has no steps; give tables [[step]] with sends = [...]")
    sends, names = [], [str(step.get("name", number)) for number, step in enumerate(steps)]
    for number, step in enumerate(steps):
        where = f"{path}: step {names[number]}"
        known_keys(step, STEP_KEYS, where)
        listed = step.get("sends")
        if not isinstance(listed, list) or not listed:
            raise InvalidSpecError(f"{where} has no sends: give [[source, target, share], ...]")
        sends += [(number, *_send(send, ranks, where)) for send in listed]
    sent = np.array(sends, np.float64)
    algorithm = Algorithm(
        name=str(table.get("name", "custom"))[:80],
        op=op,
        ranks=ranks,
        after=_waits(steps, names, path),
        step_F=sent[:, 0].astype(np.int64),
        ends_F2=sent[:, 1:3].astype(np.int64),
        share_F=sent[:, 3].copy(),
    )
    _check_bytes(algorithm, path)
    _check_reach(algorithm, path)
    return algorithm


def _send(send: object, ranks: int, where: str) -> tuple[int, int, float]:
    """Return source, destination and share of a send."""
    row: list[Any] = send if isinstance(send, list) and len(send) == 3 else [None, None, None]
    source, target, share = row
    whole = all(type(rank) is int and 0 <= rank < ranks for rank in (source, target))
    number = isinstance(share, int | float) and not isinstance(share, bool)
    if not whole or source == target or not number or not 0.0 < share <= MOST_SHARE:
        raise InvalidSpecError(
            f"{where}: send {repr_for_error(send)}: expected [source, destination, share] with two"
            f" different ranks from 0 to {ranks - 1} and a positive share of the size, at"
            f" most {MOST_SHARE:,.0f}"
        )
    return source, target, float(share)


def _waits(
    steps: Sequence[Mapping[str, Any]], names: Sequence[str], path: str
) -> tuple[tuple[int, ...], ...]:
    """Return the steps that each step waits for, none of which waits for it."""
    number_of = {name: number for number, name in enumerate(names)}
    if len(number_of) < len(names):
        twice = next(name for name in number_of if names.count(name) > 1)
        raise InvalidSpecError(f"{path}: two steps are named {repr_for_error(twice)}; rename one")
    after = []
    for number, step in enumerate(steps):
        listed = step.get("after", names[max(number - 1, 0) : number])
        wanted = [str(name) for name in listed] if isinstance(listed, list) else [""]
        unknown = [name for name in wanted if name not in number_of]
        if unknown:
            raise InvalidSpecError(
                f"{path}: step {names[number]}: after = {repr_for_error(listed)}: expected names of"
                f" steps{did_you_mean(unknown[0], names)}"
            )
        after.append(tuple(number_of[name] for name in wanted))
    try:
        TopologicalSorter(dict(enumerate(after))).prepare()
    except CycleError as problem:
        circle = ", ".join(names[number] for number in problem.args[1][:4])
        raise InvalidSpecError(
            f"{path}: steps {circle} wait for each other; take one out of `after`"
        ) from problem
    return tuple(after)


def _check_bytes(algorithm: Algorithm, path: str) -> None:
    """Check that sends add up to no less than any algorithm of the operation needs."""
    least = LEAST[algorithm.op](algorithm.ranks)
    for least_share, column, verb in zip(least, (0, 1), ("sends", "receives"), strict=False):
        share_R = np.bincount(
            algorithm.ends_F2[:, column], algorithm.share_F, minlength=algorithm.ranks
        )
        rank = int(np.argmin(share_R))
        if share_R[rank] < least_share * (1.0 - ROUNDING):
            raise InvalidSpecError(
                f"{path}: rank {rank} {verb} {share_R[rank]:.6g} of the size, and {algorithm.op} of"
                f" {algorithm.ranks} ranks needs at least {least_share:.6g}; check its sends"
            )
    total = float(algorithm.share_F.sum())
    if total < least[2] * (1.0 - ROUNDING):
        raise InvalidSpecError(
            f"{path}: all ranks send {total:.6g} times the size, and {algorithm.op} of"
            f" {algorithm.ranks} ranks needs at least {least[2]:.6g}; check the shares of the sends"
        )


def _check_reach(algorithm: Algorithm, path: str) -> None:
    """Check that data of each rank reach all others, passed on by later steps.

    Limits: Follows the data of `MOST_FOLLOWED` ranks at even distances. A step passes on what all
        steps have brought that have fewer steps before them, also those that it does not wait for.
    """
    depth_S = np.zeros(len(algorithm.after), np.int64)
    for step in TopologicalSorter(dict(enumerate(algorithm.after))).static_order():
        depth_S[step] = 1 + max((depth_S[before] for before in algorithm.after[step]), default=0)
    depth_F = depth_S[algorithm.step_F]
    order_F = np.argsort(depth_F, kind="stable")
    parts = np.split(algorithm.ends_F2[order_F], np.flatnonzero(np.diff(depth_F[order_F])) + 1)
    followed = np.unique(
        np.linspace(0, algorithm.ranks - 1, min(algorithm.ranks, MOST_FOLLOWED)).astype(np.int64)
    )
    for first in range(0, followed.size, WORD_BITS):
        bits = np.uint64(1) << np.arange(followed[first : first + WORD_BITS].size, dtype=np.uint64)
        has_R = np.zeros(algorithm.ranks, np.uint64)
        has_R[followed[first : first + WORD_BITS]] = bits
        for ends in parts:
            np.bitwise_or.at(has_R, ends[:, 1], has_R[ends[:, 0]])
        lacking = np.flatnonzero(has_R != np.bitwise_or.reduce(bits))
        if lacking.size:
            rank = int(lacking[0])
            source = int(followed[first + int(np.argmin((has_R[rank] & bits) > 0))])
            raise InvalidSpecError(
                f"{path}: no data of rank {source} reach rank {rank}, and {algorithm.op} needs data"
                " of every rank at all others; add sends, in later steps where they pass data on"
            )


def algorithm_time(
    algorithm: Algorithm, system: System, size_bytes: float, traffic: Traffic
) -> AlgorithmTime:
    """Return the time of an algorithm on consecutive GPUs, a lower limit on its measured time.

    A step starts with a hop when the steps before have ended; its sends share the links max-min
    fairly with those of other steps, and rates change when a send ends.

    Raises:
        InvalidSpecError: Failed links cut off a send.
        UnsupportedError: The links have no switches, or domains divide a node.

    Limits: No kernels, protocols and reductions; full rate of links. Data for a GPU whose NIC is on
        another rail passes the scale-up links of the sending node first (PXN).
    """
    scale_up, node = system.device.scale_up, system.node
    domain = scale_up.domain_size
    if scale_up.kind in POINT_TO_POINT or 1 < domain < node.devices:
        raise UnsupportedError(
            f"algorithm_file: GPUs of {system.name} are not all linked by one switch inside a node;"
            " algorithms are timed on switched domains"
        )
    unit = max(domain, node.devices)
    bandwidth_L, link_FK, pairs = _links_of_sends(algorithm, system, unit, traffic)
    crosses_F = np.ptp(algorithm.ends_F2 // unit, axis=1) > 0
    hop_s_F = np.where(crosses_F, system.fabric.latency_s, scale_up.latency_s)
    hop_s_S = np.zeros(len(algorithm.after))
    np.maximum.at(hop_s_S, algorithm.step_F, hop_s_F)
    first_S = np.searchsorted(algorithm.step_F, np.arange(len(algorithm.after) + 1)).tolist()
    waits_S, followers = [len(set(waits)) for waits in algorithm.after], defaultdict(list)
    for step, waits in enumerate(algorithm.after):
        for before in set(waits):
            followers[before].append(step)
    starts = [(float(hop_s_S[step]), step) for step, waits in enumerate(waits_S) if not waits]
    heapify(starts)
    left_F, running, now_s, slowest = algorithm.share_F * size_bytes, list[int](), 0.0, math.inf
    while starts or running:
        way_A = np.array([send for s in running for send in range(first_S[s], first_S[s + 1])], int)
        way_A = way_A[left_F[way_A] > 0.0]
        rate_A = _rates(link_FK[way_A], bandwidth_L) * pairs
        slowest = min(slowest, float(rate_A.min(initial=math.inf)))
        ends_s_A = now_s + left_F[way_A] / rate_A
        until_s = min(float(ends_s_A.min(initial=math.inf)), starts[0][0] if starts else math.inf)
        left_A = left_F[way_A] - rate_A * (until_s - now_s)
        left_F[way_A] = np.where(ends_s_A <= until_s * (1.0 + SLACK), 0.0, left_A)
        now_s = until_s
        for step in [s for s in running if not left_F[first_S[s] : first_S[s + 1]].any()]:
            running.remove(step)
            for follower in followers[step]:
                waits_S[follower] -= 1
                if not waits_S[follower]:
                    heappush(starts, (now_s + float(hop_s_S[follower]), follower))
        while starts and starts[0][0] <= now_s:
            running.append(heappop(starts)[1])
    return AlgorithmTime(now_s, slowest)


def _rates(link_AK: IntArray, bandwidth_L: FloatArray) -> FloatArray:
    """Return the rate of a queue pair of sends under way (A,) [bytes/s]."""
    used_AK = link_AK >= 0
    start_A = np.concatenate(([0], np.cumsum(used_AK.sum(axis=1))))
    link_E = link_AK[used_AK]
    rate_A, _ = max_min_rates(start_A, link_E, np.ones(link_E.size), bandwidth_L)
    return rate_A


def _links_of_sends(
    algorithm: Algorithm, system: System, unit: int, traffic: Traffic
) -> tuple[FloatArray, IntArray, int]:
    """Return all links (L,) [bytes/s], those of each send, -1 for none (F, K), and queue pairs.

    A send between nodes has a link of each queue pair for every hop; inside a node it counts as
    often, so that rates are those of a queue pair everywhere.
    """
    scale_up, node = system.device.scale_up, system.node
    servers = max(unit // node.devices, 1)
    units = -(-algorithm.ranks // unit)
    network, pairs = switches_of(system, units * servers), 1
    if traffic.failed_links:
        nodes = np.arange(units * servers)
        network = with_links_down(network, traffic.failed_links, nodes, traffic.seed)
    if traffic.routing == ECMP:
        pairs = traffic.queue_pairs * network.planes
    else:
        network = spread(network)
    if algorithm.step_F.size * pairs > MOST_SENDS:
        raise UnsupportedError(
            f"{algorithm.step_F.size:,} sends of {pairs} queue pairs are more than {MOST_SENDS:,};"
            " take fewer queue_pairs, or fewer sends"
        )
    source_F, target_F = algorithm.ends_F2.T
    crosses_F = source_F // unit != target_F // unit

    # NIC of each end among those of its unit
    server_F2, gpu_F2 = np.divmod(np.remainder(algorithm.ends_F2, unit), node.devices)
    nic_F2 = server_F2 * node.nics + gpu_F2 * node.nics // node.devices
    server_F, nic_F = np.divmod(nic_F2[:, 1], node.nics)
    places = (source_F // unit * servers + server_F, target_F // unit * servers + server_F, nic_F)
    send_F3 = np.stack(places, axis=1)[crosses_F]
    link_FQP = np.full((send_F3.shape[0], pairs, MOST_LINKS), -1, np.int64)
    path_P = np.empty(MOST_LINKS, np.int64)
    lost = route_sends(network, send_F3, pairs, traffic.seed, path_P, link_FQP)
    if lost:
        raise InvalidSpecError(
            f"failed_links = {traffic.failed_links} cuts off {lost:,} sends of the algorithm: ask"
            " for fewer, or another seed"
        )
    first, host = network.bandwidth_L.size, scale_up.kind == HOST_LINK
    rate = (
        min(scale_up.bandwidth, system.device.host_link_bandwidth) if host else scale_up.bandwidth
    )
    bandwidth_L = np.concatenate((network.bandwidth_L, np.full(2 * algorithm.ranks, rate)))
    # a host link carries all bytes; others those inside a node, and those for another rail
    inside_F = ~crosses_F | host | (nic_F2[:, 0] != nic_F2[:, 1])
    out_F = np.where(inside_F, first + source_F, -1)
    into_F = np.where(~crosses_F | host, first + algorithm.ranks + target_F, -1)
    link_FK = np.full((algorithm.step_F.size, pairs * (MOST_LINKS + 2)), -1, np.int64)
    link_FK[:, : 2 * pairs] = np.repeat(np.stack((out_F, into_F), axis=1), pairs, axis=1)
    link_FK[crosses_F, 2 * pairs :] = link_FQP.reshape(link_FQP.shape[0], pairs * MOST_LINKS)
    return bandwidth_L, link_FK, pairs

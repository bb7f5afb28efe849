"""Share of time a job waits for nodes: spares, repairs and crews in steady state.

Shape legend: C candidates, J numbers of failed nodes, B nodes that fail together, I states that
lead to one more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.reliability.fleet.laws import FloatArray, not_negative, positive, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

MAX_WEIGHT: Final = 1e200  # weights are rescaled when one exceeds it


def erlang_b(servers: ArrayLike, offered: ArrayLike) -> FloatArray:
    """Return the probability that all servers of a loss system are busy (C,).

    Args:
        servers: Servers (C,).
        offered: Arrival rate times mean service time (C,).

    Source: Erlang 1917; B(0) = 1, B(j) = a B(j-1) / (j + a B(j-1)).

    Example:
        >>> from perfatlas.reliability.fleet.closed_form.spares import erlang_b
        >>> print(f"{erlang_b(2, 1.0):.3f}")  # (1/2) / (1 + 1 + 1/2)
        0.200
    """
    count, load = np.broadcast_arrays(whole("servers", servers), not_negative("offered", offered))
    blocked = np.ones(load.shape)
    result = np.where(count == 0, 1.0, 0.0)
    for j in range(1, int(count.max(initial=0)) + 1):
        blocked = load * blocked / (j + load * blocked)
        result = np.where(count == j, blocked, result)
    return np.asarray(result, np.float64)


def blocked_probability(
    nodes: ArrayLike, spares: ArrayLike, failure_per_s: ArrayLike, repair_s: ArrayLike
) -> FloatArray:
    """Return the share of time a job waits for a node, with cold spares (C,).

    Args:
        nodes: Nodes the job needs (C,).
        spares: Spare nodes (C,).
        failure_per_s: Rate of one active node [1/s] (C,).
        repair_s: Mean repair [s] (C,); the distribution of repairs does not matter.

    Raises:
        InvalidSpecError: A negative or fractional count, a negative rate or time.

    Source: Erlang's loss formula with spares + 1 servers: the job stops, and with it failures, when
        more nodes than the spares have failed. Insensitive to the repair distribution.

    Limits: exponential node failures, unlimited repair crews, spares that do not fail.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import blocked_probability
        >>> day = 86400.0
        >>> print(f"{blocked_probability(2048, 24, 6.5e-3 / day, day):.5f}")
        0.00136
    """
    offered = whole("nodes", nodes, lowest=1) * not_negative("failure_per_s", failure_per_s)
    return erlang_b(whole("spares", spares) + 1, offered * not_negative("repair_s", repair_s))


def spares_for(
    nodes: int, failure_per_s: float, repair_s: float, *, blocked: float, most: int = 100_000
) -> int:
    """Return the fewest cold spares that keep the waiting share of a job below a limit.

    Args:
        failure_per_s: Rate of one active node [1/s].
        repair_s: Mean repair [s].
        blocked: Largest allowed share of waiting time, such as 0.001.
        most: Largest number of spares tried.

    Raises:
        InfeasibleError: More than `most` spares would be needed.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import spares_for
        >>> spares_for(2048, 6.5e-3 / 86400, 86400.0, blocked=1e-3)
        25
    """
    if not 0.0 < blocked < 1.0:
        raise InvalidSpecError(f"blocked = {blocked:g}: expected a share of time above 0, below 1")
    load = float(whole("nodes", nodes, lowest=1)) * float(
        not_negative("failure_per_s", failure_per_s) * not_negative("repair_s", repair_s)
    )
    probability = 1.0
    for servers in range(1, most + 2):
        probability = load * probability / (servers + load * probability)
        if probability <= blocked:
            return servers - 1
    raise InfeasibleError(
        f"{load:.0f} nodes are under repair at any time: even {most} spares leave the job waiting "
        f"{probability:.1%} of the time",
        advice=("shorten the repair or lower the failure rate",),
    )


def spares_covering(repairing: float, covered: float) -> int:
    """Return the spares that replace all units under repair for a share of the time.

    Args:
        repairing: Mean number of units under repair.

    Source: the number of units under repair is Poisson with its mean where repairs are independent
        and the job seldom waits (M/G/infinity).

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import spares_covering
        >>> spares_covering(1.0, 0.9)  # e^-1 (1 + 1 + 1/2) = 0.92
        2
    """
    from scipy.special import pdtr

    highest = math.ceil(repairing + 10.0 * math.sqrt(repairing) + 10.0)
    return next(count for count in range(highest) if pdtr(count, repairing) >= covered)


def birth_death_blocked(
    nodes: int,
    spares: int,
    failure_per_s: float,
    repair_s: float,
    *,
    crews: int | None = None,
    warm: bool = False,
) -> float:
    """Return the share of time a job waits, with limited crews or spares that fail too.

    Args:
        spares: Spare nodes.
        failure_per_s: Rate of one powered node [1/s].
        repair_s: Mean of exponential repairs [s].
        crews: Maximum concurrent repairs; None for no limit.
        warm: Whether idle spares fail like active nodes; nothing fails while the job waits.

    Source: steady state of the birth-death chain of failed nodes: up (nodes, or nodes + spares - j
        if warm) times the rate, down min(j, crews) over the mean repair.

    Limits: exponential failures and repairs.
    """
    share_J = failed_nodes(nodes, spares, {1: failure_per_s}, repair_s, crews=crews, warm=warm)
    return float(share_J[int(spares) + 1 :].sum())


def failed_nodes(
    nodes: int,
    spares: int,
    per_s: Mapping[int, float],
    repair_s: float,
    *,
    crews: int | None = None,
    warm: bool = False,
) -> FloatArray:
    """Return the steady-state distribution of the number of failed nodes (J,).

    Args:
        nodes: Nodes the job needs.
        spares: Spare nodes; the job waits while more nodes than that are failed.
        per_s: By number of nodes that fail together, the rate at which one powered node is the
            first [1/s].
        repair_s: Mean of exponential repairs, of each node by itself [s].
        crews: Maximum concurrent repairs; None for no limit.
        warm: Whether idle spares fail like active nodes; nothing fails while the job waits. A
            failure domain may hold nodes of the job and spares.

    Source: a birth-death chain with batch births: in steady state the failure flow from j or fewer
        to more than j nodes equals the repair flow back. With single births it is the product of
        the rate ratios.

    Limits: exponential failures and repairs.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import failed_nodes
        >>> failed_nodes(1, 0, {1: 1.0}, 1.0).round(3).tolist()
        [0.5, 0.5]
    """
    active, extra = int(whole("nodes", nodes, lowest=1)), int(whole("spares", spares))
    most = min(max(per_s, default=1), active + extra * warm)
    states = extra + min(most, active)
    servers = states if crews is None else int(whole("crews", crews, lowest=1))
    mean = float(positive("repair_s", repair_s))
    beyond_B = np.zeros(most)  # rate of batches larger than the index
    for size, rate in per_s.items():
        beyond_B[: min(int(whole("units", size, lowest=1)), most)] += float(
            not_negative("failure_per_s", rate)
        )
    if beyond_B[0] == 0.0:
        return np.asarray(np.eye(1, states + 1)[0], np.float64)
    down_J = np.minimum(np.arange(1, states + 1), servers) / mean
    if most == 1:
        idle_J = np.arange(extra, -1, -1) * warm
        log_J = np.concatenate([[0.0], np.cumsum(np.log((active + idle_J) * beyond_B[0] / down_J))])
        weight_J = np.exp(log_J - log_J.max())
    else:
        # unnormalised weights from the balance of flows over every cut
        weight_J = np.zeros(down_J.size + 1)
        weight_J[0] = 1.0
        for j in range(down_J.size):
            from_I = np.arange(max(j - beyond_B.size + 1, 0), min(j, extra) + 1)
            more_I = j - from_I
            idle_I = np.maximum(extra * warm - from_I, 0)
            rate_I = beyond_B[more_I] * (active + idle_I)
            weight_J[j + 1] = float(weight_J[from_I] @ rate_I) / down_J[j]
            if weight_J[j + 1] > MAX_WEIGHT:
                weight_J /= MAX_WEIGHT
    return np.asarray(weight_J / weight_J.sum(), np.float64)


class NodePool(NamedTuple):
    """Nodes of a job with their failures and repairs."""

    nodes: int
    # By number of nodes that fail together, the rate at which one is the first [1/s]
    per_s: dict[int, float]
    repair_s: float  # Mean repair time [s]
    crews: int | None  # Maximum concurrent repairs; None for no limit
    warm: bool  # Whether spares fail too
    notes: tuple[str, ...] = ()  # Assumptions about a fleet
    left_out: tuple[str, ...] = ()  # Features of the fleet that no closed form models
    units: int | None = None  # Nodes of the fleet; None without a fleet

    @property
    def rate_per_s(self) -> float:
        """Failure rate of one node [1/s]."""
        return sum(size * rate for size, rate in self.per_s.items())

    @property
    def plain(self) -> bool:
        """Whether Erlang's formula applies: single failures, unlimited crews, cold spares."""
        return self.crews is None and not self.warm and set(self.per_s) == {1}

    @property
    def repairing(self) -> float:
        """Mean nodes under repair with unlimited crews and a job that never waits."""
        return self.nodes * self.rate_per_s * self.repair_s

    def failed(self, spares: int) -> FloatArray:
        """Return the steady-state distribution of the number of failed nodes (J,)."""
        return failed_nodes(
            self.nodes, spares, self.per_s, self.repair_s, crews=self.crews, warm=self.warm
        )

    def blocked(self, spares: int) -> float:
        """Return the share of time a job waits for a node."""
        if self.plain:
            return float(blocked_probability(self.nodes, spares, self.rate_per_s, self.repair_s))
        return float(self.failed(spares)[spares + 1 :].sum())

    def mean_failed(self, spares: int) -> dict[str, float]:
        """Return the mean nodes under repair, including those waiting for a crew.

        Source: means of the chain. With unlimited crews they do not depend on the repair
            distribution.
        """
        chance_J = self.failed(spares)
        out_J = np.arange(chance_J.size)
        if self.crews is None:
            return {"nodes_under_repair": float(chance_J @ out_J)}
        return {
            "nodes_under_repair": float(chance_J @ np.minimum(out_J, self.crews)),
            "nodes_out": float(chance_J @ out_J),
        }

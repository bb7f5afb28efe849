"""Limits that deployments must meet, the objective that ranks them, and the best load of each.

Shape legend: C candidates, P points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.parallelism import gpus_of_nodes, most_replicas
from perfatlas.reliability.fleet.closed_form import replicas_up, spare_replicas
from perfatlas.studies.deployments.groups import LATENCIES
from perfatlas.studies.deployments.points import AC_POWER
from perfatlas.studies.pareto import pareto_points
from perfatlas.studies.probability import probability_at_most, value_exceeded
from perfatlas.studies.ranking import best_of_groups, ranking_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.studies.deployments.points import Points
    from perfatlas.studies.deployments.question import SearchInputs

HIGHER: Final = frozenset(("output_tokens_per_s_per_gpu", "accuracy_delta"))
DELTA: Final = "accuracy_delta"
PERCENT: Final = 100.0
COST: Final = "usd_per_million_output_tokens"
MAX_COST: Final = f"max_{COST}"
LOSS: Final = "max_accuracy_loss"
POWER: Final = "max_deployment_power_w"
RATE: Final = "request_rate"
AVAILABILITY: Final = "availability"
PER_GPU: Final = "output_tokens_per_s_per_gpu"
PER_USER: Final = "output_tokens_per_s_per_user"
ROUNDING: Final = 1e-12  # of a number of replicas
ENDS: Final = ("", "_low", "_high")


class Met(NamedTuple):
    """How well limits are met."""

    probabilities: dict[str, FloatArray]  # Probability that each limit is met, by its field (P,)
    least: FloatArray  # Least of them, 1 without limits (P,)
    excess: FloatArray  # Largest ratio of a prediction to its limit, 0 without limits (P,)

    def also(self, name: str, probability: FloatArray) -> Met:
        """Return these limits and one more.

        Args:
            probability: Probability that it is met (P,).
        """
        probabilities = {**self.probabilities, name: probability}
        return Met(probabilities, np.minimum(self.least, probability), self.excess)


def percentile_name(name: str) -> str:
    """Return the name of a latency at the percentile of the SLOs.

    Args:
        name: A latency, such as ttft_s.
    """
    return f"{name.removesuffix('_s')}_percentile_s"


def met_limits(results: Mapping[str, FloatArray], gpus: FloatArray, inputs: SearchInputs) -> Met:
    """Return the probabilities that deployments meet all limits.

    Errors of all metrics are fully correlated, as in the intervals of estimates, so that all limits
    are met with the least of their probabilities.

    Args:
        results: Results of `estimate` by name (P,).
        gpus: GPUs of the deployments, without spare replicas (P,).
    """
    probabilities: dict[str, FloatArray] = {}
    least, excess = np.ones(gpus.shape), np.zeros(gpus.shape)
    # steps at their roofline, or with assumed losses, have no upper end
    has_end = ~np.isnan(results[f"{PER_GPU}_low"])
    for field, name in LATENCIES.items():
        limit = getattr(inputs, field)
        if limit is not None:
            value, low, high = (results[f"{name}{end}"] for end in ENDS)
            # without queueing, a time has the errors of its steps, taken as symmetric
            high = np.where(np.isnan(high) & has_end, value * (value / low), high)
            probabilities[field] = probability_at_most(value, low, high, limit)
            excess = np.maximum(excess, np.nan_to_num(results[name] / limit))
    limit = inputs.max_usd_per_million_tokens
    if limit is not None:
        value, low, high = (results[f"{COST}{end}"] for end in ENDS)
        cost = np.where(np.isnan(value), np.inf, value)
        probabilities[MAX_COST] = probability_at_most(cost, low, high, limit)
        excess = np.maximum(excess, cost / limit)
    if inputs.max_accuracy_loss is not None:
        deltas = (results[name] for name in (DELTA, f"{DELTA}_high", f"{DELTA}_low"))
        loss, least, most = (
            PERCENT - np.where(np.isnan(delta), -np.inf, delta) for delta in deltas
        )
        limit = PERCENT + inputs.max_accuracy_loss
        probabilities[LOSS] = probability_at_most(loss, least, most, limit)
        excess = np.maximum(excess, loss / limit)
    if inputs.max_deployment_power_w is not None:
        power, low, high = (gpus * results[f"{AC_POWER}{end}"] for end in ENDS)
        limit = inputs.max_deployment_power_w
        probabilities[POWER] = probability_at_most(power, low, high, limit)
        excess = np.maximum(excess, power / limit)
    if inputs.request_rate is not None:
        each = inputs.mix.mean_osl / gpus
        gap, low, high = (each / results[f"{PER_GPU}{end}"] for end in ("", "_high", "_low"))
        probabilities[RATE] = probability_at_most(gap, low, high, 1.0 / inputs.request_rate)
        excess = np.maximum(excess, gap * inputs.request_rate)
    for probability in probabilities.values():
        least = np.minimum(least, probability)
    return Met(probabilities, least, excess)


def replicas_for_rate(
    results: Mapping[str, FloatArray], gpus: FloatArray, inputs: SearchInputs
) -> FloatArray:
    """Return the replicas that serve the request rate with the required probability (P,).

    Args:
        results: Results of `estimate` by name (P,).
        gpus: GPUs of a replica (P,).
    """
    each = gpus / inputs.mix.mean_osl
    rate, low, high = (results[f"{PER_GPU}{end}"] * each for end in ("", "_low", "_high"))
    served = value_exceeded(rate, low, high, inputs.min_slo_probability)
    replicas: FloatArray = np.ceil((inputs.request_rate or 0.0) / served * (1.0 - ROUNDING))
    return np.maximum(replicas, 1.0)


def spares_of(
    needed: FloatArray, most: FloatArray, nodes_each: FloatArray, inputs: SearchInputs
) -> FloatArray:
    """Return the spare replicas with which enough work for the wanted share of time (P,).

    Args:
        needed: Replicas that serve the request rate (P,).
        most: Replicas that fit on the GPUs (P,).
        nodes_each: Nodes of a replica, a fraction where several share a node (P,).

    Returns:
        0 without `availability`; inf where they do not fit.
    """
    if inputs.availability is None or inputs.node_mtbf_s is None or inputs.repair_s is None:
        return np.zeros_like(needed)
    down = _unavailability(inputs.node_mtbf_s, inputs.repair_s)
    return spare_replicas(needed, most, nodes_each, down, inputs.availability)


def availability_of(
    needed: FloatArray, replicas: FloatArray, nodes_each: FloatArray, inputs: SearchInputs
) -> FloatArray:
    """Return the share of time in which enough replicas work (P,), NaN without `availability`.

    Args:
        needed: Replicas that serve the request rate (P,).
        replicas: These and the spares (P,).
        nodes_each: Nodes of a replica, a fraction where several share a node (P,).
    """
    if inputs.node_mtbf_s is None or inputs.repair_s is None:
        return np.full_like(needed, np.nan)
    down = _unavailability(inputs.node_mtbf_s, inputs.repair_s)
    return replicas_up(needed, replicas, nodes_each, down)


def _unavailability(node_mtbf_s: float, repair_s: float) -> float:
    """Return the share of time in which a node is out of service."""
    return repair_s / (node_mtbf_s + repair_s)


def score_of(
    results: Mapping[str, FloatArray], gpus: FloatArray, inputs: SearchInputs
) -> FloatArray:
    """Return the objective of deployments (P,), larger is better.

    Of several objectives it is the sum of their logarithms, those to be minimized with a minus, so
    that a ratio counts the same in each: its highest value is a point of their Pareto set. Of a
    change of a benchmark it is the logarithm of the points kept, of 100.

    Args:
        results: Results of `estimate` and costs by name (P,).
        gpus: GPUs of the deployments (P,).
    """
    values = objective_values(results, gpus, inputs)
    if len(values) == 1:
        return values[0]
    logarithms = [
        np.log1p(value / PERCENT) if name == DELTA else np.sign(value) * np.log(np.abs(value))
        for name, value in zip(inputs.objectives, values, strict=True)
    ]
    total: FloatArray = np.add.reduce(logarithms)
    return total


def objective_values(
    results: Mapping[str, FloatArray], gpus: FloatArray, inputs: SearchInputs
) -> list[FloatArray]:
    """Return each objective of deployments (P,), larger is better.

    Args:
        results: Results of `estimate` and costs by name (P,).
        gpus: GPUs of the deployments (P,).
    """
    values = {name: gpus if name == "gpus" else results[name] for name in inputs.objectives}
    return [value if name in HIGHER else -value for name, value in values.items()]


def frontier_points(
    results: Mapping[str, FloatArray],
    gpus: FloatArray,
    probability: FloatArray,
    inputs: SearchInputs,
) -> IntArray:
    """Return the deployments that no other one exceeds.

    With one objective these are the points of the highest rates per user (of a graph of operators
    of the shortest latencies) and per GPU, whether they meet the limits or not; with several ones
    the Pareto set of those that meet all limits.

    Args:
        results: Results of `estimate` and costs by name (P,).
        gpus: GPUs of the deployments (P,).
        probability: Probability that all limits are met (P,).
    """
    if len(inputs.objectives) == 1:
        speed = -results["request_latency_s"] if inputs.of_items else results[PER_USER]
        return pareto_points(speed, results[PER_GPU])
    meets = probability >= inputs.min_slo_probability
    values = objective_values(results, gpus, inputs)
    return pareto_points(*(np.where(meets, value, np.nan) for value in values))


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Points with the probability that each limit is met, and their score."""

    points: Points
    probabilities: dict[str, FloatArray]  # Probability that each limit is met, by its field (P,)
    probability: FloatArray  # Least of them, 1 without limits (P,)
    excess: FloatArray  # Largest ratio of a prediction to its limit, 0 without limits (P,)
    replicas: FloatArray  # Replicas that serve (P,)
    spares: FloatArray  # Replicas beyond them (P,)
    # Whether the spares for the availability fit, True without one (P,)
    spares_fit: NDArray[np.bool_]
    score: FloatArray  # The objective, larger is better (P,)

    @property
    def gpus(self) -> FloatArray:
        """GPUs of the deployment (P,)."""
        return self.points.question.plan.gpus_per_replica * (self.replicas + self.spares)

    @property
    def node_gpus(self) -> FloatArray:
        """GPUs of the nodes that the deployment occupies (P,)."""
        each, per_node = self.points.question.plan.gpus_per_replica, _gpus_per_node(self.points)
        return gpus_of_nodes(each, per_node, self.replicas + self.spares)

    def availability(self, indices: IntArray, inputs: SearchInputs) -> FloatArray:
        """Return the share of time in which enough replicas of some points work (C,).

        Args:
            indices: The points (C,).
        """
        replicas, spares = self.replicas[indices], self.spares[indices]
        each = self.points.question.plan.gpus_per_replica[indices] / _gpus_per_node(self.points)
        return availability_of(replicas, replicas + spares, each, inputs)


def judge(points: Points, inputs: SearchInputs) -> Judged:
    """Return the probability that points meet all limits, and their score.

    With max_gpus and a request rate, replicas are those that serve it. Where their spares do not
    fit, the limit `availability` is not met.
    """
    results, plan = points.results, points.question.plan
    replicas, spares = plan.dp, np.zeros_like(plan.dp)
    if inputs.request_rate is not None and inputs.max_gpus is not None:
        enough = replicas_for_rate(results, plan.gpus_per_replica, inputs)
        each, devices = plan.gpus_per_replica, _gpus_per_node(points)
        most = most_replicas(each, devices, np.full_like(each, inputs.most_gpus))
        spares = spares_of(enough, most, each / devices, inputs)
        replicas = np.minimum(replicas, enough)
    gpus = plan.gpus_per_replica * replicas
    met = met_limits(results, gpus, inputs)
    fits = np.isfinite(spares)
    if inputs.availability is not None:
        spares = np.where(fits, spares, 0.0)
        met = met.also(AVAILABILITY, fits.astype(np.float64))
    return Judged(
        points=points,
        probabilities=met.probabilities,
        probability=met.least,
        excess=met.excess,
        replicas=replicas,
        spares=spares,
        spares_fit=fits,
        score=score_of(results, gpus + plan.gpus_per_replica * spares, inputs),
    )


def _gpus_per_node(points: Points) -> float:
    """Return the GPUs of a node of the system of points."""
    (system,) = points.family.base.placement.systems
    return float(system.node.devices)


def best_loads(judged: Judged, least: float) -> IntArray:
    """Return the best point of each candidate (C,), by ascending candidate.

    Among the points that meet all limits it is the one with the highest score; of equal ones, that
    with the lowest load; an unknown score is the lowest. Without any point that meets them it is
    the nearest to doing so.
    """
    rows = judged.points.rows
    candidate = np.cumsum(np.concatenate([[False], rows[1:] != rows[:-1]]))
    meets = judged.probability >= least
    value = ranking_values(meets, judged.score, judged.excess)
    return best_of_groups(candidate, meets, value)

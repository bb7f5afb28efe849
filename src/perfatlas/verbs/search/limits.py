"""Limits that a deployment must meet, and the objective that ranks those which do.

Shape legend: P points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.reliability.fleet.closed_form import replicas_up, spare_replicas
from perfatlas.studies import pareto_points, probability_at_most, value_exceeded
from perfatlas.verbs.search.groups import LATENCIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.verbs.search.question import SearchInputs

HIGHER: Final = frozenset(("output_tokens_per_s_per_gpu",))
RATE: Final = "request_rate"
AVAILABILITY: Final = "availability"
PER_GPU: Final = "output_tokens_per_s_per_gpu"
PER_USER: Final = "output_tokens_per_s_per_user"
ROUNDING: Final = 1e-12  # of a number of replicas
ENDS: Final = ("", "_low", "_high")


class Met(NamedTuple):
    """How well limits are met.

    Args:
        probabilities: Probability that each limit is met, by its field (P,).
        least: Least of them, 1 without limits (P,).
        excess: Largest ratio of a prediction to its limit, 0 without limits (P,).
    """

    probabilities: dict[str, FloatArray]
    least: FloatArray
    excess: FloatArray

    def also(self, name: str, probability: FloatArray) -> Met:
        """Return these limits and one more.

        Args:
            name: Its field.
            probability: Probability that it is met (P,).
        """
        known = {**self.probabilities, name: probability}
        return Met(known, np.minimum(self.least, probability), self.excess)


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
        gpus: GPUs of the deployments (P,).
        inputs: The search.
    """
    probabilities: dict[str, FloatArray] = {}
    least, excess = np.ones(gpus.shape), np.zeros(gpus.shape)
    for field, name in LATENCIES.items():
        limit = getattr(inputs, field)
        if limit is not None:
            ends = (results[f"{name}_low"], results[f"{name}_high"])
            probabilities[field] = probability_at_most(results[name], *ends, limit)
            excess = np.maximum(excess, np.nan_to_num(results[name] / limit))
    if inputs.request_rate is not None:
        each = inputs.mix.mean_osl / gpus
        gap, low, high = (each / results[f"{PER_GPU}{end}"] for end in ("", "_high", "_low"))
        probabilities[RATE] = probability_at_most(gap, low, high, 1.0 / inputs.request_rate)
        excess = np.maximum(excess, gap * inputs.request_rate)
    for found in probabilities.values():
        least = np.minimum(least, found)
    return Met(probabilities, least, excess)


def replicas_for_rate(
    results: Mapping[str, FloatArray], gpus: FloatArray, inputs: SearchInputs
) -> FloatArray:
    """Return the replicas that serve the request rate with the required probability (P,).

    Args:
        results: Results of `estimate` by name (P,).
        gpus: GPUs of a replica (P,).
        inputs: The search, with a request rate.
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
        inputs: The search.

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
        inputs: The search.
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
    that a ratio counts the same in each: its highest value is a point of their Pareto set.

    Args:
        results: Results of `estimate` and costs by name (P,).
        gpus: GPUs of the deployments (P,).
        inputs: The search.
    """
    values = objective_values(results, gpus, inputs)
    if len(values) == 1:
        return values[0]
    logarithms = [np.sign(value) * np.log(np.abs(value)) for value in values]
    total: FloatArray = np.add.reduce(logarithms)
    return total


def objective_values(
    results: Mapping[str, FloatArray], gpus: FloatArray, inputs: SearchInputs
) -> list[FloatArray]:
    """Return each objective of deployments (P,), larger is better.

    Args:
        results: Results of `estimate` and costs by name (P,).
        gpus: GPUs of the deployments (P,).
        inputs: The search.
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

    With one objective these are the points of the highest rates per user and per GPU, whether they
    meet the limits or not; with several ones the Pareto set of those that meet all limits.

    Args:
        results: Results of `estimate` and costs by name (P,).
        gpus: GPUs of the deployments (P,).
        probability: Probability that all limits are met (P,).
        inputs: The search.
    """
    if len(inputs.objectives) == 1:
        return pareto_points(results[PER_USER], results[PER_GPU])
    meets = probability >= inputs.min_slo_probability
    values = objective_values(results, gpus, inputs)
    return pareto_points(*(np.where(meets, value, np.nan) for value in values))

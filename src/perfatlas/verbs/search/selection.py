"""The best load of each candidate, and the order of candidates, under an objective.

Shape legend: C candidates, P points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.parallelism import gpus_of_nodes, most_replicas
from perfatlas.verbs.search.limits import (
    AVAILABILITY,
    availability_of,
    met_limits,
    replicas_for_rate,
    score_of,
    spares_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.verbs.search.points import Points
    from perfatlas.verbs.search.question import SearchInputs


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Points with the probability that each limit is met, and their score.

    Args:
        points: The points.
        probabilities: Probability that each limit is met, by its field (P,).
        probability: Least of them, 1 without limits (P,).
        excess: Largest ratio of a prediction to its limit, 0 without limits (P,).
        replicas: Replicas that serve (P,).
        spares: Replicas beyond them (P,).
        spares_fit: Whether the spares for the availability fit, True without one (P,).
        score: The objective, larger is better (P,).
    """

    points: Points
    probabilities: dict[str, FloatArray]
    probability: FloatArray
    excess: FloatArray
    replicas: FloatArray
    spares: FloatArray
    spares_fit: NDArray[np.bool_]
    score: FloatArray

    @property
    def gpus(self) -> FloatArray:
        """GPUs of the deployment (P,)."""
        return self.points.question.plan.gpus_per_replica * (self.replicas + self.spares)

    @property
    def node_gpus(self) -> FloatArray:
        """GPUs of the nodes that the deployment occupies (P,)."""
        each, per_node = self.points.question.plan.gpus_per_replica, _gpus_per_node(self.points)
        return gpus_of_nodes(each, per_node, self.replicas + self.spares)

    def availability(self, places: IntArray, inputs: SearchInputs) -> FloatArray:
        """Return the share of time in which enough replicas of some points work (C,).

        Args:
            places: The points (C,).
            inputs: The search.
        """
        replicas, spares = self.replicas[places], self.spares[places]
        each = self.points.question.plan.gpus_per_replica[places] / _gpus_per_node(self.points)
        return availability_of(replicas, replicas + spares, each, inputs)


def judge(points: Points, inputs: SearchInputs) -> Judged:
    """Return the probability that points meet all limits, and their score.

    With max_gpus and a request rate, replicas are those that serve it. Where their spares do not
    fit, the limit `availability` is not met.

    Args:
        points: The points.
        inputs: The search.
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

    Args:
        judged: Points by candidate and ascending load.
        least: Least probability with which limits must be met.
    """
    rows = judged.points.rows
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    meets = judged.probability >= least
    any_C = np.logical_or.reduceat(meets, first)
    candidate = np.repeat(np.arange(first.size), np.diff(np.append(first, rows.size)))
    score = np.where(np.isnan(judged.score), -np.finfo(np.float64).max, judged.score)
    value = np.where(any_C[candidate], np.where(meets, score, -np.inf), -judged.excess)
    top_C = np.maximum.reduceat(value, first)
    hits = np.flatnonzero(value == top_C[candidate])
    _, places = np.unique(candidate[hits], return_index=True)
    found: IntArray = hits[places]
    return found

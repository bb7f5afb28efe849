"""The best load of each candidate, and the order of candidates, under an objective.

Shape legend: C candidates, P points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.verbs.search.limits import met_limits, replicas_for_rate, score_of

if TYPE_CHECKING:
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
        replicas: Replicas of the deployment (P,).
        score: The objective, larger is better (P,).
    """

    points: Points
    probabilities: dict[str, FloatArray]
    probability: FloatArray
    excess: FloatArray
    replicas: FloatArray
    score: FloatArray

    @property
    def gpus(self) -> FloatArray:
        """GPUs of the deployment (P,)."""
        return self.points.question.plan.gpus_per_replica * self.replicas


def judge(points: Points, inputs: SearchInputs) -> Judged:
    """Return the probability that points meet all limits, and their score.

    With max_gpus and a request rate, replicas are those that serve it.

    Args:
        points: The points.
        inputs: The search.
    """
    results, plan = points.results, points.question.plan
    replicas = plan.dp
    if inputs.request_rate is not None and inputs.max_gpus is not None:
        enough = replicas_for_rate(results, plan.gpus_per_replica, inputs)
        replicas = np.minimum(replicas, enough)
    gpus = plan.gpus_per_replica * replicas
    met = met_limits(results, gpus, inputs)
    return Judged(
        points=points,
        probabilities=met.probabilities,
        probability=met.least,
        excess=met.excess,
        replicas=replicas,
        score=score_of(results, gpus, inputs),
    )


def best_loads(judged: Judged, least: float) -> IntArray:
    """Return the best point of each candidate (C,), by ascending candidate.

    Among the points that meet all limits it is the one with the highest score; of equal ones, that
    with the lowest load. Without any, it is the point that is nearest to meeting them.

    Args:
        judged: Points by candidate and ascending load.
        least: Least probability with which limits must be met.
    """
    rows = judged.points.rows
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    meets = judged.probability >= least
    any_C = np.logical_or.reduceat(meets, first)
    candidate = np.repeat(np.arange(first.size), np.diff(np.append(first, rows.size)))
    value = np.where(any_C[candidate], np.where(meets, judged.score, -np.inf), -judged.excess)
    top_C = np.maximum.reduceat(value, first)
    hits = np.flatnonzero(value == top_C[candidate])
    _, places = np.unique(candidate[hits], return_index=True)
    found: IntArray = hits[places]
    return found

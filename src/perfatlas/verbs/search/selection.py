"""The best load of each candidate, and the order of candidates, under an objective.

Shape legend: C candidates, P points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.studies import probability_at_most, value_exceeded

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.verbs.search.points import Points
    from perfatlas.verbs.search.question import SearchInputs

OBJECTIVES: Final = {
    "ttft_s": "slo_ttft_s",
    "tpot_s": "slo_tpot_s",
    "request_latency_s": "slo_request_latency_s",
}
HIGHER: Final = frozenset(("output_tokens_per_s_per_gpu",))
RATE: Final = "request_rate"


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

    Errors of all metrics are fully correlated, as in the intervals of estimates, so that all limits
    are met with the least of their probabilities.

    Args:
        points: The points.
        inputs: The search.
    """
    results = points.results
    probabilities = {
        field: probability_at_most(
            results[name], results[f"{name}_low"], results[f"{name}_high"], limit
        )
        for name, field in OBJECTIVES.items()
        if (limit := getattr(inputs, field)) is not None
    }
    ratios = [
        np.nan_to_num(results[name] / limit)
        for name, field in OBJECTIVES.items()
        if (limit := getattr(inputs, field)) is not None
    ]
    replicas = points.question.plan.dp
    if inputs.request_rate is not None:
        replicas, probabilities[RATE], ratio = _serving(points, inputs, inputs.request_rate)
        ratios.append(ratio)
    least = np.ones(points.size)
    for found in probabilities.values():
        least = np.minimum(least, found)
    gpus = points.question.plan.gpus_per_replica * replicas
    value = gpus if inputs.objective == "gpus" else results[inputs.objective]
    score = value if inputs.objective in HIGHER else -value
    return Judged(
        points=points,
        probabilities=probabilities,
        probability=least,
        excess=np.max(ratios, axis=0, initial=0.0) if ratios else np.zeros(points.size),
        replicas=replicas,
        score=score,
    )


def _serving(
    points: Points, inputs: SearchInputs, request_rate: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return replicas, the probability that they serve the rate, and the rate over theirs (P,)."""
    results, plan = points.results, points.question.plan
    per_gpu = [results[f"output_tokens_per_s_per_gpu{end}"] for end in ("", "_low", "_high")]
    each = plan.gpus_per_replica / inputs.osl
    rate, low, high = (one * each for one in per_gpu)
    replicas = plan.dp
    if inputs.max_gpus is not None:
        served = value_exceeded(rate, low, high, inputs.min_slo_probability)
        enough = np.ceil(request_rate / served * (1.0 - 1e-12))
        replicas = np.minimum(plan.dp, np.maximum(enough, 1.0))
    gap, gap_low, gap_high = 1.0 / rate, 1.0 / high, 1.0 / low
    met = probability_at_most(
        gap / replicas, gap_low / replicas, gap_high / replicas, 1.0 / request_rate
    )
    return replicas, met, request_rate * gap / replicas


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

"""Limits that a deployment must meet, and the objective that ranks those which do.

Shape legend: P points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.studies import probability_at_most, value_exceeded
from perfatlas.verbs.search.groups import LATENCIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.verbs.search.question import SearchInputs

HIGHER: Final = frozenset(("output_tokens_per_s_per_gpu",))
RATE: Final = "request_rate"
PER_GPU: Final = "output_tokens_per_s_per_gpu"
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


def score_of(
    results: Mapping[str, FloatArray], gpus: FloatArray, inputs: SearchInputs
) -> FloatArray:
    """Return the objective of deployments (P,), larger is better.

    Args:
        results: Results of `estimate` and costs by name (P,).
        gpus: GPUs of the deployments (P,).
        inputs: The search.
    """
    value = gpus if inputs.objective == "gpus" else results[inputs.objective]
    return value if inputs.objective in HIGHER else -value

"""Cost of a simulated deployment, at a price of its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.vocabulary.metrics import usd_per_million_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping


def cost_results(results: Mapping[str, Any], usd_per_gpu_hour: float | None) -> dict[str, Any]:
    """Return the cost per hour and per million output tokens; empty without a price.

    Under an autoscaler the GPUs of provisioned replicas are paid for, not those of all replicas.
    Throughput has an interval, and the cost of tokens the opposite one.

    Args:
        results: Results of a simulation.
        usd_per_gpu_hour: Price of one GPU-hour [USD].
    """
    if usd_per_gpu_hour is None:
        return {}
    tokens_per_s, each = results["output_tokens_per_s"], results["output_tokens_per_s_per_gpu"]
    if "replicas_on_average" in results and tokens_per_s and each:
        gpus = tokens_per_s / each
    else:
        gpus = results["gpus"]
    usd_per_hour = gpus * usd_per_gpu_hour

    def per_million(name: str) -> float | None:
        return usd_per_million_tokens(usd_per_hour, results.get(name))

    costs = {
        "usd_per_hour": usd_per_hour,
        "usd_per_million_output_tokens": per_million("output_tokens_per_s"),
    }
    if "output_tokens_per_s_low" in results:
        costs["usd_per_million_output_tokens_low"] = per_million("output_tokens_per_s_high")
        costs["usd_per_million_output_tokens_high"] = per_million("output_tokens_per_s_low")
    return costs

"""`estimate`: latencies, throughput and memory of one inference scenario, with a breakdown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfatlas.declarations import signature_of
from perfatlas.scenario.deployments import estimate_of
from perfatlas.verbs.estimate.metrics import EXPLAIN

if TYPE_CHECKING:
    from perfatlas.answer import Answer


@signature_of("estimate")
def estimate(**fields: Any) -> Answer:  # noqa: ANN401 - the vocabulary is checked by its schema
    """Return the estimate of one inference scenario.

    Args:
        **fields: Names of the vocabulary: model, system, gpus, tp, engine, format, mode, batch,
            concurrency, isl, osl and others. In mode aggregated, and disaggregated with a
            concurrency, method auto simulates if prompts wait for each other, and otherwise uses
            closed forms.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and its KV cache do not fit.
        UnsupportedError: There is no model or data for the combination.

    Example:
        >>> from perfatlas.verbs.estimate import estimate
        >>> answer = estimate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", batch=8)
        >>> answer.results["tpot_s"] > answer.results["tpot_s_low"] > 0
        True
    """
    return estimate_of(fields)


@signature_of("estimate")
def explain(
    *,
    slo_ttft_s: float | None = None,
    slo_tpot_s: float | None = None,
    slo_request_latency_s: float | None = None,
    **fields: Any,  # noqa: ANN401 - the vocabulary is checked by its schema
) -> Answer:
    """Return an estimate with its sensitivities to the hardware.

    Args:
        slo_ttft_s: TTFT for which break-even values are sought [s].
        slo_tpot_s: TPOT for which they are sought [s].
        slo_request_latency_s: Request latency for which they are sought [s]. Without any of the
            three, TTFT and TPOT 10% below the prediction.
        **fields: A scenario, as for `estimate`.

    Returns:
        The answer of `estimate` with `sensitivity` (elasticities by metric and factor),
        `next_bottleneck` and `break_even`.

    Raises:
        InvalidSpecError: A target is invalid.
        PerfatlasError: As for `estimate`.

    Example:
        >>> from perfatlas.verbs.estimate import explain
        >>> answer = explain(model="meta-llama/Llama-3.1-8B", system="h200_sxm", tier="bound")
        >>> rows = answer.results["next_bottleneck"]
        >>> next(row["field"] for row in rows if row["metric"] == "tpot_s")
        'device.memory.bandwidth'
    """
    from perfatlas.studies import explained_estimate

    targets = {
        "ttft_s": slo_ttft_s,
        "tpot_s": slo_tpot_s,
        "request_latency_s": slo_request_latency_s,
    }
    given = {name: value for name, value in targets.items() if value is not None}
    return replace(explained_estimate(fields, given), command=EXPLAIN[0])

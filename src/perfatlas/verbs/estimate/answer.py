"""`estimate`: latencies, throughput and memory of one inference scenario, with a breakdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.declarations import signature_of
from perfatlas.scenario.deployments import estimate_of

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

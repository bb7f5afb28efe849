"""`estimate --explain`: what an estimate depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.declarations import signature_of
from perfatlas.studies import explained_estimate
from perfatlas.verbs.estimate.metrics import EXPLAIN

if TYPE_CHECKING:
    from perfatlas.answer import Answer

__all__ = ["EXPLAIN", "explain"]


@signature_of("estimate")
def explain(
    *,
    slo_ttft_s: float | None = None,
    slo_tpot_s: float | None = None,
    slo_request_latency_s: float | None = None,
    spread: float | None = None,
    **fields: Any,  # noqa: ANN401 - the vocabulary is checked by its schema
) -> Answer:
    """Return an estimate with its sensitivities to the hardware.

    Args:
        slo_ttft_s: TTFT for which break-even values are sought [s].
        slo_tpot_s: TPOT for which they are sought [s].
        slo_request_latency_s: Request latency for which they are sought [s]. Without any of the
            three, TTFT and TPOT 10% below the prediction.
        spread: Also return Sobol indices for hardware between 1/spread and spread times its values.
        **fields: A scenario, as for `estimate`.

    Returns:
        The answer of `estimate` with `sensitivity` (elasticities by metric and factor),
        `next_bottleneck`, `break_even` and, with a spread, `sobol`.

    Raises:
        InvalidSpecError: A target or the spread is invalid.
        PerfatlasError: As for `estimate`.

    Example:
        >>> from perfatlas.verbs.estimate import explain
        >>> answer = explain(model="meta-llama/Llama-3.1-8B", system="h200_sxm", tier="bound")
        >>> rows = answer.results["next_bottleneck"]
        >>> next(row["field"] for row in rows if row["metric"] == "tpot_s")
        'device.memory.bandwidth'
    """
    targets = {
        "ttft_s": slo_ttft_s,
        "tpot_s": slo_tpot_s,
        "request_latency_s": slo_request_latency_s,
    }
    given = {name: value for name, value in targets.items() if value is not None}
    return explained_estimate(fields, given, spread)

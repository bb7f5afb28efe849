"""What an estimate depends on: elasticities, the next bottleneck, values that meet a target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import signature_of
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.resolution import read_scenario
from perfatlas.verbs.estimate.answer import estimate
from perfatlas.verbs.estimate.metrics import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer
    from perfatlas.scenario.fields import Scenario

SHORTER: Final = 0.9  # of the predicted latency: the target if none is given
FIXED: Final = (
    "sensitivities are derivatives of the closed forms at the plan, limits, formats and kernels of"
    " the scenario"
)
WITHOUT_TABLE: Final = (
    "sensitivities are those of tier physics: corrections by measured rows hold only for the"
    " measured hardware"
)


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
    given = {
        "ttft_s": slo_ttft_s,
        "tpot_s": slo_tpot_s,
        "request_latency_s": slo_request_latency_s,
    }
    _check(given, spread)
    scenario = read_scenario(fields)
    if scenario.method == "simulate":
        raise InvalidSpecError(
            "method = simulate has no sensitivities, which are derivatives of closed forms; remove"
            " method, or use method = formula"
        )
    if scenario.mode != "static":
        fields["method"] = "formula"
    answer = estimate(**fields)
    targets = {name: value for name, value in given.items() if value is not None}
    explained = _sensitivities(scenario, targets, spread)
    notes = (FIXED, WITHOUT_TABLE) if "measured" in answer.evidence.tier else (FIXED,)
    return replace(
        answer,
        command="estimate --explain",
        scenario={**answer.scenario, **_set(given, spread)},
        results={**answer.results, **explained},
        evidence=replace(answer.evidence, assumptions=(*answer.evidence.assumptions, *notes)),
    )


def _sensitivities(
    scenario: Scenario, targets: Mapping[str, float], spread: float | None
) -> dict[str, Any]:
    """Return elasticities, next bottlenecks, break-even values and Sobol indices by name."""
    from perfatlas.studies import (
        break_even,
        elasticities,
        next_bottlenecks,
        scaled_scenario,
        sobol_shares,
    )

    scaled = scaled_scenario(scenario)
    sensitivity = elasticities(scaled)
    if not targets:
        now = scaled.results([{}])
        targets = {n: SHORTER * float(now[n][0]) for n in TARGETS if n in sensitivity}
    found: dict[str, Any] = {
        "sensitivity": sensitivity,
        "next_bottleneck": next_bottlenecks(scaled),
        "break_even": [
            row
            for metric, target in targets.items()
            if metric in sensitivity
            for row in break_even(scaled, metric, target)
        ],
    }
    if spread is not None:
        found["sobol"] = sobol_shares(scaled, spread)
    return found


def _check(targets: dict[str, float | None], spread: float | None) -> None:
    for name, value in targets.items():
        if value is not None and not (0.0 < value < math.inf):
            raise InvalidSpecError(f"slo_{name} = {value} is not a positive time")
    if spread is not None and not 1.0 < spread <= 10.0:
        raise InvalidSpecError(
            f"spread = {spread} is outside 1 to 10: hardware varies between 1/spread and spread"
            " times its values"
        )


def _set(targets: dict[str, float | None], spread: float | None) -> dict[str, float]:
    """Return the options of the question that are given, by name."""
    options = {f"slo_{name}": value for name, value in targets.items()} | {"spread": spread}
    return {name: value for name, value in options.items() if value is not None}

"""What an estimate depends on: elasticities, the next bottleneck, values that meet a target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments import estimate_of
from perfatlas.scenario.resolution import read_scenario
from perfatlas.studies.scaling import scaled_scenario
from perfatlas.studies.sensitivity import (
    LATENCIES,
    break_even,
    elasticities,
    next_bottlenecks,
    sobol_shares,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer
    from perfatlas.scenario.fields import Scenario

TARGETS: Final = ("ttft_s", "tpot_s")  # if none is given
SHORTER: Final = 0.9  # of the predicted latency, for these
FIXED: Final = (
    "sensitivities are derivatives of the closed forms at the plan, limits, formats and kernels of"
    " the scenario"
)
WITHOUT_TABLE: Final = (
    "sensitivities are those of tier physics: corrections by measured rows hold only for the"
    " measured hardware"
)


def explained_estimate(
    fields: Mapping[str, Any], targets: Mapping[str, float], spread: float | None = None
) -> Answer:
    """Return an estimate with its sensitivities to the hardware.

    Args:
        fields: Arguments of `estimate`.
        targets: Latencies for which break-even values are sought, by metric [s]; without any, TTFT
            and TPOT 10% below the prediction.
        spread: Also return Sobol indices for hardware between 1/spread and spread times its values.

    Raises:
        InvalidSpecError: A target or the spread is invalid.
        PerfatlasError: As for `estimate`.
    """
    targets = {name: targets[name] for name in LATENCIES if name in targets}
    _check(targets, spread)
    scenario = read_scenario(fields)
    if scenario.method == "simulate":
        raise InvalidSpecError(
            "method = simulate has no sensitivities, which are derivatives of closed forms; remove"
            " method, or use method = formula"
        )
    answer = estimate_of(fields if scenario.mode == "static" else {**fields, "method": "formula"})
    explained = _sensitivities(scenario, targets, spread)
    options = {f"slo_{name}": value for name, value in targets.items()}
    if spread is not None:
        options["spread"] = spread
    notes = (FIXED, WITHOUT_TABLE) if "measured" in answer.evidence.tier else (FIXED,)
    return replace(
        answer,
        command="estimate --explain",
        scenario={**answer.scenario, **options},
        results={**answer.results, **explained},
        evidence=replace(answer.evidence, assumptions=(*answer.evidence.assumptions, *notes)),
    )


def _sensitivities(
    scenario: Scenario, targets: Mapping[str, float], spread: float | None
) -> dict[str, Any]:
    """Return elasticities, next bottlenecks, break-even values and Sobol indices by name."""
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


def _check(targets: Mapping[str, float], spread: float | None) -> None:
    for name, value in targets.items():
        if not (0.0 < value < math.inf):
            raise InvalidSpecError(f"slo_{name} = {value} is not a positive time")
    if spread is not None and not 1.0 < spread <= 10.0:
        raise InvalidSpecError(
            f"spread = {spread} is outside 1 to 10: hardware varies between 1/spread and spread"
            " times its values"
        )

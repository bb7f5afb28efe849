"""Which measurements would most change which of two designs is faster.

Shape legend: C candidates, here the first; O operators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import on_any_machine
from perfatlas.hardware import resolve_system
from perfatlas.lab.harness.cases import Case, is_measurable
from perfatlas.lab.harness.layers import operator_case
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.answer import Answer
    from perfatlas.step import StepCost

    Steps = Sequence[tuple[str, StepCost]]

MEASUREMENTS: Final = 3
DEVIATIONS: Final = 1.6449  # from the middle of a normal distribution to an end of its 90% interval
UNMEASURED: Final = "no suite has this operator"


@dataclass(kw_only=True)
class Kernel:
    """A kernel of one or more operators of the two designs."""

    case: Case  # What would be measured
    time_s: float  # Time of one execution [s]
    ends_s: tuple[float, float]  # Its 90% interval [s]
    operators: list[str] = field(default_factory=list)  # Their names
    deviation_s: float = 0.0  # Standard deviation of the difference of the designs by its error [s]


def decided(answers: Sequence[Answer], steps: Sequence[Steps]) -> tuple[dict[str, Any], list[Case]]:
    """Return the difference of two designs with the kernels that make it uncertain, and a suite.

    The difference is that of the steps of a request: all prefill steps, and a decode step per
    output token. Errors of kernels are independent; the same kernel of both designs has one.

    Args:
        answers: Estimates of the designs.
        steps: Their priced steps.

    Raises:
        UnsupportedError: No operator has an interval, or none of them can be measured.

    Source: variance of a sum of independent terms; the deviation of a time is that of the
        lognormal distribution with its 90% interval.
    Limits: Errors that kernels of one calibration share are not modelled.
    """
    kernels: dict[tuple[Any, ...], Kernel] = {}
    difference_s = 0.0
    for sign, answer, answer_steps in zip((-1.0, 1.0), answers, steps, strict=True):
        for phase, cost in answer_steps:
            weight = sign * _steps_of(phase, answer)
            difference_s += weight * float(cost.total_s()[0])
            _add(kernels, cost, weight, str(answer.scenario["system"]))
    variance = sum(kernel.deviation_s**2 for kernel in kernels.values())
    if not variance:
        raise UnsupportedError(
            "--decide needs intervals of operators, and these designs are priced without: choose"
            " devices with measured kernels"
        )
    ranked = sorted(kernels.values(), key=lambda kernel: -abs(kernel.deviation_s))
    measured = [kernel for kernel in ranked if is_measurable(kernel.case) and kernel.deviation_s]
    measured = measured[:MEASUREMENTS]
    if not measured:
        raise UnsupportedError("--decide: no suite has the operators of these designs")
    last = ranked.index(measured[-1])
    results = {
        "steps_difference_s": difference_s,
        "steps_difference_deviation_s": math.sqrt(variance),
        "decisions": [_row(kernel, variance) for kernel in ranked[: last + 1]],
    }
    return results, [kernel.case for kernel in measured]


def _steps_of(phase: str, answer: Answer) -> float:
    """Return the steps of a request in a phase."""
    if phase == "decode":
        return float(answer.scenario["osl"])
    return float(answer.results.get("prefill_steps") or 1.0)


def _add(kernels: dict[Any, Kernel], cost: StepCost, weight: float, system: str) -> None:
    """Add the errors of a step to those of its kernels."""
    prices, device = on_any_machine(cost.prices), resolve_system(system).device.name
    for o in np.flatnonzero(cost.count_CO[0] > 0).tolist():
        match = int(prices.match_CO[0, o])
        if match < 0:
            continue
        operator = cost.operators[o]
        case = operator_case(operator, device)
        time_s, low_s, high_s = (
            float(values_CO[0, o])
            for values_CO in (prices.time_s_CO, prices.low_s_CO, prices.high_s_CO)
        )
        sizes = tuple(case.shape.items()) or operator.name
        key = (case.operator, sizes, case.format, system, prices.matches[match].calibration.id)
        kernel = kernels.setdefault(key, Kernel(case=case, time_s=time_s, ends_s=(low_s, high_s)))
        width = math.log(high_s / low_s) / 2.0 / DEVIATIONS if low_s > 0.0 else 0.0
        kernel.deviation_s += weight * float(cost.count_CO[0, o]) * time_s * width
        if case.name not in kernel.operators:
            kernel.operators.append(case.name)


def _row(kernel: Kernel, variance: float) -> dict[str, Any]:
    case = kernel.case
    sizes = " ".join(f"{name}={value}" for name, value in case.shape.items())
    return {
        "case": " ".join(filter(None, (case.operator, sizes, case.format))),
        "system": case.system,
        "operators": ", ".join(kernel.operators),
        "time_s": kernel.time_s,
        "time_s_low": kernel.ends_s[0],
        "time_s_high": kernel.ends_s[1],
        "variance_share": kernel.deviation_s**2 / variance,
        "reason": None if is_measurable(case) else UNMEASURED,
    }

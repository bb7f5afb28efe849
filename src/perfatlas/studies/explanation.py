"""What an estimate depends on: elasticities, the next bottleneck, values that meet a target.

Shape legend: N changes, F factors, M metrics.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.networks import is_graph
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.deployments import estimate_of
from perfatlas.scenario.resolution import read_scenario
from perfatlas.studies.scaling import scaled_scenario
from perfatlas.vocabulary.metrics import metrics_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.answer import Answer
    from perfatlas.scenario.fields import Scenario
    from perfatlas.studies.factors import Factor
    from perfatlas.studies.scaling import Change, ScaledScenario

    FloatArray = NDArray[np.float64]
    Columns = Mapping[str, FloatArray]


LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
STEP: Final = 1e-5  # of a ratio: small beside the curvature, large beside rounding
LOWERED: Final = 0.05  # of a power limit, whose clock is solved to 0.1%
IMPROVEMENTS: Final = (1.0, 1.2, 2.0)
FURTHEST: Final = 64.0  # ratio up to which a target is searched
RESOLUTION: Final = 1e-10  # of the logarithm of a break-even ratio


def elasticities(scaled: ScaledScenario) -> dict[str, dict[str, float]]:
    """Return d ln(metric) / d ln(factor), by metric and factor.

    Two-sided differences; a count is increased by one, and a power limit is lowered. A metric
    without a value, such as TPOT with one output token, is omitted.

    Source:
        Definition. Times are homogeneous functions (Euler): the elasticities of a time to all
        latencies minus those to all rates sum to 1 where no power limit acts.

    Limits:
        Plan, limits, formats and kernels are fixed; where a kernel changes its tiling, the
        derivative is that of the current tiling.

    Example:
        >>> from perfatlas.scenario.resolution import read_scenario
        >>> from perfatlas.studies import elasticities, scaled_scenario
        >>> fields = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "tier": "bound"}
        >>> found = elasticities(scaled_scenario(read_scenario(fields)))
        >>> round(found["tpot_s"]["device.memory.bandwidth"], 2)
        -1.0
    """
    changes, spans = _differences(scaled)
    columns = scaled.results(changes)
    sensitivity: dict[str, dict[str, float]] = {}
    explained = (metric.name for metric in metrics_of("estimate") if metric.has_interval)
    for metric in (name for name in explained if name in columns):
        pairs = columns[metric].reshape(-1, 2)
        if not np.all(np.isfinite(pairs)) or np.any(pairs <= 0.0):
            continue
        slopes = np.log(pairs[:, 1] / pairs[:, 0]) / spans
        sensitivity[metric] = {
            factor.name: float(slope) for factor, slope in zip(scaled.factors, slopes, strict=True)
        }
    return sensitivity


def _differences(scaled: ScaledScenario) -> tuple[list[Change], FloatArray]:
    """Return the lower and upper change of each factor, and ln of their ratio (F,)."""
    changes: list[Change] = []
    spans = []
    for factor in scaled.factors:
        low, high = 1.0 / (1.0 + STEP), 1.0 + STEP
        if factor.sides == "up":
            low, high = 1.0, 1.0 + 1.0 / min(scaled.values(factor.name))
        elif factor.sides == "down":
            low, high = 1.0 - LOWERED, 1.0
        changes += [{factor.name: low}, {factor.name: high}]
        spans.append(np.log(high / low))
    return changes, np.array(spans)


def next_bottlenecks(scaled: ScaledScenario) -> list[dict[str, Any]]:
    """Return, for each latency, what limits it most, and what does once that is improved.

    Improving a rate by 1.2 multiplies it by 1.2; improving a latency divides it.

    Returns:
        Rows of `metric`, `improved` (the field that limits the scenario most), `ratio` (by how much
        it is improved, first 1), `value` (the latency then [s]), `field` (what then limits it most)
        and `elasticity` (of the latency to an improvement of that field alone, which two equally
        fast links in series do not reward).
    """
    factors = {factor.name: factor for factor in scaled.factors if factor.improves}
    improvements: dict[tuple[str, float], tuple[dict[str, float], dict[str, dict[str, float]]]] = {}
    _, now = _improvements(scaled, {})
    rows = []
    for metric, gains in now.items():
        first = factors[max(gains, key=gains.__getitem__)]
        for ratio in IMPROVEMENTS:
            if (first.name, ratio) not in improvements:
                improved = {first.name: 1.0 / ratio if first.is_latency else ratio}
                improvements[first.name, ratio] = _improvements(scaled, improved)
            values, then = improvements[first.name, ratio]
            largest = factors[max(then[metric], key=then[metric].__getitem__)]
            gain = then[metric][largest.name]
            rows.append(
                {
                    "metric": metric,
                    "improved": first.name,
                    "ratio": ratio,
                    "value": values[metric],
                    "field": largest.name,
                    "elasticity": gain if largest.is_latency else -gain,
                }
            )
    return rows


def _improvements(
    scaled: ScaledScenario, base: dict[str, float]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return latencies [s], and by how much improving each factor alone shortens them (slopes)."""
    factors = [factor for factor in scaled.factors if factor.improves]
    better = {f.name: 1.0 / (1.0 + STEP) if f.is_latency else 1.0 + STEP for f in factors}
    changes = [{**base, name: base.get(name, 1.0) * ratio} for name, ratio in better.items()]
    columns = scaled.results([base, *changes])
    columns = {m: columns[m] for m in LATENCIES if m in columns and np.all(columns[m] > 0.0)}
    gains = {
        metric: dict(zip(better, (np.log(v[0] / v[1:]) / np.log1p(STEP)).tolist(), strict=True))
        for metric, v in columns.items()
    }
    return {metric: float(v[0]) for metric, v in columns.items()}, gains


def break_even(scaled: ScaledScenario, metric: str, target: float) -> list[dict[str, Any]]:
    """Return the value of each factor, alone, at which a latency meets a target.

    Args:
        metric: ttft_s, tpot_s or request_latency_s.
        target: The latency [s].

    Returns:
        Rows of `metric`, `target`, `field`, `ratio` (new over old; None where no value of the field
        alone is sufficient), `value` (new value [SI], of a system's field) and `limit` (the latency
        [s] at the furthest value, at most 64 times better), the smallest change first. A scenario
        that meets the target already is answered with the values down to which it still does.
    """
    factors = [factor for factor in scaled.factors if factor.improves]
    met = scaled.results([{}])[metric][0] <= target
    # the exponent of ratios that approach the target
    signs = np.array([-1.0 if factor.is_latency else 1.0 for factor in factors])
    signs *= -1.0 if met else 1.0
    ends = np.log([scaled.most(factor.name, FURTHEST) for factor in factors])
    furthest = _at(scaled, factors, metric, np.exp(signs * ends)[:, None])[:, 0]
    reached = furthest > target if met else furthest <= target
    solved = np.ones(len(factors))
    for index in np.flatnonzero(reached):
        solved[index] = _root(scaled, factors[index], metric, target, signs[index] * ends[index])
    rows_found = [
        {
            "metric": metric,
            "target": target,
            "field": factor.name,
            "ratio": float(ratio) if ok else None,
            "value": _value(scaled, factor, float(ratio)) if ok else None,
            "limit": float(limit),
        }
        for factor, ratio, ok, limit in zip(factors, solved, reached, furthest, strict=True)
    ]
    return sorted(rows_found, key=_distance)


def _root(scaled: ScaledScenario, factor: Factor, metric: str, target: float, end: float) -> float:
    """Return the ratio at which a metric equals a target, between 1 and exp(end)."""
    from scipy.optimize import brentq

    def excess(log_ratio: float) -> float:
        value = scaled.results([{factor.name: float(np.exp(log_ratio))}])[metric][0]
        return float(np.log(value / target))

    return float(np.exp(brentq(excess, 0.0, end, xtol=RESOLUTION)))


def _distance(row: Mapping[str, Any]) -> tuple[bool, float]:
    return row["ratio"] is None, abs(np.log(row["ratio"])) if row["ratio"] else row["limit"]


def _value(scaled: ScaledScenario, factor: Factor, ratio: float) -> float | None:
    """Return the scaled value of a field, None for times of the engine and unequal pools."""
    if factor.of_engine:
        return None
    values = set(scaled.values(factor.name))
    return values.pop() * ratio if len(values) == 1 else None


def _at(
    scaled: ScaledScenario, factors: Sequence[Factor], metric: str, ratio_FN: FloatArray
) -> FloatArray:
    """Return a metric with each factor alone at some ratios (F, N)."""
    changes = [
        {factor.name: float(ratio)}
        for factor, ratios in zip(factors, ratio_FN, strict=True)
        for ratio in ratios
    ]
    return scaled.results(changes)[metric].reshape(ratio_FN.shape)


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


def explained_estimate(fields: Mapping[str, Any], targets: Mapping[str, float]) -> Answer:
    """Return an estimate with its sensitivities to the hardware.

    Args:
        fields: Arguments of `estimate`.
        targets: Latencies for which break-even values are sought, by metric [s]; without any, TTFT
            and TPOT 10% below the prediction.

    Raises:
        InvalidSpecError: A target is invalid.
    """
    targets = {name: targets[name] for name in LATENCIES if name in targets}
    _check(targets)
    scenario = read_scenario(fields)
    if is_graph(scenario.model):
        raise UnsupportedError(
            f"sensitivities of {scenario.model}, a graph of operators, are not computed; compare it"
            " on changed systems, such as h200_sxm{device.memory.bandwidth=6TB/s}"
        )
    if scenario.method == "simulate":
        raise InvalidSpecError(
            "method = simulate has no sensitivities, which are derivatives of closed forms; remove"
            " method, or use method = formula"
        )
    answer = estimate_of(fields if scenario.mode == "static" else {**fields, "method": "formula"})
    explained = _sensitivities(scenario, targets)
    options = {f"slo_{name}": value for name, value in targets.items()}
    notes = (FIXED, WITHOUT_TABLE) if "measured" in answer.evidence.tier else (FIXED,)
    return replace(
        answer,
        scenario={**answer.scenario, **options},
        results={**answer.results, **explained},
        evidence=replace(answer.evidence, assumptions=(*answer.evidence.assumptions, *notes)),
    )


def _sensitivities(scenario: Scenario, targets: Mapping[str, float]) -> dict[str, Any]:
    """Return elasticities, next bottlenecks and break-even values by name."""
    scaled = scaled_scenario(scenario)
    sensitivity = elasticities(scaled)
    if not targets:
        now = scaled.results([{}])
        targets = {n: SHORTER * float(now[n][0]) for n in TARGETS if n in sensitivity}
    return {
        "sensitivity": sensitivity,
        "next_bottleneck": next_bottlenecks(scaled),
        "break_even": [
            row
            for metric, target in targets.items()
            if metric in sensitivity
            for row in break_even(scaled, metric, target)
        ],
    }


def _check(targets: Mapping[str, float]) -> None:
    for name, value in targets.items():
        if not (0.0 < value < math.inf):
            raise InvalidSpecError(f"slo_{name} = {value} is not a positive time")

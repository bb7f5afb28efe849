"""Breakdown of a training step by operator and collective.

Shape legend: C candidates, O operators, E exchanges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import breakdown_rows
from perfatlas.operators import with_fields
from perfatlas.step import StepCost
from perfatlas.training.step import layers_of_busiest
from perfatlas.training.work import Part

if TYPE_CHECKING:
    from perfatlas.training.step import TrainingQuestion, TrainingSteps

PHASES: Final = {
    Part.FORWARD: "forward",
    Part.INPUT_GRADIENT: "data gradient",
    Part.WEIGHT_GRADIENT: "weight gradient",
}
# parts of the step that are no operators: the resource that limits them
ROUNDING: Final = 1e-12  # of a step: differences of sums that are zero but for rounding
OTHERS: Final = {
    "exposed_dp": ("network", "communication"),
    "exposed_pp": ("network", "communication"),
    "exposed_offload": ("network", "communication"),
    "bubble": ("latency", "compute"),
    "recompute": ("compute", "compute"),
    "optimizer": ("memory", "compute"),
    "host": ("host", "host"),
    "jitter": ("latency", "compute"),
    "input": ("host", "host"),
    "smoothing": ("latency", "compute"),
}


def step_costs_of(question: TrainingQuestion, steps: TrainingSteps) -> tuple[StepCost, ...]:
    """Return the kernels of all micro-batches on the busiest rank of candidate 0, by part."""
    costs = steps.costs
    layers_G = layers_of_busiest(question, steps, 0)
    count_O = np.array([row.operator.count[costs.index_C[0]] for row in costs.rows])
    count_O *= layers_G[[row.segment for row in costs.rows]] * question.layouts.micro_batches[0]
    shapes = costs.rows[0].operator.count.size
    count_O[[row.role == "again" for row in costs.rows]] = 0.0  # counted as recomputation
    part_O = np.array([row.part for row in costs.rows])
    chip_j_CO = costs.prices.chip_energy_j_CO * costs.clock.energy_share[:, None]
    prices = with_fields(costs.prices, chip_energy_j_CO=chip_j_CO)
    return tuple(
        StepCost(
            operators=tuple(row.operator for row in costs.rows),
            count_CO=np.tile(np.where(part_O == part, count_O, 0.0), (shapes, 1)),
            prices=prices,
            hidden_s_CO=np.zeros_like(prices.time_s_CO),
            host_s_C=np.zeros(shapes),
            host_work_s_C=np.zeros(shapes),
            clock=costs.clock,
        )
        for part in Part
    )


def training_breakdown(question: TrainingQuestion, steps: TrainingSteps) -> list[dict[str, Any]]:
    """Return the breakdown of the first candidate; times sum to the step.

    Energies are dynamic ones of the busiest rank; collectives and other parts have none.
    """
    shape = int(steps.costs.index_C[0])
    rows: list[dict[str, Any]] = []
    for part, cost in zip(Part, step_costs_of(question, steps), strict=True):
        rows += breakdown_rows(cost, PHASES[part], shape)
    rows += _exchange_rows(question, steps, shape)
    step_s = float(steps.step_s_C[0])
    for name, (bound, stream) in OTHERS.items():
        time_s = float(steps.waterfall[name][0]) if name in steps.waterfall else 0.0
        if time_s > ROUNDING * step_s:
            rows.append(_row(name, "step", (1.0, time_s), bound, stream))
    for row in rows:
        row["share"] = row["time_s"] / step_s
    return rows


def _exchange_rows(
    question: TrainingQuestion, steps: TrainingSteps, shape: int
) -> list[dict[str, Any]]:
    """Return the exposed time of the collectives inside the passes."""
    layers_G = layers_of_busiest(question, steps, 0)
    batches = float(question.layouts.micro_batches[0])
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for at, exchange in enumerate(steps.costs.exchanges):
        count = batches * float(layers_G[exchange.segment])
        time_s = count * float(steps.costs.exposed_s_UE[shape, at])
        if time_s <= 0.0:
            continue
        key = (exchange.name, PHASES[exchange.part])
        row = found.setdefault(key, _row(*key, (0.0, 0.0), "network", "communication"))
        row["count"] += count
        row["time_s"] += time_s
    return list(found.values())


def _row(
    name: str, phase: str, times: tuple[float, float], bound: str, stream: str
) -> dict[str, Any]:
    count, time_s = times
    return {
        "name": name,
        "phase": phase,
        "count": count,
        "time_s": time_s,
        "share": 0.0,
        "hidden_time_s": 0.0,
        "bound": bound,
        "bound_time_s": 0.0,
        "energy_j": None,
        "tier": "physics",
        "calibration": None,
        "stream": stream,
    }

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.compiled.loops import FEW_ROWS
from perfatlas.engines import operator_class, operator_spreads
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import StepCost, decode_step
from perfatlas.step.sums import sums_by_group


def step_of(batches: int) -> StepCost:
    """Return decode steps of a mixture of experts, with collectives, on H200."""
    fields = {"model": "Qwen/Qwen3-30B-A3B", "system": "h200_sxm", "engine": "vllm", "tp": 2}
    rows = [Scenario.read({**fields, "batch": 1 + n}) for n in range(batches)]
    question, problems = resolve_scenarios(rows)
    assert question is not None, problems
    return decode_step(question.context(), question.load.sequences, question.load.isl)


@pytest.mark.parametrize("batches", [1, FEW_ROWS])  # interpreted, then compiled
def test_sums_are_those_of_the_columns(batches: int) -> None:
    step = step_of(batches)
    count, prices, sums = step.count_CO, step.prices, step.sums
    busy_CO = count * prices.time_s_CO
    energy_CO = count * (prices.chip_energy_j_CO + prices.memory_energy_j_CO)
    # numpy adds up in the same order
    assert np.array_equal(sums.time_s, busy_CO.sum(axis=1))
    assert np.array_equal(sums.bound_s, (count * prices.bound_s_CO).sum(axis=1))
    assert np.array_equal(sums.chip_j, (count * prices.chip_energy_j_CO).sum(axis=1))
    assert np.allclose(step.energy_j(), energy_CO.sum(axis=1), rtol=1e-12)
    assert np.all(sums.at_bound_s == np.where(prices.match_CO < 0, busy_CO, 0.0).sum(axis=1))


@pytest.mark.parametrize("batches", [1, FEW_ROWS])
def test_calibrations_and_classes_add_in_quadrature(batches: int) -> None:
    step = step_of(batches)
    prices, matches = step.prices, step.prices.matches
    late_CO = step.count_CO * (prices.high_s_CO - prices.time_s_CO)
    busy_CO = step.count_CO * prices.time_s_CO
    own = [(prices.match_CO == place) for place, match in enumerate(matches) if match.own]
    lent_CO = np.isin(prices.match_CO, [p for p, match in enumerate(matches) if not match.own])
    parts = [late_CO[:, :].sum(axis=1, where=some) for some in (*own, lent_CO)]
    assert np.allclose(step.sums.above_s, np.sqrt(np.square(parts).sum(axis=0)), rtol=1e-12)
    variance_C = np.zeros(batches)
    for name, spread in operator_spreads().items():
        places = [
            p for p, m in enumerate(matches) if operator_class(m.calibration.operator) == name
        ]
        busy_C = busy_CO.sum(axis=1, where=np.isin(prices.match_CO, places))
        variance_C += np.square(spread.deviation * busy_C)
    assert np.all(variance_C > 0.0)
    assert np.allclose(step.laboratory_s(), np.sqrt(variance_C), rtol=1e-12)


@pytest.mark.parametrize("batches", [1, FEW_ROWS])
def test_groups_and_classes_make_up_the_whole(batches: int) -> None:
    step = step_of(batches)
    found = sums_by_group(step.count_CO, step.prices, step.clock)
    below_s, above_s = np.sqrt(np.square(found.away_s_2GC).sum(axis=1))
    assert np.allclose(found.whole.below_s, below_s, rtol=1e-12)
    assert np.allclose(found.whole.above_s, above_s, rtol=1e-12)
    laboratory_s = np.sqrt(np.square(found.laboratory_s_KC).sum(axis=0))
    assert np.allclose(found.whole.laboratory_s, laboratory_s, rtol=1e-12)
    assert np.count_nonzero(found.laboratory_s_KC.any(axis=1)) > 1

"""Every schedule equals an event-by-event simulation that shares no code with it."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.training.schedules import peak_activations, pipeline_steps
from tests.training.pipelines import SIZES, as_columns, random_case
from tests.training.reference_pipeline import simulate

CASES = [(schedule, size) for schedule, sizes in SIZES.items() for size in sizes]


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize(("schedule", "size"), CASES)
def test_steps_of_random_uneven_stages_equal_the_event_by_event_simulation(
    schedule: str, size: tuple[int, int, int], *, overlap: bool
) -> None:
    """Durations are multiples of 2^-10, so that no sum is rounded and the times are equal."""
    for seed in range(6):
        case = random_case(schedule, size, seed, overlap=overlap)
        outcome = simulate(case)
        steps = pipeline_steps(as_columns(case))
        kept = peak_activations(as_columns(case), np.ones((1, len(case.forward))))
        assert steps.step_s_C[0] == outcome.step
        for rank, intervals in enumerate(outcome.intervals):
            assert steps.busy_s_CP[0, rank] == sum(end - start for _, start, end in intervals)
            assert steps.span_s_CP[0, rank] == intervals[-1][2] - intervals[0][1]
            assert kept[0, rank] == outcome.peak(rank)
        case.send = [0.0] * len(case.send)
        free = simulate(case).step
        assert steps.exposed_send_s_C[0] == outcome.step - free
        assert np.all(steps.bubble_s_CP[0] == free - steps.busy_s_CP[0])

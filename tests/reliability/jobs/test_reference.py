from __future__ import annotations

import pytest

from perfatlas.reliability.jobs.run import schedule
from tests.reliability.jobs.scenarios import (
    crowded_scenario,
    expected_by,
    found_by,
    random_scenario,
    run_reference,
)


def hundreds(count: int, every: int) -> list[object]:
    """Return the first seed of each hundred; `make validate` runs those between every n-th."""
    return [
        pytest.param(first, marks=[pytest.mark.study] * (first % (100 * every) > 0))
        for first in range(0, count, 100)
    ]


@pytest.mark.parametrize("first", hundreds(1200, every=4))
def test_compiled_schedule_equals_a_plain_one_in_every_field(first: int) -> None:
    for seed in range(first, first + 100):
        it = random_scenario(seed)
        until_s = None if it.until is None else it.until / 1000
        outcome = schedule(it.jobs, it.cluster, it.policy, failures=it.failures, until_s=until_s)
        assert found_by(outcome) == expected_by(run_reference(it)), f"seed {seed}"


@pytest.mark.parametrize("first", hundreds(400, every=4))
def test_reservations_kept_between_passes_equal_those_made_anew(first: int) -> None:
    for seed in range(first, first + 100):
        it = crowded_scenario(seed)
        until_s = None if it.until is None else it.until / 1000
        outcome = schedule(it.jobs, it.cluster, it.policy, failures=it.failures, until_s=until_s)
        assert found_by(outcome) == expected_by(run_reference(it)), f"seed {seed}"


def test_random_scenarios_reach_every_bucket_and_every_end() -> None:
    buckets: set[str] = set()
    states: set[str] = set()
    for seed in range(300):
        it = random_scenario(seed)
        until_s = None if it.until is None else it.until / 1000
        outcome = schedule(it.jobs, it.cluster, it.policy, failures=it.failures, until_s=until_s)
        buckets |= {name for name, value in outcome.gpu_ticks().items() if value}
        states |= set(outcome.states)
        assert sum(outcome.gpu_ticks().values()) == it.cluster.gpus * outcome.now
    assert len(buckets) == 11
    assert {"completed", "timeout", "node_fail", "preempted"} <= states

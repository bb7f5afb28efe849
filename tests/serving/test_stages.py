"""Pipeline stages: batches in flight on their way through the stages of a replica."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.config import EngineFleet, Replicas, SchedulerLimits
from perfatlas.serving.config.engines import equal_engines
from perfatlas.serving.state import SimulationState
from tests.examples import few
from tests.serving.interpreted import interpreted
from tests.serving.serving_support import flat_prices, requests_of

LIMITS = SchedulerLimits(8, 64, 4, 1000)
PROMPT, DECODE = 120, 12  # ps of a step with and without prompts, through all stages
RULES = ("vllm", "sglang", "trtllm_guaranteed_no_evict", "trtllm_max_utilization")


def fleet_of(
    layers: tuple[int, ...], limits: SchedulerLimits = LIMITS, ranks: int = 1
) -> EngineFleet:
    prices = flat_prices(DECODE, PROMPT, tokens=64)
    return equal_engines(prices, limits, Replicas(stage_layers=layers, ranks=ranks))


def simulated(rows: list[tuple[int, int, int]], fleet: EngineFleet) -> SimulationState:
    with np.errstate(over="ignore"):  # hashes of blocks wrap around
        state = interpreted(requests_of(rows), fleet)
    assert (state.finished_N >= 0).all()
    # the batches of a replica share its blocks, all of which are free in the end
    group = fleet.groups[0]
    assert state.scheduler_S["free"].sum() == group.limits.kv_blocks * group.ranks
    assert state.replica_R["load"].max() == 0
    return state


@pytest.mark.parametrize("layers", [(1, 1), (2, 1, 1), (1, 2, 3, 2)])
@pytest.mark.parametrize("rules", RULES)
def test_one_request_takes_the_sum_of_the_stages(layers: tuple[int, ...], rules: str) -> None:
    limits = LIMITS._replace(rules=rules)
    rows = [(0, 50, 9)]
    staged, plain = (simulated(rows, fleet_of(stages, limits)) for stages in (layers, ()))
    assert staged.finished_N.tolist() == plain.finished_N.tolist() == [PROMPT + 8 * DECODE]
    assert staged.first_token_N.tolist() == [PROMPT]


@pytest.mark.parametrize("layers", [(1, 1), (1, 1, 1), (3, 1, 1, 1)])
def test_batches_leave_at_the_rate_of_the_slowest_stage(layers: tuple[int, ...]) -> None:
    # each prompt fills a batch and ends in it
    rows = [(0, 64, 1)] * 24
    ends = np.sort(simulated(rows, fleet_of(layers)).finished_N)
    slowest = PROMPT * max(layers) // sum(layers)
    assert ends[0] == PROMPT
    assert (np.diff(ends) == slowest).all()


def test_decodes_of_two_batches_share_the_stages() -> None:
    # The second prompt is 60 ps behind and holds the last stage until 180 ps. There the first
    # decode of the other batch follows it, at 186 ps, and then both decode once in 12 ps.
    first, second = simulated([(0, 64, 6), (0, 64, 6)], fleet_of((1, 1))).finished_N.tolist()
    assert first == PROMPT + 3 * PROMPT // 6 + DECODE // 2 + 4 * DECODE
    assert second == first + DECODE // 2


def test_chunks_of_a_prompt_follow_each_other_where_the_engine_lets_them() -> None:
    # four chunks: 120 ps for the first, then one per stage time; in TensorRT-LLM one by one
    for rules in RULES:
        state = simulated([(0, 256, 1)], fleet_of((1, 1), LIMITS._replace(rules=rules)))
        chained = rules.startswith("trtllm")
        assert state.finished_N.tolist() == [4 * PROMPT if chained else PROMPT + 3 * PROMPT // 2]


def test_an_arrival_waits_until_the_first_batch_returns() -> None:
    # as the scheduler waits for the first batch in flight, it cannot use the idle stage at 50 ps
    state = simulated([(0, 64, 2), (50, 32, 1)], fleet_of((1, 1)))
    assert state.scheduled_N.tolist() == [0, PROMPT]
    assert state.finished_N[0] == 2 * PROMPT  # its decode shares the step of the second prompt


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("prefix_caching", few([False, True], every=2))
def test_random_requests_end_on_any_pipeline(rules: str, *, prefix_caching: bool) -> None:
    draw = np.random.default_rng(0)
    rows = [
        (int(time), int(draw.integers(1, 100)), int(draw.integers(1, 16)))
        for time in np.sort(draw.integers(0, 900, 14))
    ]
    few = SchedulerLimits(4, 64, 4, 40, rules=rules, prefix_caching=prefix_caching)
    for layers, ranks in (((2, 1, 1), 1), ((1, 1), 2)):
        state = simulated(rows, fleet_of(layers, few, ranks))
        assert (state.first_token_N <= state.finished_N).all()
        assert (state.scheduled_N <= state.first_token_N - PROMPT).all()
        running = len(layers) if rules.startswith("trtllm") else 1
        assert state.scheduler_S["running"].max(initial=0) <= few.max_num_seqs * running


def test_no_more_sequences_run_than_the_limit() -> None:
    # of vLLM, over all batches; of SGLang, divided by them
    for rules, most in (("vllm", 2), ("sglang", 2)):
        limits = SchedulerLimits(2, 64, 4, 1000, rules=rules)
        rows = [(0, 64, 40)] * 6
        state = simulated(rows, fleet_of((1, 1), limits))
        events = [(time, 1) for time in state.scheduled_N] + [(t, -1) for t in state.finished_N]
        counts = np.cumsum([change for _, change in sorted(events)])
        assert counts.max() == most


def test_combinations_that_are_not_simulated_are_refused() -> None:
    from perfatlas.serving.run.simulate import run_fleet

    rows = requests_of([(0, 8, 2)])
    with pytest.raises(UnsupportedError, match="pp = 2: asynchronous scheduling"):
        run_fleet(rows, fleet_of((1, 1), LIMITS._replace(async_scheduling=True)))
    with pytest.raises(InvalidSpecError, match="at least one layer"):
        run_fleet(rows, fleet_of((1, 0)))


def test_a_batch_takes_no_prompt_beyond_its_sequences() -> None:
    # each batch runs one sequence: the long prompt stays in its batch while the other decodes
    limits = LIMITS._replace(rules="sglang", max_num_seqs=2, kv_blocks=10_000)
    rows = [(0, 300, 4)] * 6
    state = simulated(rows, fleet_of((1, 1), limits))
    assert state.scheduler_S["heap"].max() == 0
    assert (state.finished_N > 0).all()

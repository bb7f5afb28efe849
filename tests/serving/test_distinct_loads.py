"""Loads that run alike are evaluated once: against each candidate evaluated by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.inference.distinct_steps import distinct_loads
from perfatlas.inference.evaluation import evaluate
from perfatlas.inference.running_load import running_load
from perfatlas.inference.shared_steps import evaluate_loads
from perfatlas.step import Candidates, candidate_memory
from perfatlas.studies.deployments.points import priced_points
from perfatlas.studies.deployments.question import read_search
from perfatlas.studies.deployments.space import chunk_sizes, families

DENSE: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
EXPERTS: Final[dict[str, Any]] = {"model": "Qwen/Qwen3-30B-A3B", "system": "h100_sxm"}


def candidates_of(asked: dict[str, Any]) -> Candidates:
    """Return the candidates of a small search at all their loads."""
    inputs = read_search({"isl": 3000, "osl": 200, "gpus": 2, **asked})
    (family,) = families(inputs, Counter(), chunk_sizes(inputs), set())
    (points,) = priced_points(family, inputs, Counter())
    return points.question


@pytest.mark.parametrize(
    "asked",
    [
        {**DENSE, "choices": ("max_num_batched_tokens=2048:8192:16384",)},
        {**DENSE, "engine": "trtllm", "choices": ("max_num_batched_tokens=8192:16384",)},
        {**EXPERTS, "engine": "sglang", "choices": ("max_num_batched_tokens=8192:16384",)},
    ],
)
def test_candidates_have_the_numbers_that_they_have_alone(asked: dict[str, Any]) -> None:
    question = candidates_of(asked)
    first_U, place_C = distinct_loads(running_load(question, candidate_memory(question)))
    assert first_U.size < place_C.size
    found = evaluate_loads(question)
    repeated = np.setdiff1d(np.arange(place_C.size), first_U)
    for place in repeated[::12].tolist():
        alone, own = evaluate_loads(question.take([place])), found.take(np.array([place]))
        for name in ("latencies", "low", "high", "utilization", "energy"):
            pairs = zip(getattr(alone, name), getattr(own, name), strict=True)
            for expected, value in pairs:
                assert value == pytest.approx(expected, rel=1e-13, nan_ok=True), name
        assert own.memory.activation_bytes == alone.memory.activation_bytes


def test_steps_that_candidates_share_are_priced_once() -> None:
    question = candidates_of({**DENSE, "choices": ("max_num_batched_tokens=2048:8192:16384",)})
    found = evaluate(question)
    assert found.prefills.cost.host_s_C.size < question.size
    for place in range(0, question.size, 20):
        alone, own = evaluate(question.take([place])), found.take([place])
        for name in ("latencies", "low", "high", "utilization", "energy"):
            for expected, value in zip(getattr(alone, name), getattr(own, name), strict=True):
                assert value == pytest.approx(expected, rel=1e-13, nan_ok=True), name
        assert own.decode.total_s() == pytest.approx(alone.decode.total_s(), rel=1e-13)


def test_limits_that_never_act_make_no_difference() -> None:
    question = candidates_of({**DENSE, "choices": ("max_num_batched_tokens=2048:8192:16384",)})
    _, place_C = distinct_loads(running_load(question, candidate_memory(question)))
    budget, one_request = question.limits.max_num_batched_tokens, question.load.sequences == 1.0
    by_budget = [place_C[one_request & (budget == tokens)] for tokens in (2048, 8192, 16384)]
    # a prompt of 3,000 tokens fits into a step of 8,192 or 16,384, and takes two of 2,048
    assert by_budget[1].tolist() == by_budget[2].tolist()
    assert not np.isin(by_budget[0], by_budget[1]).any()


def test_loads_of_several_sizes_and_plans_differ() -> None:
    question = candidates_of({**DENSE, "choices": ("max_num_batched_tokens=8192",)})
    first_U, place_C = distinct_loads(running_load(question, candidate_memory(question)))
    assert first_U.size == place_C.size

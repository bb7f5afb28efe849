"""The course of a step: passes and what follows them fill it, and memory peaks at its total."""

from __future__ import annotations

import json

import numpy as np
import pytest

from perfatlas.report.traces import pipeline_trace_text
from perfatlas.training.step import TrainingQuestion, step_timeline, training_steps
from tests.training.asked import layouts, question

EXPERTS = "Qwen/Qwen3-30B-A3B"
DENSE = layouts(tp=2, pp=4, dp=2, global_batch=64, zero=3, recompute=2)
CASES = {
    "gpipe": question(DENSE, schedule="gpipe", engine="torchtitan"),
    "1f1b": question(DENSE, schedule="1f1b", engine="megatron"),
    "zb_h1": question(DENSE, schedule="zb_h1"),
    "interleaved": question(
        layouts(tp=2, pp=4, vpp=4, global_batch=16), schedule="interleaved", engine="megatron"
    ),
    "zb_v": question(layouts(pp=4, vpp=2, tp=2, global_batch=16), schedule="zb_v"),
    "one rank": question(layouts(tp=8, global_batch=4), engine="megatron"),
    "dualpipe": question(
        layouts(pp=4, dp=8, ep=8, global_batch=128), model=EXPERTS, schedule="dualpipe"
    ),
    "pairs": question(
        layouts(pp=4, vpp=3, dp=8, ep=8, global_batch=128),
        model=EXPERTS,
        schedule="interleaved",
        engine="megatron",
        expert_overlap=True,
    ),
}


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
def test_passes_and_later_parts_fill_the_step(asked: TrainingQuestion) -> None:
    steps = training_steps(asked)
    timeline = step_timeline(asked, steps)
    assert timeline.step_s == pytest.approx(float(steps.step_s_C[0]), rel=1e-9)
    assert min(timeline.later_s.values()) >= 0.0
    assert np.all(timeline.passes["end_s"] >= timeline.passes["start_s"])


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
def test_memory_over_the_step_peaks_at_its_total(asked: TrainingQuestion) -> None:
    steps = training_steps(asked)
    timeline = step_timeline(asked, steps)
    memory = steps.memory
    assert timeline.memory_bytes.max() == pytest.approx(float(memory.total_bytes[0]), rel=1e-9)
    states = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    assert timeline.memory_bytes.min() >= float(states[0]) * (1.0 - 1e-9)
    assert timeline.memory_bytes[0] == pytest.approx(timeline.memory_bytes[-1])
    assert np.all(np.diff(timeline.memory_time_s) >= 0.0)


def test_two_micro_batches_on_one_rank_by_hand() -> None:
    """Each takes its activations before its forward pass and frees them before the next one."""
    asked = question(layouts(tp=8, global_batch=2))
    timeline = step_timeline(asked, training_steps(asked))
    low, high = timeline.memory_bytes.min(), timeline.memory_bytes.max()
    assert low < high
    assert timeline.memory_bytes.tolist() == [low, high, low, high, low, low]


def test_the_trace_of_a_step_ends_with_it() -> None:
    asked = CASES["1f1b"]
    steps = training_steps(asked)
    timeline = step_timeline(asked, steps)
    events = json.loads(pipeline_trace_text(timeline.passes, timeline.later_s))["traceEvents"]
    ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
    assert max(ends) == pytest.approx(1e6 * float(steps.step_s_C[0]), rel=1e-9)
    assert {"optimizer", "exposed_dp"} <= {event["name"] for event in events}

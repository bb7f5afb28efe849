"""The timeline of a schedule, its trace and its picture."""

from __future__ import annotations

import json

import numpy as np
import pytest

from perfatlas.report.traces import pipeline_trace_text
from perfatlas.training.schedules import pipeline_steps, pipeline_timeline
from tests.training.pipelines import SIZES, as_columns, random_case
from tests.training.reference_pipeline import simulate

LETTERS = {"F": "forward", "B": "input_gradient", "W": "weight_gradient", "BW": "backward"}


@pytest.mark.parametrize("schedule", list(SIZES))
def test_the_timeline_is_that_of_the_event_by_event_simulation(schedule: str) -> None:
    case = random_case(schedule, SIZES[schedule][-1], 1)
    expected = sorted(
        (rank, start, LETTERS[kind], stage, batch, end, len(ops) == 2)
        for rank, intervals in enumerate(simulate(case).intervals)
        for ops, start, end in intervals
        for kind, stage, batch in ops
    )
    timeline = pipeline_timeline(as_columns(case))
    names = ("rank", "start_s", "pass", "stage", "micro_batch", "end_s", "overlapped")
    assert sorted(zip(*(timeline[name].tolist() for name in names), strict=True)) == expected
    assert timeline["end_s"].max() == pipeline_steps(as_columns(case)).step_s_C[0]


def test_chunks_number_the_stages_of_a_rank() -> None:
    timeline = pipeline_timeline(as_columns(random_case("zb_v", (4, 7, 2), 1)))
    folded = np.where(timeline["chunk"] == 0, timeline["rank"], 7 - timeline["rank"])
    assert np.all(timeline["stage"] == folded)


def test_the_trace_has_one_process_per_rank_and_pairs_on_two_lines() -> None:
    timeline = pipeline_timeline(as_columns(random_case("dualpipe", (4, 8, 1), 1)))
    events = json.loads(pipeline_trace_text(timeline))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(timeline["rank"])
    assert {event["pid"] for event in spans} == {1, 2, 3, 4}
    for rank in range(1, 5):
        for line in (1, 2):
            mine = [one for one in spans if one["pid"] == rank and one["tid"] == line]
            mine.sort(key=lambda event: event["ts"])
            assert mine
            ends = [one["ts"] + one["dur"] for one in mine]
            assert all(a <= b["ts"] + 1e-3 for a, b in zip(ends[:-1], mine[1:], strict=True))

"""What each pipeline schedule refuses, with its reason."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import broken_rules
from perfatlas.training.schedules import PipelineSize, find_schedule


@pytest.mark.parametrize(
    ("name", "ranks", "micro_batches", "chunks", "part"),
    [
        ("gpipe", 4, 8, 2, "one chunk of layers per rank, not 2"),
        ("1f1b", 4, 8, 2, "use interleaved"),
        ("zb_h1", 4, 8, 2, "one chunk"),
        ("interleaved", 4, 8, 1, "set vpp = 2 or more"),
        ("interleaved", 1, 8, 2, "pp = 2 or more, not 1"),
        ("interleaved", 4, 10, 2, "10 is not a multiple of 4"),
        ("zb_v", 4, 8, 1, "set vpp = 2"),
        ("dualpipe", 5, 20, 1, "even pp, not 5"),
        ("dualpipe", 4, 9, 1, "even number of micro-batches per step, not 9"),
        ("dualpipe", 4, 6, 1, "6 is less than twice 4"),
    ],
)
def test_a_layout_a_schedule_cannot_run_is_refused_with_the_reason(
    name: str, ranks: int, micro_batches: int, chunks: int, part: str
) -> None:
    sizes = (np.array([value]) for value in (ranks, micro_batches, chunks))
    problem = broken_rules(find_schedule(name).rules, PipelineSize(name, *sizes))[0]
    assert part in str(problem)
    assert f"pipeline_schedule {name}" in str(problem)

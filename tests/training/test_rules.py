"""Rules of layouts: what is refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.networks import resolve_model
from perfatlas.training.layouts import layout_problems
from tests.training.asked import layouts

DENSE = resolve_model("meta-llama/Llama-3.1-8B").network
SPARSE = resolve_model("Qwen/Qwen3-30B-A3B").network
REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"tp": 3}, "nearest that does is tp = 2"),
    ({"dp": 3}, "nearest is global_batch = 15"),
    ({"cp": 3}, "nearest is sequence_length = 4,098"),
    ({"pp": 64}, "pp = 64 stages need as many layers"),
    ({"pp": 64}, "the largest is pp = 32"),
    ({"pp": 8, "vpp": 8}, "largest vpp is 4"),
    ({"ep": 2}, "this model is dense"),
    ({"vpp": 2}, "set vpp = 1 or use interleaved"),
)


@pytest.mark.parametrize(("sizes", "words"), REFUSED)
def test_a_layout_that_cannot_run_is_refused(sizes: dict[str, Any], words: str) -> None:
    problems = layout_problems(DENSE, layouts(**sizes), "1f1b")
    assert any(words in problem.sentence(0) for problem in problems)


def test_experts_must_divide() -> None:
    problems = layout_problems(SPARSE, layouts(ep=3, dp=4), "1f1b")
    told = [problem.sentence(0) for problem in problems]
    assert any("128 experts" in sentence for sentence in told)
    assert any("must divide the 4 ranks" in sentence for sentence in told)


@pytest.mark.parametrize(
    ("schedule", "sizes", "nearest"),
    [
        # 3 micro-batches of 2 on 1 rank; 4 are the nearest multiple of pp = 4
        ("interleaved", {"vpp": 2, "micro_batch": 2, "global_batch": 6}, 8),
        ("interleaved", {"vpp": 2, "dp": 3, "global_batch": 27}, 24),
        # 2 pp = 8 micro-batches at least
        ("dualpipe", {"global_batch": 1}, 8),
        ("dualpipe", {"global_batch": 11}, 10),
    ],
)
def test_a_batch_that_a_schedule_refuses_has_the_nearest_that_runs(
    schedule: str, sizes: dict[str, int], nearest: int
) -> None:
    (problem,) = layout_problems(DENSE, layouts(pp=4, **sizes), schedule)
    assert problem.sentence(0).endswith(f"; the nearest is global_batch = {nearest}")
    assert not layout_problems(
        DENSE, layouts(pp=4, **(sizes | {"global_batch": nearest})), schedule
    )


def test_a_layout_that_can_run_breaks_no_rule() -> None:
    sizes = layouts(tp=[1, 8], pp=[4, 2], cp=[2, 1], dp=[2, 4], global_batch=32)
    assert not layout_problems(DENSE, sizes, "1f1b")

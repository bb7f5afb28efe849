"""Bubbles of uniform stages equal their closed forms; laws of all schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.training.schedules import Pipelines, PipelineSteps, peak_activations, pipeline_steps
from tests.training.pipelines import SIZES, as_columns, random_case

Size = tuple[int, int, int]


def uniform(schedule: str, size: Size, passes: tuple[float, ...], **others: Any) -> Pipelines:  # noqa: ANN401 - columns
    """Return a pipeline of equal stages: F, B, W and the overlapped pair."""
    ranks, micro_batches, chunks = size
    one = np.ones((1, ranks * chunks))
    forward, given, weight, *pair = passes
    columns: dict[str, Any] = {
        "schedule_C": [schedule],
        "ranks_C": np.array([ranks]),
        "micro_batches_C": np.array([micro_batches]),
        "chunks_C": np.array([chunks]),
        "forward_s_CS": forward * one,
        "input_gradient_s_CS": given * one,
        "weight_gradient_s_CS": weight * one,
        "send_s_CS": 0 * one,
        "sends_overlap_C": np.array([True]),
        "pair_s_CS": pair[0] * one if pair else None,
    }
    return Pipelines(**(columns | others))


def closed_form(schedule: str, size: Size, passes: tuple[float, ...]) -> float:
    """Return the published bubble of a rank in a step of equal stages [s].

    Source: GPipe, arXiv 1811.06965; 1F1B and interleaved, arXiv 2104.04473, section 2.2; ZB-H1 and
        ZB-V, arXiv 2401.10241: W of ZB-H1 only where it is no longer than F and B; DualPipe, arXiv
        2412.19437: of the ranks in the middle.
    """
    ranks, (forward, given, weight, *pair) = size[0], passes
    whole = forward + given + weight
    bubbles = {
        "zb_h1": (ranks - 1) * (forward + given - min(forward, given, weight)),
        "zb_v": (ranks - 1) * forward,
        "dualpipe": (ranks / 2 - 1) * ((pair or [whole])[0] + given + weight - 3 * weight),
    }
    return bubbles.get(schedule, (ranks - 1) * whole)


UNIFORM = [
    *(
        (name, size, passes)
        for name in ("gpipe", "1f1b")
        for size in ((1, 3, 1), (4, 2, 1), (8, 32, 1))
        for passes in ((4.0, 4.0, 4.0), (3.0, 7.0, 2.0))
    ),
    *(
        ("interleaved", size, passes)
        for size in ((2, 2, 2), (4, 8, 2), (8, 16, 4), (4, 4, 3))
        for passes in ((4.0, 4.0, 4.0), (3.0, 7.0, 2.0))
    ),
    *(
        ("zb_h1", size, passes)
        for size in ((2, 8, 1), (4, 4, 1), (8, 32, 1))
        for passes in ((4.0, 4.0, 4.0), (4.0, 5.0, 3.0), (4.0, 6.0, 2.0), (3.0, 4.0, 6.0))
    ),
    *(("zb_v", size, (4.0, 4.0, 4.0)) for size in ((2, 3, 2), (4, 7, 2), (8, 32, 2))),
    *(
        ("dualpipe", size, passes)
        for size in ((2, 4, 1), (4, 8, 1), (8, 32, 1), (16, 40, 1))
        for passes in ((4.0, 4.0, 4.0), (4.0, 4.0, 3.0, 9.0), (6.0, 6.0, 2.0, 10.0))
    ),
]


@pytest.mark.parametrize(("schedule", "size", "passes"), UNIFORM)
def test_bubbles_of_uniform_stages_equal_the_closed_form(
    schedule: str, size: Size, passes: tuple[float, ...]
) -> None:
    steps = pipeline_steps(uniform(schedule, size, passes))
    assert steps.bubble_s_CP.max() == closed_form(schedule, size, passes)
    if len(passes) == 3:
        assert np.all(steps.bubble_s_CP == steps.bubble_s_CP[0, 0])


def test_bubbles_worked_by_hand() -> None:
    """P = 4, m = 8, F = B = W = 1 s per stage: (P - 1)(F + B + W) = 9 s of a step of 33 s.

    Interleaved with two chunks of half the layers: 3 (0.5 + 0.5 + 0.5) = 4.5 s. ZB-H1:
    3 (1 + 1 - 1) = 3 s. ZB-V: 3 x 0.5 s. DualPipe without gain from overlap: 1 (3 + 2 - 3) = 2 s.
    """
    half = (0.5, 0.5, 0.5)
    whole = (1.0, 1.0, 1.0)
    steps = {
        name: float(pipeline_steps(uniform(name, size, passes)).step_s_C[0])
        for name, size, passes in (
            ("gpipe", (4, 8, 1), whole),
            ("1f1b", (4, 8, 1), whole),
            ("interleaved", (4, 8, 2), half),
            ("zb_h1", (4, 8, 1), whole),
            ("zb_v", (4, 8, 2), half),
            ("dualpipe", (4, 8, 1), whole),
        )
    }
    assert steps == {
        "gpipe": 33.0,
        "1f1b": 33.0,
        "interleaved": 28.5,
        "zb_h1": 27.0,
        "zb_v": 25.5,
        "dualpipe": 26.0,
    }


@pytest.mark.parametrize(
    ("schedule", "chunks", "fraction"),
    [("1f1b", 1, 3 / 16), ("interleaved", 2, 3 / 32), ("interleaved", 4, 3 / 64)],
)
def test_the_bubble_is_a_known_fraction_of_the_ideal_step(
    schedule: str, chunks: int, fraction: float
) -> None:
    """(P - 1)/m of 1F1B and (P - 1)/(v m) of interleaved, with P = 4 and m = 16."""
    passes = (1.0 / chunks, 1.0 / chunks, 1.0 / chunks)
    steps = pipeline_steps(uniform(schedule, (4, 16, chunks), passes))
    assert steps.bubble_s_CP[0, 0] / steps.busy_s_CP[0, 0] == fraction


def test_zb_v_is_never_idle_between_its_first_and_last_pass_where_passes_are_equal() -> None:
    steps = pipeline_steps(uniform("zb_v", (8, 32, 2), (1.0, 1.0, 1.0)))
    assert np.all(steps.span_s_CP == steps.busy_s_CP)


@pytest.mark.parametrize(
    ("schedule", "size", "expected"),
    [
        ("gpipe", (4, 8, 1), [8, 8, 8, 8]),
        ("1f1b", (4, 8, 1), [4, 3, 2, 1]),
        ("1f1b", (4, 2, 1), [2, 2, 2, 1]),
        ("interleaved", (4, 8, 2), [11, 9, 7, 5]),  # chunks: P v + P - 1 on rank 0
        ("zb_h1", (4, 8, 1), [4, 4, 4, 4]),
        ("zb_v", (4, 8, 2), [8, 8, 8, 8]),  # chunks of half a stage: P stages
        ("dualpipe", (4, 8, 1), [5, 5, 5, 5]),
    ],
)
def test_activations_in_flight_are_those_of_the_publications(
    schedule: str, size: Size, expected: list[int]
) -> None:
    pipelines = uniform(schedule, size, (1.0, 1.0, 1.0))
    per_stage = np.full((1, size[0] * size[2]), 3.0)
    assert peak_activations(pipelines, per_stage)[0].tolist() == [3.0 * n for n in expected]


def test_bytes_of_uneven_stages_are_those_of_the_worst_moment() -> None:
    """Rank 0 of 1F1B holds 4 micro-batches of stage 0, rank 3 one of stage 3."""
    pipelines = uniform("1f1b", (4, 8, 1), (1.0, 1.0, 1.0))
    held = peak_activations(pipelines, np.array([[2.0, 3.0, 5.0, 7.0]]))
    assert held[0].tolist() == [8.0, 9.0, 10.0, 7.0]
    interleaved = uniform("interleaved", (2, 2, 2), (1.0, 1.0, 1.0))
    # rank 0: forward (stage 0) x 2, (stage 2) x 2, then backward of stage 2 first
    held = peak_activations(interleaved, np.array([[1.0, 1.0, 10.0, 10.0]]))
    assert held[0, 0] == 22.0


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("schedule", list(SIZES))
def test_time_of_a_rank_sums_to_the_step(schedule: str, *, overlap: bool) -> None:
    steps = pipeline_steps(
        as_columns(random_case(schedule, SIZES[schedule][-1], 7, overlap=overlap))
    )
    total = steps.busy_s_CP + steps.bubble_s_CP + steps.exposed_send_s_C[:, None]
    np.testing.assert_allclose(total, np.broadcast_to(steps.step_s_C[:, None], total.shape))


@pytest.mark.parametrize("schedule", list(SIZES))
def test_longer_passes_and_transfers_never_shorten_a_step(schedule: str) -> None:
    case = random_case(schedule, SIZES[schedule][-1], 3)
    before = pipeline_steps(as_columns(case)).step_s_C[0]
    for durations in (case.forward, case.input_gradient, case.weight_gradient, case.send):
        durations[-2] += 0.5
        after = pipeline_steps(as_columns(case)).step_s_C[0]
        assert after >= before
        before = after
    case.overlap = False
    assert pipeline_steps(as_columns(case)).step_s_C[0] >= before


def test_times_scale_with_durations() -> None:
    case = random_case("zb_v", (4, 9, 2), 5)
    once = pipeline_steps(as_columns(case))
    for durations in (case.forward, case.input_gradient, case.weight_gradient, case.send):
        durations[:] = [4 * one for one in durations]
    assert pipeline_steps(as_columns(case)).step_s_C[0] == 4 * once.step_s_C[0]


def mixed() -> tuple[Pipelines, list[Pipelines]]:
    """Return candidates of all schedules and sizes in one table, and each one alone."""
    alone = [
        as_columns(random_case(schedule, size, 2 * seed))
        for seed in (1, 2, 3)
        for schedule, sizes in SIZES.items()
        for size in sizes
    ]
    widest = max(one.forward_s_CS.shape[1] for one in alone)

    def stacked(name: str) -> Any:  # noqa: ANN401 - a column
        if name == "schedule_C":
            return [one.schedule_C[0] for one in alone]
        columns = [getattr(one, name) for one in alone]
        if columns[0].ndim == 1:
            return np.concatenate(columns)
        return np.concatenate([np.pad(c, ((0, 0), (0, widest - c.shape[1]))) for c in columns])

    names = [name for name in Pipelines.__dataclass_fields__ if name != "pair_s_CS"]
    return Pipelines(**{name: stacked(name) for name in names}), alone


def test_a_table_of_mixed_schedules_equals_each_candidate_alone() -> None:
    table, alone = mixed()
    steps = pipeline_steps(table)
    for at, one in enumerate(alone):
        single: PipelineSteps = pipeline_steps(one)
        ranks = one.ranks_C[0]
        assert steps.step_s_C[at] == single.step_s_C[0]
        assert steps.exposed_send_s_C[at] == single.exposed_send_s_C[0]
        np.testing.assert_array_equal(steps.bubble_s_CP[at, :ranks], single.bubble_s_CP[0])
        np.testing.assert_array_equal(steps.span_s_CP[at, :ranks], single.span_s_CP[0])
        assert np.all(steps.busy_s_CP[at, ranks:] == 0)


def test_a_large_table_is_evaluated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = mixed()
    at_once = pipeline_steps(table)
    monkeypatch.setattr("perfatlas.training.schedules.steps.AT_ONCE", 2)
    in_parts = pipeline_steps(table)
    np.testing.assert_array_equal(in_parts.step_s_C, at_once.step_s_C)
    np.testing.assert_array_equal(in_parts.bubble_s_CP, at_once.bubble_s_CP)


def test_a_step_that_cannot_run_is_refused() -> None:
    with pytest.raises(InvalidSpecError, match=r"candidate 0: .*dualpipe"):
        pipeline_steps(uniform("dualpipe", (3, 8, 1), (1.0, 1.0, 1.0)))
    with pytest.raises(InvalidSpecError, match=r"forward_s_CS\[0, 0\] is -1"):
        pipeline_steps(uniform("1f1b", (4, 8, 1), (-1.0, 1.0, 1.0)))
    unknown = uniform("1f1b", (4, 8, 1), (1.0, 1.0, 1.0), send_s_CS=np.full((1, 4), np.nan))
    with pytest.raises(InvalidSpecError, match=r"send_s_CS\[0, 0\] is nan"):
        pipeline_steps(unknown)

"""Shape legend: U measured rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.measurements.moe_rows import (
    doubtful_rows,
    matrices_of,
    slow_parts,
    unshared_rows,
)

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

NAMES = ("tokens", "ep", "moe_tp", "skew")


def columns(*rows: tuple[float, float, float, float], model: int = 0) -> dict[str, FloatArray]:
    shape = {"hidden": 7168.0, "intermediate": 2048.0, "experts": 256.0, "top_k": 8.0}
    found = {name: np.full(len(rows), value) for name, value in shape.items()}
    found["hidden"] = found["hidden"] + model
    found["weight_bytes_per_element"] = np.full(len(rows), 2.0)
    return found | dict(zip(NAMES, np.array(rows, np.float64).T, strict=True))


def balanced_and_skewed() -> dict[str, FloatArray]:
    return columns((4096, 8, 1, 0), (4096, 8, 1, 1.2), (64, 8, 1, 0), (4096, 1, 1, 0))


def test_a_balanced_load_slower_than_a_skewed_one_is_doubted_with_all_of_its_model() -> None:
    # 3 ms balanced against 2 ms on the busiest rank of a skewed load
    doubted = doubtful_rows(balanced_and_skewed(), np.array([3e-3, 2e-3, 1e-4, 1e-2]))
    assert doubted.tolist() == [True, False, True, True]


def test_a_balanced_load_faster_than_a_skewed_one_is_believed() -> None:
    assert not doubtful_rows(balanced_and_skewed(), np.array([1.9e-3, 2e-3, 1e-4, 1e-2])).any()


def on_ranks(model: int = 0) -> dict[str, FloatArray]:
    ranks = ((4096, ep, 1, 0) for ep in (1, 2, 4, 8))
    return columns(*ranks, (16, 8, 1, 0), model=model)


def test_more_ranks_that_are_no_faster_hold_the_work_of_others() -> None:
    same = np.array([1.0, 1.0, 0.98, 0.95, 0.1])
    assert unshared_rows(on_ranks(), same).tolist() == [False, True, True, True, True]
    # four ranks are faster than two: their share is smaller
    assert not unshared_rows(on_ranks(), np.array([1.0, 0.6, 0.4, 0.3, 0.1])).any()
    # eight ranks are slower than two by more than noise: another kernel, not another share
    assert not unshared_rows(on_ranks(), np.array([1.0, 1.0, 0.98, 1.5, 0.1])).any()


def test_one_model_of_many_does_not_speak_for_a_table() -> None:
    tables = [on_ranks(model) for model in range(3)]
    joined = {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}
    shared, same = [1.0, 0.6, 0.4, 0.3, 0.1], [1.0, 1.0, 0.98, 0.95, 0.1]
    one_of_three = unshared_rows(joined, np.array(shared + same + shared))
    assert one_of_three.tolist() == [False] * 6 + [True] * 4 + [False] * 5
    two_of_three = unshared_rows(joined, np.array(same + same + shared))
    assert int(two_of_three.sum()) == 12


def test_a_part_slower_than_its_whole_is_left_out() -> None:
    # two ranks take 1 ms; four ranks, a part of that work, take 1.6 ms and then 1.4 ms; a wider
    # split of fewer ranks contains nothing of it
    parts = columns((512, 2, 1, 0), (512, 4, 1, 0), (512, 1, 2, 0), (1024, 4, 1, 0))
    assert slow_parts(parts, np.array([1.0, 1.6, 0.5, 9.0])).tolist() == [False, True, False, False]
    assert not slow_parts(parts, np.array([1.0, 1.4, 0.5, 9.0])).any()


def test_who_reads_three_matrices_faster_than_memory_has_two() -> None:
    device = resolve_system("h200_sxm").device
    rows = columns(*((1024.0 + one, 1, 1, 0) for one in range(12)))
    light_s = 3 * 256 * 7168 * 2048 * 2 / device.memory_bandwidth
    for share, matrices in ((0.75, 2.0), (1.05, 3.0)):
        found = matrices_of(rows, np.full(12, share * light_s), device)
        assert set(found.tolist()) == {matrices}

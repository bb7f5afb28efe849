from __future__ import annotations

from typing import Any

import pytest

from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables import SLOWER_PART, has_silicon
from validation.kernels.operators import validate_kernels
from validation.scoring import (
    beaten_cells,
    goal_table,
    left_out_errors,
    left_out_table,
    slow_medians,
    tally_table,
)
from validation.scoring.left_out import LeftOut

needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of perfatlas[silicon] are not installed"
)
CELL = {"operator": "moe", "family": "trtllm", "format": "bf16"}


def scored(system: str, mape: float) -> dict[str, Any]:
    return {**CELL, "system": system, "mape": mape, "rows": 90}


def left(
    system: str, *, reason: str = SLOWER_PART, share: float = 0.1, after: float = 0.2
) -> LeftOut:
    return LeftOut(
        about="moe trtllm bf16",
        system=system,
        reason=reason,
        rows=10,
        share=share,
        mape=0.1,
        left_mape=0.7,
        with_mape=after,
    )


def median(mape: float, goal: float) -> dict[str, Any]:
    met = "yes" if mape <= goal else "no"
    return {**CELL, "goal_mape": goal, "goal_median_mape": mape, "goal_met": met}


def test_slow_rows_come_back_on_the_gpus_that_left_them_out() -> None:
    cells = [scored("h100_sxm", 0.10), scored("h200_sxm", 0.11), scored("l40s", 0.12)]
    other = left("l40s", reason="another", after=0.9)
    # 0.2, 0.11 and 0.12: the middle one is 0.12
    assert slow_medians(cells, [left("h100_sxm"), other]) == {"moe trtllm bf16": 0.12}
    assert slow_medians(cells, [other]) == {}


def test_a_goal_met_without_slow_rows_alone_is_marked() -> None:
    slow = {"moe trtllm bf16": 0.126}
    met = {"own": [median(0.105, 0.11)]}
    assert "| 10.5 (11.0) †12.6 |" in goal_table(met, slow)
    assert "1 of 1, 0 with every row (<= 11.0)" in tally_table(met, slow)
    assert "†" not in goal_table(met, {"moe trtllm bf16": 0.1095})
    assert "†" not in goal_table({"own": [median(0.12, 0.11)]}, slow)  # missed as it is
    assert "†" not in goal_table({"unseen-device": [median(0.105, 0.11)]}, slow)


def test_a_share_is_told_from_a_twentieth_on() -> None:
    told = left_out_table([left("h100_sxm", share=0.051), left("h200_sxm", share=0.049)])
    assert "| H100 | moe trtllm bf16 | 5.1% (10) |" in told
    assert "H200" not in told
    assert left_out_table([]) == "None."


def test_a_beaten_cell_is_told_beside_what_it_ships_with() -> None:
    own = {"cell": "c", "protocol": "own", "mape": 0.04, "two_parameter_mape": 0.14}
    unseen = {**own, "protocol": "unseen-shapes", "mape": 0.2, "two_parameter_mape": 0.1}
    assert beaten_cells([own], [own]) == []
    (line,) = beaten_cells([unseen], [own])
    assert line == "- c: 20.0% against 10.0%; ships, on all rows 4.0% against 14.0%"


@pytest.mark.study
@needs_silicon
def test_what_is_left_out_is_what_the_calibrations_say_and_dear() -> None:
    cells = validate_kernels(["h200_sxm"], ["moe"])["cells"]
    found = left_out_errors(cells)
    shipped = load_calibrations("h200_sxm")
    for one in found:
        known = shipped["h200_sxm/" + one.about.replace(" ", "/")]
        assert one.rows == known.excluded[one.reason]
        assert one.mape < one.with_mape < one.left_mape
    slow = slow_medians(cells, found)
    assert slow["moe trtllm fp8_dynamic"] > 0.11  # the goal, met without them

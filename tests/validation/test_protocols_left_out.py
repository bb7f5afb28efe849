from __future__ import annotations

from typing import Any

from perfatlas.measurements.tables import SLOWER_PART
from validation.scoring import (
    slow_medians,
)
from validation.scoring.left_out import LeftOut

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


def test_slow_rows_come_back_on_the_gpus_that_left_them_out() -> None:
    cells = [scored("h100_sxm", 0.10), scored("h200_sxm", 0.11), scored("l40s", 0.12)]
    other = left("l40s", reason="another", after=0.9)
    # 0.2, 0.11 and 0.12: the middle one is 0.12
    assert slow_medians(cells, [left("h100_sxm"), other]) == {"moe trtllm bf16": 0.12}
    assert slow_medians(cells, [other]) == {}

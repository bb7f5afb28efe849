"""Rows of a group are evaluated in blocks; their answers do not depend on the blocks."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.scenario.deployments import estimated_rows
from perfatlas.scenario.resolution import resolve
from perfatlas.verbs.estimate import estimate_table

MODEL = "meta-llama/Llama-3.1-8B"
BATCHES = [1, 8, 10_000_000, 64, 3]  # the third does not fit
ONE_POOL: dict[str, list[Any]] = {"batch": BATCHES, "mode": ["static"] * 5}
TWO_POOLS = {
    "mode": ["disaggregated"] * 5,
    "method": ["formula"] * 5,
    "prefill_workers": [1] * 5,
    "decode_workers": [1] * 5,
    "concurrency": [4, 8, 12, 16, 20],
    "prefill_tp": [1, 1, 3, 1, 1],  # the third has no legal plan
}


def _table(fields: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {"model": [MODEL] * 5, "system": ["h200_sxm", "h100_sxm"] * 2 + ["h200_sxm"], **fields}


@pytest.mark.parametrize("fields", [ONE_POOL, TWO_POOLS])
def test_answers_do_not_depend_on_blocks(
    fields: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = estimate_table(_table(fields)).columns
    assert [bool(text) for text in whole["error"]] == [False, False, True, False, False]
    monkeypatch.setattr(estimated_rows, "BLOCK_ROWS", 2)
    assert estimate_table(_table(fields)).columns == whole


def test_blocks_hold_every_row_once_and_bring_equal_steps_together() -> None:
    (group,) = resolve(_table(ONE_POOL | {"batch": [3, 8, 3, 8, 3]})).groups
    blocks = list(group.blocks(3))
    assert [block.rows_C.tolist() for block in blocks] == [[0, 2, 4], [1, 3]]  # by system
    for block in blocks:
        (pool,) = block.pools
        assert pool is not None
        assert pool.rows_C.tolist() == block.rows_C.tolist()
        batches = [3.0, 8.0, 3.0, 8.0, 3.0]
        assert pool.candidates.load.sequences.tolist() == [batches[row] for row in pool.rows_C]

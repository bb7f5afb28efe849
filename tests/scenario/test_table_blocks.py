"""Rows of a group are evaluated in blocks; their answers do not depend on the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
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


def test_blocks_keep_all_rows_in_order() -> None:
    (group,) = resolve(_table(ONE_POOL)).groups
    blocks = list(group.blocks(2))
    assert [block.rows_C.size for block in blocks] == [2, 2, 1]
    assert np.array_equal(np.concatenate([block.rows_C for block in blocks]), group.rows_C)
    pools = [block.pools[0] for block in blocks]
    kept = [pool.candidates.load.sequences for pool in pools if pool is not None]
    assert np.concatenate(kept).tolist() == BATCHES

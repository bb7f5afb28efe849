from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fitting.test_few_shot import SHIPPED, measured
from validation.scoring import independent_check
from validation.scoring.independent import NOT_MEASURED

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.study
def test_own_rows_beside_the_page_are_held_against_the_calibration_in_use(tmp_path: Path) -> None:
    assert independent_check(tmp_path) == NOT_MEASURED
    folder = tmp_path / "h200_sxm" / "2026-01-01_gpu_kernels"
    folder.mkdir(parents=True)
    measured(folder / "rows.csv", dict(SHIPPED))
    last = independent_check(tmp_path).splitlines()[-1]
    who, cell, rows, prior, mape = (text.strip() for text in last.split("|")[1:6])
    assert who == "h200_sxm, 2026-01-01_gpu_kernels"
    assert cell == "gemm/vllm/bf16"
    assert prior == "h200_sxm/gemm/vllm/bf16"
    assert int(rows) == 40
    assert float(mape.rstrip("%")) < 5.0  # the rows are the prior's own times with 2% of noise

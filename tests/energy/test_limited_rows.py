"""Rows of a table under power limits are priced as if each were alone."""

from __future__ import annotations

import pytest

from perfatlas.verbs.estimate import estimate, estimate_table

ASKED = {"model": "Qwen/Qwen3-30B-A3B", "system": "h100_sxm", "isl": 512, "osl": 32}
RESULTS = ("power_w", "tpot_s", "ttft_s_high", "energy_per_output_token_j")


def test_rows_that_a_limit_slows_do_not_depend_on_the_others() -> None:
    batches = [1, 64, 4, 32, 8, 16]
    limits = [700.0, 330.0, 690.0, 420.0, 600.0, 500.0]  # from none slowed to most
    columns = {name: [value] * len(batches) for name, value in ASKED.items()}
    table = estimate_table({**columns, "batch": batches, "power_cap_w": limits}).columns
    for row, (batch, limit) in enumerate(zip(batches, limits, strict=True)):
        alone = estimate(**ASKED, batch=batch, power_cap_w=limit).results
        for name in RESULTS:
            assert table[name][row] == pytest.approx(alone[name], rel=1e-12)
        assert table["power_w"][row] <= limit

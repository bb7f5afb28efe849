"""Errors state the value, the rule and the nearest valid choice."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.quantities import InfeasibleError
from perfatlas.verbs.estimate import estimate, estimate_table

BASE = {"model": "meta-llama/Llama-3.1-70B-Instruct", "system": "h200_sxm", "tier": "bound"}
EXPERTS = {"model": "deepseek-ai/DeepSeek-V3", "system": "b300_sxm", "tier": "bound"}

# fields beside BASE, code, and a part of the message
ROWS: list[tuple[dict[str, Any], str, str]] = [
    ({"batch": 0}, "invalid", "batch = 0"),
    ({"system": "h2000"}, "invalid", "unknown system 'h2000'"),
    ({"format": "fp9"}, "unsupported", "unknown format 'fp9'"),
    ({"system": "mi300x", "engine": "trtllm"}, "unsupported", "trtllm does not run on mi300x"),
    ({"tp": 1}, "infeasible", "does not fit"),
    ({**EXPERTS, "tp": 8, "ep": 3}, "invalid", "tp x attention_dp = 8 x 1 = 8"),
    ({"mode": "disaggregated", "prefill_tp": 8, "decode_tp": 1}, "infeasible", "does not fit"),
]


@pytest.mark.parametrize(("fields", "code", "part"), ROWS)
def test_a_table_row_has_the_error_and_others_continue(
    fields: dict[str, Any], code: str, part: str
) -> None:
    rows = [{**BASE, **fields}, {**BASE, "tp": 8}]
    names = {*rows[0], "tp"}
    columns = estimate_table({n: [row.get(n) for row in rows] for n in names}).columns
    assert columns["error_code"] == [code, ""]
    assert part in columns["error"][0]
    assert columns["tpot_s"][1] > 0


def test_advice_that_is_followed_fits() -> None:
    with pytest.raises(InfeasibleError, match="tp = 2 fits"):
        estimate(**BASE)
    assert estimate(**BASE, tp=2).results["memory"]["fits"]

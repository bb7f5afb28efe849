from __future__ import annotations

import pytest

from perfatlas.measurements.tables import has_silicon
from validation.kernels import validate_measured

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the optional silicon package is not installed"
)

# Errors on unseen shapes of the best-covered engine on H200, with a tenth to spare; a change that
# moves one says why.
BUDGETS = {
    "h200_sxm/gemm/vllm/bf16": 0.046,
    "h200_sxm/gemm/trtllm/fp8_dynamic": 0.026,
    "h200_sxm/prefill_attention/trtllm/bf16": 0.028,
    "h200_sxm/decode_attention/vllm/bf16": 0.026,
}


@pytest.mark.study
def test_unseen_shapes_are_corrected_within_budget_and_interval() -> None:
    found = validate_measured(["h200_sxm"], ("gemm", "prefill_attention", "decode_attention"))
    scores = {score["cell"]: score for score in found["cells"]}
    for cell, budget in BUDGETS.items():
        score = scores[cell]
        assert score["measured_mape"] <= budget, score
        assert score["measured_mape"] < 0.7 * score["physics_mape"]
        assert 0.84 <= score["inside_90"] <= 0.97, score
    for row in found["medians"]:
        assert row["measured_mape"] < row["physics_mape"]

from __future__ import annotations

import pytest

from perfatlas.measurements.tables import has_silicon
from validation.kernels import validate_blocks

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the optional silicon package is not installed"
)

# Median errors of whole blocks that no calibration has seen, with a tenth to spare; a change that
# moves one says why. (engine, phase, kernel, cache)
BUDGETS = {
    ("sglang", "decode", "sglang_dsa_indexer_fa3", "bf16"): 0.065,
    ("sglang", "decode", "sglang_dsa_indexer_flashmla_kv", "fp8_static"): 0.17,
    ("sglang", "prefill", "sglang_dsa_indexer_flashmla_sparse", "bf16"): 0.073,
    ("vllm", "prefill", "FLASHMLA_SPARSE", "bf16"): 0.153,
}


def test_operators_of_a_block_add_up_to_its_measured_time() -> None:
    found = validate_blocks(["h200_sxm"], ["sglang", "vllm"])
    names = ("engine", "phase", "kernel", "kv_format")
    scores = {tuple(score[name] for name in names): score for score in found["cells"]}
    for about, budget in BUDGETS.items():
        assert scores[about]["rows"] == 400
        assert scores[about]["median_error"] <= budget, scores[about]
    decode = scores["sglang", "decode", "sglang_dsa_indexer_fa3", "bf16"]
    assert decode["inside_90"] >= 0.8
    assert abs(decode["bias"]) < 0.05

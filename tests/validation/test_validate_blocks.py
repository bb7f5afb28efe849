from __future__ import annotations

import pytest

from perfatlas.measurements.tables import has_silicon
from perfatlas.quantities import InvalidSpecError
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


def test_what_is_not_compared_is_counted() -> None:
    found = validate_blocks(["h200_sxm"], ["sglang"])
    skipped = {(row["phase"], row["why"]): row["rows"] for row in found["skipped"]}
    assert skipped["decode", "batch above the largest graph"] == 408
    assert skipped["prefill", "the engine's dense path"] == 19368
    assert not any(row["system"] != "h200_sxm" for row in found["skipped"])


def test_a_device_without_block_tables_has_no_scores() -> None:
    assert validate_blocks(["a100_sxm"]) == {"cells": [], "skipped": []}


def test_unknown_devices_and_engines_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="did you mean 'h200_sxm'"):
        validate_blocks(["h200"])
    with pytest.raises(InvalidSpecError, match="expected one of vllm, sglang, trtllm"):
        validate_blocks(["h200_sxm"], ["ideal"])

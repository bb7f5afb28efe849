"""Checkpoints in formats that the tensor cores of a GPU do not multiply."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfatlas.measurements.tables import table_rows
from perfatlas.operators import load_skew
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_columns

ASKED: dict[str, Any] = {"isl": 1024, "osl": 128, "concurrency": 8}


def test_an_nvfp4_checkpoint_runs_weight_only_on_hopper() -> None:
    answer = estimate(model="nvidia/Qwen3-32B-NVFP4", system="h100_sxm", **ASKED)
    assert answer.scenario["gemm_format"] == "nvfp4_wo"
    assert any("Marlin" in said for said in answer.evidence.assumptions)
    own = estimate(model="nvidia/Qwen3-32B-NVFP4", system="b200_sxm", **ASKED)
    assert own.scenario["gemm_format"] == "nvfp4"
    assert own.results["tpot_s"] < answer.results["tpot_s"]


def test_fits_of_int4_weights_predict_marlin_experts_with_fp4_weights() -> None:
    # Rows of Marlin on an L40S at sizes (gpt-oss) that the fit (Kimi-K2) has not seen.
    rows = table_rows("l40s", "moe", "vllm", "mxfp4")
    power_law = rows.columns["skew"] == load_skew("power_law_1.2")
    chosen = np.flatnonzero(power_law)[::20]
    sizes = ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "moe_tp")
    table = {name: [int(one) for one in rows.columns[name][chosen]] for name in sizes}
    fixed = {
        "system": "l40s",
        "format": "nvfp4_wo",
        "kernel_family": "vllm",
        "distribution": "power_law_1.2",
    }
    found = kernel_columns(
        "moe", table | {name: [value] * chosen.size for name, value in fixed.items()}
    )
    errors = np.array(found["time_s"]) / rows.measured_s[chosen] - 1.0
    assert chosen.size > 20
    assert np.median(np.abs(errors)) < 0.2

"""Checkpoints in formats that the tensor cores of a GPU do not multiply."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfatlas.measurements.tables import table_rows
from perfatlas.operators import load_skew
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_columns, kernel_moe

ASKED: dict[str, Any] = {"isl": 1024, "osl": 128, "concurrency": 8}
EXPERTS: dict[str, Any] = {
    "tokens": 64,
    "hidden": 7168,
    "intermediate": 2048,
    "experts": 256,
    "top_k": 8,
}


def test_an_nvfp4_checkpoint_runs_weight_only_on_hopper() -> None:
    answer = estimate(model="nvidia/Qwen3-32B-NVFP4", system="h100_sxm", **ASKED)
    assert answer.scenario["gemm_format"] == "nvfp4_wo"
    assert any("Marlin" in said for said in answer.evidence.assumptions)
    own = estimate(model="nvidia/Qwen3-32B-NVFP4", system="b200_sxm", **ASKED)
    assert own.scenario["gemm_format"] == "nvfp4"
    assert own.results["tpot_s"] < answer.results["tpot_s"]


def test_a_cache_format_that_nobody_states_is_told() -> None:
    asked = {"model": "Qwen/Qwen3-32B", "system": "b200_sxm", "engine": "trtllm"}
    for scenario, told in (
        ({**asked, "format": "nvfp4"}, True),
        ({**asked, "format": "nvfp4", "kv_format": "fp8"}, False),
        ({**asked, "model": "nvidia/Qwen3-32B-NVFP4"}, False),
        (asked, False),
    ):
        answer = estimate(**scenario, **ASKED)
        notes = [said for said in answer.evidence.assumptions if said.startswith("kv_format bf16")]
        assert bool(notes) is told, scenario
        assert answer.scenario["kv_format"] == (
            "bf16" if told or scenario is asked else "fp8_static"
        )


def test_the_kernels_that_stand_in_are_named_and_the_interval_is_wider() -> None:
    asked = {**EXPERTS, "system": "h100_sxm", "kernel_family": "vllm"}
    own, other = (kernel_moe(**asked, format=name) for name in ("int4_wo", "nvfp4_wo"))
    assert own.breakdown[0]["calibration"] == other.breakdown[0]["calibration"]
    assert any("those of int4_wo" in said for said in other.evidence.assumptions)
    width = [
        one.results["tabulated_high_s"] / one.results["tabulated_low_s"] for one in (own, other)
    ]
    assert width[1] > width[0]


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

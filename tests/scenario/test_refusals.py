"""Errors state the value, the rule and the nearest valid choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.quantities import InfeasibleError
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.verbs.estimate import estimate, estimate_table

if TYPE_CHECKING:
    pass

BASE = {"model": "meta-llama/Llama-3.1-70B-Instruct", "system": "h200_sxm", "tier": "bound"}
EXPERTS = {"model": "deepseek-ai/DeepSeek-V3", "system": "b300_sxm", "tier": "bound"}

# fields beside BASE, exit code, parts of the message
SCENARIOS: list[tuple[dict[str, Any], int, tuple[str, ...]]] = [
    ({"bach": 8}, 3, ("unknown field 'bach'", "did you mean 'batch'?")),
    ({"ISL": 8}, 3, ("unknown field 'ISL'", "did you mean 'isl'?")),
    ({"batch": 0}, 3, ("batch = 0", "must be at least 1")),
    ({"batch": -1}, 3, ("batch = -1",)),
    ({"batch": 1.5}, 3, ("batch = 1.5",)),
    ({"batch": "many"}, 3, ("batch = 'many'",)),
    ({"batch": 10**10}, 3, ("batch = ", "at most 1,000,000,000")),
    ({"batch": [1, 2]}, 3, ("batch",)),
    ({"mode": "dynamic"}, 3, ("mode", "one of static,")),
    ({"method": "guess"}, 3, ("method", "formula, simulate")),
    ({"tier": "best"}, 3, ("tier", "bound, physics")),
    ({"gpu_memory_utilization": 1.5}, 3, ("gpu_memory_utilization = 1.5",)),
    ({"clock_ratio": 3}, 3, ("clock_ratio = 3",)),
    ({"system": "h2000"}, 3, ("unknown system 'h2000'", "'h200_sxm'", "catalog systems")),
    (
        {"model": "Llama-3.1-71B"},
        3,
        ("unknown model 'Llama-3.1-71B'", "did you mean", "config.json"),
    ),
    ({"engine": "vlm"}, 3, ("unknown engine 'vlm'", "did you mean 'vllm", "catalog engines")),
    ({"engine": "vllm@new"}, 3, ("unknown engine 'vllm@new'",)),
    ({"gpus": 8, "tp": 3}, 3, ("gpus = 8", "3 x 1 x 1 x 1 x 1 = 3", "leave gpus out")),
    ({"gpus": 8, "tp": 8, "dp": 2}, 3, ("gpus = 8", "= 16")),
    ({"isl": 100, "prefix": 100}, 3, ("prefix = 100", "isl = 100", "at most 99")),
    ({"isl": 100, "prefix": 5000}, 3, ("prefix = 5000", "at most 99")),
    ({"tp": 3}, 3, ("tp = 3", "num_heads = 64 must be divisible by tp", "2 or 4")),
    ({"tp": 128}, 3, ("tp = 128", "num_heads = 64")),
    ({"pp": 81}, 3, ("pp = 81", "80 layers")),
    ({"ep": 2}, 3, ("ep = 2", "dense")),
    ({"attention_dp": 2}, 3, ("attention_dp = 2", "use dp = 2")),
    ({"format": "fp9"}, 5, ("unknown format 'fp9'", "did you mean", "catalog formats")),
    ({"silicon_version": "0.24.0"}, 3, ("silicon_version = 0.24.0", "set tier = measured")),
    (
        {"system": "a100_sxm", "tp": 8, "format": "fp8"},
        5,
        ("a100_sxm does not multiply in fp8", "bf16"),
    ),
    ({"tp": 8, "format": "nvfp4"}, 5, ("h200_sxm does not multiply in fp4",)),
    (
        {"system": "mi355x", "engine": "trtllm"},
        5,
        ("trtllm does not run on mi355x, a device of AMD",),
    ),
    (
        EXPERTS | {"system": "mi355x", "attention_dp": 8, "ep": 8, "expert_exchange": "deepep"},
        5,
        ("DeepEP run on devices of NVIDIA", "mi355x is of AMD", "all_to_all"),
    ),
    (
        {"system": "mi300x", "engine": "trtllm"},
        5,
        ("trtllm does not run on mi300x", "a device of AMD", "vllm"),
    ),
    ({"system": "cpu", "tp": 8, "tier": "physics"}, 5, ("'physics'", "cpu", "bound or auto")),
    ({"system": "cpu", "tp": 16, "tier": "physics"}, 5, ("'physics'", "cpu")),
    ({"tp": 1}, 4, ("does not fit by", "needs", "weights 141.", "usable per GPU", "tp = 2 fits")),
    ({"tp": 8, "batch": 100_000}, 4, ("does not fit by", "batch = ", "per replica fits")),
    ({"system": "l40s", "tp": 1}, 4, ("does not fit by", "tp = ", "a GPU with at least")),
    ({"tp": 8, "kv_blocks": 1, "batch": 4}, 4, ("does not fit", "the KV cache holds 0")),
    (
        {**EXPERTS, "tp": 8, "ep": 3},
        3,
        ("tp x attention_dp = 8 x 1 = 8", "ep x moe_tp", "same ranks"),
    ),
    ({**EXPERTS, "expert_distribution": "zipf"}, 3, ("zipf", "power_law_1.2")),
    ({**EXPERTS, "expert_distribution": "power_law_nan"}, 3, ("power_law_nan", "balanced")),
    (
        {"model": "ai21labs/Jamba-v0.1", "cp": 2},
        3,
        ("cp = 2", "recurrent", "use cp = 1"),
    ),
    ({"mode": "disaggregated", "prefill_tp": 3}, 3, ("tp = 3", "num_heads = 64")),
    ({"mode": "disaggregated", "prefill_tp": 8, "decode_tp": 1}, 4, ("does not fit by",)),
]


@pytest.mark.parametrize(("fields", "exit_code", "parts"), SCENARIOS)
def test_a_table_row_has_the_error_and_others_continue(
    fields: dict[str, Any], exit_code: int, parts: tuple[str, ...]
) -> None:
    row = {**BASE, **fields}
    if not set(row) <= set(FIELD_NAMES):
        return  # a table leaves columns it does not know alone
    rows = [row, {**BASE, "tp": 8}]
    columns = estimate_table({n: [r.get(n) for r in rows] for n in {*row, "tp"}}).columns
    codes = {3: "invalid", 4: "infeasible", 5: "unsupported"}
    assert columns["error_code"] == [codes[exit_code], ""]
    reason = "does not fit" if exit_code == 4 else parts[0]
    assert reason in columns["error"][0]
    assert columns["tpot_s"][1] > 0


def test_advice_that_is_followed_fits() -> None:
    with pytest.raises(InfeasibleError, match="tp = 2 fits"):
        estimate(**BASE)
    assert estimate(**BASE, tp=2).results["memory"]["fits"]

"""Launch commands of plans, and the sizes that engines launch."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.verbs.search import search
from perfatlas.verbs.search.launch import launch_commands, launch_rules, needed_checkpoint

EXPERTS: Final[dict[str, Any]] = {
    "tp": 2, "pp": 1, "attention_dp": 4, "ep": 8, "moe_tp": 1, "dp": 1, "kv_format": "fp8_static",
    "max_num_seqs": 64, "max_num_batched_tokens": 4096,
}  # fmt: skip
MODEL: Final = "Qwen/Qwen3-30B-A3B"


def test_vllm_counts_ranks_of_attention_data_parallelism_apart() -> None:
    (command,) = launch_commands("vllm", MODEL, EXPERTS, 1152)
    assert command == (
        f"vllm serve {MODEL} --max-model-len 1152 --tensor-parallel-size 2 --data-parallel-size 4"
        " --max-num-seqs 64 --max-num-batched-tokens 4096 --enable-expert-parallel"
        " --kv-cache-dtype fp8"
    )


def test_sglang_and_trtllm_count_them_inside_the_tensor_parallel_size() -> None:
    (command,) = launch_commands("sglang", MODEL, EXPERTS, 1152)
    assert " --tp-size 8 " in command
    assert " --dp-size 4 --ep-size 8 " in command
    assert command.endswith("--kv-cache-dtype fp8_e4m3 --enable-dp-attention")
    (command,) = launch_commands("trtllm", MODEL, EXPERTS, 1152)
    assert f"trtllm-serve {MODEL} --max_seq_len 1152 --tp_size 8 --ep_size 8" in command
    assert "enable_attention_dp: true" in command


def test_weights_are_quantized_by_the_engine_where_it_can() -> None:
    plan = {**EXPERTS, "ep": 1, "gemm_format": "fp8_dynamic"}
    for launcher in ("vllm", "sglang"):
        (command,) = launch_commands(launcher, MODEL, plan, 1152)
        assert " --quantization fp8" in command
        (command,) = launch_commands(launcher, MODEL, plan, 1152, "fp8_dynamic")
        assert "--quantization" not in command
    assert "checkpoint in fp8_dynamic" in needed_checkpoint("trtllm", plan, "bf16")
    assert needed_checkpoint("vllm", plan, "bf16") == ""
    (command,) = launch_commands("vllm", MODEL, {**plan, "gemm_format": "nvfp4"}, 1152)
    assert "--quantization" not in command


def test_pools_have_a_command_for_each_role() -> None:
    plan: dict[str, Any] = {"kv_format": "bf16"}
    plan |= {"prefill_tp": 1, "prefill_workers": 3, "decode_tp": 4, "decode_workers": 1}
    first, second = launch_commands("dynamo", MODEL, plan, 1152)
    assert first.endswith("--max-model-len 1152 --disaggregation-mode prefill  # 3 workers")
    assert second.endswith("--tensor-parallel-size 4 --disaggregation-mode decode")


def test_every_launcher_names_its_source_and_date() -> None:
    assert all(rules["source"] and rules["date"] for rules in launch_rules().values())


def test_plans_that_the_engine_cannot_launch_are_refused() -> None:
    asked = {"model": MODEL, "system": "h200_sxm", "gpus": 4, "isl": 256, "osl": 64}
    asked |= {"num_simulated": 0, "max_num_batched_tokens": 8192}
    found = search(**asked, emit="vllm")
    assert found.results["launch"][0].startswith(f"vllm serve {MODEL}")
    ranks = zip(*(found.columns[name] for name in ("ep", "tp", "attention_dp")), strict=True)
    assert all(ep in (1, tp * attention_dp) for ep, tp, attention_dp in ranks)
    assert found.results["rejected"]["sizes_supported_by_engine"] > 0
    with pytest.raises(InvalidSpecError, match="set engine = sglang"):
        search(**asked, emit="sglang")
    with pytest.raises(UnsupportedError, match="use dynamo or sglang"):
        search(**{**asked, "mode": "disaggregated"}, emit="vllm")

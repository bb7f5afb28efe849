"""Launch commands of plans, and the sizes that engines launch."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.studies.deployments import launch_rules
from perfatlas.studies.deployments.launch import launch_commands, left_out_note, needed_checkpoint
from perfatlas.verbs.search import search

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
    # the limits of a rank are 64 and 4,096: SGLang divides its arguments by the four ranks
    assert " --max-running-requests 256 --chunked-prefill-size 16384 " in command
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
    # Dynamo refuses a prefill worker of vLLM without a connector
    kv = """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""
    assert first.endswith(f"--max-model-len 1152 --disaggregation-mode prefill {kv}  # 3 workers")
    assert second.endswith(f"--tensor-parallel-size 4 --disaggregation-mode decode {kv}")


def test_dynamo_launches_pools_of_each_engine_by_its_own_arguments() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "gpus": 2}
    asked |= {"mode": "disaggregated", "isl": 256, "osl": 64}
    for engine, module in (("vllm", "vllm"), ("trtllm", "trtllm")):
        for command in search(**asked, engine=engine, emit="dynamo").results["launch"]:
            assert command.startswith(f"python -m dynamo.{module} --model {asked['model']}")
    with pytest.raises(UnsupportedError, match=r"emit = dynamo.*trtllm"):
        search(**asked, engine="trtllm", emit="trtllm")
    with pytest.raises(InvalidSpecError, match="launches one engine"):
        search(**asked, choices=("engine=vllm:trtllm",), emit="dynamo")


SET: Final[dict[str, Any]] = {
    "server_processes": 2, "stream_interval": 4, "gpu_memory_utilization": 0.8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("launcher", "processes", "fraction"),
    [
        ("vllm", "--api-server-count 2", "--gpu-memory-utilization 0.8"),
        ("sglang", "--tokenizer-worker-num 2", "--mem-fraction-static 0.8"),
        ("trtllm", "--num_postprocess_workers 2", "--kv_cache_free_gpu_memory_fraction 0.8"),
        ("dynamo", "", "--gpu-memory-utilization 0.8"),
    ],
)
def test_limits_that_are_set_are_arguments_or_named_as_left_out(
    launcher: str, processes: str, fraction: str
) -> None:
    (command,) = launch_commands(launcher, MODEL, {**EXPERTS, **SET}, 1152)
    note = left_out_note(launcher, {**EXPERTS, **SET, "cp": 2})
    assert fraction in command
    assert processes in command
    assert ("server_processes" in note) == (not processes)
    assert ("stream_interval" in note) == (launcher == "trtllm") == ("--stream-" not in command)
    assert "cp" in note
    assert left_out_note("vllm", {**EXPERTS, **SET}) == ""


def test_a_search_launches_with_its_limits() -> None:
    asked: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "system": "h200_sxm",
        "gpus": 1,
        "emit": "vllm",
    }
    found = search(**asked, **SET, num_simulated=0, max_num_batched_tokens=8192)
    (command,) = found.results["launch"]
    for words in ("--api-server-count 2", "--stream-interval 4", "--gpu-memory-utilization 0.8"):
        assert words in command
    assert found.answer.warnings == ()
    assert (found.answer.scenario["isl"], found.answer.scenario["osl"]) == (1024, 128)


def test_plans_that_the_engine_cannot_launch_are_refused() -> None:
    asked: dict[str, Any] = {"model": MODEL, "system": "h200_sxm", "gpus": 4, "isl": 256, "osl": 64}
    asked |= {"num_simulated": 0, "max_num_batched_tokens": 8192}
    found = search(**asked, emit="vllm")
    assert found.results["launch"][0].startswith(f"vllm serve {MODEL}")
    ranks = zip(*(found.columns[name] for name in ("ep", "tp", "attention_dp")), strict=True)
    assert all(ep in (1, tp * attention_dp) for ep, tp, attention_dp in ranks)
    assert found.results["rejected"]["sizes_supported_by_engine"] > 0
    with pytest.raises(InvalidSpecError, match="set engine = sglang"):
        search(**asked, emit="sglang")
    with pytest.raises(UnsupportedError, match=r"emit = dynamo.*vllm"):
        search(**{**asked, "mode": "disaggregated"}, emit="vllm")


SECOND: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-70B", "system": "gh200", "isl": 1000, "osl": 200,
    "num_simulated": 0, "max_num_batched_tokens": 8192,
}  # fmt: skip


def test_weights_in_the_second_memory_are_launched_with_their_gib() -> None:
    # 141.1 GB of bf16 weights: half of them are 70.6 GB = 65.7 GiB a GPU, a quarter over tp 2
    # 17.6 GB = 16.4 GiB
    for engine in ("vllm", "sglang"):
        found = search(**SECOND, gpus=1, weight_offload=0.5, engine=engine, emit=engine)
        assert found.results["launch"][0].endswith("--cpu-offload-gb 66")
    asked = {**SECOND, "system": "gb200", "gpus": 4, "weight_offload": 0.25}
    asked |= {"mode": "disaggregated"}
    commands = search(**asked, choices=("tp=2",), emit="dynamo").results["launch"]
    assert len(commands) == 2
    assert all("--tensor-parallel-size 2 --cpu-offload-gb 17 " in line for line in commands)


def test_weights_that_are_fetched_ahead_are_launched_with_their_layers() -> None:
    asked: dict[str, Any] = {**SECOND, "gpus": 1, "weight_offload": 0.6, "offload_prefetch": True}
    (command,) = search(**asked, emit="vllm").results["launch"]
    assert "--offload-backend prefetch --offload-group-size 5 --offload-num-in-group 3" in command
    assert "cpu-offload-gb" not in command
    with pytest.raises(UnsupportedError, match=r"offload_prefetch.*SGLang"):
        search(**asked, engine="sglang", emit="sglang")


def test_a_share_of_weights_that_no_group_of_layers_has_is_refused_or_stated() -> None:
    plan = {"tp": 1, "pp": 1, "attention_dp": 1, "dp": 1, "offload_prefetch": True}
    for share in (0.01, 0.99):
        with pytest.raises(
            UnsupportedError, match=rf"weight_offload = {share} .*0.03125 and 0.96875"
        ):
            launch_commands("vllm", MODEL, plan | {"weight_offload": share}, 4096)
    # of at most 32 layers, 0.02 is nearest to 1 of 32; one of 2 is what it says
    (near,) = launch_commands("vllm", MODEL, plan | {"weight_offload": 0.02}, 4096)
    assert "--offload-group-size 32 --offload-num-in-group 1" in near
    assert near.endswith("# offloads 0.03125 of the layers, not 0.02")
    for share in (0.5, 1.0):
        (exact,) = launch_commands("vllm", MODEL, plan | {"weight_offload": share}, 4096)
        assert "#" not in exact


def test_offloads_that_an_engine_does_not_run_are_not_launched() -> None:
    asked = {**SECOND, "gpus": 2, "weight_offload": 0.25}
    with pytest.raises(UnsupportedError, match=r"kv_offload = 0.1.*copies.*leave emit out"):
        search(**asked, kv_offload=0.1, emit="vllm")
    with pytest.raises(UnsupportedError, match=r"weight_offload = 0.25.*TensorRT-LLM"):
        search(**asked, engine="trtllm", emit="trtllm")


def test_what_a_launch_leaves_out_is_a_warning() -> None:
    asked = {**SECOND, "gpus": 4, "engine": "trtllm", "emit": "trtllm", "stream_interval": 4}
    (warning,) = search(**asked).answer.warnings
    assert "the launch command leaves out stream_interval" in warning


WIDE: Final[dict[str, Any]] = {
    **EXPERTS, "attention_dp": 8, "expert_exchange": "deepep_low_latency", "redundant_experts": 32,
    "batch_overlap": "two_batch", "speculative_depth": 2, "has_drafter": True,
    "prefix_caching": False,
}  # fmt: skip
NAMED: Final = {
    "vllm": (
        "--all2all-backend deepep_low_latency --enable-dbo --enable-eplb --eplb-config"
        ' \'{"num_redundant_experts": 32}\' --speculative-config \'{"method": "mtp",'
        ' "num_speculative_tokens": 2}\' --no-enable-prefix-caching'
    ),
    "sglang": (
        "--moe-a2a-backend deepep --deepep-mode low_latency --enable-two-batch-overlap"
        " --enable-eplb --ep-num-redundant-experts 32 --speculative-algorithm EAGLE"
        " --speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 3"
        " --disable-radix-cache"
    ),
}


@pytest.mark.parametrize("launcher", NAMED)
def test_settings_of_wide_expert_parallelism_are_arguments(launcher: str) -> None:
    (command,) = launch_commands(launcher, MODEL, WIDE, 1152)
    assert NAMED[launcher] in command
    assert left_out_note(launcher, WIDE) == ""
    assert "speculative_depth" in left_out_note(launcher, {**WIDE, "has_drafter": False})


NODES: Final = {"tp": 8, "pp": 2, "attention_dp": 1, "dp": 3, "node_devices": 8}
HEAD: Final = "--nnodes 2 --node-rank $NODE_RANK --master-addr $HEAD_ADDRESS"


def test_a_replica_of_two_nodes_has_a_command_for_each() -> None:
    first, other = launch_commands("vllm", MODEL, NODES, 1152)
    assert first.endswith(f"{HEAD}  # on the first of 2 nodes, NODE_RANK = 0; 3 replicas")
    assert other.endswith(f"{HEAD} --headless  # on each other node, NODE_RANK = 1; 3 replicas")
    (command,) = launch_commands("sglang", MODEL, NODES, 1152)
    assert "--tp-size 8 --pp-size 2 --nnodes 2 --node-rank $NODE_RANK --dist-init-addr" in command
    (command,) = launch_commands("trtllm", MODEL, NODES, 1152)
    assert command.startswith(
        "srun --nodes 2 --ntasks 16 --ntasks-per-node 8 --mpi pmix trtllm-llmapi-launch"
        f" trtllm-serve {MODEL} "
    )
    for launcher in ("vllm", "sglang", "trtllm"):
        assert left_out_note(launcher, NODES) == ""
        (command,) = launch_commands(launcher, MODEL, {**NODES, "node_devices": 16}, 1152)
        assert "NODE_RANK" not in command
        assert "srun" not in command


@pytest.mark.parametrize("changes", [{}, {"tp": 4, "pp": 1, "attention_dp": 4}])
def test_nodes_without_an_api_server_have_no_number_of_them(changes: dict[str, int]) -> None:
    first, other = launch_commands("vllm", MODEL, {**NODES, **changes, **SET}, 1152)
    assert "--api-server-count 2" in first
    assert "--headless" in other
    assert "--api-server-count" not in other
    assert "--stream-interval 4" in other


def test_stages_and_overlaps_that_an_engine_refuses_when_it_starts_are_refused() -> None:
    pools: dict[str, Any] = {"kv_format": "bf16", "prefill_workers": 1, "decode_workers": 1}
    pools |= {"prefill_tp": 1, "prefill_pp": 2, "decode_tp": 4, "decode_pp": 1}
    with pytest.raises(UnsupportedError, match=r"2 pipeline stages.*Nixl"):
        launch_commands("dynamo", MODEL, pools, 1152)
    assert "--pp-size 2" in launch_commands("sglang", MODEL, pools, 1152)[0]
    plan = {**EXPERTS, "batch_overlap": "two_batch"}
    for launcher in ("vllm", "dynamo", "sglang"):
        with pytest.raises(UnsupportedError, match=r"set expert_exchange = .*deepep_low_latency"):
            launch_commands(launcher, MODEL, plan, 1152)
    with pytest.raises(UnsupportedError, match="DeepEP"):
        launch_commands("vllm", MODEL, {**plan, "expert_exchange": "deepep"}, 1152)


def _flags(value: object) -> set[str]:
    """Return all flags in the texts of some rules, but for the arguments of srun."""
    if isinstance(value, dict):
        parts = [one for name, one in value.items() if name not in ("source", "prefix", "stages")]
        return set().union(*(_flags(one) for one in parts))
    if isinstance(value, list):
        return set().union(*(_flags(one) for one in value))
    return set(re.findall(r"(?<![\w-])--([\w-]+)", str(value)))


def test_the_parser_of_each_engine_knows_every_flag_of_its_commands() -> None:
    parsers = tomllib.loads(Path(__file__).with_name("launch_parsers.toml").read_text("utf-8"))
    launched = {name for name, rules in launch_rules().items() if "command" in rules}
    assert launched == set(parsers)
    for name in launched:
        parser = parsers[name]
        known = set(parser["flags"].split())
        known |= {f"no-{flag}" for flag in known if parser["negatable"]}
        assert _flags(launch_rules()[name]) - known == set(), name


def test_vllm_numbers_attention_dp_ranks_over_nodes() -> None:
    plan = {**NODES, "tp": 4, "pp": 1, "attention_dp": 8, "ep": 32, "dp": 1}
    first, other = launch_commands("vllm", MODEL, plan, 1152)
    assert "--data-parallel-size 8 " in first
    assert "--data-parallel-size-local 2 --data-parallel-address $HEAD_ADDRESS" in first
    assert "--headless --data-parallel-start-rank $((NODE_RANK * 2))" in other
    assert other.endswith("# on each other node, NODE_RANK = 1 to 3")
    (command,) = launch_commands("sglang", MODEL, plan, 1152)
    assert "--nnodes 4" in command


@pytest.mark.parametrize("changes", [{"tp": 3, "pp": 3}, {"tp": 16, "pp": 1, "attention_dp": 3}])
def test_nodes_that_no_argument_describes_are_left_out(changes: dict[str, int]) -> None:
    # 9 GPUs on two nodes of 8, and attention-DP ranks that need two nodes each
    plan = {**NODES, **changes}
    (command,) = launch_commands("vllm", MODEL, plan, 1152)
    assert "HEAD_ADDRESS" not in command
    assert "leaves out nodes" in left_out_note("vllm", plan)


def test_pools_name_the_nodes_of_their_own_systems() -> None:
    sizes = {"tp": 16, "workers": 1}
    plan: dict[str, Any] = {
        f"{role}_{n}": v for role in ("prefill", "decode") for n, v in sizes.items()
    }
    plan |= {"kv_format": "bf16", "prefill_node_devices": 8, "decode_node_devices": 16}
    first, second, decode = launch_commands("dynamo", MODEL, plan, 1152)
    assert "--disaggregation-mode prefill " in first
    assert f" {HEAD}" in first
    assert "--headless" in second
    assert "--disaggregation-mode decode " in decode
    assert "HEAD_ADDRESS" not in decode


def test_a_search_over_nodes_launches_on_all_of_them() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "gpus": 16}
    found = search(**asked, tp=8, pp=2, emit="sglang", engine="sglang", num_simulated=0)
    (command,) = found.results["launch"]
    assert command.endswith("# on each of 2 nodes, NODE_RANK = 0 to 1")


def test_each_pool_runs_its_mode_of_deepep() -> None:
    own = {"tp": 1, "pp": 1, "attention_dp": 8, "ep": 8, "moe_tp": 1, "workers": 1, "batch": 8}
    plan: dict[str, Any] = {
        f"{role}_{n}": v for role in ("prefill", "decode") for n, v in own.items()
    }
    plan |= {"kv_format": "bf16", "expert_exchange": "deepep"}
    prefill, decode = launch_commands("dynamo", MODEL, plan, 1152)
    assert "--all2all-backend deepep_high_throughput" in prefill
    assert "--all2all-backend deepep_low_latency" in decode
    assert left_out_note("dynamo", plan) == ""

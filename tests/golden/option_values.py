"""Other legal values of every field, far enough from those of golden questions to be felt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import questions, verb_fields
from perfatlas.vocabulary.fields import Catalog, Number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.vocabulary.fields import Field

Values = dict[str, tuple[Any, ...]]
_PRICES: Final = ("pue", "usd_per_kwh", "gco2_per_kwh", "usd_per_gpu_hour")
_SERVING: Final[Values] = {
    "model": ("meta-llama/Llama-3.2-3B", "Qwen/Qwen3-30B-A3B"),
    "system": ("a100_sxm", "h20"),
    "engine": ("sglang", "trtllm", "ideal"),
    "tier": ("bound", "physics"),
    "silicon_version": ("0.20.1", "0.19.0"),
    "clock_ratio": (0.5, 0.7),
    "power_cap_w": (260.0, 350.0),
    "input_distribution": ("zeros",),
    "node_power_cap_w": (5000.0, 6000.0),
    "benchmark": ("gsm8k", "gpqa"),
    "quantization_method": ("rtn", "qat"),
    "pue": (1.2, 1.5),
    "usd_per_kwh": (0.1, 0.2),
    "gco2_per_kwh": (300.0, 400.0),
    "mode": ("static", "aggregated", "disaggregated"),
    "method": ("simulate", "formula"),
    "gpus": (8, 16),
    "tp": (2, 4),
    "pp": (2, 4),
    "cp": (2, 4),
    "ring_degree": (2, 4),
    "guidance_degree": (2,),
    "attention_dp": (2, 4),
    "ep": (2, 4),
    "moe_tp": (2, 4),
    "dp": (2, 3),
    "expert_distribution": ("balanced", "power_law_1.2"),
    "redundant_experts": (16, 32),
    "prefill_redundant_experts": (16, 32),
    "decode_redundant_experts": (16, 32),
    "expert_exchange": ("deepep", "all_to_all"),
    "prefill_expert_exchange": ("deepep_normal", "all_to_all"),
    "decode_expert_exchange": ("deepep_low_latency", "all_to_all"),
    "sampling_penalties": (True,),
    "batch_overlap": ("two_batch", "single_batch"),
    "format": ("fp8", "int8"),
    "prefill_format": ("fp8", "int8"),
    "decode_format": ("fp8", "int8"),
    "gemm_format": ("fp8", "int8"),
    "moe_format": ("fp8_block", "fp8", "bf16"),
    "kv_format": ("fp8", "bf16"),
    "attention_format": ("fp8", "bf16"),
    "feed_forward_system": ("h200_sxm", "a100_sxm"),
    "feed_forward_engine": ("sglang", "ideal"),
    "feed_forward_tp": (2, 4),
    "feed_forward_pp": (2, 4),
    "feed_forward_ep": (2, 4),
    "micro_batches": (2, 3),
    "batch": (3, 5),
    "concurrency": (3, 5),
    "isl": (700, 900),
    "osl": (30, 60),
    "requests_per_client": (2, 3),
    "osl_spread": (0.2, 0.4),
    "prefix": (16, 32),
    "max_num_seqs": (1, 2),
    "max_num_batched_tokens": (16, 32),
    "block_size": (7, 300),
    "gpu_memory_utilization": (0.5, 0.7),
    "kv_blocks": (999, 777),
    "stream_interval": (7, 8),
    "server_processes": (2, 3),
    "speculative_depth": (2, 3),
    "speculative_acceptance": (0.3, 0.5),
    "acceptance_by_position": ("0.9,0.5", "0.4,0.2,0.1"),
    "prefill_workers": (2, 3),
    "prefill_batch": (2, 3),
    "decode_workers": (2, 3),
    "decode_batch": (2, 3),
    **{f"{pool}_system": ("a100_sxm", "h20") for pool in ("prefill", "decode")},
    **{
        f"{pool}_{size}": (2, 4)
        for pool in ("prefill", "decode")
        for size in ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp")
    },
    "requests": ("no_such_file.csv",),
    "request_format": ("azure_llm", "mooncake"),
    "request_rate": (3.0, 7.0),
    "num_requests": (30, 35),
    "sampling_precision": (0.2, 0.1),
    "arrival": ("constant", "gamma", "closed"),
    "burstiness": (0.3, 2.0),
    "ramp_to_rate": (50.0, 60.0),
    "ramp_s": (5.0, 6.0),
    "turns": (2, 3),
    "think_time_s": (1.0, 2.0),
    "shared_prefix": (64, 128),
    "length_distribution": ("uniform", "lognormal"),
    "length_spread": (0.3, 0.7),
    "lengths_from": ("no_such_file.csv",),
    "rate_scale": (2.0, 3.0),
    "length_scale": (2.0, 3.0),
    "requests_from_s": (1.0, 2.0),
    "requests_to_s": (3.0, 4.0),
    "spread_batches": (True,),
    "seed": (77, 78),
    "num_seeds": (2, 3),
    "prompt_text": ("random", "natural"),
    "prefix_caching": (False, True),
    "scheduler": ("sglang", "vllm", "static"),
    "chunked_prefill": (False, True),
    "mixed_chunk": (True, False),
    "scheduler_recv_interval": (10, 30),
    "rank_balance_iters": (0, 20),
    "measured_at": ("engine", "client"),
    "slo_ttft_s": (0.1, 0.2),
    "slo_tpot_s": (0.01, 0.02),
    "slo_itl_s": (0.01, 0.02),
    "slo_request_latency_s": (1.0, 2.0),
    "slo_percentile": (90.0, 99.0),
    "replica_kinds": ([{"dp": 1}, {"dp": 1, "system": "a100_sxm"}],),
    "routing": ("least_loaded", "random"),
    "cache_threshold": (0.3, 0.7),
    "balance_abs_threshold": (2, 3),
    "balance_rel_threshold": (1.1, 1.2),
    "replica_events": ([{"replica": 0, "fails_at_s": 0.5, "back_at_s": 1.0}],),
    "on_failure": ("lost", "retry"),
    "retry_after_s": (1.0, 2.0),
    "max_replicas": (3, 4),
    "min_replicas": (2, 3),
    "autoscale_target": (2.0, 3.0),
    "autoscale_metric": ("waiting", "requests"),
    "autoscale_period_s": (1.0, 2.0),
    "autoscale_tolerance": (0.3, 0.5),
    "autoscale_down_after_s": (1.0, 2.0),
    "start_up_s": (1.0, 2.0),
    "usd_per_gpu_hour": (2.0, 3.0),
    "host_cache_bytes": ("3GB", "2GB"),
    "host_bandwidth": ("3GB/s", "2GB/s"),
    "ssd_cache_bytes": ("3GB", "2GB"),
    "ssd_bandwidth": ("3GB/s", "2GB/s"),
}
_RECIPE: Final[Values] = {
    "recompute_modules": ("mlp", "layernorm"),
    "activation_offload": (0.5, 0.9),
    "optimizer_offload": (0.5, 0.9),
    "offload_bandwidth": (77e9, 7e9),
}
_KERNELS: Final[Values] = {
    "system": ("a100_sxm", "b200_sxm"),
    "m": (700, 4000),
    "n": (700, 4000),
    "k": (700, 4000),
    "format": ("fp8", "int8", "fp8_block", "bf16"),
    "kernel_family": ("vllm", "sglang", "trtllm"),
    "batch": (3, 50),
    "q_len": (3, 300),
    "kv_len": (700, 9000),
    "num_heads": (16, 64),
    "num_kv_heads": (2, 16),
    "head_dim": (64, 256),
    "kv_lora_rank": (256, 128),
    "rope_dim": (32, 128),
    "kv_format": ("fp8", "bf16"),
    "window": (32, 20),
    "tile_m": (64, 192),
    "tile_n": (64, 96),
    "tile_k": (64, 32),
    "stages": (2, 3),
    "warpgroups": (1, 3),
    "channels": (128, 256),
    "height": (7, 112),
    "width": (64, 112),
    "filters": (128, 256),
    "kernel": (1, 5),
    "kernel_width": (1, 5),
    "stride": (2, 4),
    "padding": (0, 3),
    "groups": (2, 64),
    "tokens": (700, 4000),
    "hidden": (1024, 4096),
    "intermediate": (512, 2048),
    "experts": (64, 256),
    "top_k": (2, 4),
    "ep": (2, 4),
    "moe_tp": (2, 4),
    "distribution": ("balanced", "power_law_1.2", "uniform"),
    "silicon_version": ("0.20.1", "0.19.0"),
    "clock_ratio": (0.5, 0.7),
    "power_cap_w": (150.0, 260.0),
    "input_distribution": ("zeros",),
}
_GOODPUT: Final[Values] = {
    "power_w": (500.0, 700.0),
    "idle_power_w": (100.0, 200.0),
    "pue": (1.3, 1.5),
    "usd_per_kwh": (0.1, 0.2),
    "gco2_per_kwh": (300.0, 400.0),
    "gpus": (1024, 64),
    "checkpoint_interval_s": (500.0, 5000.0),
    "checkpoint_write_s": (3.0, 300.0),
    "restart_s": (33.0, 999.0),
    "duration_s": (1.5e6, 3e6),
    "usd_per_gpu_hour": (2.0, 3.0),
    "half_width": (0.05, 0.01),
    "seed": (77, 78),
    "mtti_s": (33000.0, 44000.0),
    "node_mtbf_s": (5e6, 7e6),
    "failure_rate": ("rsc1_node", "llama3_gpu"),
    "failures_seen": (30, 60),
    "gpus_per_node": (4, 2),
    "failure_shape": (0.7, 2.0),
    "detection_s": (77.0, 300.0),
    "spares": (3, 9),
    "repair_s": (9000.0, 300000.0),
    "fleet": ("llama3", "rsc1"),
    "fleet_units": (3000, 4000),
    "strategy": ("no_such_strategy",),
    "strategy_file": ("no_such_file.toml",),
    "checkpoint_lag_s": (50.0, 100.0),
    "spare_start_s": (200.0, 900.0),
    "fewest_gpus": (8, 128),
    "replica_gpus": (8, 64),
    "work_s": (1e6, 5e5),
    "finish_by_s": (2e6, 1e6),
    "mfu": (0.3, 0.35),
    "scheduling": (0.8, 0.7),
    "more_spares": (9, 12),
    "verify_s": (60.0, 600.0),
    "model": ("meta-llama/Llama-3.2-3B", "Qwen/Qwen3-30B-A3B"),
    "system": ("a100_sxm", "gb200"),
    "format": ("fp8", "int8"),
    "step_time_s": (3.0, 7.0),
    "tokens_per_step": (1 << 20, 1 << 19),
    "checkpoint_bytes": (1e11, 3e12),
    "checkpoint_bytes_per_s": (1e10, 3e9),
    "train": ("no_such_file.toml",),
    "tokens": (1e9, 3e12),
}
_OPERATORS: Final = {
    f"kernel {name}": _KERNELS
    for name in (
        *("gemm", "attention", "moe", "op conv", "op norm", "op softmax"),
        *("op embedding", "op elementwise"),
        *("design gemm", "design attention"),
    )
}
_OTHERS: Final[Mapping[str, Values]] = {
    **_OPERATORS,
    "accuracy": {
        "model": ("meta-llama/Llama-3.2-3B", "Qwen/Qwen3-30B-A3B"),
        "gemm_format": ("fp8", "int8"),
        "kv_format": ("fp8", "bf16"),
        "benchmark": ("gsm8k", "gpqa"),
        "quantization_method": ("rtn", "qat"),
    },
    "collective": {
        "system": ("a100_sxm", "b200_sxm"),
        "bytes": (4096, 1 << 28),
        "format": ("int8", "fp8"),
        "gpus": (2, 4, 16),
        "nodes": (1, 2),
        "kernel_family": ("vllm", "sglang", "trtllm", "nccl"),
        "silicon_version": ("0.20.1", "0.19.0"),
    },
    "goodput spares": {
        "nodes": (100, 900),
        "fleet": ("llama3", "rsc1"),
        "gpus": (1024, 64),
        "spares": (3, 9),
        "target": (0.9, 0.9999),
        "node_mtbf_s": (5e6, 7e6),
        "repair_s": (9000.0, 300000.0),
        "crews": (1, 3),
    },
    "fleet schedule": {
        "jobs": ("no_such_file.csv",),
        "zone": ("Europe/Berlin", "Asia/Tokyo"),
        "num_jobs": (45, 90),
        "load": (0.5, 1.3),
        "job_rate": (0.01, 0.02),
        "run_median_s": (600.0, 5000.0),
        "run_sigma": (0.5, 1.0),
        "max_job_gpus": (8, 16),
        "limit_factor": (1.2, 5.0),
        "checkpoint_interval_s": (600.0, 7000.0),
        "restart_s": (33.0, 999.0),
        "fewest_share": (0.5, 0.25),
        "nodes": (12, 40),
        "gpus_per_node": (4, 2),
        "nodes_per_domain": (2, 3),
        "nodes_per_leaf": (4, 5),
        "depth": (1, 2),
        "half_life_s": (3600.0, 60.0),
        "shares": ({"0": 5.0}, {"user0": 5.0}),
        "node_mtbf_s": (300000.0, 90000.0),
        "repair_s": (9000.0, 99000.0),
        "fleet": ("llama3", "rsc1"),
        "failures": ("no_such_file.csv",),
        "detection_s": (77.0, 900.0),
        "max_restarts": (1, 2),
        "patience_s": (30.0, 3600.0),
        "until_s": (50000.0, 20000.0),
        "seed": (77, 78),
    },
    "goodput": _GOODPUT,
    "search": {
        "usd_per_gpu_hour": (2.0, 3.0),
        "max_usd_per_million_tokens": (5.0, 0.5),
        "max_accuracy_loss": (0.0, 2.0),
        "solve": ("device.l2", "device.*"),
        "max_power_w": (300.0, 600.0),
        "max_die_area_mm2": (600.0, 900.0),
        "benchmark": _SERVING["benchmark"],
        "expert_distribution": _SERVING["expert_distribution"],
        "silicon_version": _SERVING["silicon_version"],
        "systems": ("b200_sxm,gb200", "l40s"),
        "choices": ("tp=1", "tp=2,pp=1"),
        "formats": ("bf16,fp8", "int8"),
        "kv_formats": ("bf16,fp8", "fp8"),
        "slo_percentile": (90.0, 99.0),
        "availability": (0.99, 0.9999),
        "node_mtbf_s": (1e6, 1e5),
        "repair_s": (1e4, 1e5),
        "routing": ("prefix_aware",),
        "lengths_from": _SERVING["lengths_from"],
        "request_format": _SERVING["request_format"],
        "request_mix": ("700:30:1,900:60:2", "16:4"),
        "objective": ("output_tokens_per_s_per_gpu,request_latency_s", "request_latency_s"),
        "acceptance_by_position": ("0.9,0.6,0.3", "0.4,0.2,0.1"),
    },
    "compare": {
        "benchmark": _SERVING["benchmark"],
        "expert_distribution": _SERVING["expert_distribution"],
        "silicon_version": _SERVING["silicon_version"],
        "models": ("Qwen/Qwen3-8B,Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"),
        "systems": ("b200_sxm,gb200", "l40s"),
        "engines": ("sglang,trtllm", "ideal"),
        "formats": ("bf16,fp8", "int8"),
        "acceptance_by_position": ("0.9,0.6,0.3", "0.4,0.2,0.1"),
        **{name: _SERVING[name] for name in ("node_power_cap_w", *_PRICES)},
    },
    "train": {
        "engine": ("fsdp", "ideal"),
        **_RECIPE,
        "stage_layers": ("4x8", "2x16"),
        **{name: _SERVING[name] for name in ("power_cap_w", *_PRICES)},
        "expert_distribution": _SERVING["expert_distribution"],
        "silicon_version": _SERVING["silicon_version"],
    },
    "search training": {
        "engine": ("fsdp", "ideal"),
        **_RECIPE,
        "expert_distribution": _SERVING["expert_distribution"],
        "silicon_version": _SERVING["silicon_version"],
    },
    "estimate": _SERVING,
    "simulate": _SERVING,
}
_NAMES: Final[Values] = {
    "models": _SERVING["model"],
    "systems": _SERVING["system"],
    "engines": _SERVING["engine"],
    "formats": _SERVING["format"],
}
_SCORED: Final = "validate serving"  # asks simulations of measured traffic
# those that take least time first; a verb that is new since is asked by its example
VERBS: Final = (*(verb for verb in questions() if verb not in {*_OTHERS, _SCORED}), *_OTHERS)


def others_of(verb: str) -> Values:
    """Return other values of the fields of a verb; those not listed above follow from the row.

    Args:
        verb: One of `VERBS`.
    """
    stated = _OTHERS.get(verb, {})
    found = {}
    for name, field in verb_fields(verb).items():
        if values := stated.get(name) or _by_type(field):
            found[name] = values
    return found


def _by_type(field: Field) -> tuple[Any, ...]:
    """Return choices, flags, names of a catalog, or numbers around the default of a field."""
    if field.type is bool or field.choices:
        return (True, False) if field.type is bool else field.choices
    for part in field.parts:
        if isinstance(part, Catalog):
            return _NAMES.get(part.name, ())
        if isinstance(part, Number):
            default = 1.0 if field.default in (None, 0) else float(field.default)
            least = max(part.at_least or 0.0, part.above or 0.0)
            most = min(bound for bound in (part.at_most, part.below, math.inf) if bound is not None)
            numbers: tuple[float, ...] = (0.7 * default, 3.0 * default, 0.3 * default)
            if field.default in (None, 0, 1):  # sizes, or numbers of unknown magnitude
                numbers += (2.0, 4.0, 8.0, 128.0) if field.type is int else (300.0, 3e5)
            legal = [one for one in numbers if least < one < most]
            return tuple(math.ceil(one) if field.type is int else one for one in legal)
    return ()

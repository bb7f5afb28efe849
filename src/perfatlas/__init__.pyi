"""Model, measure and explain deep-learning workloads; names are loaded when first used."""

from collections.abc import Callable
from typing import Any, Literal

from perfatlas.answer import Answer as Answer
from perfatlas.verbs.estimate import (
    TableAnswer as TableAnswer,
    estimate_columns as estimate_columns,
    estimate_table as estimate_table,
)
from perfatlas.verbs.goodput import (
    goodput as goodput,
    goodput_domains as goodput_domains,
    goodput_spares as goodput_spares,
    goodput_stragglers as goodput_stragglers,
)
from perfatlas.verbs.schedule import fleet_schedule as fleet_schedule
from perfatlas.verbs.simulate import Simulation as Simulation

__version__: str

__all__ = [
    "Answer",
    "Simulation",
    "TableAnswer",
    "__version__",
    "collective",
    "estimate",
    "estimate_columns",
    "estimate_table",
    "fleet_schedule",
    "frontier",
    "goodput",
    "goodput_domains",
    "goodput_spares",
    "goodput_stragglers",
    "kernel_attention",
    "kernel_gemm",
    "kernel_moe",
    "max_request_rate",
    "simulate",
]

def collective(
    *,
    system: str,
    op: Literal[
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "dispatch",
        "combine",
        "send_recv",
    ],
    bytes: float | str,
    format: str = "bf16",
    gpus: int | str,
    nodes: int | str | None = None,
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    kernel_family: str | None = None,
) -> Answer:
    """Return the time of one collective.

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        op: Collective operation.
        bytes: Size as nccl-tests counts it, such as 65536, 64KiB or 1MB [bytes].
        format: Number format of the elements; switches do not add integers. Default: bf16. Needs
            op = all_reduce or reduce_scatter.
        gpus: GPUs that take part.
        nodes: Nodes the GPUs are spread over evenly. Default: as few as hold the GPUs.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables of all-reduce kernels. Default: the
            version of the calibrations. Needs tier = measured and op = all_reduce and
            kernel_family other than nccl.
        kernel_family: Whose kernels run: those of an engine, such as vllm, or of the library,
            nccl. Default: the fastest all-reduce of all, nccl for other operations. Needs op =
            all_reduce or dispatch or combine or kernel_family = nccl.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: No data for the tier.

    Example:
        >>> from perfatlas.verbs.collective import collective
        >>> answer = collective(system="h200_sxm", op="all_reduce", bytes=2**20, gpus=8)
        >>> answer.results["time_s"] > answer.results["bound_time_s"]
        True
    """

def estimate(
    *,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    mode: Literal["static", "aggregated", "disaggregated"] = "static",
    method: Literal["auto", "formula", "simulate"] = "auto",
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    batch: int | str | None = None,
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    prefix: int | str = 0,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    stream_interval: int | str = 1,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
) -> Answer:
    """Return the estimate of one inference scenario.

    Args:
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), dated as in
            vllm@0.24. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: Clock of the GPU over its sustained clock. Default: 1.
        mode: Serving mode: one batch, continuous batching, or separate prefill and decode pools.
            Default: static.
        method: Method for aggregated and disaggregated serving: formula (closed forms without
            queueing), simulate (a short simulation), or auto, which simulates where prompts queue.
            Default: auto. Needs mode = aggregated or disaggregated.
        gpus: GPUs in total, tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica.
        pp: Pipeline-parallel size. Default: 1.
        cp: Context-parallel size, for prefill. Default: 1.
        attention_dp: Attention data-parallel ranks inside a replica. Default: 1.
        ep: Expert-parallel size; tp x attention_dp = ep x moe_tp. Default: all ranks of an MoE
            layer.
        moe_tp: Tensor-parallel size inside an expert. Default: tp x attention_dp / ep.
        dp: Independent replicas, each with its own requests. Default: 1.
        expert_distribution: Routing of tokens to experts: uniform (drawn evenly), balanced (dealt
            out evenly) or power_law_1.2. Default: uniform. Needs an MoE model.
        format: Number format of weights and products: sets gemm_format and moe_format; fp8 means
            the engine's default. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        batch: Sequences in one static batch, per replica. Default: 1.
        concurrency: Requests in flight over the whole deployment (a closed loop). Default: dp.
        isl: Input tokens of a request, the mean where lengths vary. Default: 1024.
        osl: Output tokens of a request, the mean where lengths vary. Default: 128.
        prefix: Cached prefix tokens, part of the input tokens. Default: 0.
        max_num_seqs: Most sequences in one step. Default: the engine's.
        max_num_batched_tokens: Most tokens in one step. Default: the engine's.
        block_size: Tokens in one KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory the engine may fill [fraction]. Default: the
            engine's.
        kv_blocks: KV blocks, in place of the derived number. Default: derived from memory.
        stream_interval: Output tokens of a request that the front end sends at a time. Default: 1.
        speculative_depth: Draft tokens per step, by a drafter of one layer (MTP, EAGLE). Default:
            0.
        speculative_acceptance: Probability that a draft token is accepted when all before it are
            [fraction]. Needs speculative_depth other than 0.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts in one prefill step; in a simulation, the most. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight on one decode worker; in a simulation, the most. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size of each prefill worker. Default: as cp. Needs mode =
            disaggregated.
        prefill_attention_dp: Attention data-parallel ranks inside a replica of each prefill
            worker. Default: as attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel ranks inside a replica of each decode worker.
            Default: as attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.

    Raises:
        InvalidSpecError: A name, value or plan breaks a rule.
        InfeasibleError: The model and its cache do not fit.
        UnsupportedError: No model or data for the combination.

    Example:
        >>> from perfatlas.verbs.estimate import estimate
        >>> answer = estimate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", batch=8)
        >>> answer.results["tpot_s"] > answer.results["tpot_s_low"] > 0
        True
    """

def frontier(
    *,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    mode: Literal["static", "aggregated", "disaggregated"] = "static",
    method: Literal["auto", "formula", "simulate"] = "auto",
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    batch: int | str | None = None,
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    prefix: int | str = 0,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    stream_interval: int | str = 1,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
) -> list[dict[str, Any]]:
    """Return one row per batch size, from 1 to the largest that fits and runs at a time.

    Args:
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), dated as in
            vllm@0.24. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: Clock of the GPU over its sustained clock. Default: 1.
        mode: Serving mode: one batch, continuous batching, or separate prefill and decode pools.
            Default: static.
        method: Method for aggregated and disaggregated serving: formula (closed forms without
            queueing), simulate (a short simulation), or auto, which simulates where prompts queue.
            Default: auto. Needs mode = aggregated or disaggregated.
        gpus: GPUs in total, tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica.
        pp: Pipeline-parallel size. Default: 1.
        cp: Context-parallel size, for prefill. Default: 1.
        attention_dp: Attention data-parallel ranks inside a replica. Default: 1.
        ep: Expert-parallel size; tp x attention_dp = ep x moe_tp. Default: all ranks of an MoE
            layer.
        moe_tp: Tensor-parallel size inside an expert. Default: tp x attention_dp / ep.
        dp: Independent replicas, each with its own requests. Default: 1.
        expert_distribution: Routing of tokens to experts: uniform (drawn evenly), balanced (dealt
            out evenly) or power_law_1.2. Default: uniform. Needs an MoE model.
        format: Number format of weights and products: sets gemm_format and moe_format; fp8 means
            the engine's default. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        batch: Sequences in one static batch, per replica. Default: 1.
        concurrency: Requests in flight over the whole deployment (a closed loop). Default: dp.
        isl: Input tokens of a request, the mean where lengths vary. Default: 1024.
        osl: Output tokens of a request, the mean where lengths vary. Default: 128.
        prefix: Cached prefix tokens, part of the input tokens. Default: 0.
        max_num_seqs: Most sequences in one step. Default: the engine's.
        max_num_batched_tokens: Most tokens in one step. Default: the engine's.
        block_size: Tokens in one KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory the engine may fill [fraction]. Default: the
            engine's.
        kv_blocks: KV blocks, in place of the derived number. Default: derived from memory.
        stream_interval: Output tokens of a request that the front end sends at a time. Default: 1.
        speculative_depth: Draft tokens per step, by a drafter of one layer (MTP, EAGLE). Default:
            0.
        speculative_acceptance: Probability that a draft token is accepted when all before it are
            [fraction]. Needs speculative_depth other than 0.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts in one prefill step; in a simulation, the most. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight on one decode worker; in a simulation, the most. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size of each prefill worker. Default: as cp. Needs mode =
            disaggregated.
        prefill_attention_dp: Attention data-parallel ranks inside a replica of each prefill
            worker. Default: as attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel ranks inside a replica of each decode worker.
            Default: as attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.

    Returns:
        Rows of batch and the result columns of a table estimate, batch rising; the last row is
        the largest batch that fits (static), or beyond which requests only queue (aggregated).

    Raises:
        InvalidSpecError: The batch is given, or there are two pools.
        InfeasibleError: Not even one sequence fits.
        PerfatlasError: The scenario breaks a rule.
    """

def kernel_attention(
    *,
    system: str,
    phase: Literal["prefill", "decode"] = "decode",
    kind: Literal["gqa", "mla"] = "gqa",
    batch: int | str = 1,
    q_len: int | str | None = None,
    kv_len: int | str,
    num_heads: int | str,
    num_kv_heads: int | str | None = None,
    head_dim: int | str = 128,
    kv_lora_rank: int | str = 512,
    rope_dim: int | str = 64,
    format: str = "bf16",
    kv_format: str = "bf16",
    window: int | str = 0,
    kernel_family: str | None = None,
    protocol: Literal["cold"] = "cold",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
) -> Answer:
    """Return the time of the attention of one layer on one device.

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        phase: Prefill (many new tokens per sequence) or decode (one). Default: decode.
        kind: Grouped-query attention (also MHA and MQA) or multi-head latent attention. Default:
            gqa.
        batch: Sequences in the batch. Default: 1.
        q_len: New tokens per sequence. Default: 1 in decode, kv_len in prefill.
        kv_len: Keys per sequence, the new tokens included.
        num_heads: Query heads on this GPU.
        num_kv_heads: Key-value heads on this GPU, a divisor of num_heads. Default: num_heads.
            Needs kind = gqa.
        head_dim: Head dimension; for mla, that of values and of keys without their rotary part.
            Default: 128.
        kv_lora_rank: Rank of the latent KV cache. Default: 512. Needs kind = mla.
        rope_dim: Rotary dimensions of a head. Default: 64. Needs kind = mla.
        format: Number format of the arithmetic; fp8 means fp8_static. Default: bf16.
        kv_format: Number format of the KV cache. Default: bf16.
        window: Keys a query attends to at most: the sliding window of gqa, the keys that sparse
            attention selects for mla; 0 for all. Default: 0.
        kernel_family: Engine whose kernels run, such as vllm or sglang. Default: the fastest of
            all.
        protocol: Measurement protocol: cold, which starts with empty caches. Default: cold.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: Clock of the GPU over its sustained clock. Default: 1.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: No such format on the device, or no data for the tier.
    """

def kernel_gemm(
    *,
    system: str,
    m: int | str,
    n: int | str,
    k: int | str,
    format: str = "bf16",
    quantization: Literal["excluded", "included"] = "excluded",
    kernel_family: str | None = None,
    protocol: Literal["cold"] = "cold",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
) -> Answer:
    """Return the time of one matrix product C[m, n] = A[m, k] W[k, n].

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        m: Rows of the activations: tokens.
        n: Columns of the weights: output features.
        k: Inner dimension: input features.
        format: Number format of the arithmetic; fp8 means fp8_static. Default: bf16.
        quantization: Whether the time includes the dynamic quantization of the activations, a
            kernel before the product. Default: excluded. Needs format = fp8_dynamic or fp8_block
            or nvfp4.
        kernel_family: Engine whose kernels run, such as vllm or sglang. Default: the fastest of
            all.
        protocol: Measurement protocol: cold, which starts with empty caches. Default: cold.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: Clock of the GPU over its sustained clock. Default: 1.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        UnsupportedError: No such format on the device, or no data for the tier.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_gemm
        >>> kernel_gemm(system="h200_sxm", m=4096, n=8192, k=8192).results["bound"]
        'compute'
    """

def kernel_moe(
    *,
    system: str,
    tokens: int | str,
    hidden: int | str,
    intermediate: int | str,
    experts: int | str,
    top_k: int | str,
    ep: int | str = 1,
    moe_tp: int | str = 1,
    format: str = "bf16",
    distribution: str = "uniform",
    kernel_family: str | None = None,
    protocol: Literal["cold"] = "cold",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
) -> Answer:
    """Return the time of the routed experts of one layer on one rank.

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        tokens: Tokens before routing, over all ranks of the expert-parallel group.
        hidden: Hidden size of the model.
        intermediate: Intermediate size of one expert before sharding, a multiple of moe_tp.
        experts: Routed experts before sharding, a multiple of ep.
        top_k: Experts per token.
        ep: Expert-parallel size. Default: 1.
        moe_tp: Tensor-parallel size inside an expert. Default: 1.
        format: Number format of the arithmetic; fp8 means fp8_static. Default: bf16.
        distribution: Routing of tokens to experts: uniform (drawn evenly), balanced (dealt out
            evenly) or power_law_1.2. Default: uniform.
        kernel_family: Engine whose kernels run, such as vllm or sglang. Default: the fastest of
            all.
        protocol: Measurement protocol: cold, which starts with empty caches. Default: cold.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: Clock of the GPU over its sustained clock. Default: 1.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or contradicts another.
        UnsupportedError: No such format on the device, or no data for the tier.
    """

def max_request_rate(
    *,
    progress: Callable[[float], bool] | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    mode: Literal["aggregated", "disaggregated"] = "aggregated",
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    requests: str | None = None,
    request_format: str = "perfatlas",
    request_rate: float | str | None = None,
    num_requests: int | str | None = None,
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None,
    burstiness: float | str | None = None,
    ramp_to_rate: float | str | None = None,
    ramp_s: float | str | None = None,
    turns: int | str = 1,
    think_time_s: float | str = 0.0,
    shared_prefix: int | str = 0,
    length_distribution: Literal["fixed", "uniform", "lognormal", "empirical"] = "fixed",
    length_spread: float | str | None = None,
    lengths_from: str | None = None,
    rate_scale: float | str = 1.0,
    length_scale: float | str = 1.0,
    requests_from_s: float | str = 0.0,
    requests_to_s: float | str | None = None,
    spread_batches: bool = False,
    seed: int | str = 0,
    num_seeds: int | str = 1,
    prompt_text: Literal["natural", "random"] = "natural",
    prefix_caching: bool | None = None,
    scheduler: Literal[
        "vllm", "sglang", "trtllm_guaranteed_no_evict", "trtllm_max_utilization", "static"
    ]
    | None = None,
    chunked_prefill: bool | None = None,
    mixed_chunk: bool = False,
    measured_at: Literal["client", "engine"] = "client",
    slo_ttft_s: float | str | None = None,
    slo_tpot_s: float | str | None = None,
    slo_itl_s: float | str | None = None,
    slo_request_latency_s: float | str | None = None,
    slo_percentile: float | str | None = None,
    replica_kinds: object = None,
    routing: Literal["round_robin", "least_loaded", "random", "prefix_aware"] = "round_robin",
    cache_threshold: float | str | None = None,
    balance_abs_threshold: int | str | None = None,
    balance_rel_threshold: float | str | None = None,
    replica_events: object = None,
    on_failure: Literal["retry", "lost"] | None = None,
    retry_after_s: float | str | None = None,
    max_replicas: int | str | None = None,
    min_replicas: int | str | None = None,
    autoscale_target: float | str | None = None,
    autoscale_metric: Literal["requests", "waiting"] | None = None,
    autoscale_period_s: float | str | None = None,
    autoscale_tolerance: float | str | None = None,
    autoscale_down_after_s: float | str | None = None,
    start_up_s: float | str | None = None,
    host_cache_bytes: float | str | None = None,
    host_bandwidth: float | str | None = None,
    ssd_cache_bytes: float | str | None = None,
    ssd_bandwidth: float | str | None = None,
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    stream_interval: int | str = 1,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
) -> Simulation:
    """Return the largest request rate that meets the objectives, and what it is like there.

    A rate meets them where the asked percentile (or the mean) of every metric is within its
    objective, no request is rejected, the queue does not grow to the end, and over the second half
    of the arrivals as much ends as begins, to 5 %. Rates are halved and doubled between, as ratios,
    to 1 %. Where generated traffic is over before four times what a request (a session) takes apart
    from queues, or too short to tell a growing backlog from chance, more requests are drawn.

    Args:
        progress: Told now and then that the search goes on; true stops it.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), dated as in
            vllm@0.24. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: Clock of the GPU over its sustained clock. Default: 1.
        mode: Serving mode: continuous batching, or separate prefill and decode pools. Default:
            aggregated.
        concurrency: Requests in flight over the whole deployment (a closed loop). Default: dp.
        isl: Input tokens of a request, the mean where lengths vary. Default: 1024.
        osl: Output tokens of a request, the mean where lengths vary. Default: 128.
        requests: Trace of requests: CSV, Parquet or JSON Lines with arrival_s, isl and osl.
        request_format: Format of the trace: perfatlas, azure, mooncake, burstgpt, bailian, vllm,
            aiperf, or servegen for a folder of its clients. Default: perfatlas.
        request_rate: Rate of generated requests [1/s]; inf sends all at once.
        num_requests: Requests to generate, or to read from the trace. Default: 1000.
        arrival: Arrival process of generated requests. Default: poisson, closed with concurrency.
        burstiness: Burstiness of gamma arrivals (1 = Poisson, below 1 = bursty). Needs no requests
            and arrival = gamma.
        ramp_to_rate: Final rate of ramp arrivals [1/s]. Needs no requests and arrival = ramp.
        ramp_s: Duration of the ramp from request_rate to ramp_to_rate [s]. Needs no requests and
            arrival = ramp.
        turns: Turns of a session: each prompt contains the conversation so far, and waits for the
            previous answer. Default: 1. Needs no requests.
        think_time_s: Mean time between an answer and the next turn, exponentially distributed [s].
            Default: 0. Needs no requests.
        shared_prefix: Tokens that all generated prompts begin with, in addition to isl. Default:
            0. Needs no requests.
        length_distribution: Distribution of generated lengths. Default: fixed. Needs no requests.
        length_spread: Spread of generated lengths: fraction below and above the mean (uniform), or
            sigma (lognormal). Needs no requests and length_distribution = uniform or lognormal.
        lengths_from: Trace from which empirical lengths are drawn. Needs no requests.
        rate_scale: Speed-up factor of the arrival times of a trace. Default: 1. Needs requests.
        length_scale: Factor on the lengths of the requests of a trace. Default: 1. Needs requests.
        requests_from_s: Start of the window of the trace that is used [s]. Default: 0. Needs
            requests.
        requests_to_s: End of the window of the trace that is used [s]. Default: the end. Needs
            requests.
        spread_batches: Spread requests of a trace with equal timestamps up to the next timestamp.
            Default: false. Needs requests.
        seed: Seed of random draws. Default: 0.
        num_seeds: Simulations with seeds seed, seed + 1, ...: means with confidence intervals.
            Default: 1.
        prompt_text: Text of prompts: natural language, or random tokens, which tokenize more
            slowly. Default: natural.
        prefix_caching: Reuse KV blocks of shared prefixes. Default: on where prompts share
            prefixes.
        scheduler: Scheduling policy. Default: that of the engine.
        chunked_prefill: Split prompts over several steps. Default: as the engine does.
        mixed_chunk: Let decode run in the same step as prefill chunks (SGLang). Default: false.
        measured_at: Where latencies are measured: at an HTTP client, or inside the engine.
            Default: client.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none.
        slo_itl_s: SLO: maximum mean inter-token latency of a request [s]. Default: none.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        slo_percentile: Percentile that must meet the SLOs in a rate search. Default: the mean.
            Needs a search for the largest rate.
        replica_kinds: Unequal replicas behind one router: a JSON list such as [{"system":
            "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file of such
            rows. Default: all replicas are equal.
        routing: Routing policy: round_robin, least_loaded, random, or prefix_aware (the replica
            that holds the longest cached prefix). Default: round_robin.
        cache_threshold: Fraction of a prompt that must be cached for prefix_aware routing to
            follow it [fraction]. Default: 0.3. Needs routing = prefix_aware.
        balance_abs_threshold: Largest difference of loads, in requests, for prefix_aware routing;
            beyond this and balance_rel_threshold the least loaded replica is chosen. Default: 64.
            Needs routing = prefix_aware.
        balance_rel_threshold: Largest ratio of loads for prefix_aware routing; beyond this and
            balance_abs_threshold the least loaded replica is chosen. Default: 1.5. Needs routing =
            prefix_aware.
        replica_events: Replica failures: a file (CSV, Parquet, JSON Lines) or JSON list with
            replica, fails_at_s, back_at_s or down_for_s, and kind (crash or drain). Default: none.
        on_failure: Requests on a replica that fails: sent again, or lost. Default: retry. Needs
            replica_events.
        retry_after_s: Time from a failure to the retry [s]. Default: 0. Needs replica_events.
        max_replicas: Most replicas; enables autoscaling from dp replicas. Default: no autoscaling.
        min_replicas: Fewest replicas. Default: 1. Needs max_replicas.
        autoscale_target: Target of the autoscaler: requests per replica. Needs max_replicas.
        autoscale_metric: Metric of the autoscaler: requests (running and waiting) or waiting.
            Default: requests. Needs max_replicas.
        autoscale_period_s: Time between two decisions of the autoscaler [s]. Default: 15. Needs
            max_replicas.
        autoscale_tolerance: Relative deviation from the target that is tolerated [fraction].
            Default: 0.1. Needs max_replicas.
        autoscale_down_after_s: Stabilization window for scaling down [s]. Default: 300. Needs
            max_replicas.
        start_up_s: Time from the decision to start a replica to its first request [s]. Default: 0.
            Needs max_replicas.
        host_cache_bytes: Host memory of a replica for its KV cache, such as 200GB [bytes].
            Default: none.
        host_bandwidth: Bandwidth between a GPU and host memory, such as 50GB/s [bytes/s]. Default:
            host link of the GPU.
        ssd_cache_bytes: SSD of a replica for its KV cache, such as 4TB [bytes]. Default: none.
        ssd_bandwidth: Read bandwidth of the SSDs of a replica, such as 7GB/s [bytes/s]. Needs
            ssd_cache_bytes.
        gpus: GPUs in total, tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica.
        pp: Pipeline-parallel size. Default: 1.
        cp: Context-parallel size, for prefill. Default: 1.
        attention_dp: Attention data-parallel ranks inside a replica. Default: 1.
        ep: Expert-parallel size; tp x attention_dp = ep x moe_tp. Default: all ranks of an MoE
            layer.
        moe_tp: Tensor-parallel size inside an expert. Default: tp x attention_dp / ep.
        dp: Independent replicas, each with its own requests. Default: 1.
        expert_distribution: Routing of tokens to experts: uniform (drawn evenly), balanced (dealt
            out evenly) or power_law_1.2. Default: uniform. Needs an MoE model.
        format: Number format of weights and products: sets gemm_format and moe_format; fp8 means
            the engine's default. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        max_num_seqs: Most sequences in one step. Default: the engine's.
        max_num_batched_tokens: Most tokens in one step. Default: the engine's.
        block_size: Tokens in one KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory the engine may fill [fraction]. Default: the
            engine's.
        kv_blocks: KV blocks, in place of the derived number. Default: derived from memory.
        stream_interval: Output tokens of a request that the front end sends at a time. Default: 1.
        speculative_depth: Draft tokens per step, by a drafter of one layer (MTP, EAGLE). Default:
            0.
        speculative_acceptance: Probability that a draft token is accepted when all before it are
            [fraction]. Needs speculative_depth other than 0.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts in one prefill step; in a simulation, the most. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight on one decode worker; in a simulation, the most. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size of each prefill worker. Default: as cp. Needs mode =
            disaggregated.
        prefill_attention_dp: Attention data-parallel ranks inside a replica of each prefill
            worker. Default: as attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel ranks inside a replica of each decode worker.
            Default: as attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.

    Returns:
        The simulation at that rate; its results also hold `max_request_rate`, with `_low` and
        `_high` where all steps are as much slower or faster as serving runs were. Where it was
        stopped before the rate was found, `interrupted` is true, `max_request_rate` is None, and
        `largest_rate_met` and `smallest_rate_missed` tell between which rates it lies.

    Raises:
        InfeasibleError: No rate meets the objectives, or the model does not fit.
        InvalidSpecError: A name or value breaks a rule; no objective is given; traffic is too short
            to tell, or every rate meets the objectives.
        KeyboardInterrupt: It was stopped before any rate was known to meet them.
        UnsupportedError: No model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import max_request_rate
        >>> found = max_request_rate(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     num_requests=200, slo_ttft_s=0.1, slo_percentile=90)
        >>> 5 < found.answer.results["max_request_rate"] < 100
        True
    """

def simulate(
    *,
    progress: Callable[[float], bool] | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    mode: Literal["aggregated", "disaggregated"] = "aggregated",
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    requests: str | None = None,
    request_format: str = "perfatlas",
    request_rate: float | str | None = None,
    num_requests: int | str | None = None,
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None,
    burstiness: float | str | None = None,
    ramp_to_rate: float | str | None = None,
    ramp_s: float | str | None = None,
    turns: int | str = 1,
    think_time_s: float | str = 0.0,
    shared_prefix: int | str = 0,
    length_distribution: Literal["fixed", "uniform", "lognormal", "empirical"] = "fixed",
    length_spread: float | str | None = None,
    lengths_from: str | None = None,
    rate_scale: float | str = 1.0,
    length_scale: float | str = 1.0,
    requests_from_s: float | str = 0.0,
    requests_to_s: float | str | None = None,
    spread_batches: bool = False,
    seed: int | str = 0,
    num_seeds: int | str = 1,
    prompt_text: Literal["natural", "random"] = "natural",
    prefix_caching: bool | None = None,
    scheduler: Literal[
        "vllm", "sglang", "trtllm_guaranteed_no_evict", "trtllm_max_utilization", "static"
    ]
    | None = None,
    chunked_prefill: bool | None = None,
    mixed_chunk: bool = False,
    measured_at: Literal["client", "engine"] = "client",
    slo_ttft_s: float | str | None = None,
    slo_tpot_s: float | str | None = None,
    slo_itl_s: float | str | None = None,
    slo_request_latency_s: float | str | None = None,
    slo_percentile: float | str | None = None,
    replica_kinds: object = None,
    routing: Literal["round_robin", "least_loaded", "random", "prefix_aware"] = "round_robin",
    cache_threshold: float | str | None = None,
    balance_abs_threshold: int | str | None = None,
    balance_rel_threshold: float | str | None = None,
    replica_events: object = None,
    on_failure: Literal["retry", "lost"] | None = None,
    retry_after_s: float | str | None = None,
    max_replicas: int | str | None = None,
    min_replicas: int | str | None = None,
    autoscale_target: float | str | None = None,
    autoscale_metric: Literal["requests", "waiting"] | None = None,
    autoscale_period_s: float | str | None = None,
    autoscale_tolerance: float | str | None = None,
    autoscale_down_after_s: float | str | None = None,
    start_up_s: float | str | None = None,
    host_cache_bytes: float | str | None = None,
    host_bandwidth: float | str | None = None,
    ssd_cache_bytes: float | str | None = None,
    ssd_bandwidth: float | str | None = None,
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    stream_interval: int | str = 1,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
) -> Simulation:
    """Return what comes of traffic at an inference deployment.

    Args:
        progress: Told now and then which share of the work is done; true stops the simulation and
            keeps what was simulated.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), dated as in
            vllm@0.24. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best for the device without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: Clock of the GPU over its sustained clock. Default: 1.
        mode: Serving mode: continuous batching, or separate prefill and decode pools. Default:
            aggregated.
        concurrency: Requests in flight over the whole deployment (a closed loop). Default: dp.
        isl: Input tokens of a request, the mean where lengths vary. Default: 1024.
        osl: Output tokens of a request, the mean where lengths vary. Default: 128.
        requests: Trace of requests: CSV, Parquet or JSON Lines with arrival_s, isl and osl.
        request_format: Format of the trace: perfatlas, azure, mooncake, burstgpt, bailian, vllm,
            aiperf, or servegen for a folder of its clients. Default: perfatlas.
        request_rate: Rate of generated requests [1/s]; inf sends all at once.
        num_requests: Requests to generate, or to read from the trace. Default: 1000.
        arrival: Arrival process of generated requests. Default: poisson, closed with concurrency.
        burstiness: Burstiness of gamma arrivals (1 = Poisson, below 1 = bursty). Needs no requests
            and arrival = gamma.
        ramp_to_rate: Final rate of ramp arrivals [1/s]. Needs no requests and arrival = ramp.
        ramp_s: Duration of the ramp from request_rate to ramp_to_rate [s]. Needs no requests and
            arrival = ramp.
        turns: Turns of a session: each prompt contains the conversation so far, and waits for the
            previous answer. Default: 1. Needs no requests.
        think_time_s: Mean time between an answer and the next turn, exponentially distributed [s].
            Default: 0. Needs no requests.
        shared_prefix: Tokens that all generated prompts begin with, in addition to isl. Default:
            0. Needs no requests.
        length_distribution: Distribution of generated lengths. Default: fixed. Needs no requests.
        length_spread: Spread of generated lengths: fraction below and above the mean (uniform), or
            sigma (lognormal). Needs no requests and length_distribution = uniform or lognormal.
        lengths_from: Trace from which empirical lengths are drawn. Needs no requests.
        rate_scale: Speed-up factor of the arrival times of a trace. Default: 1. Needs requests.
        length_scale: Factor on the lengths of the requests of a trace. Default: 1. Needs requests.
        requests_from_s: Start of the window of the trace that is used [s]. Default: 0. Needs
            requests.
        requests_to_s: End of the window of the trace that is used [s]. Default: the end. Needs
            requests.
        spread_batches: Spread requests of a trace with equal timestamps up to the next timestamp.
            Default: false. Needs requests.
        seed: Seed of random draws. Default: 0.
        num_seeds: Simulations with seeds seed, seed + 1, ...: means with confidence intervals.
            Default: 1.
        prompt_text: Text of prompts: natural language, or random tokens, which tokenize more
            slowly. Default: natural.
        prefix_caching: Reuse KV blocks of shared prefixes. Default: on where prompts share
            prefixes.
        scheduler: Scheduling policy. Default: that of the engine.
        chunked_prefill: Split prompts over several steps. Default: as the engine does.
        mixed_chunk: Let decode run in the same step as prefill chunks (SGLang). Default: false.
        measured_at: Where latencies are measured: at an HTTP client, or inside the engine.
            Default: client.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none.
        slo_itl_s: SLO: maximum mean inter-token latency of a request [s]. Default: none.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        slo_percentile: Percentile that must meet the SLOs in a rate search. Default: the mean.
            Needs a search for the largest rate.
        replica_kinds: Unequal replicas behind one router: a JSON list such as [{"system":
            "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file of such
            rows. Default: all replicas are equal.
        routing: Routing policy: round_robin, least_loaded, random, or prefix_aware (the replica
            that holds the longest cached prefix). Default: round_robin.
        cache_threshold: Fraction of a prompt that must be cached for prefix_aware routing to
            follow it [fraction]. Default: 0.3. Needs routing = prefix_aware.
        balance_abs_threshold: Largest difference of loads, in requests, for prefix_aware routing;
            beyond this and balance_rel_threshold the least loaded replica is chosen. Default: 64.
            Needs routing = prefix_aware.
        balance_rel_threshold: Largest ratio of loads for prefix_aware routing; beyond this and
            balance_abs_threshold the least loaded replica is chosen. Default: 1.5. Needs routing =
            prefix_aware.
        replica_events: Replica failures: a file (CSV, Parquet, JSON Lines) or JSON list with
            replica, fails_at_s, back_at_s or down_for_s, and kind (crash or drain). Default: none.
        on_failure: Requests on a replica that fails: sent again, or lost. Default: retry. Needs
            replica_events.
        retry_after_s: Time from a failure to the retry [s]. Default: 0. Needs replica_events.
        max_replicas: Most replicas; enables autoscaling from dp replicas. Default: no autoscaling.
        min_replicas: Fewest replicas. Default: 1. Needs max_replicas.
        autoscale_target: Target of the autoscaler: requests per replica. Needs max_replicas.
        autoscale_metric: Metric of the autoscaler: requests (running and waiting) or waiting.
            Default: requests. Needs max_replicas.
        autoscale_period_s: Time between two decisions of the autoscaler [s]. Default: 15. Needs
            max_replicas.
        autoscale_tolerance: Relative deviation from the target that is tolerated [fraction].
            Default: 0.1. Needs max_replicas.
        autoscale_down_after_s: Stabilization window for scaling down [s]. Default: 300. Needs
            max_replicas.
        start_up_s: Time from the decision to start a replica to its first request [s]. Default: 0.
            Needs max_replicas.
        host_cache_bytes: Host memory of a replica for its KV cache, such as 200GB [bytes].
            Default: none.
        host_bandwidth: Bandwidth between a GPU and host memory, such as 50GB/s [bytes/s]. Default:
            host link of the GPU.
        ssd_cache_bytes: SSD of a replica for its KV cache, such as 4TB [bytes]. Default: none.
        ssd_bandwidth: Read bandwidth of the SSDs of a replica, such as 7GB/s [bytes/s]. Needs
            ssd_cache_bytes.
        gpus: GPUs in total, tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica.
        pp: Pipeline-parallel size. Default: 1.
        cp: Context-parallel size, for prefill. Default: 1.
        attention_dp: Attention data-parallel ranks inside a replica. Default: 1.
        ep: Expert-parallel size; tp x attention_dp = ep x moe_tp. Default: all ranks of an MoE
            layer.
        moe_tp: Tensor-parallel size inside an expert. Default: tp x attention_dp / ep.
        dp: Independent replicas, each with its own requests. Default: 1.
        expert_distribution: Routing of tokens to experts: uniform (drawn evenly), balanced (dealt
            out evenly) or power_law_1.2. Default: uniform. Needs an MoE model.
        format: Number format of weights and products: sets gemm_format and moe_format; fp8 means
            the engine's default. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        max_num_seqs: Most sequences in one step. Default: the engine's.
        max_num_batched_tokens: Most tokens in one step. Default: the engine's.
        block_size: Tokens in one KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory the engine may fill [fraction]. Default: the
            engine's.
        kv_blocks: KV blocks, in place of the derived number. Default: derived from memory.
        stream_interval: Output tokens of a request that the front end sends at a time. Default: 1.
        speculative_depth: Draft tokens per step, by a drafter of one layer (MTP, EAGLE). Default:
            0.
        speculative_acceptance: Probability that a draft token is accepted when all before it are
            [fraction]. Needs speculative_depth other than 0.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts in one prefill step; in a simulation, the most. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight on one decode worker; in a simulation, the most. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size of each prefill worker. Default: as cp. Needs mode =
            disaggregated.
        prefill_attention_dp: Attention data-parallel ranks inside a replica of each prefill
            worker. Default: as attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel ranks inside a replica of each decode worker.
            Default: as attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.

    Raises:
        InvalidSpecError: A name, value or request breaks a rule.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import simulate
        >>> found = simulate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", request_rate=8,
        ...     num_requests=100)
        >>> found.answer.results["requests_completed"]
        100
    """

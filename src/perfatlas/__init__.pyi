"""Model, measure and explain deep-learning workloads; names are loaded when first used."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from perfatlas.answer import (
    Answer as Answer,
    AnsweredRun as AnsweredRun,
    CommandAnswer as CommandAnswer,
)
from perfatlas.serving.run import ArrivingRequest, ReplicaLoads
from perfatlas.verbs.catalog import models as models, systems as systems
from perfatlas.verbs.estimate import (
    Frontier as Frontier,
    TableAnswer as TableAnswer,
    estimate_table as estimate_table,
)
from perfatlas.verbs.goodput import FleetRun as FleetRun, StrategyFrontier as StrategyFrontier
from perfatlas.verbs.kernel import kernel_op as kernel_op
from perfatlas.verbs.kernel_tune import kernel_tune as kernel_tune
from perfatlas.verbs.plan import FleetPlan as FleetPlan, fleet_plan as fleet_plan
from perfatlas.verbs.report import write_report as write_report
from perfatlas.verbs.schedule import FleetSchedule as FleetSchedule
from perfatlas.verbs.search import SearchAnswer as SearchAnswer
from perfatlas.verbs.simulate import Simulation as Simulation
from perfatlas.verbs.sweep import Sweep as Sweep, sweep as sweep
from perfatlas.verbs.train.layouts import TrainingSearch
from perfatlas.verbs.validate import validate_serving as validate_serving

__version__: str

__all__ = [
    "Answer",
    "AnsweredRun",
    "CommandAnswer",
    "FleetPlan",
    "FleetRun",
    "FleetSchedule",
    "Frontier",
    "SearchAnswer",
    "Simulation",
    "StrategyFrontier",
    "Sweep",
    "TableAnswer",
    "__version__",
    "accuracy",
    "bench_compare",
    "bench_device",
    "bench_run",
    "calibrate",
    "catalog",
    "collective",
    "compare",
    "estimate",
    "estimate_table",
    "explain",
    "fleet_fit",
    "fleet_import",
    "fleet_plan",
    "fleet_report",
    "fleet_schedule",
    "frontier",
    "goodput",
    "goodput_frontier",
    "goodput_spares",
    "kernel_attention",
    "kernel_design_attention",
    "kernel_design_gemm",
    "kernel_gemm",
    "kernel_inspect",
    "kernel_moe",
    "kernel_op",
    "kernel_tune",
    "max_request_rate",
    "max_sessions",
    "model_import",
    "models",
    "profile",
    "required_replicas",
    "runs_export",
    "runs_list",
    "runs_rm",
    "runs_show",
    "search",
    "search_training",
    "simulate",
    "sweep",
    "systems",
    "train",
    "validate_here",
    "validate_serving",
    "write_report",
]

def accuracy(
    *,
    model: str,
    gemm_format: str | None = None,
    kv_format: str | None = None,
    quantization_method: Literal[
        "rtn", "tuned_rtn", "gptq", "awq", "autoround", "smoothquant", "rotation", "qat", "ptq"
    ]
    | None = None,
    benchmark: str | None = None,
) -> Answer:
    """Return the change of a benchmark and of perplexity by number formats.

    Args:
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        gemm_format: Number format of weights and matrix products; fp8 means fp8_static. Default:
            the checkpoint's.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        quantization_method: Quantization method: rtn (round to nearest), tuned_rtn (searched
            scales), gptq, awq, autoround, smoothquant, rotation, qat (training), ptq (a vendor's
            calibrated checkpoint). Default: ptq. Needs benchmark.
        benchmark: Benchmark whose change by the number formats is predicted as accuracy_delta,
            such as mmlu, gsm8k, gpqa, humaneval or ruler. Default: mmlu where accuracy is asked
            for.

    Raises:
        InvalidSpecError: A field is missing or unknown, or there is no such model or benchmark.
        UnsupportedError: There is no such format.

    Example:
        >>> from perfatlas.verbs.accuracy import accuracy
        >>> answer = accuracy(model="meta-llama/Llama-3.1-8B", gemm_format="nvfp4")
        >>> answer.results["accuracy_delta"] < 0.0, answer.results["standing"]
        (True, 'published')
    """

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
    fabric_routing: Literal["ecmp", "adaptive"] | None = None,
    queue_pairs: int | str = 1,
    concurrent_jobs: int | str = 1,
    job_placement: Literal["packed", "scattered"] = "packed",
    failed_links: int | str = 0,
    link_failure: Literal["down", "flapping"] = "down",
    seed: int | str = 0,
    algorithm_file: str | None = None,
    kernel_family: str | None = None,
) -> Answer:
    """Return the time of one collective.

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        op: Collective operation.
        bytes: Message size as nccl-tests defines it, such as 65536, 64KiB or 1MB; K, M and G alone
            are powers of 1,024, as in nccl-tests: 64K is 65536 [bytes].
        format: Number format of the elements; in-network reduction does not support integers.
            Default: bf16. Needs op = all_reduce or reduce_scatter.
        gpus: Participating GPUs.
        nodes: Nodes, each with the same number of GPUs. Default: the fewest that hold the GPUs.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables of all-reduce kernels. Default: the
            version of the calibrations. Needs tier = measured, op = all_reduce and kernel_family
            other than nccl.
        fabric_routing: Routing of flows between nodes: ecmp (a hash of each queue pair chooses
            among parallel links) or adaptive (every packet chooses, so that parallel links are
            shared evenly). Default: closed forms without collisions.
        queue_pairs: Queue pairs of a connection in each plane, each with a hash of its own.
            Default: 1. Needs fabric_routing = ecmp.
        concurrent_jobs: Equal collectives that run at the same time on GPUs of their own, this one
            included. Default: 1. Needs fabric_routing = ecmp or adaptive.
        job_placement: Nodes of concurrent jobs: consecutive (packed), or drawn at random from
            those of all (scattered). Default: packed. Needs concurrent_jobs other than 1.
        failed_links: Cables between leaf switches of the collective and their spines, or of a TPU
            slice, that are down, drawn at random. Default: 0. Needs fabric_routing = ecmp or
            adaptive.
        link_failure: Whether failed links were down before, or flap while the collective runs,
            which waits for the transport to resend. Default: down. Needs failed_links other than
            0.
        seed: Seed of random draws. Default: 0. Needs fabric_routing = ecmp or adaptive.
        algorithm_file: TOML file with an algorithm of your own: steps of sends, timed at the full
            rate of the links. Default: those of libraries. Needs fabric_routing = ecmp or
            adaptive, tier = auto or bound, concurrent_jobs = 1, link_failure = down and no
            kernel_family.
        kernel_family: Library that provides the collective: nccl, or the all-reduce kernels of an
            engine such as vllm. Default: the fastest for all_reduce, nccl for other operations.
            Needs op = all_reduce or dispatch or combine or kernel_family = nccl.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: There is no data for the tier.

    Example:
        >>> from perfatlas.verbs.collective import collective
        >>> answer = collective(system="h200_sxm", op="all_reduce", bytes=2**20, gpus=8)
        >>> answer.results["time_s"] > answer.results["bound_time_s"]
        True
    """

def compare(
    *,
    scenarios: Sequence[Mapping[str, Any]] | None = None,
    decide: bool = False,
    models: object = None,
    systems: object = None,
    engines: object = None,
    formats: object = None,
    objective: str = "output_tokens_per_s_per_gpu",
    slo_ttft_s: float | str | None = None,
    slo_tpot_s: float | str | None = None,
    slo_itl_s: float | str | None = None,
    slo_request_latency_s: float | str | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["static", "aggregated", "disaggregated"] = "static",
    method: Literal["auto", "formula", "simulate"] = "auto",
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    batch: int | str | None = None,
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests_per_client: int | str | None = None,
    osl_spread: float | str = 0.0,
    prefix: int | str = 0,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    quantization_method: Literal[
        "rtn", "tuned_rtn", "gptq", "awq", "autoround", "smoothquant", "rotation", "qat", "ptq"
    ]
    | None = None,
    benchmark: str | None = None,
) -> Answer:
    """Return the estimates of several scenarios, and the difference of each to the first.

    Args:
        scenarios: Scenarios as mappings of fields of `estimate`, each with an optional `label`.
            Those with SLOs and `gpus` are answered at the best plan of `search` by closed forms.
        decide: Also name the measurements that would most change which of two designs is faster.
        models: Further models to compare with model, such as 'Qwen/Qwen3-32B{kv_heads=4}'.
            Default: none.
        systems: Further systems to compare with system, such as b200_sxm,gb200. Default: none.
        engines: Further engines to compare with engine, such as sglang,trtllm. Default: none.
        formats: Further number formats to compare with format, such as bf16,fp8. Default: none.
        objective: Metric that ranks the deployments that meet all SLOs:
            output_tokens_per_s_per_gpu, gpus, request_latency_s, usd_per_million_output_tokens,
            energy_per_output_token_j or accuracy_delta; two to four of them, divided by commas,
            for their Pareto set. Default: output_tokens_per_s_per_gpu.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none. Needs a language model.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none. Needs a
            language model.
        slo_itl_s: SLO: maximum mean time between output tokens of a request, its TPOT, with drafts
            too [s]. Default: none. Needs a language model.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: one batch, continuous batching, or separate prefill and decode pools.
            Default: static.
        method: Method for aggregated and disaggregated serving: formula (closed forms without
            queueing), simulate (a short simulation), or auto (simulate if prompts queue); static
            batches always use closed forms. Default: auto.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        batch: Sequences per static batch and replica. Default: 1.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024.
        osl: Output tokens per request; the mean if lengths vary. Default: 128.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests_per_client: Requests that every client of a benchmark sends, all starting
            together: num-prompts / max-concurrency. Means then include the opening burst of
            prompts. Default: steady state. Needs mode = aggregated.
        osl_spread: Spread of the output lengths of these clients: relative half-width, uniform
            [fraction]. Default: 0. Needs requests_per_client.
        prefix: Cached prefix tokens, included in isl. Default: 0.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs an engine whose front end takes time and mode other than
            disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs an engine whose front end takes time and mode
            other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.
        quantization_method: Quantization method: rtn (round to nearest), tuned_rtn (searched
            scales), gptq, awq, autoround, smoothquant, rotation, qat (training), ptq (a vendor's
            calibrated checkpoint). Default: ptq. Needs benchmark.
        benchmark: Benchmark whose change by the number formats is predicted as accuracy_delta,
            such as mmlu, gsm8k, gpqa, humaneval or ruler. Default: mmlu where accuracy is asked
            for.

    Returns:
        An answer with `rows`, the results of each scenario or its error; `ratios`, a row per metric
        of each scenario but the first, with its interval; and `differences`, a row per operator and
        phase of each. With `decide`, `decisions`.

    Raises:
        InvalidSpecError: There are fewer than two scenarios, or the first cannot be answered.
        UsageError: There are more than two to decide between.
        UnsupportedError: Their operators have no intervals to decide by.

    Example:
        >>> from perfatlas.verbs.compare import compare
        >>> answer = compare(
        ...     model="meta-llama/Llama-3.1-8B", system="h100_sxm", systems=("h200_sxm",)
        ... )
        >>> rows = answer.results["rows"]
        >>> rows[0]["label"], rows[1]["tpot_s"] < rows[0]["tpot_s"]
        ('h100_sxm', True)
        >>> decode = next(row for row in answer.results["ratios"] if row["metric"] == "tpot_s")
        >>> decode["ratio_low"] < decode["ratio"] < decode["ratio_high"], decode["certain"]
        (True, False)
    """

def estimate(
    *,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["static", "aggregated", "disaggregated"] = "static",
    method: Literal["auto", "formula", "simulate"] = "auto",
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    batch: int | str | None = None,
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests_per_client: int | str | None = None,
    osl_spread: float | str = 0.0,
    prefix: int | str = 0,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    quantization_method: Literal[
        "rtn", "tuned_rtn", "gptq", "awq", "autoround", "smoothquant", "rotation", "qat", "ptq"
    ]
    | None = None,
    benchmark: str | None = None,
) -> Answer:
    """Return the estimate of one inference scenario.

    Args:
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: one batch, continuous batching, or separate prefill and decode pools.
            Default: static.
        method: Method for aggregated and disaggregated serving: formula (closed forms without
            queueing), simulate (a short simulation), or auto (simulate if prompts queue); static
            batches always use closed forms. Default: auto.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        batch: Sequences per static batch and replica. Default: 1.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024.
        osl: Output tokens per request; the mean if lengths vary. Default: 128.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests_per_client: Requests that every client of a benchmark sends, all starting
            together: num-prompts / max-concurrency. Means then include the opening burst of
            prompts. Default: steady state. Needs mode = aggregated.
        osl_spread: Spread of the output lengths of these clients: relative half-width, uniform
            [fraction]. Default: 0. Needs requests_per_client.
        prefix: Cached prefix tokens, included in isl. Default: 0.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs an engine whose front end takes time and mode other than
            disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs an engine whose front end takes time and mode
            other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.
        quantization_method: Quantization method: rtn (round to nearest), tuned_rtn (searched
            scales), gptq, awq, autoround, smoothquant, rotation, qat (training), ptq (a vendor's
            calibrated checkpoint). Default: ptq. Needs benchmark.
        benchmark: Benchmark whose change by the number formats is predicted as accuracy_delta,
            such as mmlu, gsm8k, gpqa, humaneval or ruler. Default: mmlu where accuracy is asked
            for.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and its KV cache do not fit.
        UnsupportedError: There is no model or data for the combination.

    Example:
        >>> from perfatlas.verbs.estimate import estimate
        >>> answer = estimate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", batch=8)
        >>> answer.results["tpot_s"] > answer.results["tpot_s_low"] > 0
        True
    """

def explain(
    *,
    slo_ttft_s: float | None = None,
    slo_tpot_s: float | None = None,
    slo_request_latency_s: float | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["static", "aggregated", "disaggregated"] = "static",
    method: Literal["auto", "formula", "simulate"] = "auto",
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    batch: int | str | None = None,
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests_per_client: int | str | None = None,
    osl_spread: float | str = 0.0,
    prefix: int | str = 0,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    quantization_method: Literal[
        "rtn", "tuned_rtn", "gptq", "awq", "autoround", "smoothquant", "rotation", "qat", "ptq"
    ]
    | None = None,
    benchmark: str | None = None,
) -> Answer:
    """Return an estimate with its sensitivities to the hardware.

    Args:
        slo_ttft_s: TTFT for which break-even values are sought [s].
        slo_tpot_s: TPOT for which they are sought [s].
        slo_request_latency_s: Request latency for which they are sought [s]. Without any of the
            three, TTFT and TPOT 10% below the prediction.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: one batch, continuous batching, or separate prefill and decode pools.
            Default: static.
        method: Method for aggregated and disaggregated serving: formula (closed forms without
            queueing), simulate (a short simulation), or auto (simulate if prompts queue); static
            batches always use closed forms. Default: auto.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        batch: Sequences per static batch and replica. Default: 1.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024.
        osl: Output tokens per request; the mean if lengths vary. Default: 128.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests_per_client: Requests that every client of a benchmark sends, all starting
            together: num-prompts / max-concurrency. Means then include the opening burst of
            prompts. Default: steady state. Needs mode = aggregated.
        osl_spread: Spread of the output lengths of these clients: relative half-width, uniform
            [fraction]. Default: 0. Needs requests_per_client.
        prefix: Cached prefix tokens, included in isl. Default: 0.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs an engine whose front end takes time and mode other than
            disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs an engine whose front end takes time and mode
            other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.
        quantization_method: Quantization method: rtn (round to nearest), tuned_rtn (searched
            scales), gptq, awq, autoround, smoothquant, rotation, qat (training), ptq (a vendor's
            calibrated checkpoint). Default: ptq. Needs benchmark.
        benchmark: Benchmark whose change by the number formats is predicted as accuracy_delta,
            such as mmlu, gsm8k, gpqa, humaneval or ruler. Default: mmlu where accuracy is asked
            for.

    Returns:
        The answer of `estimate` with `sensitivity` (elasticities by metric and factor),
        `next_bottleneck` and `break_even`.

    Raises:
        InvalidSpecError: A target is invalid.
        PerfatlasError: As for `estimate`.

    Example:
        >>> from perfatlas.verbs.estimate import explain
        >>> answer = explain(model="meta-llama/Llama-3.1-8B", system="h200_sxm", tier="bound")
        >>> rows = answer.results["next_bottleneck"]
        >>> next(row["field"] for row in rows if row["metric"] == "tpot_s")
        'device.memory.bandwidth'
    """

def fleet_schedule(
    *,
    compare: Sequence[str] = (),
    jobs: str | None = None,
    job_format: Literal["perfatlas", "sacct"] = "perfatlas",
    zone: str | None = None,
    num_jobs: int | str | None = None,
    load: float | str | None = None,
    job_rate: float | str | None = None,
    run_median_s: float | str = 1800.0,
    run_sigma: float | str = 1.5,
    max_job_gpus: int | str | None = None,
    limit_factor: float | str = 2.0,
    checkpoint_interval_s: float | str | None = None,
    restart_s: float | str | None = None,
    fewest_share: float | str | None = None,
    leave_out_larger: bool = False,
    nodes: int | str | None = None,
    system: str | None = None,
    gpus_per_node: int | str | None = None,
    nodes_per_domain: int | str | None = None,
    nodes_per_leaf: int | str | None = None,
    order: Literal["fifo", "priority", "fair_share"] = "fifo",
    backfill: Literal["none", "easy", "conservative"] = "easy",
    depth: int | str = 500,
    preemption: Literal["none", "requeue", "cancel"] = "none",
    placement: Literal["pack", "best_fit"] = "pack",
    together: Literal["anywhere", "domain", "leaf"] = "anywhere",
    required: bool = False,
    keeps_place: bool = False,
    half_life_s: float | str = 604800.0,
    shares: object = None,
    node_mtbf_s: float | str | None = None,
    repair_s: float | str | None = None,
    fleet: str | None = None,
    failures: str | None = None,
    response: Literal[
        "slurm_requeue", "slurm_no_kill", "drain", "jobset", "kueue", "torchrun"
    ] = "slurm_requeue",
    detection_s: float | str | None = None,
    max_restarts: int | str | None = None,
    patience_s: float | str | None = None,
    until_s: float | str | None = None,
    seed: int | str = 0,
    usd_per_gpu_hour: float | str | None = None,
    power_w: float | str | None = None,
    idle_power_w: float | str | None = None,
    repair_power_w: float | str = 0.0,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    trace_resolution_s: float | str | None = None,
    trace_limit_w: float | str | None = None,
    pue_fixed_share: float | str = 0.0,
    pue_square_share: float | str = 0.0,
    site_cap_w: float | str | None = None,
    site_profile: str | None = None,
) -> FleetSchedule:
    """Return the simulated schedule of jobs that share a cluster.

    Args:
        compare: Fields and their values, such as backfill=none,easy: further schedules of the same
            jobs and failures, one row each.
        jobs: Job trace: Slurm accounting, a public trace, or CSV, Parquet or JSON Lines with
            submit_s, run_s and gpus; plain or gzip-compressed.
        job_format: Format of the trace. Default: perfatlas. Needs jobs.
        zone: Time zone of sacct times, such as UTC or Europe/Berlin. Needs job_format = sacct.
        num_jobs: Number of jobs to generate. Setting it keeps a fixed sample that starts from an
            empty cluster. Default: as many as the mean wait needs to be known to 10%.
        load: Offered load of generated jobs: requested GPU time over that of the cluster
            [fraction]. Needs no jobs.
        job_rate: Submission rate of generated jobs, instead of load [1/s]. Needs no jobs.
        run_median_s: Median run time of generated jobs (lognormal) [s]. Default: 1800. Needs no
            jobs.
        run_sigma: Standard deviation of the logarithm of the run time. Default: 1.5. Needs no
            jobs.
        max_job_gpus: GPUs of the largest generated job. Default: a quarter of the cluster. Needs
            no jobs.
        limit_factor: Ratio of time limit to run time, for jobs without time limits. Default: 2.
            Needs backfill = easy or conservative.
        checkpoint_interval_s: Work time between checkpoints, for jobs that do not define it [s].
            Default: no checkpoints: a restart loses all work. Needs failures of nodes with a
            response other than drain, preemption, or time limits of jobs.
        restart_s: Restart time, for jobs that do not define it [s]. Default: 0. Needs failures of
            nodes with a response other than drain, or preemption = requeue.
        fewest_share: Minimum fraction of its nodes with which an elastic job continues [fraction].
            Default: one node. Needs failures of nodes, and response = slurm_no_kill or torchrun.
        leave_out_larger: Leave out jobs that can never run on this cluster, instead of failing.
            Default: false. Needs jobs or required or max_job_gpus.
        nodes: Nodes of the cluster. Default: the fleet's.
        system: System of the nodes: its topology gives gpus_per_node, nodes_per_domain and
            nodes_per_leaf where they are not set.
        gpus_per_node: GPUs per node. Default: the fleet's or the system's, otherwise 8.
        nodes_per_domain: Nodes per NVLink domain or rack, such as 18 in an NVL72 of 4-GPU nodes.
            Default: the system's, if any.
        nodes_per_leaf: Nodes per leaf switch, in whole domains. Default: the system's, if known.
            Needs together = leaf, together = domain without required, or no nodes_per_domain.
        order: Order of the queue: submission, priority, or decayed usage per share. Default: fifo.
        backfill: Backfill: none, easy (reserves a start for the first waiting job) or conservative
            (for the first depth jobs). Default: easy.
        depth: Number of waiting jobs, behind the first, that backfill considers. Default: 500.
            Needs backfill = easy or conservative.
        preemption: Preemption of lower-priority jobs whose nodes the first waiting job needs.
            Default: none. Needs order = priority.
        placement: Placement: pack (first nodes with free GPUs) or best_fit (fewest GPUs left
            free). Default: pack.
        together: Place all nodes of a job within one domain or leaf if possible. Default:
            anywhere.
        required: Make a job wait until its nodes are within one domain or leaf. Default: false.
            Needs together = domain or leaf.
        keeps_place: Let a requeued job keep its position in the queue instead of joining the end.
            Default: false. Needs preemption = requeue, or failures of nodes with a response that
            requeues.
        half_life_s: Half-life of usage for fair_share [s]. Default: 7 days. Needs order =
            fair_share.
        shares: Shares of users, such as ann=2,bob=1. Default: 1 per user. Needs order =
            fair_share.
        node_mtbf_s: Mean time between failures of one node, with repair_s [s]. Needs no fleet.
        repair_s: Time to repair a failed node [s]. Needs no fleet, no failures and node_mtbf_s.
        fleet: Fleet with node failure and repair rates: a TOML file, llama3 or rsc1.
        failures: Table of failures: time_s, node, repair_s, and optionally width and drain.
            Default: none.
        response: Response of the launcher to a lost node; drain lets running jobs finish before
            the repair. Default: slurm_requeue. Needs failures of nodes (node_mtbf_s, fleet or
            failures), or a cap of the site.
        detection_s: Time until a failure is detected [s]. Default: the launcher's. Needs failures
            of nodes, and a response other than drain.
        max_restarts: Maximum restarts, as the launcher counts them, before a job fails for good.
            Default: the launcher's. Needs failures of nodes, and a response other than drain.
        patience_s: Maximum time that a job under kueue or torchrun waits for a node [s]. Default:
            the launcher's. Needs failures of nodes, and response = kueue or torchrun.
        until_s: Time after the first submission at which the schedule ends [s]. Default: the last
            submission if jobs are generated, else when all have ended.
        seed: Seed of random draws. Default: 0. Needs num_jobs or load or job_rate or node_mtbf_s
            or fleet.
        usd_per_gpu_hour: Price of one GPU-hour [USD]. Default: no cost of GPUs is reported.
        power_w: Mean power of a GPU board while its job computes, work that is lost later included
            [W]. Default: no energy is reported.
        idle_power_w: Power of a GPU board without a job, or whose job waits: detection, restarts,
            waiting for a node [W]. Default: required with power_w. Needs power_w.
        repair_power_w: Power of a GPU board whose node is under repair [W]. Default: 0. Needs
            power_w.
        pue: Power usage effectiveness: factor on the electricity of the GPUs [ratio]. Default: 1.
            Needs power_w and (usd_per_kwh or gco2_per_kwh or trace_resolution_s or site_cap_w or
            site_profile).
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported. Needs power_w.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported. Needs power_w.
        trace_resolution_s: Time between two samples of the power of the site, such as 1h [s].
            Default: no power over time. Needs power_w.
        trace_limit_w: Power of the facility above which time is counted [W], such as 2MW. Default:
            none. Needs trace_resolution_s.
        pue_fixed_share: Share of the overhead at full load, pue - 1, that does not depend on the
            load [fraction]. Default: 0. Needs pue and (trace_resolution_s or site_cap_w or
            site_profile).
        pue_square_share: Share of it that grows with the square of the load; the rest is
            proportional [fraction]. Default: 0. Needs pue and (trace_resolution_s or site_cap_w or
            site_profile).
        site_cap_w: Limit of the power of the facility [W], such as 20MW: nodes beyond it are held
            out of service. Default: none. Needs power_w.
        site_profile: Table by hour (column hour, from 0) with cap_w, gco2_per_kwh or usd_per_kwh;
            24 rows repeat every day. Default: none. Needs power_w.

    Raises:
        InvalidSpecError: A name or value is invalid, or a file is invalid.
        InfeasibleError: A job is larger than the cluster; names its row.
    """

def frontier(
    *,
    over: str = "batch",
    progress: Callable[[str], None] | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["static", "aggregated", "disaggregated"] = "static",
    method: Literal["auto", "formula", "simulate"] = "auto",
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
    format: str | None = None,
    gemm_format: str | None = None,
    moe_format: str | None = None,
    kv_format: str | None = None,
    attention_format: str | None = None,
    batch: int | str | None = None,
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests_per_client: int | str | None = None,
    osl_spread: float | str = 0.0,
    prefix: int | str = 0,
    max_num_seqs: int | str | None = None,
    max_num_batched_tokens: int | str | None = None,
    block_size: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    kv_blocks: int | str | None = None,
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    quantization_method: Literal[
        "rtn", "tuned_rtn", "gptq", "awq", "autoround", "smoothquant", "rotation", "qat", "ptq"
    ]
    | None = None,
    benchmark: str | None = None,
) -> Frontier:
    """Return one point per batch size, clock or power limit.

    Batches go from 1 to the maximum that fits and runs concurrently, clocks from the lowest of the
    model to the sustained one, power limits from the lowest that can be kept to the TDP.

    All points use one plan. Where only a number of GPUs is stated it is the plan that `estimate`
    chooses for the other fields, not one for each batch; `search` compares plans.

    Args:
        over: batch, or what lowers the clock: clock_ratio or power_cap_w.
        progress: Receives lines about simulated points.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: one batch, continuous batching, or separate prefill and decode pools.
            Default: static.
        method: Method for aggregated and disaggregated serving: formula (closed forms without
            queueing), simulate (a short simulation), or auto (simulate if prompts queue); static
            batches always use closed forms. Default: auto.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        batch: Sequences per static batch and replica. Default: 1.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024.
        osl: Output tokens per request; the mean if lengths vary. Default: 128.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests_per_client: Requests that every client of a benchmark sends, all starting
            together: num-prompts / max-concurrency. Means then include the opening burst of
            prompts. Default: steady state. Needs mode = aggregated.
        osl_spread: Spread of the output lengths of these clients: relative half-width, uniform
            [fraction]. Default: 0. Needs requests_per_client.
        prefix: Cached prefix tokens, included in isl. Default: 0.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs an engine whose front end takes time and mode other than
            disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs an engine whose front end takes time and mode
            other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.
        quantization_method: Quantization method: rtn (round to nearest), tuned_rtn (searched
            scales), gptq, awq, autoround, smoothquant, rotation, qat (training), ptq (a vendor's
            calibrated checkpoint). Default: ptq. Needs benchmark.
        benchmark: Benchmark whose change by the number formats is predicted as accuracy_delta,
            such as mmlu, gsm8k, gpqa, humaneval or ruler. Default: mmlu where accuracy is asked
            for.

    Returns:
        An answer whose `frontier` has a row per point with the results of an estimate, its `tier`
        and what binds most of its steps (`prefill_bound`, `decode_bound`), in ascending order. Of
        batches the last row is the maximum that fits (static), or beyond which requests only queue
        (aggregated). Of clocks and limits it also has the point of the least energy per output
        token: at an end of the curve, or inside.

    Raises:
        InvalidSpecError: What is swept is unknown or given, or there are two pools.
        InfeasibleError: Not even one sequence fits.
        UnsupportedError: The device has no energies, or no clock or limit has an answer.
        PerfatlasError: The scenario is invalid.
    """

def goodput(
    *,
    gpus: int | str | None = None,
    checkpoint_interval_s: float | str | None = None,
    checkpoint_write_s: float | str | None = None,
    restart_s: float | str | None = None,
    method: Literal["auto", "exact", "simulate"] = "auto",
    duration_s: float | str = 2592000.0,
    usd_per_gpu_hour: object = None,
    half_width: float | str = 0.002,
    seed: int | str = 0,
    num_seeds: int | str = 1,
    mtti_s: float | str | None = None,
    node_mtbf_s: float | str | None = None,
    failure_rate: str | None = None,
    failures_seen: int | str | None = None,
    gpus_per_node: int | str = 8,
    failure_shape: float | str = 1.0,
    detection_s: float | str | None = None,
    spares: int | str | None = None,
    repair_s: float | str | None = None,
    fleet: str | None = None,
    fleet_units: int | str | None = None,
    strategy: str | None = None,
    strategy_file: str | None = None,
    response: Literal[
        "slurm_requeue", "slurm_no_kill", "torchrun", "jobset", "torchft", "in_job_restart"
    ]
    | None = None,
    checkpoint_lag_s: float | str = 0.0,
    spare_kind: Literal["cold", "warm", "hot"] = "cold",
    spare_start_s: float | str = 0.0,
    spare_order: Literal["random", "first", "longest_idle", "last_returned"] = "random",
    fewest_gpus: int | str | None = None,
    replica_gpus: int | str | None = None,
    work_s: float | str | None = None,
    finish_by_s: float | str | None = None,
    mfu: float | str | None = None,
    scheduling: float | str | None = None,
    what_if: bool = False,
    more_spares: int | str = 30,
    verify_s: float | str | None = None,
    model: str | None = None,
    system: str | None = None,
    format: str = "bf16",
    step_time_s: float | str | None = None,
    tokens_per_step: int | str | None = None,
    checkpoint_bytes: float | str | None = None,
    checkpoint_bytes_per_s: float | str | None = None,
    power_w: float | str | None = None,
    idle_power_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    train: str | None = None,
    tokens: float | str | None = None,
) -> Answer:
    """Return the goodput of a job and its checkpoint interval.

    Args:
        gpus: GPUs of the job. Default: with fleet, all units except spares.
        checkpoint_interval_s: Work time between checkpoints [s]. Default: the optimum.
        checkpoint_write_s: Blocking checkpoint write time [s].
        restart_s: Restart time from detection to resumed work; a failure during restart starts it
            over [s].
        method: Method: exact (renewal model) or simulate; auto uses exact if it is valid and
            simulate otherwise. Default: auto. Needs no fleet or method = simulate.
        duration_s: Period over which failures and GPU-hours are counted [s]. Default: 30 days.
            Needs no work_s.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known. Needs gpus or fleet.
        half_width: Relative half-width of the confidence interval at which the simulation stops
            [fraction]. Default: 0.002. Needs a simulation.
        seed: Seed of random draws. Default: 0. Needs a simulation.
        num_seeds: Number of simulations, with seeds seed, seed + 1, ...: means with confidence
            intervals. Default: 1. Needs a simulation.
        mtti_s: Mean time to interruption of the job [s]. Needs no fleet.
        node_mtbf_s: Mean time between failures of one node [s]. Needs no fleet.
        failure_rate: Published failure rate, such as llama3_node_unexpected or rsc1_node. Needs no
            fleet.
        failures_seen: Number of observed failures behind mtti_s or node_mtbf_s, for a confidence
            interval. Needs no fleet and no failure_rate.
        gpus_per_node: GPUs per node. Default: 8, or the system's. Needs no fleet and (no mtti_s,
            spares or failure_shape other than 1).
        failure_shape: Weibull shape of node lifetimes (1 = exponential, above 1 = wear-out).
            Default: 1. Needs no fleet.
        detection_s: Time until a failure is detected [s]. Default: 0, or the fleet's.
        spares: Spare nodes of the job. Default: unlimited; with fleet, its ratio of spares to
            other units.
        repair_s: Mean time to repair a failed node [s]. Needs no fleet and spares.
        fleet: Fleet with node failure and repair rates: a TOML file, llama3 or rsc1.
        fleet_units: Units (nodes or racks) of the fleet. Default: from the fleet file. Needs
            fleet.
        strategy: Recovery strategy: a [[strategy]] table of the fleet. Default: the first. Needs
            fleet.
        strategy_file: TOML file of [[strategy]] tables. Default: the fleet file. Needs fleet.
        response: Documented response of a launcher to a lost node: sets the detection time of
            causes that have none, and whether the job shrinks, its peers hold the state or its
            spares are hot. Default: as the strategy says. Needs fleet.
        checkpoint_lag_s: Delay from the end of a write until the checkpoint is durable [s].
            Default: 0. Needs fleet.
        spare_kind: State of spares; warm and hot spares are powered on and can fail. Default:
            cold. Needs fleet and spares whose kind response does not set.
        spare_start_s: Additional restart time when a spare joins the job [s]. Default: 0. Needs
            fleet.
        spare_order: Which spare joins the job: a random one, the first by number, the one that has
            been idle longest, or the one that returned from repair last. Default: random. Needs
            fleet, units that differ and a response that keeps the nodes of a job.
        fewest_gpus: Minimum GPUs for elastic operation: the job continues with fewer GPUs instead
            of waiting. Default: not elastic. Needs fleet.
        replica_gpus: GPUs that an elastic job releases together, such as one data-parallel
            replica. Default: one unit. Needs fleet, (fewest_gpus or what_if) and (a strategy that
            does not shrink the job or fewest_gpus).
        work_s: Useful work after which the job ends, instead of duration_s [s]. Default: none.
            Needs fleet.
        finish_by_s: Deadline of the job; the answer gives the probability of missing it [s].
            Default: none. Needs fleet and work_s.
        mfu: Model FLOPs utilization (MFU) in productive time [fraction]. Needs fleet.
        scheduling: Fraction of time the job is scheduled [fraction]. Default: 1. Needs fleet.
        what_if: Rank single changes by the GPU-hours they save. Default: false. Needs fleet.
        more_spares: Number of spares that what_if adds. Default: 30. Needs fleet and what_if.
        verify_s: Duration of the verification that what_if adds before each checkpoint against
            silent errors [s]. Default: from another strategy. Needs fleet, what_if, a strategy
            without verification and a fleet with silent errors.
        model: Trained model: a Hugging Face id or catalog name; its parameters give FLOPs and
            checkpoint size. Needs (no checkpoint_bytes and (checkpoint_bytes_per_s or fleet)) or
            step_time_s.
        system: System of the job: its peak FLOP/s for the MFU, and without a fleet its GPUs per
            node. Needs (step_time_s or tokens_per_step) or (no fleet and (no mtti_s, spares or
            failure_shape other than 1)).
        format: Number format of that peak. Default: bf16. Needs step_time_s.
        step_time_s: Measured time of one training step [s]. Needs fleet.
        tokens_per_step: Tokens per training step, over all GPUs. Needs fleet.
        checkpoint_bytes: Checkpoint size, such as 5.7TB [bytes]. Default: 14 bytes per parameter
            of model. Needs checkpoint_bytes_per_s or (fleet and a strategy with bandwidths).
        checkpoint_bytes_per_s: Checkpoint write bandwidth of the whole job, such as 100GB/s,
            instead of checkpoint_write_s [bytes/s].
        power_w: Mean power of a GPU board while the job computes [W]. Default: that of the step
            with train, else no energy is reported. Needs gpus or fleet or train.
        idle_power_w: Power of a GPU board while the job waits: checkpoint stalls, detection,
            restarts [W]. Default: that of a board without kernels with train, else power_w. Needs
            power_w or train.
        pue: Power usage effectiveness: factor on the electricity of the GPUs [ratio]. Default: 1.
            Needs (power_w or train) and (usd_per_kwh or gco2_per_kwh).
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported. Needs power_w or train.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported. Needs power_w or train.
        train: TOML file with fields of `perfatlas train`: its GPUs, MFU and checkpoint size.
            Default: none.
        tokens: Tokens to train, such as 15T, for time and cost [tokens]. Default: none. Needs
            train.

    Raises:
        InvalidSpecError: A name or value is invalid, or a closed form does not apply.
        InfeasibleError: The job is larger than the fleet.

    Example:
        >>> from perfatlas.verbs.goodput import goodput
        >>> found = goodput(mtti_s=7.9 * 3600, checkpoint_write_s=60, restart_s=300)
        >>> print(f"{found.results['goodput']:.4f}")
        0.9266
    """

def goodput_frontier(
    *,
    gpus: int | str | None = None,
    checkpoint_interval_s: float | str | None = None,
    checkpoint_write_s: float | str | None = None,
    restart_s: float | str | None = None,
    method: Literal["auto", "exact", "simulate"] = "auto",
    duration_s: float | str = 2592000.0,
    usd_per_gpu_hour: object = None,
    half_width: float | str = 0.002,
    seed: int | str = 0,
    num_seeds: int | str = 1,
    mtti_s: float | str | None = None,
    node_mtbf_s: float | str | None = None,
    failure_rate: str | None = None,
    failures_seen: int | str | None = None,
    gpus_per_node: int | str = 8,
    failure_shape: float | str = 1.0,
    detection_s: float | str | None = None,
    spares: int | str | None = None,
    repair_s: float | str | None = None,
    fleet: str | None = None,
    fleet_units: int | str | None = None,
    strategy: str | None = None,
    strategy_file: str | None = None,
    response: Literal[
        "slurm_requeue", "slurm_no_kill", "torchrun", "jobset", "torchft", "in_job_restart"
    ]
    | None = None,
    checkpoint_lag_s: float | str = 0.0,
    spare_kind: Literal["cold", "warm", "hot"] = "cold",
    spare_start_s: float | str = 0.0,
    spare_order: Literal["random", "first", "longest_idle", "last_returned"] = "random",
    fewest_gpus: int | str | None = None,
    replica_gpus: int | str | None = None,
    work_s: float | str | None = None,
    finish_by_s: float | str | None = None,
    mfu: float | str | None = None,
    scheduling: float | str | None = None,
    what_if: bool = False,
    more_spares: int | str = 30,
    verify_s: float | str | None = None,
    model: str | None = None,
    system: str | None = None,
    format: str = "bf16",
    step_time_s: float | str | None = None,
    tokens_per_step: int | str | None = None,
    checkpoint_bytes: float | str | None = None,
    checkpoint_bytes_per_s: float | str | None = None,
    power_w: float | str | None = None,
    idle_power_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    train: str | None = None,
    tokens: float | str | None = None,
) -> StrategyFrontier:
    """Return the recovery strategies of a job that no other exceeds in goodput and GPUs held.

    Args:
        gpus: GPUs of the job. Default: with fleet, all units except spares.
        checkpoint_interval_s: Work time between checkpoints [s]. Default: the optimum.
        checkpoint_write_s: Blocking checkpoint write time [s].
        restart_s: Restart time from detection to resumed work; a failure during restart starts it
            over [s].
        method: Method: exact (renewal model) or simulate; auto uses exact if it is valid and
            simulate otherwise. Default: auto. Needs no fleet or method = simulate.
        duration_s: Period over which failures and GPU-hours are counted [s]. Default: 30 days.
            Needs no work_s.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known. Needs gpus or fleet.
        half_width: Relative half-width of the confidence interval at which the simulation stops
            [fraction]. Default: 0.002. Needs a simulation.
        seed: Seed of random draws. Default: 0. Needs a simulation.
        num_seeds: Number of simulations, with seeds seed, seed + 1, ...: means with confidence
            intervals. Default: 1. Needs a simulation.
        mtti_s: Mean time to interruption of the job [s]. Needs no fleet.
        node_mtbf_s: Mean time between failures of one node [s]. Needs no fleet.
        failure_rate: Published failure rate, such as llama3_node_unexpected or rsc1_node. Needs no
            fleet.
        failures_seen: Number of observed failures behind mtti_s or node_mtbf_s, for a confidence
            interval. Needs no fleet and no failure_rate.
        gpus_per_node: GPUs per node. Default: 8, or the system's. Needs no fleet and (no mtti_s,
            spares or failure_shape other than 1).
        failure_shape: Weibull shape of node lifetimes (1 = exponential, above 1 = wear-out).
            Default: 1. Needs no fleet.
        detection_s: Time until a failure is detected [s]. Default: 0, or the fleet's.
        spares: Spare nodes of the job. Default: unlimited; with fleet, its ratio of spares to
            other units.
        repair_s: Mean time to repair a failed node [s]. Needs no fleet and spares.
        fleet: Fleet with node failure and repair rates: a TOML file, llama3 or rsc1.
        fleet_units: Units (nodes or racks) of the fleet. Default: from the fleet file. Needs
            fleet.
        strategy: Recovery strategy: a [[strategy]] table of the fleet. Default: the first. Needs
            fleet.
        strategy_file: TOML file of [[strategy]] tables. Default: the fleet file. Needs fleet.
        response: Documented response of a launcher to a lost node: sets the detection time of
            causes that have none, and whether the job shrinks, its peers hold the state or its
            spares are hot. Default: as the strategy says. Needs fleet.
        checkpoint_lag_s: Delay from the end of a write until the checkpoint is durable [s].
            Default: 0. Needs fleet.
        spare_kind: State of spares; warm and hot spares are powered on and can fail. Default:
            cold. Needs fleet and spares whose kind response does not set.
        spare_start_s: Additional restart time when a spare joins the job [s]. Default: 0. Needs
            fleet.
        spare_order: Which spare joins the job: a random one, the first by number, the one that has
            been idle longest, or the one that returned from repair last. Default: random. Needs
            fleet, units that differ and a response that keeps the nodes of a job.
        fewest_gpus: Minimum GPUs for elastic operation: the job continues with fewer GPUs instead
            of waiting. Default: not elastic. Needs fleet.
        replica_gpus: GPUs that an elastic job releases together, such as one data-parallel
            replica. Default: one unit. Needs fleet, (fewest_gpus or what_if) and (a strategy that
            does not shrink the job or fewest_gpus).
        work_s: Useful work after which the job ends, instead of duration_s [s]. Default: none.
            Needs fleet.
        finish_by_s: Deadline of the job; the answer gives the probability of missing it [s].
            Default: none. Needs fleet and work_s.
        mfu: Model FLOPs utilization (MFU) in productive time [fraction]. Needs fleet.
        scheduling: Fraction of time the job is scheduled [fraction]. Default: 1. Needs fleet.
        what_if: Rank single changes by the GPU-hours they save. Default: false. Needs fleet.
        more_spares: Number of spares that what_if adds. Default: 30. Needs fleet and what_if.
        verify_s: Duration of the verification that what_if adds before each checkpoint against
            silent errors [s]. Default: from another strategy. Needs fleet, what_if, a strategy
            without verification and a fleet with silent errors.
        model: Trained model: a Hugging Face id or catalog name; its parameters give FLOPs and
            checkpoint size. Needs (no checkpoint_bytes and (checkpoint_bytes_per_s or fleet)) or
            step_time_s.
        system: System of the job: its peak FLOP/s for the MFU, and without a fleet its GPUs per
            node. Needs (step_time_s or tokens_per_step) or (no fleet and (no mtti_s, spares or
            failure_shape other than 1)).
        format: Number format of that peak. Default: bf16. Needs step_time_s.
        step_time_s: Measured time of one training step [s]. Needs fleet.
        tokens_per_step: Tokens per training step, over all GPUs. Needs fleet.
        checkpoint_bytes: Checkpoint size, such as 5.7TB [bytes]. Default: 14 bytes per parameter
            of model. Needs checkpoint_bytes_per_s or (fleet and a strategy with bandwidths).
        checkpoint_bytes_per_s: Checkpoint write bandwidth of the whole job, such as 100GB/s,
            instead of checkpoint_write_s [bytes/s].
        power_w: Mean power of a GPU board while the job computes [W]. Default: that of the step
            with train, else no energy is reported. Needs gpus or fleet or train.
        idle_power_w: Power of a GPU board while the job waits: checkpoint stalls, detection,
            restarts [W]. Default: that of a board without kernels with train, else power_w. Needs
            power_w or train.
        pue: Power usage effectiveness: factor on the electricity of the GPUs [ratio]. Default: 1.
            Needs (power_w or train) and (usd_per_kwh or gco2_per_kwh).
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported. Needs power_w or train.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported. Needs power_w or train.
        train: TOML file with fields of `perfatlas train`: its GPUs, MFU and checkpoint size.
            Default: none.
        tokens: Tokens to train, such as 15T, for time and cost [tokens]. Default: none. Needs
            train.

    Raises:
        InvalidSpecError: The question is invalid, has no fleet or gpus, or no policy applies.
        InfeasibleError: The job is larger than the fleet, or the step does not fit in memory.
    """

def goodput_spares(
    *,
    nodes: int | str | None = None,
    fleet: str | None = None,
    gpus: int | str | None = None,
    spares: int | str | None = None,
    target: float | str | None = None,
    node_mtbf_s: float | str | None = None,
    repair_s: float | str | None = None,
    crews: int | str | None = None,
    warm: bool = False,
) -> Answer:
    """Return the share of time a job waits for nodes, or the spares for a target share.

    Args:
        nodes: Nodes of the job. Needs no fleet.
        fleet: Fleet with node failure and repair rates: a TOML file, llama3 or rsc1.
        gpus: GPUs of the job. Needs fleet.
        spares: Spare nodes of the job.
        target: Availability target: fraction of time the job does not wait for a node, such as
            0.999; the answer gives the number of spares [fraction].
        node_mtbf_s: Mean time between failures of one node [s]. Needs no fleet.
        repair_s: Mean time to repair a failed node [s]. Needs no fleet.
        crews: Repair crews: maximum concurrent repairs. Default: unlimited.
        warm: Spares can fail like active nodes (warm standby). Default: false. Needs spares other
            than 0.

    Raises:
        InvalidSpecError: A name or value is invalid.
        InfeasibleError: No number of spares reaches the target.

    Example:
        >>> from perfatlas.verbs.goodput import goodput_spares
        >>> day = 86400
        >>> found = goodput_spares(nodes=2048, node_mtbf_s=day / 6.5e-3, repair_s=day, target=0.999)
        >>> found.results["spares"]
        25
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
    mask: Literal["causal", "none"] = "causal",
    cache_append: Literal["excluded", "included"] | None = None,
    direction: Literal["forward", "backward", "forward_backward"] = "forward",
    kernel_family: str | None = None,
    protocol: Literal["cold"] = "cold",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
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
        kv_len: Keys per sequence, including the new tokens.
        num_heads: Query heads on this GPU.
        num_kv_heads: Key-value heads on this GPU, a divisor of num_heads. Default: num_heads.
            Needs kind other than mla.
        head_dim: Head dimension; for mla, of values and of the non-rotary part of keys. Default:
            128.
        kv_lora_rank: Rank of the latent KV cache. Default: 512. Needs kind = mla.
        rope_dim: Rotary dimensions per head. Default: 64. Needs kind = mla.
        format: Number format of the arithmetic; fp8 means fp8_static. Unset, a device without bf16
            tensor cores uses fp16. Default: bf16.
        kv_format: Number format of the KV cache. Default: bf16.
        window: Maximum keys a query attends to: the sliding window (gqa) or the keys selected by
            sparse attention (mla); 0 for all. Default: 0.
        mask: Mask of the keys: causal, or none, where every query sees every key (encoders).
            Default: causal. Needs phase = prefill and kind = gqa.
        cache_append: Include the append of new keys and values to the KV cache, as an engine's
            call does; excluded: the attention kernel alone, as kernel benchmarks time it. Default:
            included in the forward pass. Needs phase = prefill, kind = gqa and tier other than
            bound.
        direction: Forward pass, backward pass, or both; the backward pass multiplies five matrices
            where the forward pass multiplies two. Default: forward. Needs phase = prefill and kind
            = gqa.
        kernel_family: Engine that provides the kernels, such as vllm or sglang. Default: the
            fastest engine.
        protocol: Measurement protocol: cold (caches empty at the start). Default: cold.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: The device does not support the format, or there is no data for the tier.
    """

def kernel_design_attention(
    *,
    system: str,
    kind: Literal["gqa", "mla"] = "gqa",
    batch: int | str = 1,
    q_len: int | str | None = None,
    kv_len: int | str,
    num_heads: int | str,
    num_kv_heads: int | str | None = None,
    head_dim: int | str = 128,
    phase: Literal["prefill", "decode"] = "prefill",
    kv_lora_rank: int | str = 512,
    rope_dim: int | str = 64,
    format: str = "bf16",
    mask: Literal["causal", "none"] = "causal",
    direction: Literal["forward", "backward"] = "forward",
    tile_m: int | str | None = None,
    tile_n: int | str | None = None,
    tile_k: int | str | None = None,
    stages: int | str | None = None,
    warpgroups: int | str | None = None,
) -> Answer:
    """Return the time of an attention kernel from the pipeline of its tiles.

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        kind: Grouped-query attention (also MHA and MQA) or multi-head latent attention. Default:
            gqa.
        batch: Sequences in the batch. Default: 1.
        q_len: New tokens per sequence. Default: 1 in decode, kv_len in prefill.
        kv_len: Keys per sequence, including the new tokens.
        num_heads: Query heads on this GPU.
        num_kv_heads: Key-value heads on this GPU, a divisor of num_heads. Default: num_heads.
            Needs kind other than mla.
        head_dim: Head dimension; for mla, of values and of the non-rotary part of keys. Default:
            128.
        phase: Prefill (many new tokens per sequence) or decode (one). Default: prefill.
        kv_lora_rank: Rank of the latent KV cache. Default: 512. Needs kind = mla.
        rope_dim: Rotary dimensions per head. Default: 64. Needs kind = mla.
        format: Number format of the arithmetic; fp8 means fp8_static. Unset, a device without bf16
            tensor cores uses fp16. Default: bf16.
        mask: Mask of the keys: causal, or none, where every query sees every key (encoders).
            Default: causal. Needs phase = prefill.
        direction: Forward or backward pass; the backward pass multiplies five matrices where the
            forward pass multiplies two. Default: forward. Needs phase = prefill.
        tile_m: Rows of the tile: of queries, or of the output. Default: that of the best known
            kernel. Needs tile_n.
        tile_n: Columns of the tile: keys of a block, or columns of the output. Default: that of
            the best known kernel. Needs tile_m.
        tile_k: Depth of a block of the main loop; in attention, head_dim. Default: 128 bytes, or
            head_dim. Needs tile_m.
        stages: Buffers of the main loop in shared memory: pairs of operand tiles, or single tiles
            of keys or values. Default: as many as fit, up to 8. Needs tile_m.
        warpgroups: Warpgroups that compute, each on its own rows of the tile. Default: one for the
            rows of an MMA instruction, up to 2. Needs tile_m.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        InfeasibleError: An SM cannot hold the tile.
        UnsupportedError: Kernels of this device, format or phase are not modelled.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_design_attention
        >>> asked = {"system": "h100_sxm", "batch": 4, "kv_len": 4096, "num_heads": 16}
        >>> kernel_design_attention(**asked, head_dim=128).results["limiting_unit"]
        'tensor cores'
    """

def kernel_design_gemm(
    *,
    system: str,
    m: int | str,
    n: int | str,
    k: int | str,
    format: str = "bf16",
    groups: int | str = 1,
    tile_m: int | str | None = None,
    tile_n: int | str | None = None,
    tile_k: int | str | None = None,
    stages: int | str | None = None,
    warpgroups: int | str | None = None,
) -> Answer:
    """Return the time of a GEMM kernel from the pipeline of its tiles.

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        m: Rows of the activations: tokens.
        n: Columns of the weights: output features.
        k: Inner dimension: input features.
        format: Number format of the arithmetic; fp8 means fp8_static. `kernel gemm` also takes
            fp64 and fp32, which BLAS libraries multiply. Default: bf16.
        groups: Products of m rows each, with weights of their own: a grouped GEMM, such as that of
            the experts on a GPU. Default: 1.
        tile_m: Rows of the tile: of queries, or of the output. Default: that of the best known
            kernel. Needs tile_n.
        tile_n: Columns of the tile: keys of a block, or columns of the output. Default: that of
            the best known kernel. Needs tile_m.
        tile_k: Depth of a block of the main loop; in attention, head_dim. Default: 128 bytes, or
            head_dim. Needs tile_m.
        stages: Buffers of the main loop in shared memory: pairs of operand tiles, or single tiles
            of keys or values. Default: as many as fit, up to 8. Needs tile_m.
        warpgroups: Warpgroups that compute, each on its own rows of the tile. Default: one for the
            rows of an MMA instruction, up to 2. Needs tile_m.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        InfeasibleError: An SM cannot hold the tile.
        UnsupportedError: Kernels of this device or format are not modelled.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_design_gemm
        >>> answer = kernel_design_gemm(system="h100_sxm", m=4096, n=7168, k=2048)
        >>> answer.results["time_s"] > answer.results["bound_time_s"]
        True
    """

def kernel_gemm(
    *,
    system: str,
    m: int | str,
    n: int | str,
    k: int | str,
    format: str = "bf16",
    groups: int | str = 1,
    group_sizes: Literal["equal", "random"] = "equal",
    grouped_kernel: Literal["best_tile", "torch"] = "best_tile",
    quantization: Literal["excluded", "included"] = "excluded",
    kernel_family: str | None = None,
    protocol: Literal["cold"] = "cold",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
) -> Answer:
    """Return the time of one matrix product C[m, n] = A[m, k] W[k, n].

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        m: Rows of the activations: tokens.
        n: Columns of the weights: output features.
        k: Inner dimension: input features.
        format: Number format of the arithmetic; fp8 means fp8_static. `kernel gemm` also takes
            fp64 and fp32, which BLAS libraries multiply. Default: bf16.
        groups: Products of m rows each, with weights of their own: a grouped GEMM, such as that of
            the experts on a GPU. Default: 1.
        group_sizes: Rows of the groups: all m, or cut at random points with m in the mean. Each
            group fills whole tiles of rows. Default: equal. Needs groups other than 1 and tier
            other than bound.
        grouped_kernel: Kernel of a grouped product: the output tile is chosen for the shape, as
            libraries of single products and DeepGEMM do, or fixed as in torch._grouped_mm.
            Default: best_tile. Needs groups other than 1 and tier other than bound.
        quantization: Include the time to quantize the activations dynamically, in a kernel before
            the product. Default: excluded. Needs format = fp8_dynamic or fp8_block or nvfp4.
        kernel_family: Engine that provides the kernels, such as vllm or sglang. Default: the
            fastest engine.
        protocol: Measurement protocol: cold (caches empty at the start). Default: cold.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        UnsupportedError: The device does not support the format, or there is no data for the tier.

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
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
) -> Answer:
    """Return the time of the routed experts of one layer on one rank.

    Args:
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        tokens: Tokens before routing, over all ranks of the expert-parallel group.
        hidden: Hidden size of the model.
        intermediate: Intermediate size of an expert before sharding, a multiple of moe_tp.
        experts: Routed experts before sharding, a multiple of ep.
        top_k: Experts per token.
        ep: Expert-parallel size. Default: 1.
        moe_tp: Tensor-parallel size inside an expert. Default: 1.
        format: Number format of the arithmetic; fp8 means fp8_static. Unset, a device without bf16
            tensor cores uses fp16. Default: bf16.
        distribution: Routing of tokens to experts: uniform (random), balanced (equal loads) or
            power_law_1.2. Default: uniform.
        kernel_family: Engine that provides the kernels, such as vllm or sglang. Default: the
            fastest engine.
        protocol: Measurement protocol: cold (caches empty at the start). Default: cold.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or contradicts another.
        UnsupportedError: The device does not support the format, or there is no data for the tier.
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
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["aggregated", "disaggregated"] = "aggregated",
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests: str | None = None,
    request_format: str = "perfatlas",
    request_rate: float | str | None = None,
    num_requests: int | str | None = None,
    sampling_precision: float | str = 0.05,
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None,
    sessions: int | str | None = None,
    session_start: Literal["beginning", "middle"] | None = None,
    max_pause_s: float | str | None = None,
    burstiness: float | str | None = None,
    ramp_to_rate: float | str | None = None,
    ramp_s: float | str | None = None,
    turns: int | str = 1,
    think_time_s: float | str = 0.0,
    shared_prefix: int | str = 0,
    length_distribution: Literal["fixed", "uniform", "lognormal", "empirical"] | None = None,
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
    remote_cache_bytes: float | str | None = None,
    remote_bandwidth: float | str | None = None,
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
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
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
) -> Simulation:
    """Return the maximum request rate that meets the SLOs, and the simulation at that rate.

    A rate meets them if the selected percentile (or the mean) of each metric is within its SLO, no
    request is rejected, the queue does not grow until the end, and over the second half of the
    arrivals as many requests end as start, within 5%. Rates are bisected to 1%. If generated
    traffic is shorter than four times the unqueued duration of a request (or session), or too short
    for a significant test of a growing backlog, more requests are drawn.

    Args:
        progress: Called regularly; returns True to stop the search.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: continuous batching, or separate prefill and decode pools. Default:
            aggregated.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024. Needs no requests
            and no lengths_from.
        osl: Output tokens per request; the mean if lengths vary. Default: 128. Needs no requests
            and no lengths_from.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder, no requests and no lengths_from.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests: Request trace: CSV, Parquet or JSON Lines with arrival_s, isl and osl.
        request_format: Format of the trace: perfatlas, azure, mooncake, vllm, aiperf, weka, dynamo
            or otel. Default: perfatlas. Needs requests or lengths_from.
        request_rate: Rate of generated requests [1/s]; inf sends all at once.
        num_requests: Requests to generate, at most 20,000,000, or to read from the trace; of a
            pool of sessions, to simulate, session by session. Setting it keeps a fixed sample that
            starts from an empty system. Default: as many as sampling_precision needs; 10 per
            request in flight, at least 1000.
        sampling_precision: Relative half-width of the 90% confidence interval of mean TTFT and
            TPOT that sets the number of requests; twice that for the p99 of TTFT [fraction].
            Default: 0.05. Needs open arrivals at a constant mean rate without num_requests.
        arrival: Arrival process of generated requests. Default: poisson, closed with concurrency.
            Needs (no requests or arrival = closed) and a finite request_rate.
        sessions: Sessions in flight (closed loop): when the last request of a session ends, the
            next session begins. The sub-agents of a session run within it. Default: none. Needs a
            language model.
        session_start: Where the first N sessions begin: at their first request, or at a random
            request between 25% and 75% of the session. Default: middle for sessions of a file,
            beginning for generated ones. Needs sessions.
        max_pause_s: Longest pause between requests of a session of the trace; longer ones are cut
            to it [s]. Default: none. Needs requests.
        burstiness: Burstiness of gamma arrivals (1 = Poisson, below 1 = bursty). Needs no requests
            and arrival = gamma.
        ramp_to_rate: Final rate of ramp arrivals [1/s]. Needs no requests and arrival = ramp.
        ramp_s: Duration of the ramp from request_rate to ramp_to_rate [s]. Needs no requests and
            arrival = ramp.
        turns: Turns per session; each prompt contains the conversation so far, and is sent after
            the previous answer. Default: 1. Needs no requests and a language model.
        think_time_s: Mean think time between an answer and the next turn, exponentially
            distributed [s]. Default: 0. Needs no requests and turns other than 1.
        shared_prefix: Prefix tokens shared by all generated prompts, in addition to isl. Default:
            0. Needs no requests and a language model.
        length_distribution: Distribution of generated lengths. Default: fixed. Needs no requests
            and a language model.
        length_spread: Spread of generated lengths: relative half-width (uniform), or sigma
            (lognormal) [ratio]. Needs no requests and length_distribution = uniform or lognormal.
        lengths_from: Trace from which empirical lengths are drawn. Needs no requests and a
            language model.
        rate_scale: Speed-up factor of trace arrival times. Default: 1. Needs requests.
        length_scale: Scale factor of trace request lengths. Default: 1. Needs requests.
        requests_from_s: Start of the used window of the trace [s]. Default: 0. Needs requests.
        requests_to_s: End of the used window of the trace [s]. Default: the end. Needs requests.
        spread_batches: Spread trace requests with equal timestamps evenly up to the next
            timestamp. Default: false. Needs requests.
        seed: Seed of random draws. Default: 0. Needs something drawn at random.
        num_seeds: Number of simulations, with seeds seed, seed + 1, ...: means with confidence
            intervals. Default: 1. Needs something drawn at random.
        prompt_text: Prompt text: natural language, or random tokens, which tokenize more slowly.
            Default: natural. Needs measured_at other than engine and an engine whose front end
            takes time.
        prefix_caching: Reuse KV blocks of shared prefixes. Default: on if prompts share prefixes.
            Needs a language model.
        scheduler: Scheduling policy. Default: the engine's. Needs a language model.
        chunked_prefill: Split prompts over several steps. Default: the engine's. Needs a language
            model.
        measured_at: Where latencies are measured: at an HTTP client, or inside the engine.
            Default: client.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none. Needs a language model.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none. Needs a
            language model.
        slo_itl_s: SLO: maximum mean time between the streamed chunks of a request: its TPOT, or
            with drafts the time between its steps, each of as many tokens as those of all requests
            on average [s]. Default: none. Needs a language model.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        slo_percentile: Percentile that must meet the SLOs in a search for a rate or for replicas
            [percent]. Default: the mean. Needs --find-rate, --find-replicas or --find-sessions.
        replica_kinds: Heterogeneous replicas behind one router: a JSON list such as [{"system":
            "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file. Default:
            all replicas are identical. Needs a language model.
        routing: Routing policy: round_robin, least_loaded, random, or prefix_aware (the replica
            and the attention-DP rank that hold the longest cached prefix). Default: round_robin.
            Needs several replicas.
        cache_threshold: Minimum cached fraction of a prompt for prefix_aware routing to follow the
            cache [fraction]. Default: 0.3. Needs routing = prefix_aware.
        balance_abs_threshold: Maximum load difference, in requests, for prefix_aware routing; if
            this and balance_rel_threshold are exceeded, the least loaded replica is chosen.
            Default: 64. Needs routing = prefix_aware.
        balance_rel_threshold: Maximum load ratio for prefix_aware routing; if this and
            balance_abs_threshold are exceeded, the least loaded replica is chosen. Default: 1.5.
            Needs routing = prefix_aware.
        replica_events: Replica failures: a file (CSV, Parquet, JSON Lines) or JSON list with
            replica, fails_at_s, back_at_s or down_for_s, and kind (crash or drain). Default: none.
        on_failure: Whether requests on a failed replica are retried or lost. Default: retry. Needs
            replica_events.
        retry_after_s: Delay from a failure to the retry [s]. Default: 0. Needs replica_events and
            on_failure other than lost.
        max_replicas: Maximum replicas; enables autoscaling, starting at dp. Default: no
            autoscaling.
        min_replicas: Minimum replicas. Default: 1. Needs max_replicas.
        autoscale_target: Autoscaler target: requests per replica. Needs max_replicas.
        autoscale_metric: Autoscaler metric: requests (running and waiting) or waiting. Default:
            requests. Needs max_replicas.
        autoscale_period_s: Time between autoscaler decisions [s]. Default: 15. Needs max_replicas.
        autoscale_tolerance: Tolerated relative deviation from the target [fraction]. Default: 0.1.
            Needs max_replicas.
        autoscale_down_after_s: Stabilization window for scaling down [s]. Default: 300. Needs
            max_replicas.
        start_up_s: Time from a scale-up decision to the first request [s]. Default: 0. Needs
            max_replicas.
        host_cache_bytes: Host memory per replica for the KV cache, such as 200GB [bytes]. Default:
            none. Needs a language model.
        host_bandwidth: Bandwidth between a GPU and host memory, such as 50GB/s [bytes/s]. Default:
            the GPU's host link. Needs host_cache_bytes or ssd_cache_bytes or remote_cache_bytes.
        ssd_cache_bytes: SSD capacity per replica for the KV cache, such as 4TB [bytes]. Default:
            none. Needs a language model.
        ssd_bandwidth: SSD read bandwidth per replica, such as 7GB/s [bytes/s]. Needs
            ssd_cache_bytes.
        remote_cache_bytes: KV cache pool on other machines that all replicas share, as Mooncake
            Store or an LMCache server, such as 4TB [bytes]. Default: none. Needs a language model.
        remote_bandwidth: Read bandwidth of the whole pool, such as 200GB/s [bytes/s]. Default:
            that of the NICs of each replica. Needs remote_cache_bytes.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs measured_at other than engine, an engine whose front end takes time
            and mode other than disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs measured_at other than engine, an engine whose
            front end takes time and mode other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.

    Returns:
        The simulation at that rate. Its results also contain `max_requests_per_s`, with `_low` and
        `_high` for steps slower or faster by the errors of measured serving runs. If it was stopped
        before the rate was found, `interrupted` is true, `max_requests_per_s` is None, and
        `met_requests_per_s` and `missed_requests_per_s` bracket the rate.

    Raises:
        InfeasibleError: No rate meets the SLOs, or the model does not fit.
        InvalidSpecError: A name or value is invalid; no SLO is given; the traffic is too short, or
            all rates meet the SLOs.
        KeyboardInterrupt: It was stopped before any rate was known to meet them.
        UnsupportedError: There is no model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import max_request_rate
        >>> found = max_request_rate(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     num_requests=200, slo_ttft_s=0.1, slo_percentile=90)
        >>> 5 < found.answer.results["max_requests_per_s"] < 100
        True
    """

def max_sessions(
    *,
    progress: Callable[[float], bool] | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["aggregated", "disaggregated"] = "aggregated",
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests: str | None = None,
    request_format: str = "perfatlas",
    request_rate: float | str | None = None,
    num_requests: int | str | None = None,
    sampling_precision: float | str = 0.05,
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None,
    sessions: int | str | None = None,
    session_start: Literal["beginning", "middle"] | None = None,
    max_pause_s: float | str | None = None,
    burstiness: float | str | None = None,
    ramp_to_rate: float | str | None = None,
    ramp_s: float | str | None = None,
    turns: int | str = 1,
    think_time_s: float | str = 0.0,
    shared_prefix: int | str = 0,
    length_distribution: Literal["fixed", "uniform", "lognormal", "empirical"] | None = None,
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
    remote_cache_bytes: float | str | None = None,
    remote_bandwidth: float | str | None = None,
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
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
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
) -> Simulation:
    """Return the largest number of live sessions that meets the SLOs, and the simulation with it.

    A number meets them if the selected percentile (or the mean) of each metric over all requests is
    within its SLO and no request is rejected. More sessions are taken to make no latency better.

    Args:
        progress: Called regularly; returns True to stop the search.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: continuous batching, or separate prefill and decode pools. Default:
            aggregated.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024. Needs no requests
            and no lengths_from.
        osl: Output tokens per request; the mean if lengths vary. Default: 128. Needs no requests
            and no lengths_from.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder, no requests and no lengths_from.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests: Request trace: CSV, Parquet or JSON Lines with arrival_s, isl and osl.
        request_format: Format of the trace: perfatlas, azure, mooncake, vllm, aiperf, weka, dynamo
            or otel. Default: perfatlas. Needs requests or lengths_from.
        request_rate: Rate of generated requests [1/s]; inf sends all at once.
        num_requests: Requests to generate, at most 20,000,000, or to read from the trace; of a
            pool of sessions, to simulate, session by session. Setting it keeps a fixed sample that
            starts from an empty system. Default: as many as sampling_precision needs; 10 per
            request in flight, at least 1000.
        sampling_precision: Relative half-width of the 90% confidence interval of mean TTFT and
            TPOT that sets the number of requests; twice that for the p99 of TTFT [fraction].
            Default: 0.05. Needs open arrivals at a constant mean rate without num_requests.
        arrival: Arrival process of generated requests. Default: poisson, closed with concurrency.
            Needs (no requests or arrival = closed) and a finite request_rate.
        sessions: Sessions in flight (closed loop): when the last request of a session ends, the
            next session begins. The sub-agents of a session run within it. Default: none. Needs a
            language model.
        session_start: Where the first N sessions begin: at their first request, or at a random
            request between 25% and 75% of the session. Default: middle for sessions of a file,
            beginning for generated ones. Needs sessions.
        max_pause_s: Longest pause between requests of a session of the trace; longer ones are cut
            to it [s]. Default: none. Needs requests.
        burstiness: Burstiness of gamma arrivals (1 = Poisson, below 1 = bursty). Needs no requests
            and arrival = gamma.
        ramp_to_rate: Final rate of ramp arrivals [1/s]. Needs no requests and arrival = ramp.
        ramp_s: Duration of the ramp from request_rate to ramp_to_rate [s]. Needs no requests and
            arrival = ramp.
        turns: Turns per session; each prompt contains the conversation so far, and is sent after
            the previous answer. Default: 1. Needs no requests and a language model.
        think_time_s: Mean think time between an answer and the next turn, exponentially
            distributed [s]. Default: 0. Needs no requests and turns other than 1.
        shared_prefix: Prefix tokens shared by all generated prompts, in addition to isl. Default:
            0. Needs no requests and a language model.
        length_distribution: Distribution of generated lengths. Default: fixed. Needs no requests
            and a language model.
        length_spread: Spread of generated lengths: relative half-width (uniform), or sigma
            (lognormal) [ratio]. Needs no requests and length_distribution = uniform or lognormal.
        lengths_from: Trace from which empirical lengths are drawn. Needs no requests and a
            language model.
        rate_scale: Speed-up factor of trace arrival times. Default: 1. Needs requests.
        length_scale: Scale factor of trace request lengths. Default: 1. Needs requests.
        requests_from_s: Start of the used window of the trace [s]. Default: 0. Needs requests.
        requests_to_s: End of the used window of the trace [s]. Default: the end. Needs requests.
        spread_batches: Spread trace requests with equal timestamps evenly up to the next
            timestamp. Default: false. Needs requests.
        seed: Seed of random draws. Default: 0. Needs something drawn at random.
        num_seeds: Number of simulations, with seeds seed, seed + 1, ...: means with confidence
            intervals. Default: 1. Needs something drawn at random.
        prompt_text: Prompt text: natural language, or random tokens, which tokenize more slowly.
            Default: natural. Needs measured_at other than engine and an engine whose front end
            takes time.
        prefix_caching: Reuse KV blocks of shared prefixes. Default: on if prompts share prefixes.
            Needs a language model.
        scheduler: Scheduling policy. Default: the engine's. Needs a language model.
        chunked_prefill: Split prompts over several steps. Default: the engine's. Needs a language
            model.
        measured_at: Where latencies are measured: at an HTTP client, or inside the engine.
            Default: client.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none. Needs a language model.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none. Needs a
            language model.
        slo_itl_s: SLO: maximum mean time between the streamed chunks of a request: its TPOT, or
            with drafts the time between its steps, each of as many tokens as those of all requests
            on average [s]. Default: none. Needs a language model.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        slo_percentile: Percentile that must meet the SLOs in a search for a rate or for replicas
            [percent]. Default: the mean. Needs --find-rate, --find-replicas or --find-sessions.
        replica_kinds: Heterogeneous replicas behind one router: a JSON list such as [{"system":
            "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file. Default:
            all replicas are identical. Needs a language model.
        routing: Routing policy: round_robin, least_loaded, random, or prefix_aware (the replica
            and the attention-DP rank that hold the longest cached prefix). Default: round_robin.
            Needs several replicas.
        cache_threshold: Minimum cached fraction of a prompt for prefix_aware routing to follow the
            cache [fraction]. Default: 0.3. Needs routing = prefix_aware.
        balance_abs_threshold: Maximum load difference, in requests, for prefix_aware routing; if
            this and balance_rel_threshold are exceeded, the least loaded replica is chosen.
            Default: 64. Needs routing = prefix_aware.
        balance_rel_threshold: Maximum load ratio for prefix_aware routing; if this and
            balance_abs_threshold are exceeded, the least loaded replica is chosen. Default: 1.5.
            Needs routing = prefix_aware.
        replica_events: Replica failures: a file (CSV, Parquet, JSON Lines) or JSON list with
            replica, fails_at_s, back_at_s or down_for_s, and kind (crash or drain). Default: none.
        on_failure: Whether requests on a failed replica are retried or lost. Default: retry. Needs
            replica_events.
        retry_after_s: Delay from a failure to the retry [s]. Default: 0. Needs replica_events and
            on_failure other than lost.
        max_replicas: Maximum replicas; enables autoscaling, starting at dp. Default: no
            autoscaling.
        min_replicas: Minimum replicas. Default: 1. Needs max_replicas.
        autoscale_target: Autoscaler target: requests per replica. Needs max_replicas.
        autoscale_metric: Autoscaler metric: requests (running and waiting) or waiting. Default:
            requests. Needs max_replicas.
        autoscale_period_s: Time between autoscaler decisions [s]. Default: 15. Needs max_replicas.
        autoscale_tolerance: Tolerated relative deviation from the target [fraction]. Default: 0.1.
            Needs max_replicas.
        autoscale_down_after_s: Stabilization window for scaling down [s]. Default: 300. Needs
            max_replicas.
        start_up_s: Time from a scale-up decision to the first request [s]. Default: 0. Needs
            max_replicas.
        host_cache_bytes: Host memory per replica for the KV cache, such as 200GB [bytes]. Default:
            none. Needs a language model.
        host_bandwidth: Bandwidth between a GPU and host memory, such as 50GB/s [bytes/s]. Default:
            the GPU's host link. Needs host_cache_bytes or ssd_cache_bytes or remote_cache_bytes.
        ssd_cache_bytes: SSD capacity per replica for the KV cache, such as 4TB [bytes]. Default:
            none. Needs a language model.
        ssd_bandwidth: SSD read bandwidth per replica, such as 7GB/s [bytes/s]. Needs
            ssd_cache_bytes.
        remote_cache_bytes: KV cache pool on other machines that all replicas share, as Mooncake
            Store or an LMCache server, such as 4TB [bytes]. Default: none. Needs a language model.
        remote_bandwidth: Read bandwidth of the whole pool, such as 200GB/s [bytes/s]. Default:
            that of the NICs of each replica. Needs remote_cache_bytes.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs measured_at other than engine, an engine whose front end takes time
            and mode other than disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs measured_at other than engine, an engine whose
            front end takes time and mode other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.

    Returns:
        The simulation with that number. Its results also contain `max_sessions` and
        `max_sessions_per_gpu`, the former with `_low` and `_high` for steps slower or faster by the
        errors of measured serving runs; 0 where one session misses the SLOs.

    Raises:
        InfeasibleError: One session misses the SLOs, or the model does not fit.
        InvalidSpecError: A name or value is invalid, no SLO is given, there are no sessions, or all
            of them at once meet the SLOs.
        KeyboardInterrupt: It was stopped before the number was known.
        UnsupportedError: There is no model, data or scheduler for the combination.
    """

def required_replicas(
    *,
    progress: Callable[[float], bool] | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["aggregated", "disaggregated"] = "aggregated",
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests: str | None = None,
    request_format: str = "perfatlas",
    request_rate: float | str | None = None,
    num_requests: int | str | None = None,
    sampling_precision: float | str = 0.05,
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None,
    sessions: int | str | None = None,
    session_start: Literal["beginning", "middle"] | None = None,
    max_pause_s: float | str | None = None,
    burstiness: float | str | None = None,
    ramp_to_rate: float | str | None = None,
    ramp_s: float | str | None = None,
    turns: int | str = 1,
    think_time_s: float | str = 0.0,
    shared_prefix: int | str = 0,
    length_distribution: Literal["fixed", "uniform", "lognormal", "empirical"] | None = None,
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
    remote_cache_bytes: float | str | None = None,
    remote_bandwidth: float | str | None = None,
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
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
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
) -> Simulation:
    """Return the smallest number of replicas that meets the SLOs, and the simulation with it.

    A number of replicas meets them if the mean (or the selected percentile) of each metric is
    within its SLO with 95% confidence in the steady state of the traffic, and no request is
    rejected. Runs are extended until this is known, up to 600,000 requests. The search starts at
    the number whose capacity exceeds the request rate. Requests of a file, a closed loop, or a
    fixed `num_requests` are judged by that sample.

    In mode disaggregated, the numbers of prefill and decode workers that need the fewest GPUs are
    searched, on the assumption that more workers of either pool do not make latencies worse.

    Args:
        progress: Called regularly; returns True to stop the search.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: continuous batching, or separate prefill and decode pools. Default:
            aggregated.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024. Needs no requests
            and no lengths_from.
        osl: Output tokens per request; the mean if lengths vary. Default: 128. Needs no requests
            and no lengths_from.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder, no requests and no lengths_from.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests: Request trace: CSV, Parquet or JSON Lines with arrival_s, isl and osl.
        request_format: Format of the trace: perfatlas, azure, mooncake, vllm, aiperf, weka, dynamo
            or otel. Default: perfatlas. Needs requests or lengths_from.
        request_rate: Rate of generated requests [1/s]; inf sends all at once.
        num_requests: Requests to generate, at most 20,000,000, or to read from the trace; of a
            pool of sessions, to simulate, session by session. Setting it keeps a fixed sample that
            starts from an empty system. Default: as many as sampling_precision needs; 10 per
            request in flight, at least 1000.
        sampling_precision: Relative half-width of the 90% confidence interval of mean TTFT and
            TPOT that sets the number of requests; twice that for the p99 of TTFT [fraction].
            Default: 0.05. Needs open arrivals at a constant mean rate without num_requests.
        arrival: Arrival process of generated requests. Default: poisson, closed with concurrency.
            Needs (no requests or arrival = closed) and a finite request_rate.
        sessions: Sessions in flight (closed loop): when the last request of a session ends, the
            next session begins. The sub-agents of a session run within it. Default: none. Needs a
            language model.
        session_start: Where the first N sessions begin: at their first request, or at a random
            request between 25% and 75% of the session. Default: middle for sessions of a file,
            beginning for generated ones. Needs sessions.
        max_pause_s: Longest pause between requests of a session of the trace; longer ones are cut
            to it [s]. Default: none. Needs requests.
        burstiness: Burstiness of gamma arrivals (1 = Poisson, below 1 = bursty). Needs no requests
            and arrival = gamma.
        ramp_to_rate: Final rate of ramp arrivals [1/s]. Needs no requests and arrival = ramp.
        ramp_s: Duration of the ramp from request_rate to ramp_to_rate [s]. Needs no requests and
            arrival = ramp.
        turns: Turns per session; each prompt contains the conversation so far, and is sent after
            the previous answer. Default: 1. Needs no requests and a language model.
        think_time_s: Mean think time between an answer and the next turn, exponentially
            distributed [s]. Default: 0. Needs no requests and turns other than 1.
        shared_prefix: Prefix tokens shared by all generated prompts, in addition to isl. Default:
            0. Needs no requests and a language model.
        length_distribution: Distribution of generated lengths. Default: fixed. Needs no requests
            and a language model.
        length_spread: Spread of generated lengths: relative half-width (uniform), or sigma
            (lognormal) [ratio]. Needs no requests and length_distribution = uniform or lognormal.
        lengths_from: Trace from which empirical lengths are drawn. Needs no requests and a
            language model.
        rate_scale: Speed-up factor of trace arrival times. Default: 1. Needs requests.
        length_scale: Scale factor of trace request lengths. Default: 1. Needs requests.
        requests_from_s: Start of the used window of the trace [s]. Default: 0. Needs requests.
        requests_to_s: End of the used window of the trace [s]. Default: the end. Needs requests.
        spread_batches: Spread trace requests with equal timestamps evenly up to the next
            timestamp. Default: false. Needs requests.
        seed: Seed of random draws. Default: 0. Needs something drawn at random.
        num_seeds: Number of simulations, with seeds seed, seed + 1, ...: means with confidence
            intervals. Default: 1. Needs something drawn at random.
        prompt_text: Prompt text: natural language, or random tokens, which tokenize more slowly.
            Default: natural. Needs measured_at other than engine and an engine whose front end
            takes time.
        prefix_caching: Reuse KV blocks of shared prefixes. Default: on if prompts share prefixes.
            Needs a language model.
        scheduler: Scheduling policy. Default: the engine's. Needs a language model.
        chunked_prefill: Split prompts over several steps. Default: the engine's. Needs a language
            model.
        measured_at: Where latencies are measured: at an HTTP client, or inside the engine.
            Default: client.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none. Needs a language model.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none. Needs a
            language model.
        slo_itl_s: SLO: maximum mean time between the streamed chunks of a request: its TPOT, or
            with drafts the time between its steps, each of as many tokens as those of all requests
            on average [s]. Default: none. Needs a language model.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        slo_percentile: Percentile that must meet the SLOs in a search for a rate or for replicas
            [percent]. Default: the mean. Needs --find-rate, --find-replicas or --find-sessions.
        replica_kinds: Heterogeneous replicas behind one router: a JSON list such as [{"system":
            "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file. Default:
            all replicas are identical. Needs a language model.
        routing: Routing policy: round_robin, least_loaded, random, or prefix_aware (the replica
            and the attention-DP rank that hold the longest cached prefix). Default: round_robin.
            Needs several replicas.
        cache_threshold: Minimum cached fraction of a prompt for prefix_aware routing to follow the
            cache [fraction]. Default: 0.3. Needs routing = prefix_aware.
        balance_abs_threshold: Maximum load difference, in requests, for prefix_aware routing; if
            this and balance_rel_threshold are exceeded, the least loaded replica is chosen.
            Default: 64. Needs routing = prefix_aware.
        balance_rel_threshold: Maximum load ratio for prefix_aware routing; if this and
            balance_abs_threshold are exceeded, the least loaded replica is chosen. Default: 1.5.
            Needs routing = prefix_aware.
        replica_events: Replica failures: a file (CSV, Parquet, JSON Lines) or JSON list with
            replica, fails_at_s, back_at_s or down_for_s, and kind (crash or drain). Default: none.
        on_failure: Whether requests on a failed replica are retried or lost. Default: retry. Needs
            replica_events.
        retry_after_s: Delay from a failure to the retry [s]. Default: 0. Needs replica_events and
            on_failure other than lost.
        max_replicas: Maximum replicas; enables autoscaling, starting at dp. Default: no
            autoscaling.
        min_replicas: Minimum replicas. Default: 1. Needs max_replicas.
        autoscale_target: Autoscaler target: requests per replica. Needs max_replicas.
        autoscale_metric: Autoscaler metric: requests (running and waiting) or waiting. Default:
            requests. Needs max_replicas.
        autoscale_period_s: Time between autoscaler decisions [s]. Default: 15. Needs max_replicas.
        autoscale_tolerance: Tolerated relative deviation from the target [fraction]. Default: 0.1.
            Needs max_replicas.
        autoscale_down_after_s: Stabilization window for scaling down [s]. Default: 300. Needs
            max_replicas.
        start_up_s: Time from a scale-up decision to the first request [s]. Default: 0. Needs
            max_replicas.
        host_cache_bytes: Host memory per replica for the KV cache, such as 200GB [bytes]. Default:
            none. Needs a language model.
        host_bandwidth: Bandwidth between a GPU and host memory, such as 50GB/s [bytes/s]. Default:
            the GPU's host link. Needs host_cache_bytes or ssd_cache_bytes or remote_cache_bytes.
        ssd_cache_bytes: SSD capacity per replica for the KV cache, such as 4TB [bytes]. Default:
            none. Needs a language model.
        ssd_bandwidth: SSD read bandwidth per replica, such as 7GB/s [bytes/s]. Needs
            ssd_cache_bytes.
        remote_cache_bytes: KV cache pool on other machines that all replicas share, as Mooncake
            Store or an LMCache server, such as 4TB [bytes]. Default: none. Needs a language model.
        remote_bandwidth: Read bandwidth of the whole pool, such as 200GB/s [bytes/s]. Default:
            that of the NICs of each replica. Needs remote_cache_bytes.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs measured_at other than engine, an engine whose front end takes time
            and mode other than disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs measured_at other than engine, an engine whose
            front end takes time and mode other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.

    Returns:
        The simulation with that number. Its results also contain `required_replicas`, or
        `required_prefill_workers` and `required_decode_workers`, with `_low` and `_high` for steps
        faster or slower by the errors of measured serving runs; None where no number meets them.

    Raises:
        InfeasibleError: No number meets the SLOs, or the model does not fit.
        InvalidSpecError: A name or value is invalid, or no SLO is given.
        KeyboardInterrupt: It was stopped before the number was known.
        UnsupportedError: There is no model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import required_replicas
        >>> found = required_replicas(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     isl=256, osl=8, request_rate=900, slo_ttft_s=0.1)
        >>> 2 <= found.answer.results["required_replicas"] <= 20
        True
    """

def search(
    *,
    progress: Callable[[str], None] | None = None,
    model: str,
    system: str,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["static", "aggregated", "disaggregated"] = "aggregated",
    systems: object = None,
    max_gpus: int | str | None = None,
    formats: object = None,
    kv_formats: object = None,
    choices: object = None,
    objective: str = "output_tokens_per_s_per_gpu",
    slo_ttft_s: float | str | None = None,
    slo_tpot_s: float | str | None = None,
    slo_itl_s: float | str | None = None,
    slo_request_latency_s: float | str | None = None,
    slo_percentile: float | str | None = None,
    max_usd_per_million_tokens: float | str | None = None,
    max_accuracy_loss: float | str | None = None,
    max_deployment_power_w: float | str | None = None,
    solve: object = None,
    max_power_w: float | str | None = None,
    max_die_area_mm2: float | str | None = None,
    request_rate: float | str | None = None,
    availability: float | str | None = None,
    node_mtbf_s: float | str | None = None,
    repair_s: float | str | None = None,
    min_slo_probability: float | str = 0.8,
    emit: Literal["vllm", "sglang", "trtllm", "dynamo"] | None = None,
    num_simulated: int | str = 20,
    num_plans: int | str = 5,
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    request_mix: object = None,
    lengths_from: str | None = None,
    request_format: str = "perfatlas",
    routing: Literal["round_robin", "prefix_aware"] = "round_robin",
    prefix_caching: bool | None = None,
    prefix: int | str = 0,
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
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
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    usd_per_gpu_hour: object = None,
    quantization_method: Literal[
        "rtn", "tuned_rtn", "gptq", "awq", "autoround", "smoothquant", "rotation", "qat", "ptq"
    ]
    | None = None,
    benchmark: str | None = None,
) -> SearchAnswer:
    """Return the best deployments of a model on a number of GPUs.

    Args:
        progress: Receives lines about the best plan so far and each simulated plan.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode of the deployments: one batch, continuous batching, or separate prefill
            and decode pools. Default: aggregated.
        systems: Further systems to search besides system, such as b200_sxm,gb200; without system,
            all that are searched. Default: none.
        max_gpus: Maximum GPUs of a deployment, instead of gpus, up to 4096: as many replicas as
            fit, or as few as serve request_rate. Default: gpus.
        formats: Number formats of weights and matrix products to search, such as bf16,fp8.
            Default: format. Needs no format and no gemm_format.
        kv_formats: Number formats of the KV cache to search, such as bf16,fp8. Default: kv_format.
            Needs a language model and no kv_format.
        choices: Values to search of other fields, such as
            tp=2:4,engine=vllm:sglang,redundant_experts=0:32: sizes of the plan, engine,
            expert_exchange, batch_overlap, redundant_experts, weight_offload, kv_offload,
            max_num_batched_tokens, speculative_depth. Default: all sizes and the values that are
            set.
        objective: Metric that ranks the deployments that meet all SLOs:
            output_tokens_per_s_per_gpu, gpus, request_latency_s, usd_per_million_output_tokens,
            energy_per_output_token_j or accuracy_delta; two to four of them, divided by commas,
            for their Pareto set. Default: output_tokens_per_s_per_gpu.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none. Needs a language model.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none. Needs a
            language model.
        slo_itl_s: SLO: maximum mean time between output tokens of a request, its TPOT, with drafts
            too [s]. Default: none. Needs a language model.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        slo_percentile: Percentile of requests that must meet the latency SLOs when the best plans
            are simulated; closed forms, which have no percentiles, test the mean [percent].
            Default: the mean. Needs (slo_ttft_s or slo_tpot_s or slo_itl_s or
            slo_request_latency_s), mode other than static and num_simulated above 0.
        max_usd_per_million_tokens: Limit of the cost of a million output tokens [USD]. Default:
            none. Needs a language model.
        max_accuracy_loss: Limit of the points that number formats lose of benchmark, against bf16
            [points]. Default: none. Needs a language model.
        max_deployment_power_w: Limit of the mean AC power of the nodes of the serving replicas
            [W], such as 100kW; each GPU counts with its share of its node. Default: none. Needs a
            language model and mode = static or aggregated.
        solve: Fields of the device to solve: the cheapest machine that meets the SLOs, with a
            range each if wanted, such as device.memory.bandwidth=2TB/s:16TB/s,device.l2; device.*
            for memory, L2 and SMs, and device.dies=1:4 for one large die or chiplets. Default: the
            machine is that of system. Needs a language model.
        max_power_w: Limit of the mean power of a GPU board of the solved machine [W]. Default:
            none. Needs solve.
        max_die_area_mm2: Limit of the area of a die of the solved machine [mm2]. Default: the
            largest field of a scanner. Needs solve.
        request_rate: Requests per second that the deployment must serve [1/s]. Default: none.
        availability: Fraction of time in which enough replicas for request_rate must work, such as
            0.999: adds spare replicas, with node_mtbf_s and repair_s [fraction]. Default: no spare
            replicas. Needs objective = gpus and mode = aggregated.
        node_mtbf_s: Mean time between failures of one node [s]. Needs availability.
        repair_s: Mean time to repair a failed node [s]. Needs availability.
        min_slo_probability: Least probability with which a deployment must meet all SLOs and the
            request rate, by the intervals of its predictions; 0.5 tests the predictions themselves
            [fraction]. Default: 0.8. Needs slo_ttft_s or slo_tpot_s or slo_itl_s or
            slo_request_latency_s or max_usd_per_million_tokens or max_accuracy_loss or
            max_deployment_power_w or request_rate.
        emit: Print the commands that launch the best plan, with the arguments that the
            documentation of this engine names; dynamo launches vLLM or TensorRT-LLM workers.
            Default: none. Needs a language model.
        num_simulated: Number of the best plans by closed forms that the serving simulator scores
            again, in modes aggregated and disaggregated; 0 for closed forms alone. Default: 20.
        num_plans: Number of plans in the answer, best first. Default: 5.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024. Needs no
            lengths_from.
        osl: Output tokens per request; the mean if lengths vary. Default: 128. Needs no
            lengths_from.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder, no lengths_from and no request_mix.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        request_mix: Classes of requests as input tokens:output tokens:weight, such as
            4000:500:0.7,500:100:0.3, instead of isl and osl. Default: isl and osl. Needs a
            language model, mode = aggregated or disaggregated and no lengths_from.
        lengths_from: Trace whose lengths of prompts and outputs the requests have, instead of isl
            and osl; its arrivals are not used. Default: isl and osl. Needs a language model and
            mode = aggregated or disaggregated.
        request_format: Format of the trace: perfatlas, azure, mooncake, vllm, aiperf, weka, dynamo
            or otel. Default: perfatlas. Needs lengths_from.
        routing: Which prefix cache a request of a trace meets: round_robin, that of each replica
            and attention-DP rank in turn, or prefix_aware, as if all were one cache. Default:
            round_robin. Needs lengths_from and mode = aggregated.
        prefix_caching: Reuse KV blocks of the cached prefix of prompts. Default: both are
            searched. Needs prefix.
        prefix: Cached prefix tokens, included in isl. Default: 0.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or choices.
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs an engine whose front end takes time and mode other than
            disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs an engine whose front end takes time and mode
            other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        quantization_method: Quantization method: rtn (round to nearest), tuned_rtn (searched
            scales), gptq, awq, autoround, smoothquant, rotation, qat (training), ptq (a vendor's
            calibrated checkpoint). Default: ptq. Needs benchmark.
        benchmark: Benchmark whose change by the number formats is predicted as accuracy_delta,
            such as mmlu, gsm8k, gpqa, humaneval or ruler. Default: mmlu where accuracy is asked
            for.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        InfeasibleError: No deployment fits, or none meets the SLOs; the message has the nearest.
        UnsupportedError: There is no model or data for the combination.

    Example:
        >>> from perfatlas.verbs.search import search
        >>> answer = search(model="meta-llama/Llama-3.1-8B", system="h200_sxm", gpus=2, isl=1024,
        ...     osl=128, slo_tpot_s=0.02)
        >>> best = answer.results["plans"][0]
        >>> best["gpus"], best["tpot_s"] < 0.02
        (2, True)
    """

def search_training(
    *,
    progress: Callable[[int, int], None] | None = None,
    model: str,
    system: str,
    engine: str = "megatron",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    max_gpus: int | str | None = None,
    objective: Literal[
        "step_time_s", "tokens_per_s_per_gpu", "gpus", "effective_step_time_s"
    ] = "step_time_s",
    max_step_time_s: float | str | None = None,
    max_job_power_w: float | str | None = None,
    num_layouts: int | str = 5,
    sequence_length: int | str = 4096,
    global_batch: int | str,
    micro_batch: int | str = 1,
    gpus: int | str | None = None,
    tp: int | str = 1,
    pp: int | str = 1,
    cp: int | str = 1,
    dp: int | str | None = None,
    ep: int | str = 1,
    expert_tp: int | str = 1,
    vpp: int | str | None = None,
    pipeline_schedule: Literal["gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe"]
    | None = None,
    expert_overlap: bool = False,
    dispatcher: Literal["alltoall", "deepep"] | None = None,
    cuda_graphs: Literal["none", "attention", "full"] = "none",
    fused_experts: bool = False,
    sequence_parallel: bool | None = None,
    zero: Literal["0", "1", "2", "3", "fsdp2"] | None = None,
    expert_distribution: str = "uniform",
    format: str = "bf16",
    recompute: Literal["none", "selective", "full"] = "none",
    optimizer: Literal["adamw", "sgd", "muon"] = "adamw",
    gradient_format: Literal["fp32", "bf16"] | None = None,
    node_mtbf_s: float | str | None = None,
    restart_s: float | str | None = None,
    checkpoint_write_s: float | str | None = None,
    lora_rank: int | str | None = None,
    lora_targets: Literal["all", "attention", "qkv"] = "all",
    recompute_modules: str | None = None,
    mtp_depth: int | str = 0,
    packed_length: int | str | None = None,
    moment_format: Literal["fp32", "bf16", "fp8"] | None = None,
    fp8_parameter_gather: bool = False,
    fused_weight_gradient: bool = True,
    sharding_replicas: int | str = 1,
    sites: int | str = 1,
    site_bandwidth: float | str | None = None,
    site_round_trip_s: float | str | None = None,
    tensor_overlap: bool | None = None,
    dispatch_format: Literal["bf16", "fp8_block"] | None = None,
    cp_communication: Literal["ring", "all_gather"] = "ring",
    activation_offload: float | str | None = None,
    optimizer_offload: float | str | None = None,
    offload_bandwidth: float | str | None = None,
    input_cores: int | str | None = None,
    input_rate: float | str | None = None,
) -> TrainingSearch:
    """Return the best layouts of a training job.

    Args:
        progress: Called with the layouts done and the total.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Training engine: megatron, torchtitan, automodel, fsdp, hai_llm (DeepSeek's),
            maxtext (TPUs), generic (none of these: a wider interval) or ideal (no host time),
            optionally with a version, as in megatron@26.04. Graphs of operators: inductor
            (torch.compile, the default on GPUs), xla (the default on TPUs), pytorch (eager),
            pytorch_channels_last or ideal. Default: megatron.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        max_gpus: Maximum GPUs of the job, instead of gpus: powers of two up to it are searched.
            Default: gpus.
        objective: Metric that ranks the layouts: step time, tokens/s per GPU, fewest GPUs, or step
            time over goodput (effective_step_time_s). Default: step_time_s.
        max_step_time_s: Maximum step time of a layout [s]. Default: none.
        max_job_power_w: Limit of the mean AC power of the nodes of the job [W], such as 2MW.
            Default: none.
        num_layouts: Number of layouts in the answer, best first, with different parallel sizes.
            Default: 5.
        sequence_length: Tokens per sequence. Default: 4096.
        global_batch: Sequences, or items of a graph of operators, per step over all GPUs.
        micro_batch: Sequences, or items of a graph of operators, per forward pass of a rank.
            Default: searched.
        gpus: Total GPUs: tp x pp x cp x dp. Default: max_gpus.
        tp: Tensor-parallel size. Default: searched.
        pp: Pipeline-parallel size. Default: searched.
        cp: Context-parallel size. Default: searched.
        dp: Data-parallel size. Default: gpus / (tp x pp x cp).
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; ep x expert_tp divides tp x cp x dp, and is dp of tables. Default: searched.
            Needs an MoE model, or a graph with embedding tables.
        expert_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding
            tables. Default: searched. Needs an MoE model, or a graph with embedding tables.
        vpp: Chunks of layers per stage of an interleaved pipeline. Default: searched.
        pipeline_schedule: Order of forward and backward passes. Default: those of the engine are
            searched.
        expert_overlap: Run forward passes beside backward passes of other micro-batches, so that
            computation hides the transfers of tokens to experts; dualpipe always does. Default:
            searched. Needs an MoE model.
        dispatcher: How tokens travel to experts: alltoall (a copy per expert) or deepep (one per
            node, which forwards it; also HybridEP). Default: the engine's. Needs an MoE model.
        cuda_graphs: What runs as CUDA graphs: none, attention with the router (attention), or the
            whole step (full). Steps of small MoE layers wait for the host without them. Default:
            none. Needs an MoE model.
        fused_experts: Products of experts also activate and quantize what they write, without
            kernels of their own. Default: false. Needs an MoE model.
        sequence_parallel: Divide the tokens of norms and residuals over the tensor-parallel ranks.
            Default: true if tp > 1. Needs tp other than 1.
        zero: What data-parallel ranks shard: 0 nothing, 1 optimizer states, 2 also gradients, 3
            (or fsdp2) also weights. Default: searched.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        format: Number format of matrix products: bf16, fp8 (fp8_dynamic: current scaling),
            fp8_static (delayed scaling), fp8_block, mxfp8 or nvfp4. Default: bf16.
        recompute: Activations that the backward pass recomputes: none, those of attention
            (selective), or those of whole layers (full). Default: searched.
        optimizer: Optimizer; muon updates the embedding and the head with AdamW. Default: adamw.
        gradient_format: Number format in which gradients are accumulated and reduced. Default:
            that of the engine's recipes for the model, else the engine's.
        node_mtbf_s: Mean time between failures of one node [s]. Needs objective =
            effective_step_time_s.
        restart_s: Restart time from detection to resumed work; a failure during restart starts it
            over [s]. Needs objective = effective_step_time_s.
        checkpoint_write_s: Blocking checkpoint write time [s]. Needs objective =
            effective_step_time_s.
        lora_rank: Rank of LoRA adapters; all other weights are frozen. Default: none: all weights
            are trained.
        lora_targets: Linear layers with adapters: all outside routed experts, those of attention,
            or the projections of queries, keys and values (qkv). Default: all. Needs lora_rank.
        recompute_modules: Modules that recompute = selective runs again, separated by commas:
            core_attn, layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts. Default: the
            engine's. Needs recompute = selective.
        mtp_depth: Multi-token-prediction layers, on the last pipeline stage. Default: 0.
        packed_length: Tokens of the documents packed into a sequence; attention does not cross
            them. For documents of several lengths, the mean over tokens. Default: the sequence
            length.
        moment_format: Number format of the optimizer's moments. Default: the engine's.
        fp8_parameter_gather: Store and gather the weights of layers in FP8, with lora_rank the
            frozen ones; needs an FP8 format. Default: false.
        fused_weight_gradient: Products of weight gradients add to the accumulated gradients
            themselves, instead of a kernel per micro-batch. Default: true. Needs no lora_rank.
        sharding_replicas: Groups of data-parallel ranks that hold the same shards of zero (hybrid
            sharding): shards stay inside a group, and gradients are also reduced across groups.
            Default: 1.
        sites: Data centers over which data-parallel ranks are spread; shards of zero stay inside
            one, and gradients are also reduced between them. Default: 1.
        site_bandwidth: Rate of the link of a site to the others, per direction, such as 100GB/s
            [bytes/s]. Default: none; needed with sites. Needs sites other than 1.
        site_round_trip_s: Round-trip time between two sites [s]. Default: none; needed with sites.
            Needs sites other than 1.
        tensor_overlap: Run transfers of tensor parallelism in tiles beside the products they
            belong to (asynchronous TP); needs tp > 1. Default: the engine's.
        dispatch_format: Number format in which tokens travel to experts; they come back in bf16.
            Default: the engine's. Needs an MoE model.
        cp_communication: How keys and values reach context-parallel ranks: around a ring beside
            attention (ring), or gathered before it (all_gather), as Llama 3 was trained. Default:
            ring.
        activation_offload: Share of the activations of layers that is moved to the memory of the
            host until their backward pass [fraction]. Default: 0.
        optimizer_offload: Share of the optimizer states on the host, which updates their weights
            [fraction]. Default: 0.
        offload_bandwidth: Rate at which the host reads and writes offloaded optimizer states, per
            GPU: its memory bandwidth over the GPUs, or that of NVMe [bytes/s]. Default: none;
            needed with optimizer_offload. Needs optimizer_offload.
        input_cores: CPU cores per GPU that decode and augment the items of the next steps.
            Default: none: the input never limits a step. Needs a network that is a graph of
            operators.
        input_rate: Items that one of them decodes and augments [items/s]. Default: that at which
            torchvision decodes JPEG images of ImageNet. Needs input_cores.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect, or no layout keeps the rules.
        InfeasibleError: No layout fits in memory, or none is fast enough; the message has the
            nearest.
        UnsupportedError: There is no data for the format, the schedule or the tier.

    Example:
        >>> from perfatlas.verbs.train import search_training
        >>> answer = search_training(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8,
        ...     global_batch=64)
        >>> best = answer.results["layouts"][0]
        >>> best["gpus"], best["memory_total_bytes"] < 85e9
        (8, True)
    """

def simulate(
    *,
    progress: Callable[[float], bool] | None = None,
    router: Callable[[ArrivingRequest, ReplicaLoads], int] | None = None,
    model: str,
    system: str | None = None,
    engine: str = "vllm",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    power_cap_w: float | str | None = None,
    input_distribution: Literal["random", "zeros"] = "random",
    mode: Literal["aggregated", "disaggregated"] = "aggregated",
    concurrency: int | str | None = None,
    isl: int | str = 1024,
    osl: int | str = 128,
    images: int | str = 0,
    image_height: int | str = 1024,
    image_width: int | str = 1024,
    requests: str | None = None,
    request_format: str = "perfatlas",
    request_rate: float | str | None = None,
    num_requests: int | str | None = None,
    sampling_precision: float | str = 0.05,
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None,
    sessions: int | str | None = None,
    session_start: Literal["beginning", "middle"] | None = None,
    max_pause_s: float | str | None = None,
    burstiness: float | str | None = None,
    ramp_to_rate: float | str | None = None,
    ramp_s: float | str | None = None,
    turns: int | str = 1,
    think_time_s: float | str = 0.0,
    shared_prefix: int | str = 0,
    length_distribution: Literal["fixed", "uniform", "lognormal", "empirical"] | None = None,
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
    remote_cache_bytes: float | str | None = None,
    remote_bandwidth: float | str | None = None,
    gpus: int | str | None = None,
    tp: int | str | None = None,
    pp: int | str = 1,
    cp: int | str = 1,
    ring_degree: int | str = 1,
    guidance_degree: int | str = 1,
    dcp: int | str = 1,
    attention_dp: int | str = 1,
    ep: int | str | None = None,
    moe_tp: int | str | None = None,
    dp: int | str | None = None,
    expert_distribution: str = "uniform",
    expert_loads: str | None = None,
    redundant_experts: int | str = 0,
    eplb_step_interval: int | str | None = None,
    expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    batch_overlap: Literal["none", "two_batch", "single_batch"] | None = None,
    sampling_penalties: bool = False,
    weight_offload: float | str = 0.0,
    kv_offload: float | str = 0.0,
    offload_prefetch: bool = False,
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
    transfer_buffer_bytes: float | str | None = None,
    stream_interval: int | str | None = None,
    server_processes: int | str | None = None,
    speculative_depth: int | str = 0,
    speculative_acceptance: float | str | None = None,
    acceptance_by_position: object = None,
    mixed_chunk: bool | None = None,
    scheduler_recv_interval: int | str | None = None,
    rank_balance_iters: int | str | None = None,
    prefill_workers: int | str = 1,
    prefill_batch: int | str = 1,
    decode_workers: int | str = 1,
    decode_batch: int | str | None = None,
    prefill_system: str | None = None,
    decode_system: str | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    prefill_tp: int | str | None = None,
    decode_tp: int | str | None = None,
    prefill_pp: int | str | None = None,
    decode_pp: int | str | None = None,
    prefill_cp: int | str | None = None,
    decode_dcp: int | str | None = None,
    prefill_attention_dp: int | str | None = None,
    decode_attention_dp: int | str | None = None,
    prefill_ep: int | str | None = None,
    decode_ep: int | str | None = None,
    prefill_moe_tp: int | str | None = None,
    decode_moe_tp: int | str | None = None,
    prefill_redundant_experts: int | str | None = None,
    decode_redundant_experts: int | str | None = None,
    prefill_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    decode_expert_exchange: Literal[
        "all_gather_reduce_scatter",
        "all_to_all",
        "deepep",
        "deepep_normal",
        "deepep_low_latency",
        "quantized_all_gather",
    ]
    | None = None,
    prefill_weight_offload: float | str | None = None,
    decode_weight_offload: float | str | None = None,
    prefill_kv_offload: float | str | None = None,
    decode_kv_offload: float | str | None = None,
    prefill_format: str | None = None,
    decode_format: str | None = None,
    feed_forward_system: str | None = None,
    feed_forward_engine: str | None = None,
    feed_forward_tp: int | str = 1,
    feed_forward_pp: int | str = 1,
    feed_forward_ep: int | str | None = None,
    micro_batches: int | str = 1,
    usd_per_gpu_hour: object = None,
    node_power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
) -> Simulation:
    """Simulate traffic on an inference deployment and return the results.

    Args:
        router: Called for each arriving request instead of `routing`, with the request and the
            loads of all replicas (`ArrivingRequest` and `ReplicaLoads` of perfatlas.serving.run);
            returns the index of a replica in service, or -1 to reject the request. Prefill workers
            are those that are chosen among two pools. A router that remembers requests is an object
            with `__call__`, of which each run (one per seed and per end of the interval) gets a
            copy; what a function keeps elsewhere is shared by all runs. A call costs some 20 us.
        progress: Called regularly with the fraction of the work done; returns True to stop the
            simulation and keep the results so far.
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Inference engine: vllm, sglang, trtllm or ideal (no host time), optionally with a
            version, as in vllm@0.24, or the path of a TOML profile. Default: vllm.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        input_distribution: Values of all tensors: random, or zeros as in some benchmarks, which
            take less energy and let a power-limited GPU run at a higher clock. Default: random.
        mode: Serving mode: continuous batching, or separate prefill and decode pools. Default:
            aggregated.
        concurrency: Requests in flight over the whole deployment (closed loop). Default: dp;
            search tries all loads.
        isl: Input tokens per request; the mean if lengths vary. Default: 1024. Needs no requests
            and no lengths_from.
        osl: Output tokens per request; the mean if lengths vary. Default: 128. Needs no requests
            and no lengths_from.
        images: Images of each request, whose tokens are added to the prompt. A vision encoder runs
            over all of them before its prefill; cached tokens are of text. Default: 0. Needs a
            model with a vision encoder, no requests and no lengths_from.
        image_height: Height of an image [pixels]. Default: 1024. Needs images.
        image_width: Width of an image [pixels]. Default: 1024. Needs images.
        requests: Request trace: CSV, Parquet or JSON Lines with arrival_s, isl and osl.
        request_format: Format of the trace: perfatlas, azure, mooncake, vllm, aiperf, weka, dynamo
            or otel. Default: perfatlas. Needs requests or lengths_from.
        request_rate: Rate of generated requests [1/s]; inf sends all at once.
        num_requests: Requests to generate, at most 20,000,000, or to read from the trace; of a
            pool of sessions, to simulate, session by session. Setting it keeps a fixed sample that
            starts from an empty system. Default: as many as sampling_precision needs; 10 per
            request in flight, at least 1000.
        sampling_precision: Relative half-width of the 90% confidence interval of mean TTFT and
            TPOT that sets the number of requests; twice that for the p99 of TTFT [fraction].
            Default: 0.05. Needs open arrivals at a constant mean rate without num_requests.
        arrival: Arrival process of generated requests. Default: poisson, closed with concurrency.
            Needs (no requests or arrival = closed) and a finite request_rate.
        sessions: Sessions in flight (closed loop): when the last request of a session ends, the
            next session begins. The sub-agents of a session run within it. Default: none. Needs a
            language model.
        session_start: Where the first N sessions begin: at their first request, or at a random
            request between 25% and 75% of the session. Default: middle for sessions of a file,
            beginning for generated ones. Needs sessions.
        max_pause_s: Longest pause between requests of a session of the trace; longer ones are cut
            to it [s]. Default: none. Needs requests.
        burstiness: Burstiness of gamma arrivals (1 = Poisson, below 1 = bursty). Needs no requests
            and arrival = gamma.
        ramp_to_rate: Final rate of ramp arrivals [1/s]. Needs no requests and arrival = ramp.
        ramp_s: Duration of the ramp from request_rate to ramp_to_rate [s]. Needs no requests and
            arrival = ramp.
        turns: Turns per session; each prompt contains the conversation so far, and is sent after
            the previous answer. Default: 1. Needs no requests and a language model.
        think_time_s: Mean think time between an answer and the next turn, exponentially
            distributed [s]. Default: 0. Needs no requests and turns other than 1.
        shared_prefix: Prefix tokens shared by all generated prompts, in addition to isl. Default:
            0. Needs no requests and a language model.
        length_distribution: Distribution of generated lengths. Default: fixed. Needs no requests
            and a language model.
        length_spread: Spread of generated lengths: relative half-width (uniform), or sigma
            (lognormal) [ratio]. Needs no requests and length_distribution = uniform or lognormal.
        lengths_from: Trace from which empirical lengths are drawn. Needs no requests and a
            language model.
        rate_scale: Speed-up factor of trace arrival times. Default: 1. Needs requests.
        length_scale: Scale factor of trace request lengths. Default: 1. Needs requests.
        requests_from_s: Start of the used window of the trace [s]. Default: 0. Needs requests.
        requests_to_s: End of the used window of the trace [s]. Default: the end. Needs requests.
        spread_batches: Spread trace requests with equal timestamps evenly up to the next
            timestamp. Default: false. Needs requests.
        seed: Seed of random draws. Default: 0. Needs something drawn at random.
        num_seeds: Number of simulations, with seeds seed, seed + 1, ...: means with confidence
            intervals. Default: 1. Needs something drawn at random.
        prompt_text: Prompt text: natural language, or random tokens, which tokenize more slowly.
            Default: natural. Needs measured_at other than engine and an engine whose front end
            takes time.
        prefix_caching: Reuse KV blocks of shared prefixes. Default: on if prompts share prefixes.
            Needs a language model.
        scheduler: Scheduling policy. Default: the engine's. Needs a language model.
        chunked_prefill: Split prompts over several steps. Default: the engine's. Needs a language
            model.
        measured_at: Where latencies are measured: at an HTTP client, or inside the engine.
            Default: client.
        slo_ttft_s: SLO: maximum time to first token [s]. Default: none. Needs a language model.
        slo_tpot_s: SLO: maximum time per output token after the first [s]. Default: none. Needs a
            language model.
        slo_itl_s: SLO: maximum mean time between the streamed chunks of a request: its TPOT, or
            with drafts the time between its steps, each of as many tokens as those of all requests
            on average [s]. Default: none. Needs a language model.
        slo_request_latency_s: SLO: maximum end-to-end latency of a request [s]. Default: none.
        slo_percentile: Percentile that must meet the SLOs in a search for a rate or for replicas
            [percent]. Default: the mean. Needs --find-rate, --find-replicas or --find-sessions.
        replica_kinds: Heterogeneous replicas behind one router: a JSON list such as [{"system":
            "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file. Default:
            all replicas are identical. Needs a language model.
        routing: Routing policy: round_robin, least_loaded, random, or prefix_aware (the replica
            and the attention-DP rank that hold the longest cached prefix). Default: round_robin.
            Needs several replicas.
        cache_threshold: Minimum cached fraction of a prompt for prefix_aware routing to follow the
            cache [fraction]. Default: 0.3. Needs routing = prefix_aware.
        balance_abs_threshold: Maximum load difference, in requests, for prefix_aware routing; if
            this and balance_rel_threshold are exceeded, the least loaded replica is chosen.
            Default: 64. Needs routing = prefix_aware.
        balance_rel_threshold: Maximum load ratio for prefix_aware routing; if this and
            balance_abs_threshold are exceeded, the least loaded replica is chosen. Default: 1.5.
            Needs routing = prefix_aware.
        replica_events: Replica failures: a file (CSV, Parquet, JSON Lines) or JSON list with
            replica, fails_at_s, back_at_s or down_for_s, and kind (crash or drain). Default: none.
        on_failure: Whether requests on a failed replica are retried or lost. Default: retry. Needs
            replica_events.
        retry_after_s: Delay from a failure to the retry [s]. Default: 0. Needs replica_events and
            on_failure other than lost.
        max_replicas: Maximum replicas; enables autoscaling, starting at dp. Default: no
            autoscaling.
        min_replicas: Minimum replicas. Default: 1. Needs max_replicas.
        autoscale_target: Autoscaler target: requests per replica. Needs max_replicas.
        autoscale_metric: Autoscaler metric: requests (running and waiting) or waiting. Default:
            requests. Needs max_replicas.
        autoscale_period_s: Time between autoscaler decisions [s]. Default: 15. Needs max_replicas.
        autoscale_tolerance: Tolerated relative deviation from the target [fraction]. Default: 0.1.
            Needs max_replicas.
        autoscale_down_after_s: Stabilization window for scaling down [s]. Default: 300. Needs
            max_replicas.
        start_up_s: Time from a scale-up decision to the first request [s]. Default: 0. Needs
            max_replicas.
        host_cache_bytes: Host memory per replica for the KV cache, such as 200GB [bytes]. Default:
            none. Needs a language model.
        host_bandwidth: Bandwidth between a GPU and host memory, such as 50GB/s [bytes/s]. Default:
            the GPU's host link. Needs host_cache_bytes or ssd_cache_bytes or remote_cache_bytes.
        ssd_cache_bytes: SSD capacity per replica for the KV cache, such as 4TB [bytes]. Default:
            none. Needs a language model.
        ssd_bandwidth: SSD read bandwidth per replica, such as 7GB/s [bytes/s]. Needs
            ssd_cache_bytes.
        remote_cache_bytes: KV cache pool on other machines that all replicas share, as Mooncake
            Store or an LMCache server, such as 4TB [bytes]. Default: none. Needs a language model.
        remote_bandwidth: Read bandwidth of the whole pool, such as 200GB/s [bytes/s]. Default:
            that of the NICs of each replica. Needs remote_cache_bytes.
        gpus: Total GPUs: tp x pp x cp x attention_dp x dp. Default: the product.
        tp: Tensor-parallel size. Default: the GPUs of one replica; search tries all.
        pp: Pipeline-parallel size. Default: 1; search tries all.
        cp: Context-parallel size (prefill only). Default: 1.
        ring_degree: Context-parallel ranks of a denoiser among which keys and values rotate (ring
            attention); the others exchange heads (Ulysses). Default: 1. Needs a diffusion pipeline
            whose denoiser is a transformer.
        guidance_degree: Context-parallel ranks that divide the two passes of a denoiser with
            guidance: 2 runs the pass with a prompt and the one without on groups of cp / 2 GPUs.
            Default: 1. Needs a diffusion pipeline that runs its denoiser with and without a
            prompt.
        dcp: Decode context-parallel size: tensor-parallel ranks over which the keys and values of
            a sequence are striped, token by token, instead of repeated; it divides tp and needs no
            further GPUs. Default: 1.
        attention_dp: Attention data-parallel size; its ranks divide experts or embedding tables.
            Default: 1; search tries all.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; tp x attention_dp = ep x moe_tp. Default: tp x attention_dp / moe_tp; 1 if
            moe_tp is not set; search tries all.
        moe_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.
            Default: tp x attention_dp / ep; search tries all.
        dp: Independent replicas, each with its own requests. Default: 1; in search, the rest of
            the GPUs.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        expert_loads: File of the measured tokens of each expert and MoE layer: a table with
            columns layer, expert and tokens (SGLang: layer_id, expert_id, count), or JSON with
            logical_count as for --init-expert-location of SGLang. Steps wait for the busiest rank
            of each layer. Needs an MoE model and expert_distribution = uniform.
        redundant_experts: Additional experts that each MoE layer holds, copies of its popular
            ones, placed so that all ranks expect equal loads (EPLB); ep divides experts and copies
            together. Default: 0. Needs an MoE model.
        eplb_step_interval: Steps between rebalances of experts by their loads (EPLB); each step
            then takes its share of the time that a rebalance blocks it. Default: experts are
            placed once, and rebalances are not counted. Needs (an MoE model and ep above 1) and
            tier other than bound.
        expert_exchange: Exchange of tokens between attention data-parallel ranks; deepep runs
            DeepEP's normal kernels in prefill and its low-latency kernels in decode, deepep_normal
            and deepep_low_latency run one of the two in both; quantized_all_gather gathers tokens
            in the experts' input format. Default: the engine's. Needs an MoE model and
            attention_dp above 1.
        batch_overlap: Overlap of that exchange with computation: of two batches whose layers
            alternate (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared
            expert of the same batch (SGLang --enable-single-batch-overlap). Default: the engine's,
            which is none. Needs an MoE model and attention_dp above 1; single_batch: shared
            experts.
        sampling_penalties: Requests set a repetition, presence or frequency penalty, for which
            vLLM reads all output tokens of its sequences on the host in every step. Default:
            false.
        weight_offload: Share of the weights in the second memory of each GPU (LPDDR, flash, or
            memory of its host), which kernels read in place [fraction]. Default: 0.
        kv_offload: Share of the KV cache in the second memory of each GPU, which attention reads
            in place [fraction]. Default: 0.
        offload_prefetch: Weights of the second memory are copied to the first while earlier layers
            run, instead of being read in place. Default: false. Needs weight_offload other than 0
            or (prefill_weight_offload or decode_weight_offload).
        format: Number format of weights and matrix products: sets gemm_format and moe_format; fp8
            means the engine's default fp8. Default: the checkpoint's.
        gemm_format: Number format of dense layers. Default: format.
        moe_format: Number format of expert layers. Default: format. Needs an MoE model.
        kv_format: Number format of the KV cache. Default: the checkpoint's.
        attention_format: Number format of attention arithmetic. Default: bf16.
        max_num_seqs: Maximum sequences per step; of a queue of a graph, its largest batch.
            Default: the engine's.
        max_num_batched_tokens: Maximum tokens per step. Default: the engine's.
        block_size: Tokens per KV block. Default: the engine's.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use [fraction]. Default:
            the engine's. Needs no kv_blocks or mode = disaggregated.
        kv_blocks: Number of KV blocks, instead of the derived one. Default: derived from memory.
        transfer_buffer_bytes: GPU memory that each GPU of a prefill or decode worker keeps for KV
            cache transfers, such as 1GiB for LMCache [bytes]. Default: 0 (the KV cache is
            registered in place). Needs mode = disaggregated.
        stream_interval: Output tokens that the front end sends to the client per chunk. Default:
            the engine's. Needs measured_at other than engine, an engine whose front end takes time
            and mode other than disaggregated.
        server_processes: Processes of the API server of a replica that tokenize prompts and send
            output. Default: the engine's. Needs measured_at other than engine, an engine whose
            front end takes time and mode other than disaggregated.
        speculative_depth: Draft tokens per step, from a single-layer drafter (MTP, EAGLE).
            Default: 0.
        speculative_acceptance: Probability that a draft token is accepted if all preceding ones
            are [fraction]. Default: a published curve of the model. Needs speculative_depth other
            than 0 and no acceptance_by_position.
        acceptance_by_position: Probability that the first, second, ... draft token of a step is
            accepted if all preceding ones are, such as 0.9,0.75,0.6. Default:
            speculative_acceptance at each. Needs speculative_depth other than 0.
        mixed_chunk: Mix decode with prefill chunks in one step (SGLang). Default: off. Needs the
            SGLang scheduler and mode = aggregated.
        scheduler_recv_interval: Decode-only steps between two reads of new requests (SGLang).
            Default: the recipe's, or 1. Needs the SGLang scheduler and mode = aggregated.
        rank_balance_iters: Maximum steps that prompts wait until every attention data-parallel
            rank has one (TensorRT-LLM, attention_dp_config); 0 turns the balance off. Default: the
            engine's. Needs (the TensorRT-LLM scheduler and attention_dp above 1) and mode =
            aggregated.
        prefill_workers: Number of prefill workers. Default: 1. Needs mode = disaggregated.
        prefill_batch: Prompts per prefill step; in a simulation, the maximum. Default: 1. Needs
            mode = disaggregated.
        decode_workers: Number of decode workers. Default: 1. Needs mode = disaggregated.
        decode_batch: Sequences in flight per decode worker; in a simulation, the maximum. Default:
            concurrency / decode_workers. Needs mode = disaggregated.
        prefill_system: System of each prefill worker. Default: as system. Needs mode =
            disaggregated.
        decode_system: System of each decode worker. Default: as system. Needs mode =
            disaggregated.
        prefill_engine: Inference engine of each prefill worker. Default: as engine. Needs mode =
            disaggregated.
        decode_engine: Inference engine of each decode worker. Default: as engine. Needs mode =
            disaggregated.
        prefill_tp: Tensor-parallel size of each prefill worker. Default: as tp. Needs mode =
            disaggregated.
        decode_tp: Tensor-parallel size of each decode worker. Default: as tp. Needs mode =
            disaggregated.
        prefill_pp: Pipeline-parallel size of each prefill worker. Default: as pp. Needs mode =
            disaggregated.
        decode_pp: Pipeline-parallel size of each decode worker. Default: as pp. Needs mode =
            disaggregated.
        prefill_cp: Context-parallel size (prefill only) of each prefill worker. Default: as cp.
            Needs mode = disaggregated.
        decode_dcp: Decode context-parallel size of each decode worker. Default: as dcp. Needs mode
            = disaggregated.
        prefill_attention_dp: Attention data-parallel size of each prefill worker. Default: as
            attention_dp. Needs mode = disaggregated.
        decode_attention_dp: Attention data-parallel size of each decode worker. Default: as
            attention_dp. Needs mode = disaggregated.
        prefill_ep: Expert-parallel size of each prefill worker. Default: as ep. Needs mode =
            disaggregated.
        decode_ep: Expert-parallel size of each decode worker. Default: as ep. Needs mode =
            disaggregated.
        prefill_moe_tp: Tensor-parallel size inside an expert of each prefill worker. Default: as
            moe_tp. Needs mode = disaggregated.
        decode_moe_tp: Tensor-parallel size inside an expert of each decode worker. Default: as
            moe_tp. Needs mode = disaggregated.
        prefill_redundant_experts: Additional experts that each MoE layer holds of each prefill
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        decode_redundant_experts: Additional experts that each MoE layer holds of each decode
            worker. Default: as redundant_experts. Needs mode = disaggregated and an MoE model.
        prefill_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            prefill worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        decode_expert_exchange: Exchange of tokens between attention data-parallel ranks of each
            decode worker. Default: as expert_exchange. Needs mode = disaggregated and (an MoE
            model and attention_dp above 1).
        prefill_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of
            each prefill worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        decode_weight_offload: Share of the weights in the second memory of each GPU (LPDDR of each
            decode worker [fraction]. Default: as weight_offload. Needs mode = disaggregated.
        prefill_kv_offload: Share of the KV cache in the second memory of each GPU of each prefill
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        decode_kv_offload: Share of the KV cache in the second memory of each GPU of each decode
            worker [fraction]. Default: as kv_offload. Needs mode = disaggregated.
        prefill_format: Number format of weights and matrix products of each prefill worker.
            Default: as format. Needs mode = disaggregated.
        decode_format: Number format of weights and matrix products of each decode worker. Default:
            as format. Needs mode = disaggregated.
        feed_forward_system: System that runs the feed-forward networks and experts of all layers;
            the replicas of system run the rest and share it. Default: system runs all of a layer.
            Needs split steps.
        feed_forward_engine: Its engine. Default: as engine. Needs feed_forward_system.
        feed_forward_tp: Its tensor-parallel size, ep x moe_tp for experts. Default: 1. Needs
            feed_forward_system.
        feed_forward_pp: Its groups, each of which holds a part of the layers. Default: 1. Needs
            feed_forward_system.
        feed_forward_ep: Its expert-parallel size. Default: 1. Needs feed_forward_system and an MoE
            model.
        micro_batches: Parts of the batch that are in flight at the same time: one is in attention
            while another is in a feed-forward network. Default: 1. Needs feed_forward_system.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        node_power_cap_w: Power limit of a node (AC) [W], shared by its GPUs; of a rack, its share
            of one node. Default: no limit beside that of each GPU.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.

    Raises:
        InvalidSpecError: A name, value or request is invalid.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: There is no model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import simulate
        >>> found = simulate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", request_rate=8,
        ...     num_requests=100)
        >>> found.answer.results["requests_completed"]
        100
    """

def train(
    *,
    model: str,
    system: str,
    engine: str = "megatron",
    tier: Literal["auto", "bound", "physics", "measured"] = "auto",
    silicon_version: str | None = None,
    clock_ratio: float | str = 1.0,
    sequence_length: int | str = 4096,
    global_batch: int | str,
    micro_batch: int | str = 1,
    gpus: int | str | None = None,
    tp: int | str = 1,
    pp: int | str = 1,
    cp: int | str = 1,
    dp: int | str | None = None,
    ep: int | str = 1,
    expert_tp: int | str = 1,
    vpp: int | str | None = None,
    pipeline_schedule: Literal["gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe"]
    | None = None,
    expert_overlap: bool = False,
    dispatcher: Literal["alltoall", "deepep"] | None = None,
    cuda_graphs: Literal["none", "attention", "full"] = "none",
    fused_experts: bool = False,
    sequence_parallel: bool | None = None,
    zero: Literal["0", "1", "2", "3", "fsdp2"] | None = None,
    expert_distribution: str = "uniform",
    first_stage_layers: int | str | None = None,
    last_stage_layers: int | str | None = None,
    stage_layers: str | None = None,
    format: str = "bf16",
    recompute: Literal["none", "selective", "full"] = "none",
    optimizer: Literal["adamw", "sgd", "muon"] = "adamw",
    gradient_format: Literal["fp32", "bf16"] | None = None,
    lora_rank: int | str | None = None,
    lora_targets: Literal["all", "attention", "qkv"] = "all",
    recompute_modules: str | None = None,
    mtp_depth: int | str = 0,
    packed_length: int | str | None = None,
    moment_format: Literal["fp32", "bf16", "fp8"] | None = None,
    fp8_parameter_gather: bool = False,
    fused_weight_gradient: bool = True,
    sharding_replicas: int | str = 1,
    sites: int | str = 1,
    site_bandwidth: float | str | None = None,
    site_round_trip_s: float | str | None = None,
    tensor_overlap: bool | None = None,
    dispatch_format: Literal["bf16", "fp8_block"] | None = None,
    cp_communication: Literal["ring", "all_gather"] = "ring",
    activation_offload: float | str | None = None,
    optimizer_offload: float | str | None = None,
    offload_bandwidth: float | str | None = None,
    input_cores: int | str | None = None,
    input_rate: float | str | None = None,
    checkpoint_bytes_per_s: float | str | None = None,
    async_checkpoint: bool = True,
    usd_per_gpu_hour: object = None,
    power_cap_w: float | str | None = None,
    pue: float | str | None = None,
    usd_per_kwh: float | str | None = None,
    gco2_per_kwh: float | str | None = None,
    trace_duration_s: float | str | None = None,
    trace_resolution_s: float | str = 0.01,
    ramp_window_s: float | str = 1.0,
    trace_limit_w: float | str | None = None,
    rack_gpus: int | str | None = None,
    equal_jobs: int | str = 1,
    power_floor_w: float | str | None = None,
    floor_hold_s: float | str | None = None,
    ramp_up_w_per_s: float | str | None = None,
    ramp_down_w_per_s: float | str | None = None,
    storage_j: float | str | None = None,
    checkpoint_interval_s: float | str | None = None,
    mtti_s: float | str | None = None,
    detection_s: float | str = 0.0,
    restart_s: float | str = 0.0,
    seed: int | str = 0,
) -> Answer:
    """Return the time of a training step, its waterfall, utilization and memory.

    Args:
        model: Model: a Hugging Face id, a catalog name, or the path of a config.json or its
            folder; name{layers=48} overrides dimensions.
        system: System: a catalog name, a TOML file, or a name with overrides such as
            h200_sxm{device.memory.bandwidth=6TB/s}.
        engine: Training engine: megatron, torchtitan, automodel, fsdp, hai_llm (DeepSeek's),
            maxtext (TPUs), generic (none of these: a wider interval) or ideal (no host time),
            optionally with a version, as in megatron@26.04. Graphs of operators: inductor
            (torch.compile, the default on GPUs), xla (the default on TPUs), pytorch (eager),
            pytorch_channels_last or ideal. Default: megatron.
        tier: Pricing tier: bound (a lower limit), physics, measured (physics corrected by measured
            rows), or auto, the best available without measured rows. Default: auto.
        silicon_version: Engine version of the measured tables. Default: the version of the
            calibrations. Needs tier = measured.
        clock_ratio: GPU clock relative to the sustained clock [ratio]. Default: 1.
        sequence_length: Tokens per sequence. Default: 4096.
        global_batch: Sequences, or items of a graph of operators, per step over all GPUs.
        micro_batch: Sequences, or items of a graph of operators, per forward pass of a rank.
            Default: 1; of a graph global_batch / dp, without accumulation of gradients.
        gpus: Total GPUs: tp x pp x cp x dp. Default: the product.
        tp: Tensor-parallel size. Default: 1.
        pp: Pipeline-parallel size. Default: 1.
        cp: Context-parallel size. Default: 1.
        dp: Data-parallel size. Default: gpus / (tp x pp x cp); 1 if gpus is not set.
        ep: Expert-parallel size; of recommenders, the groups of GPUs that hold whole embedding
            tables; ep x expert_tp divides tp x cp x dp, and is dp of tables. Default: 1. Needs an
            MoE model, or a graph with embedding tables.
        expert_tp: Tensor-parallel size inside an expert; ranks that divide rows of embedding
            tables. Default: 1. Needs an MoE model, or a graph with embedding tables.
        vpp: Chunks of layers per stage of an interleaved pipeline. Default: those of the engine's
            recipes for the model; 1 without any.
        pipeline_schedule: Order of forward and backward passes. Default: interleaved if vpp > 1,
            else 1f1b.
        expert_overlap: Run forward passes beside backward passes of other micro-batches, so that
            computation hides the transfers of tokens to experts; dualpipe always does. Default:
            false. Needs an MoE model.
        dispatcher: How tokens travel to experts: alltoall (a copy per expert) or deepep (one per
            node, which forwards it; also HybridEP). Default: the engine's. Needs an MoE model.
        cuda_graphs: What runs as CUDA graphs: none, attention with the router (attention), or the
            whole step (full). Steps of small MoE layers wait for the host without them. Default:
            none. Needs an MoE model.
        fused_experts: Products of experts also activate and quantize what they write, without
            kernels of their own. Default: false. Needs an MoE model.
        sequence_parallel: Divide the tokens of norms and residuals over the tensor-parallel ranks.
            Default: true if tp > 1. Needs tp other than 1.
        zero: What data-parallel ranks shard: 0 nothing, 1 optimizer states, 2 also gradients, 3
            (or fsdp2) also weights. Default: the engine's: 3 of fsdp, torchtitan, automodel and
            generic, 0 of those of graphs, else 1.
        expert_distribution: Routing of tokens to experts: uniform (random), balanced (equal loads)
            or power_law_1.2. Default: uniform. Needs an MoE model.
        first_stage_layers: Layers on the first pipeline rank; other ranks divide the rest.
            Default: as on the others.
        last_stage_layers: Layers on the last pipeline rank; other ranks divide the rest. Default:
            as on the others.
        stage_layers: Layers of each of the pp x vpp stages in the order of the layers, such as
            4x15,1; the first also holds the embedding, the last one the head and multi-token
            prediction. Default: an even division.
        format: Number format of matrix products: bf16, fp8 (fp8_dynamic: current scaling),
            fp8_static (delayed scaling), fp8_block, mxfp8 or nvfp4. Default: bf16.
        recompute: Activations that the backward pass recomputes: none, those of attention
            (selective), or those of whole layers (full). Default: none.
        optimizer: Optimizer; muon updates the embedding and the head with AdamW. Default: adamw.
        gradient_format: Number format in which gradients are accumulated and reduced. Default:
            that of the engine's recipes for the model, else the engine's.
        lora_rank: Rank of LoRA adapters; all other weights are frozen. Default: none: all weights
            are trained.
        lora_targets: Linear layers with adapters: all outside routed experts, those of attention,
            or the projections of queries, keys and values (qkv). Default: all. Needs lora_rank.
        recompute_modules: Modules that recompute = selective runs again, separated by commas:
            core_attn, layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts. Default: the
            engine's. Needs recompute = selective.
        mtp_depth: Multi-token-prediction layers, on the last pipeline stage. Default: 0.
        packed_length: Tokens of the documents packed into a sequence; attention does not cross
            them. For documents of several lengths, the mean over tokens. Default: the sequence
            length.
        moment_format: Number format of the optimizer's moments. Default: the engine's.
        fp8_parameter_gather: Store and gather the weights of layers in FP8, with lora_rank the
            frozen ones; needs an FP8 format. Default: false.
        fused_weight_gradient: Products of weight gradients add to the accumulated gradients
            themselves, instead of a kernel per micro-batch. Default: true. Needs no lora_rank.
        sharding_replicas: Groups of data-parallel ranks that hold the same shards of zero (hybrid
            sharding): shards stay inside a group, and gradients are also reduced across groups.
            Default: 1.
        sites: Data centers over which data-parallel ranks are spread; shards of zero stay inside
            one, and gradients are also reduced between them. Default: 1.
        site_bandwidth: Rate of the link of a site to the others, per direction, such as 100GB/s
            [bytes/s]. Default: none; needed with sites. Needs sites other than 1.
        site_round_trip_s: Round-trip time between two sites [s]. Default: none; needed with sites.
            Needs sites other than 1.
        tensor_overlap: Run transfers of tensor parallelism in tiles beside the products they
            belong to (asynchronous TP); needs tp > 1. Default: the engine's.
        dispatch_format: Number format in which tokens travel to experts; they come back in bf16.
            Default: the engine's. Needs an MoE model.
        cp_communication: How keys and values reach context-parallel ranks: around a ring beside
            attention (ring), or gathered before it (all_gather), as Llama 3 was trained. Default:
            ring.
        activation_offload: Share of the activations of layers that is moved to the memory of the
            host until their backward pass [fraction]. Default: 0.
        optimizer_offload: Share of the optimizer states on the host, which updates their weights
            [fraction]. Default: 0.
        offload_bandwidth: Rate at which the host reads and writes offloaded optimizer states, per
            GPU: its memory bandwidth over the GPUs, or that of NVMe [bytes/s]. Default: none;
            needed with optimizer_offload. Needs optimizer_offload.
        input_cores: CPU cores per GPU that decode and augment the items of the next steps.
            Default: none: the input never limits a step. Needs a network that is a graph of
            operators.
        input_rate: Items that one of them decodes and augments [items/s]. Default: that at which
            torchvision decodes JPEG images of ImageNet. Needs input_cores.
        checkpoint_bytes_per_s: Storage bandwidth for the checkpoints of the whole job, such as
            100GB/s [bytes/s]. Default: none: times of checkpoints are not predicted.
        async_checkpoint: Train on while storage writes a checkpoint; steps wait for the copy to
            hosts alone. Default: true. Needs checkpoint_bytes_per_s.
        usd_per_gpu_hour: Price of one GPU-hour [USD]: a number, a kind of price of the catalog
            (on_demand, reserved, market, owned), both by system, as in
            h200_sxm=2.5,b200_sxm=owned, or a TOML file of prices. Default: the price of the
            catalog, on demand if known.
        power_cap_w: Power limit of a GPU [W]: its clock is lowered until it draws no more.
            Default: the TDP, at which kernels were measured.
        pue: Power usage effectiveness: power of the facility over that of its nodes [ratio].
            Default: 1 with a rate of electricity, else no power of the facility is reported.
        usd_per_kwh: Price of a kWh of electricity [USD]. Default: no cost of electricity is
            reported.
        gco2_per_kwh: Carbon of a kWh of electricity [g of CO2 equivalent]. Default: no carbon is
            reported.
        trace_duration_s: Time over which power is answered, such as 1h [s]. Default: no power over
            time.
        trace_resolution_s: Time between two samples of the power [s]. Default: 0.01. Needs
            trace_duration_s.
        ramp_window_s: Time over which changes of power are taken; a multiple of trace_resolution_s
            [s]. Default: 1. Needs trace_duration_s.
        trace_limit_w: AC power of all jobs above which time is counted [W], such as 2MW. Default:
            none. Needs trace_duration_s.
        rack_gpus: GPUs of a rack. Default: those of a scale-up domain. Needs trace_duration_s.
        equal_jobs: Jobs like this one on the site, at independent phases of their steps. Default:
            1. Needs trace_duration_s.
        power_floor_w: Power smoothing: power that a GPU board draws at least while its job runs
            [W]. Default: none. Needs trace_duration_s.
        floor_hold_s: Time for which the floor holds after the last kernel [s]. Default: without
            limit. Needs trace_duration_s and power_floor_w.
        ramp_up_w_per_s: Largest rise of the power of a GPU board [W/s]. Default: no limit. Needs
            trace_duration_s.
        ramp_down_w_per_s: Largest fall of the power of a GPU board [W/s]. Default: no limit. Needs
            trace_duration_s.
        storage_j: Energy storage of the power shelves for each GPU board [J], which the grid sees
            as a low pass. Default: none. Needs trace_duration_s.
        checkpoint_interval_s: Work time between checkpoints [s]. Default: no checkpoints. Needs
            trace_duration_s and checkpoint_bytes_per_s.
        mtti_s: Mean time to interruption of the job by exponential failures [s]. Default: no
            failures. Needs trace_duration_s.
        detection_s: Time until a failure is detected [s]. Default: 0. Needs trace_duration_s and
            mtti_s.
        restart_s: Restart time from detection to resumed work; a failure during restart starts it
            over [s]. Default: 0. Needs trace_duration_s and mtti_s.
        seed: Seed of random draws. Default: 0. Needs trace_duration_s and (mtti_s or equal_jobs).

    Raises:
        InvalidSpecError: A field is missing, unknown or out of its bounds, or the layout does not
            divide the model, the batch or the GPUs.
        InfeasibleError: The step does not fit in the memory of a GPU.
        UnsupportedError: There is no data for the format, the schedule or the tier.

    Example:
        >>> from perfatlas.verbs.train import train
        >>> answer = train(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8, tp=2,
        ...     sequence_length=4096, global_batch=64)
        >>> parts = answer.results["waterfall"]
        >>> abs(sum(parts.values()) / answer.results["step_time_s"] - 1) < 1e-9
        True
    """

def bench_compare(first: str | Path, second: str | Path, /) -> CommandAnswer:
    """Return what `perfatlas bench compare --json` prints.

    Args:
        first: Records that bench run wrote.
        second: Those of a later run.
    """

def bench_device(*, output: str | Path) -> CommandAnswer:
    """Return what `perfatlas bench device --json` prints.

    Args:
        output: The TOML file, which --system takes.
    """

def bench_run(
    suite: str,
    /,
    *,
    output: str | Path | None = None,
    to: str | Path | None = None,
    system: str | None = None,
    model: str | None = None,
    format: str | None = None,
    batch: int | None = None,
    isl: int | None = None,
    tp: int | None = None,
) -> CommandAnswer:
    """Return what `perfatlas bench run --json` prints.

    Args:
        suite: quick, gemm, attention, moe, memory, collectives, kernels, llm-layers or analytics;
            an operator of them, such as decode_attention; or a TOML file with cases, such as that
            of compare --decide --suite.
        output: File for all records (CSV, Parquet or JSON Lines).
        to: File for a row per shape, for calibrate --measurements (CSV, Parquet or JSON Lines).
        system: System to compare with, such as a file of bench device; by default its ceilings are
            measured first, and a GPU is looked up in the catalog.
        model: Model whose operators llm-layers measures.
        format: Number format of its products.
        batch: Its sequences.
        isl: Tokens of each prompt, and keys of each decoding sequence.
        tp: Its tensor-parallel ranks.
    """

def calibrate(
    system: str | None = None,
    *,
    operator: Sequence[str] | None = None,
    kernel_family: Sequence[str] | None = None,
    folder: str | Path | None = None,
    measurements: str | Path | None = None,
    device: str | None = None,
    output: str | Path | None = None,
) -> CommandAnswer:
    """Return what `perfatlas calibrate --json` prints.

    Args:
        system: Device with measured tables, such as h200_sxm.
        operator: Operator to fit, repeatable; by default all with rows.
        kernel_family: Engine that provides the kernels, repeatable; by default all.
        folder: Folder for SYSTEM.toml; by default your own calibrations, which are read first.
        measurements: CSV, Parquet or JSON Lines file of measured rows.
        device: Device they were measured on: a catalog name, or your TOML spec.
        output: Calibration file to write; by default the one that perfatlas reads for the device.
    """

def catalog(
    entries: Literal[
        "systems",
        "models",
        "formats",
        "engines",
        "rates",
        "durations",
        "studies",
        "commands",
        "fields",
        "metrics",
        "hardware-fields",
        "engine-fields",
    ],
    action: str = "list",
    name: str | None = None,
    /,
    *,
    base: str | None = None,
    kind: str | None = None,
) -> CommandAnswer:
    """Return what `perfatlas catalog --json` prints.

    Args:
        action: List the entries, or show one (its name alone also does); of systems, engines and
            models, write a new file or check one.
        name: Entry to show: a listed name, a file, or a system with overrides. For new and check,
            the file.
        base: Entry whose values a new file starts from.
        kind: Kind of machine of a new system: gpu, systolic or dataflow.
    """

def fleet_fit(
    files: str | Path | Sequence[str | Path],
    /,
    *,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    start: str | None = None,
    end: str | None = None,
    units: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    service_start: str | Path | None = None,
    repaired: Literal["as_new", "as_old"] | None = None,
    open_is_down: bool | None = None,
    cascade_s: float | None = None,
    match_s: float | None = None,
    output: str | Path | None = None,
) -> CommandAnswer:
    """Return what `perfatlas fleet fit --json` prints.

    Args:
        files: Histories from `fleet import`.
        nodes: Number of observed nodes, including those without failures.
        gpus_per_node: GPUs of a node.
        start: Start of the observation, ISO 8601 with a zone.
        end: End of the observation.
        units: Number of units of a component, such as nic=16384; repeatable.
        kinds: Kinds of events that count as failures: failure, unclear, ...; repeatable.
        service_start: Table of component, node, device and start: when units entered service.
        repaired: Whether a repair renews the age of a unit for its cause, or keeps it.
        open_is_down: Count an event without a recovery as still down at the end.
        cascade_s: Seconds after the first failure of a device in which others are its effects.
        match_s: Seconds within which records of several logs about one node are one failure.
        output: File for the fleet; its evidence is written beside it.
    """

def fleet_import(
    files: str | Path | Sequence[str | Path],
    /,
    *,
    format: Literal["kubernetes", "sacct", "slurm_events", "table", "xid"] | None = None,
    output: str | Path | None = None,
    zone: str | None = None,
    year: int | None = None,
    boot: str | None = None,
    node: str | None = None,
    coalesce_s: float | None = None,
) -> CommandAnswer:
    """Return what `perfatlas fleet import --json` prints.

    Args:
        files: Logs of one format, in chronological order.
        output: File for the history; its extension selects the format.
        zone: Time zone of times without one, such as UTC or Europe/Berlin.
        year: Year of the first line of a log whose times have none.
        boot: Boot time of the machine, for times relative to it: ISO 8601 with a zone.
        node: Host of a log whose lines name none.
        coalesce_s: Seconds within which repeats of an Xid on a GPU count as one event.
    """

def fleet_report(
    subject: str,
    /,
    *,
    format: Literal["kubernetes", "sacct", "slurm_events", "table", "xid"] | None = None,
    zone: str | None = None,
    year: int | None = None,
    node: str | None = None,
    output: str | Path | None = None,
    html_script: Literal["inline", "cdn", "none"] | None = None,
    figure: str | Path | None = None,
    figure_chart: str | None = None,
) -> CommandAnswer:
    """Return what `perfatlas fleet report --json` prints.

    Args:
        subject: A fleet (llama3, rsc1 or a TOML file), a history (a table of fleet import), or a
            log with --format.
        format: Format of a log of a cluster; a fleet and a history need none.
        zone: Time zone of times without one, such as UTC or Europe/Berlin.
        year: Year of the first line of a log whose times have none.
        node: Host of a log whose lines name none.
        output: The HTML page.
        html_script: Source of plotly.js: inline (0.7 MB, works offline), cdn or the embedding page.
        figure: Write the charts of the page as an image: PNG, SVG or PDF.
        figure_chart: Write only the chart of this title, or part of a title, to --figure.
    """

def kernel_inspect(
    file: str | Path,
    /,
    *,
    target: Sequence[str] | None = None,
    function: str | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
    threads: int | None = None,
    shared_memory_bytes: int | None = None,
    against: str | Path | None = None,
    time: bool = False,
    system: str | None = None,
    grid: int | None = None,
    trips: str | None = None,
    shape: str | None = None,
    bytes: int | None = None,
    flop: float | None = None,
    reproducer: str | Path | None = None,
) -> CommandAnswer:
    """Return what `perfatlas kernel inspect --json` prints.

    Args:
        file: Cubin, fat binary, PTX, AMD assembly, CUDA C++ (.cu), Triton or Gluon (.py, .ttir).
            A .py file is run to compile its kernels. A name, such as gemm, is one of the kernels
            of perfatlas.
        target: Target to compile for, such as sm_90 or gfx942; repeat it to compare targets. A
            kernel of perfatlas is compiled for all of its targets by default.
        function: The only kernel to inspect; a part of its name is enough.
        num_warps: Warps per block of a Triton kernel, instead of those its file states.
        num_stages: Pipeline stages of a Triton kernel, instead of those its file states.
        threads: Threads per block, for the occupancy of files that do not state them.
        shared_memory_bytes: Dynamic shared memory per block [bytes], for the occupancy.
        against: Another file whose kernels are shown beside these.
        time: Add the time on a system, from the instructions.
        system: System whose GPU runs the kernel.
        grid: Blocks of the launch.
        trips: Iterations of the main loop, after those of the loops around it, outermost first,
            such as 4,64.
        shape: Sizes of a kernel of perfatlas, such as m=4096,n=4096,k=4096, instead of grid and
            trips: adds the time of its design, and what the compiler loses.
        bytes: Bytes that the launch moves to and from device memory [bytes].
        flop: FLOP of the launch, where its matrix instructions do not state their shape (tcgen05).
        reproducer: Folder to write source, PTX, cubin, commands and versions into.
    """

def model_import(
    file: str | Path,
    /,
    *,
    output: str | Path,
    batch: int | None = None,
    sizes: str | None = None,
    item: str = "item",
    allow_unknown: bool = False,
) -> CommandAnswer:
    """Return what `perfatlas model import --json` prints.

    Args:
        file: The exported network, .pt2, .onnx or .mlir, or a config.json of transformers; no code
            in it or of its checkpoint runs.
        output: The file to write: .toml, the operators of a forward pass; or of a config.json also
            .json, with all values that its class supplies and the parameters of its modules.
        batch: Items of the inputs of a file whose number of items is fixed, a divisor of the first
            size of the first input, by default that size; of ONNX, also the number where it is
            free. Without it, an item of StableHLO with fixed sizes is a run of the program.
        sizes: Values of free sizes, of a graph of ONNX and a config.json by input and dimension,
            as in image_2=640,image_3=640, of StableHLO by symbol, as in s=128. Of ONNX also an
            input that is one integer or condition, as in rate=16000, and iterations of a Loop, as
            in steps=8.
        item: What an item is, such as image.
        allow_unknown: Price operators that are not known as elementwise ones.
    """

def profile(
    files: str | Path | Sequence[str | Path],
    /,
    *,
    system: str | None = None,
    capture: str | Path | None = None,
    against: str | Path | None = None,
    rules: str | Path | None = None,
    on: str | None = None,
    to: str | Path | None = None,
    trace: str | Path | None = None,
) -> CommandAnswer:
    """Return what `perfatlas profile --json` prints.

    Args:
        files: Profile of a run, or one file for each of its ranks; the contents tell the format.
        system: System of the device, for profiles that do not name one of the catalog.
        capture: Trace of the capture of graphs, for the operators of their kernels.
        against: Profile to compare with: which classes and operators changed.
        rules: TOML file with rules of your own for the classes of kernels.
        on: Another system, such as gb300 or 'gb300{device.memory.bandwidth=10TB/s}', to re-time on.
        to: File for a row per shape, for calibrate --measurements (CSV, Parquet or JSON Lines).
        trace: Write a Chrome trace with measured and predicted durations (JSON, for
            ui.perfetto.dev).
    """

def runs_export(run: str, /, *, output: str | Path) -> CommandAnswer:
    """Return what `perfatlas runs export --json` prints.

    Args:
        run: Its name, its id, or the beginning of its id.
        output: The file; its extension selects the format.
    """

def runs_list() -> CommandAnswer:
    """Return what `perfatlas runs list --json` prints."""

def runs_rm(*runs: str, interrupted: bool = False) -> CommandAnswer:
    """Return what `perfatlas runs rm --json` prints.

    Args:
        *runs: Their ids, or the beginning of each.
    """

def runs_show(
    run: str,
    /,
    *,
    html: str | Path | None = None,
    html_script: Literal["inline", "cdn", "none"] | None = None,
    figure: str | Path | None = None,
    figure_chart: str | None = None,
) -> CommandAnswer:
    """Return what `perfatlas runs show --json` prints.

    Args:
        run: Its name, its id, or the beginning of its id.
        html: Write an HTML page with charts.
        html_script: Source of plotly.js: inline (0.7 MB, works offline), cdn or the embedding page.
        figure: Write the charts of the page as an image, by extension PNG, SVG or PDF; needs
            matplotlib (pip install '.[plot]').
        figure_chart: Write only the chart of this title, or part of a title, to --figure.
    """

def validate_here() -> CommandAnswer:
    """Return what `perfatlas validate here --json` prints."""

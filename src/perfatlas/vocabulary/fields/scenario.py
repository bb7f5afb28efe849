"""Fields of an inference scenario: model, system, plan, formats, load, pools."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.numbers import Count, CountOrZero, Number, Size, SizeOrZero
from perfatlas.vocabulary.fields.rows import POOLS, Checked, Row, group, varies_by_pool
from perfatlas.vocabulary.fields.subject import EngineName, FormatName, Subject, SystemName

STEEPEST: Final = 10.0  # exponent of the expert load, above any measured one
Mode = Literal["static", "aggregated", "disaggregated"]
Method = Literal["auto", "formula", "simulate"]
PREFILL: Final = POOLS[:1]
DISAGGREGATED: Final = conditions.Equals("mode", "disaggregated")
OWN_LENGTHS: Final = conditions.AllOf(
    conditions.NotSet("requests", "gives the lengths"),
    conditions.NotSet("lengths_from", "gives the lengths"),
)
OWN_CLASSES: Final = conditions.NotSet("request_mix", "gives the lengths")
IMAGES: Final = conditions.WithMessage(
    conditions.NotEqual("images", 0), "images = 0", "set images, such as 1", "images"
)
# a side of an image; that of a JPEG has 16 bits (ITU-T T.81, table B.2)
Pixels = Annotated[int, Number(at_least=1, at_most=65_535)]


def check_distribution(text: str) -> str:
    """Return a valid expert-load distribution unchanged."""
    exponent = text.removeprefix("power_law_")
    if text in ("uniform", "balanced"):
        return text
    try:
        good = text.startswith("power_law_") and 0.0 < float(exponent) < STEEPEST
    except ValueError:
        good = False
    if not good:
        raise InvalidSpecError(
            f"expert distribution {repr_for_error(text)}: use uniform, balanced or"
            " power_law_<exponent>,"
            " such as power_law_1.2"
        )
    return text


Distribution = Annotated[str, Checked(check_distribution)]


@group("Scenario", 1)
class Serving:
    """Serving mode and method."""

    mode: Annotated[
        Mode,
        Row(
            "Serving mode: one batch, continuous batching, or separate prefill and decode pools.",
            common=True,
        ),
    ] = "static"
    method: Annotated[
        Method,
        Row(
            "Method for aggregated and disaggregated serving: formula (closed forms without"
            " queueing), simulate (a short simulation), or auto (simulate if prompts queue);"
            " static batches always use closed forms.",
        ),
    ] = "auto"


@group("Load", 2)
class Batch:
    """A static batch."""

    batch: Annotated[
        Count | None,
        Row(
            "Sequences per static batch and replica.",
            default="1",
            elsewhere=("batch_size", "bs", "global_batch_size"),
            common=True,
        ),
    ] = None


@group("Load", 2)
class ClientRounds:
    """Clients of a benchmark, which start together."""

    requests_per_client: Annotated[
        Count | None,
        Row(
            "Requests that every client of a benchmark sends, all starting together: num-prompts /"
            " max-concurrency. Means then include the opening burst of prompts.",
            default="steady state",
            needs=conditions.Equals("mode", "aggregated"),
        ),
    ] = None
    osl_spread: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, below=1.0)],
        Row(
            "Spread of the output lengths of these clients: relative half-width, uniform.",
            needs=conditions.AnySet("requests_per_client"),
        ),
    ] = 0.0


@group("Load", 2)
class CachedPrefix:
    """The cached part of a prompt."""

    prefix: Annotated[SizeOrZero, Row("Cached prefix tokens, included in isl.")] = 0


@group("Load", 2)
class Lengths:
    """Requests in flight and their lengths."""

    concurrency: Annotated[
        Count | None,
        Row(
            "Requests in flight over the whole deployment (closed loop).",
            default="dp; search tries all loads",
            elsewhere=("max_concurrency", "num_concurrent", "users"),
            common=True,
        ),
    ] = None
    isl: Annotated[
        Size,
        Row(
            "Input tokens per request; the mean if lengths vary.",
            needs=OWN_LENGTHS,
            elsewhere=(
                "input_len",
                "input_length",
                "prompt_len",
                "random_input_len",
                "input_tokens",
                "seq",
                "seq_len",
            ),
            common=True,
        ),
    ] = 1024
    osl: Annotated[
        Size,
        Row(
            "Output tokens per request; the mean if lengths vary.",
            needs=OWN_LENGTHS,
            elsewhere=("output_len", "output_length", "max_tokens", "random_output_len"),
            common=True,
        ),
    ] = 128


@group("Load", 2)
class ImageInputs:
    """Images in prompts."""

    images: Annotated[
        CountOrZero,
        Row(
            "Images of each request, whose tokens are added to the prompt. A vision encoder runs"
            " over all of them before its prefill; cached tokens are of text.",
            needs=conditions.AllOf(conditions.Fact("vision encoder"), OWN_LENGTHS, OWN_CLASSES),
            elsewhere=("num_images", "random_mm_base_items_per_request", "image_batch_size"),
        ),
    ] = 0
    image_height: Annotated[
        Pixels,
        Row(
            "Height of an image [pixels].",
            needs=IMAGES,
            elsewhere=("image_height_mean",),
        ),
    ] = 1024
    image_width: Annotated[
        Pixels,
        Row(
            "Width of an image [pixels].",
            needs=IMAGES,
            elsewhere=("image_width_mean",),
        ),
    ] = 1024


@group("Plan", 3)
class Plan:
    """Parallelism over GPUs."""

    gpus: Annotated[
        Count | None,
        Row(
            "Total GPUs: tp x pp x cp x attention_dp x dp.",
            default="the product",
            elsewhere=("num_gpus", "n_gpus", "world_size", "total_gpus"),
            common=True,
        ),
    ] = None
    tp: Annotated[
        Count | None,
        Row(
            "Tensor-parallel size.",
            default="the GPUs of one replica; search tries all",
            pools=POOLS,
            by_replica=True,
            elsewhere=("tensor_parallel_size", "tp_size", "tensor_parallel"),
            common=True,
        ),
    ] = None
    pp: Annotated[
        Count,
        Row(
            "Pipeline-parallel size.",
            default="1; search tries all",
            pools=POOLS,
            elsewhere=("pipeline_parallel_size", "pp_size", "pipeline_parallel"),
            common=True,
        ),
    ] = 1
    cp: Annotated[
        Count,
        Row(
            "Context-parallel size (prefill only).",
            pools=PREFILL,
            elsewhere=("context_parallel_size", "cp_size"),
        ),
    ] = 1
    ring_degree: Annotated[
        Count,
        Row(
            "Context-parallel ranks of a denoiser among which keys and values rotate (ring"
            " attention); the others exchange heads (Ulysses).",
            needs=conditions.Fact("denoiser"),
        ),
    ] = 1
    guidance_degree: Annotated[
        Count,
        Row(
            "Context-parallel ranks that divide the two passes of a denoiser with guidance: 2 runs"
            " the pass with a prompt and the one without on groups of cp / 2 GPUs.",
            needs=conditions.Fact("guidance"),
            elsewhere=("use_cfg_parallel",),
        ),
    ] = 1
    attention_dp: Annotated[
        Count,
        Row(
            "Attention data-parallel size; its ranks divide experts or embedding tables.",
            default="1; search tries all",
            pools=POOLS,
            by_replica=True,
            elsewhere=("enable_dp_attention", "attention_dp_size"),
        ),
    ] = 1
    ep: Annotated[
        Count | None,
        Row(
            "Expert-parallel size, of embedding tables groups with whole ones; tp x attention_dp ="
            " ep x moe_tp.",
            default="tp x attention_dp / moe_tp; 1 if moe_tp is not set; search tries all",
            pools=POOLS,
            by_replica=True,
            elsewhere=("expert_parallel_size", "ep_size", "moe_ep", "moe_ep_size"),
            common=True,
        ),
    ] = None
    moe_tp: Annotated[
        Count | None,
        Row(
            "Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.",
            default="tp x attention_dp / ep; search tries all",
            pools=POOLS,
            by_replica=True,
            elsewhere=("moe_tp_size", "expert_tensor_parallel_size"),
        ),
    ] = None
    dp: Annotated[
        Count | None,
        Row(
            "Independent replicas, each with its own requests.",
            default="1; in search, the rest of the GPUs",
            alias="replicas",
            elsewhere=("data_parallel_size", "dp_size", "num_replicas"),
            common=True,
        ),
    ] = None
    expert_distribution: Annotated[
        Distribution,
        Row(
            "Routing of tokens to experts: uniform (random), balanced (equal loads) or"
            " power_law_1.2.",
            needs=conditions.Fact("experts"),
        ),
    ] = "uniform"
    redundant_experts: Annotated[
        SizeOrZero,
        Row(
            "Additional experts that each MoE layer holds, copies of its popular ones, placed so"
            " that all ranks expect equal loads (EPLB); ep divides experts and copies together.",
            needs=conditions.Fact("experts"),
            pools=POOLS,
            elsewhere=("num_redundant_experts", "ep_num_redundant_experts"),
        ),
    ] = 0
    expert_exchange: Annotated[
        Literal[
            "all_gather_reduce_scatter",
            "all_to_all",
            "deepep",
            "deepep_normal",
            "deepep_low_latency",
            "quantized_all_gather",
        ]
        | None,
        Row(
            "Exchange of tokens between attention data-parallel ranks; deepep runs DeepEP's normal"
            " kernels in prefill and its low-latency kernels in decode, deepep_normal and"
            " deepep_low_latency run one of the two in both; quantized_all_gather"
            " gathers tokens in the experts' input format.",
            default="the engine's",
            needs=conditions.Fact("token exchange"),
            pools=POOLS,
            elsewhere=("moe_a2a_backend", "all2all_backend"),
        ),
    ] = None
    batch_overlap: Annotated[
        Literal["none", "two_batch", "single_batch"] | None,
        Row(
            "Overlap of that exchange with computation: of two batches whose layers alternate"
            " (vLLM --enable-dbo, SGLang --enable-two-batch-overlap), or of the shared expert of"
            " the same batch (SGLang --enable-single-batch-overlap).",
            default="the engine's, which is none",
            needs=conditions.Fact("overlapped exchange"),
            elsewhere=(
                "enable_dbo",
                "enable_two_batch_overlap",
                "enable_single_batch_overlap",
            ),
        ),
    ] = None
    sampling_penalties: Annotated[
        bool,
        Row(
            "Requests set a repetition, presence or frequency penalty, for which vLLM reads all"
            " output tokens of its sequences on the host in every step.",
            elsewhere=("repetition_penalty", "presence_penalty", "frequency_penalty"),
        ),
    ] = False


@group("Formats", 4)
class Formats:
    """Number formats; the defaults are the checkpoint's."""

    format: Annotated[
        FormatName | None,
        Row(
            "Number format of weights and matrix products: sets gemm_format and moe_format; fp8"
            " means the engine's default fp8.",
            default="the checkpoint's",
            pools=POOLS,
            by_replica=True,
            elsewhere=("dtype", "quantization", "precision"),
            common=True,
        ),
    ] = None
    gemm_format: Annotated[
        FormatName | None,
        Row("Number format of dense layers.", default="format", by_replica=True),
    ] = None
    moe_format: Annotated[
        FormatName | None,
        Row(
            "Number format of expert layers.",
            default="format",
            needs=conditions.Fact("expert format"),
            by_replica=True,
        ),
    ] = None
    kv_format: Annotated[
        FormatName | None,
        Row(
            "Number format of the KV cache.",
            default="the checkpoint's",
            by_replica=True,
            elsewhere=("kv_cache_dtype", "kvcache_dtype"),
            common=True,
        ),
    ] = None
    attention_format: Annotated[
        FormatName | None,
        Row("Number format of attention arithmetic.", default="bf16", by_replica=True),
    ] = None


@group("Disaggregated serving", 6)
@varies_by_pool(Subject, Plan, Formats, needs=DISAGGREGATED)
class Pools:
    """Prefill and decode workers."""

    prefill_workers: Annotated[Count, Row("Number of prefill workers.", needs=DISAGGREGATED)] = 1
    prefill_batch: Annotated[
        Count, Row("Prompts per prefill step; in a simulation, the maximum.", needs=DISAGGREGATED)
    ] = 1
    decode_workers: Annotated[Count, Row("Number of decode workers.", needs=DISAGGREGATED)] = 1
    decode_batch: Annotated[
        Count | None,
        Row(
            "Sequences in flight per decode worker; in a simulation, the maximum.",
            default="concurrency / decode_workers",
            needs=DISAGGREGATED,
        ),
    ] = None


SPLIT: Final = conditions.AnySet("feed_forward_system")


@group("Attention-FFN disaggregation", 6)
class FeedForward:
    """Feed-forward networks on other machines than attention, embedding and head."""

    feed_forward_system: Annotated[
        SystemName | None,
        Row(
            "System that runs the feed-forward networks and experts of all layers; the replicas of"
            " system run the rest and share it.",
            default="system runs all of a layer",
            needs=conditions.AllOf(
                conditions.Equals("mode", "static"), conditions.Equals("speculative_depth", 0)
            ),
        ),
    ] = None
    feed_forward_engine: Annotated[
        EngineName | None, Row("Its engine.", default="as engine", needs=SPLIT)
    ] = None
    feed_forward_tp: Annotated[
        Count, Row("Its tensor-parallel size, ep x moe_tp for experts.", needs=SPLIT)
    ] = 1
    feed_forward_pp: Annotated[
        Count, Row("Its groups, each of which holds a part of the layers.", needs=SPLIT)
    ] = 1
    feed_forward_ep: Annotated[
        Count | None,
        Row(
            "Its expert-parallel size.",
            default="1",
            needs=conditions.AllOf(SPLIT, conditions.Fact("experts")),
        ),
    ] = None
    micro_batches: Annotated[
        Count,
        Row(
            "Parts of the batch that are in flight at the same time: one is in attention while"
            " another is in a feed-forward network.",
            needs=SPLIT,
        ),
    ] = 1

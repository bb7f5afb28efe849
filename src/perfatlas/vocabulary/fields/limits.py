"""Fields of engine limits."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.name_lists import Fractions
from perfatlas.vocabulary.fields.numbers import Count, Number, Size
from perfatlas.vocabulary.fields.rows import Row, group

MOST_DRAFTS: Final = 32
DRAFTED: Final = conditions.WithMessage(
    conditions.NotEqual("speculative_depth", 0),
    "speculative_depth = 0",
    "set speculative_depth, such as 3",
)
FRONT_END: Final = conditions.AllOf(
    conditions.WithMessage(
        conditions.NotEqual("measured_at", "engine"),
        "measured_at = engine excludes the front end",
        "set measured_at = client",
    ),
    conditions.Fact("front end"),
)
STREAMING: Final = conditions.AllOf(
    FRONT_END,
    conditions.WithMessage(
        conditions.NotEqual("mode", "disaggregated"),
        "with two pools, a router sends each token immediately",
        "",
    ),
)


@group("Engine limits", 5)
class Limits:
    """Engine limits; the defaults are the engine's."""

    max_num_seqs: Annotated[
        Count | None,
        Row(
            "Maximum sequences per step; of a queue of a graph, its largest batch.",
            default="the engine's",
            by_replica=True,
            elsewhere=("max_batch_size", "max_running_requests"),
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        Size | None,
        Row(
            "Maximum tokens per step.",
            default="the engine's",
            by_replica=True,
            elsewhere=("max_num_tokens", "chunked_prefill_size", "max_prefill_tokens"),
        ),
    ] = None
    block_size: Annotated[
        Size | None,
        Row(
            "Tokens per KV block.",
            default="the engine's",
            by_replica=True,
            elsewhere=("page_size", "tokens_per_block", "kv_block_size"),
        ),
    ] = None
    gpu_memory_utilization: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.01, at_most=1)] | None,
        Row(
            "Fraction of GPU memory that the engine may use.",
            default="the engine's",
            needs=conditions.Noted(
                conditions.AnyOf(
                    conditions.NotSet("kv_blocks", "sets the size of the KV cache"),
                    conditions.Equals("mode", "disaggregated"),
                )
            ),
            by_replica=True,
            elsewhere=("mem_fraction_static", "kv_cache_free_gpu_mem_fraction"),
        ),
    ] = None
    kv_blocks: Annotated[
        Count | None,
        Row(
            "Number of KV blocks, instead of the derived one.",
            default="derived from memory",
            by_replica=True,
            elsewhere=("num_gpu_blocks_override",),
        ),
    ] = None
    stream_interval: Annotated[
        Count | None,
        Row(
            "Output tokens that the front end sends to the client per chunk.",
            default="the engine's",
            needs=STREAMING,
            by_replica=True,
        ),
    ] = None
    server_processes: Annotated[
        Count | None,
        Row(
            "Processes of the API server of a replica that tokenize prompts and send output.",
            default="the engine's",
            needs=STREAMING,
            by_replica=True,
            elsewhere=("api_server_count", "tokenizer_worker_num", "num_postprocess_workers"),
        ),
    ] = None
    speculative_depth: Annotated[
        Annotated[int, Number(at_least=0, at_most=MOST_DRAFTS)],
        Row(
            "Draft tokens per step, from a single-layer drafter (MTP, EAGLE).",
            elsewhere=("num_speculative_tokens", "speculative_num_steps"),
        ),
    ] = 0
    speculative_acceptance: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)] | None,
        Row(
            "Probability that a draft token is accepted if all preceding ones are.",
            needs=conditions.AllOf(
                DRAFTED, conditions.NotSet("acceptance_by_position", "gives it for each draft")
            ),
        ),
    ] = None
    acceptance_by_position: Annotated[
        Fractions | None,
        Row(
            "Probability that the first, second, ... draft token of a step is accepted if all"
            " preceding ones are, such as 0.9,0.75,0.6.",
            default="speculative_acceptance at each",
            needs=DRAFTED,
        ),
    ] = None


PROMPTS_FIRST: Final = conditions.AllOf(
    conditions.Fact("SGLang scheduler"), conditions.Equals("mode", "aggregated")
)


@group("SGLang scheduler", 3)
class PromptsFirst:
    """Settings of a scheduler that runs prompts before decodes."""

    mixed_chunk: Annotated[
        bool | None,
        Row(
            "Mix decode with prefill chunks in one step (SGLang).",
            "off",
            PROMPTS_FIRST,
            elsewhere=("enable_mixed_chunk",),
        ),
    ] = None
    scheduler_recv_interval: Annotated[
        Annotated[int, Number(at_least=1, at_most=10_000)] | None,
        Row(
            "Decode-only steps between two reads of new requests (SGLang).",
            "the recipe's, or 1",
            PROMPTS_FIRST,
        ),
    ] = None


@group("TensorRT-LLM scheduler", 3)
class RankBalance:
    """Settings of a scheduler that holds prompts for those of other ranks."""

    rank_balance_iters: Annotated[
        Annotated[int, Number(at_least=0, at_most=10_000)] | None,
        Row(
            "Maximum steps that prompts wait until every attention data-parallel rank has one"
            " (TensorRT-LLM, attention_dp_config); 0 turns the balance off.",
            "the engine's",
            conditions.AllOf(
                conditions.Fact("prompt balance"), conditions.Equals("mode", "aggregated")
            ),
            elsewhere=("timeout_iters",),
        ),
    ] = None

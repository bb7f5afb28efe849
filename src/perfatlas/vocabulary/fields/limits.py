"""Fields of engine limits."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.name_lists import Fractions
from perfatlas.vocabulary.fields.numbers import Bytes, Count, Number, Size
from perfatlas.vocabulary.fields.rows import group

MAX_DRAFTS: Final = 32
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

    max_num_seqs: Count | None = None
    max_num_batched_tokens: Size | None = None
    block_size: Size | None = None
    gpu_memory_utilization: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.01, at_most=1)] | None,
        conditions.Noted(
            conditions.AnyOf(
                conditions.NotSet("kv_blocks", "sets the size of the KV cache"),
                conditions.Equals("mode", "disaggregated"),
            )
        ),
    ] = None
    kv_blocks: Count | None = None
    transfer_buffer_bytes: Annotated[Bytes | None, conditions.Equals("mode", "disaggregated")] = (
        None
    )
    stream_interval: Annotated[Count | None, STREAMING] = None
    server_processes: Annotated[Count | None, STREAMING] = None
    speculative_depth: Annotated[int, Number(at_least=0, at_most=MAX_DRAFTS)] = 0
    speculative_acceptance: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)] | None,
        conditions.AllOf(
            DRAFTED, conditions.NotSet("acceptance_by_position", "gives it for each draft")
        ),
    ] = None
    acceptance_by_position: Annotated[Fractions | None, DRAFTED] = None


PROMPTS_FIRST: Final = conditions.AllOf(
    conditions.Fact("SGLang scheduler"), conditions.Equals("mode", "aggregated")
)


@group("SGLang scheduler", 3)
class PromptsFirst:
    """Settings of a scheduler that runs prompts before decodes."""

    mixed_chunk: Annotated[bool | None, PROMPTS_FIRST] = None
    scheduler_recv_interval: Annotated[
        Annotated[int, Number(at_least=1, at_most=10_000)] | None, PROMPTS_FIRST
    ] = None


@group("TensorRT-LLM scheduler", 3)
class RankBalance:
    """Settings of a scheduler that holds prompts for those of other ranks."""

    rank_balance_iters: Annotated[
        Annotated[int, Number(at_least=0, at_most=10_000)] | None,
        conditions.AllOf(
            conditions.Fact("prompt balance"), conditions.Equals("mode", "aggregated")
        ),
    ] = None

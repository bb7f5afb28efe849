"""What distinguishes one serving engine from another, as dated data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class FormatAlias:
    """What an engine makes of a format it is asked for.

    Args:
        value: The format it runs.
        architectures: Devices on which it does so, by architecture; empty for all.
        source: Where this is documented.
    """

    value: str
    architectures: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """Streaming operators that another kernel absorbs.

    Args:
        operators: Names of the operators.
        formats: Formats of the product it serves; empty for all.
        model_types: `model_type` of the models whose code fuses it; empty for all.
        into: What absorbs it: norm, activation or attention.
        source: Where the fusion is documented.
    """

    operators: tuple[str, ...]
    formats: tuple[str, ...]
    model_types: tuple[str, ...]
    into: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Operators an engine runs on a second stream, beside another operator.

    Args:
        prefix: Names of the hidden operators start with it.
        beside: Operator of the main stream that hides them.
        max_tokens: Largest step in which the engine does so [tokens].
        source: Where the overlap is documented.
    """

    prefix: str
    beside: str
    max_tokens: float
    source: str


@dataclass(frozen=True, kw_only=True)
class AllReduceRules:
    """Which kernel reduces, and up to which size it also does the norm that follows.

    Args:
        implementation: "custom" (one- and two-shot kernels, the library above a size the measured
            kernels hold) or "library".
        group_sizes: Ranks of the groups its own kernels take; the library reduces all others.
        norm_fusion_bytes: {architecture: {tp: largest buffer}} of the fused all-reduce + norm
            [bytes].
        norm_fusion_formats: Formats that kernel also quantizes to.
        norm_fusion_model_types: Models whose code fuses the norm; empty for all.
        sources: Where the sizes are documented.
    """

    implementation: Literal["custom", "library"]
    group_sizes: tuple[int, ...]
    norm_fusion_bytes: Mapping[str, Mapping[int, float]]
    norm_fusion_formats: tuple[str, ...]
    norm_fusion_model_types: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def custom(self) -> bool:
        """Whether the engine reduces with kernels of its own."""
        return self.implementation == "custom"


@dataclass(frozen=True, kw_only=True)
class HostTime:
    """Host work per step.

    Args:
        step_s: Scheduling and input preparation per step [s].
        per_sequence_s: Per sequence of the step [s].
        per_layer_prefill_s: Kernel dispatch per layer where no whole-step graph runs [s].
        overlapped: The next step is prepared while the GPU works; only the excess is exposed.
        source: Where the times come from.
    """

    step_s: float
    per_sequence_s: float
    per_layer_prefill_s: float
    overlapped: bool
    source: str


@dataclass(frozen=True, kw_only=True)
class FrontEnd:
    """What a client waits for outside the steps.

    Args:
        request_s: HTTP, before a request is in the queue; others do not wait meanwhile [s].
        token_s: Detokenizing and streaming an output token, one after the other [s].
        response_s: After the last token [s].
        tokenizes: Prompts come as text and are tokenized, one after the other.
        per_rank: Every attention-data-parallel rank has a process of its own for both; else a
            replica has one.
        source: Where the times come from.
    """

    request_s: float
    token_s: float
    response_s: float
    tokenizes: bool
    per_rank: bool
    source: str


@dataclass(frozen=True, kw_only=True)
class EngineMemory:
    """Device memory that is neither weights, cache nor activations.

    Args:
        rule: What `gpu_memory_utilization` is a share of: "total" memory, all included;
            "free" memory, after everything but the cache; or "static": weights and cache alone.
        gpu_memory_utilization: The share, in (0, 1].
        reserves_sampler: Logits are reserved for max_num_seqs, not for the sequences that run.
        sampler_copies: Copies of all logits in fp32 that sampling holds at its peak.
        context_bytes: Device context and loaded kernels, as far as the rule counts them [bytes].
        communication_bytes: Communicators and their buffers, with several ranks, likewise [bytes].
        graph_bytes: Captured graphs, where every size is captured [bytes].
        graphs_up_to: Only sizes up to so many times max_num_seqs are captured.
        expert_multiples: {format of experts: {architecture of the device: multiples its kernel
            rounds model width and expert width up to}}.
        source: Where the figures come from.
    """

    rule: Literal["total", "free", "static"]
    gpu_memory_utilization: float
    reserves_sampler: bool
    sampler_copies: float
    context_bytes: float
    communication_bytes: float
    graph_bytes: float
    graphs_up_to: float
    expert_multiples: Mapping[str, Mapping[str, Sequence[int]]]
    source: str


@dataclass(frozen=True, kw_only=True)
class SchedulerDefaults:
    """Limits an engine starts with; the `large` ones hold on devices of `large_memory_bytes`.

    Args:
        block_size: Tokens of a cache block.
        max_num_seqs: Sequences of one step at most.
        max_num_seqs_large: The same on a large device.
        max_num_batched_tokens: Tokens of one step at most.
        max_num_batched_tokens_large: The same on a large device.
        large_memory_bytes: Memory from which on a device is large [bytes].
        large_excludes: Names of devices that are never large.
        graph_sizes: Batch sizes whose decode step is captured, rising.
        mixes: A prompt shares its step with the sequences that decode; else they wait for it.
        mixes_source: Where this is documented.
        rules: Which rules its scheduler follows.
        chunked_prefill: A prompt may run in several steps.
        rules_source: Where both are documented.
        source: Where the limits are documented.
    """

    block_size: int
    max_num_seqs: int
    max_num_seqs_large: int
    max_num_batched_tokens: int
    max_num_batched_tokens_large: int
    large_memory_bytes: float
    large_excludes: tuple[str, ...]
    graph_sizes: tuple[int, ...]
    mixes: bool
    mixes_source: str
    rules: str
    chunked_prefill: bool
    rules_source: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Disaggregation:
    """What an engine does where one pool of workers prefills and another decodes.

    Args:
        first_from: Whose first output token a client gets: "prefill", the prefill worker's as its
            prompt ends; "arrival", the same as the sequence joins those that decode; "recomputed",
            the decode worker's, from the last token of the prompt.
        source: Where this is documented.
    """

    first_from: Literal["prefill", "arrival", "recomputed"]
    source: str


@dataclass(frozen=True, kw_only=True)
class EngineProfile:
    """One engine at one date with its default settings.

    Args:
        id: "vllm@0.24".
        name: "vllm".
        version: "0.24".
        date: Month of the release, YYYY-MM.
        kernel_family: Family of kernel calibrations it runs, "" for the fastest of all.
        format_aliases: What the engine makes of a loose name such as "fp8", or of a format it
            runs otherwise on some devices.
        expert_exchange: "all_to_all" or "all_gather_reduce_scatter".
        expert_exchange_source: Where the exchange is documented.
        all_reduce: Which kernel reduces.
        fusions: Operators other kernels absorb.
        overlaps: Operators that run on a second stream.
        front: Outside the steps.
        host: Host work per step.
        front: What a client waits for outside the steps.
        memory: Device memory of its own.
        scheduler: Limits it starts with.
        disaggregation: How two pools hand over.
    """

    id: str
    name: str
    version: str
    date: str
    kernel_family: str
    format_aliases: Mapping[str, FormatAlias]
    expert_exchange: Literal["all_to_all", "all_gather_reduce_scatter"]
    expert_exchange_source: str
    all_reduce: AllReduceRules
    fusions: tuple[Fusion, ...]
    overlaps: tuple[Overlap, ...]
    host: HostTime
    front: FrontEnd
    memory: EngineMemory
    scheduler: SchedulerDefaults
    disaggregation: Disaggregation

    def alias(self, format_name: str, architecture: str) -> FormatAlias | None:
        """Return what the engine makes of a format on a device, None where it is taken as it is.

        Args:
            format_name: Format asked for.
            architecture: Of the device.
        """
        found = self.format_aliases.get(format_name)
        if found is None or (found.architectures and architecture not in found.architectures):
            return None
        return found

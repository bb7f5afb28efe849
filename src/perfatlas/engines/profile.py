"""Engine profiles: the properties that distinguish serving engines, as dated data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.engines.full_attention import FullAttention
    from perfatlas.engines.fusions import (
        AttentionSpeed,
        Fusion,
        GraphKernels,
        SeparateKernels,
    )
    from perfatlas.engines.host_times import FrontEnd, HostTime
    from perfatlas.engines.recipes import Recipe

RANK_PADDINGS: Final = ("every_step", "graph_steps", "decode_steps", "none")
RankPadding = Literal["every_step", "graph_steps", "decode_steps", "none"]


class PaddedTokens(NamedTuple):
    """Tokens of the busiest rank up to which a step pads all attention-data-parallel ranks to it.

    Args:
        decode: In a step without prompts; infinite for every step.
        mixed: In a step with prompts.
    """

    decode: float
    mixed: float


@dataclass(frozen=True, kw_only=True)
class FormatAlias:
    """The format that an engine actually uses for a requested one."""

    value: str  # The format that runs
    architectures: tuple[str, ...]  # Device architectures on which this applies; empty for all
    source: str  # Documentation reference


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Operators that run on a second stream, concurrently with another operator."""

    prefix: str  # Name prefix of the hidden operators
    # Operator of the main stream that hides them. A name that ends with "_" is a prefix.
    beside: str
    max_tokens: float  # Largest step with this overlap [tokens]
    source: str  # Documentation reference
    batch_overlap: str = ""  # Batch overlap that it belongs to, "" if it always runs
    architectures: tuple[str, ...] = ()  # Device architectures with it; empty for all


@dataclass(frozen=True, kw_only=True)
class BatchOverlap:
    """A launch setting that hides the exchange of tokens between expert-parallel ranks."""

    exchanges: tuple[str, ...]  # Expert exchanges with which the engine accepts it
    source: str  # Documentation reference
    # Largest step with prompts that is not split into two batches [tokens]
    prefill_tokens: float = 0.0
    decode_tokens: float = 0.0  # The same of a step with decodes alone [tokens]


@dataclass(frozen=True, kw_only=True)
class BatchOverlaps:
    """The batch overlaps of an engine."""

    value: str  # The one that runs: "none", "two_batch" or "single_batch"
    # Two batches whose layers alternate; None if the engine has none
    two_batch: BatchOverlap | None
    # Shared experts beside the exchange of the same batch; None if it has none
    single_batch: BatchOverlap | None
    source: str  # Documentation reference of the default


@dataclass(frozen=True, kw_only=True)
class AllReduceRules:
    """All-reduce implementation, and the sizes at which it is fused with the following norm."""

    # "custom" (one- and two-shot kernels; the library above the measured sizes) or "library"
    implementation: Literal["custom", "library"]
    # Group sizes of the custom kernels; the library reduces all others
    group_sizes: tuple[int, ...]
    pcie_group_sizes: tuple[int, ...]  # Those of them that they reduce between GPUs without NVLink
    # {architecture: {tp: largest buffer}} of the fused all-reduce + norm [bytes]
    norm_fusion_bytes: Mapping[str, Mapping[int, float]]
    norm_fusion_formats: tuple[str, ...]  # Formats that the fused kernel also quantizes to
    norm_fusion_model_types: tuple[str, ...]  # Models with this fusion; empty for all
    sources: tuple[str, ...]  # Documentation references

    @property
    def custom(self) -> bool:
        """Whether the engine has custom all-reduce kernels."""
        return self.implementation == "custom"


@dataclass(frozen=True, kw_only=True)
class CompressedPages:
    """Pages of the cache of models with compressed keys: one pool, equal bytes in all groups.

    A request holds a page for every `block` tokens, and in each group of windowed layers and of
    compressor states as many as cover its window and the tokens of the steps in flight.
    """

    formats: tuple[str, ...]  # KV formats whose pages are known
    block: int  # Tokens of a page of keys that are kept for all tokens
    window_block: int  # Tokens of a page of windowed keys
    # [tokens kept, tokens of a page] of compressor states, ascending; the last one for longer ones
    state_blocks: Sequence[Sequence[int]]
    alignment_bytes: float  # Multiple of the bytes of a layer's page [bytes]
    row_extra_bytes: float  # Bytes of a key's row beyond its elements in the KV format [bytes]
    reserved_batches: float  # Steps of max_num_batched_tokens for which windows reserve pages
    source: str  # Reference for the values


@dataclass(frozen=True, kw_only=True)
class EngineMemory:
    """Device memory other than weights, KV cache and activations."""

    # Base of `gpu_memory_utilization`: "total" (all memory of the device), "free" (memory left
    # after everything but the KV cache) or "static" (weights and KV cache only)
    rule: Literal["total", "free", "static"]
    gpu_memory_utilization: float  # The fraction, in (0, 1]
    reserves_sampler: bool  # Logits are reserved for max_num_seqs instead of the running sequences
    sampler_copies: float  # fp32 copies of all logits at the sampling peak
    context_bytes: float  # Device context and loaded kernels, if the rule counts them [bytes]
    communication_bytes: float  # Communicators and buffers with several ranks, likewise [bytes]
    graph_bytes: float  # CUDA graphs if all sizes are captured [bytes]
    graphs_up_to: float  # Captured sizes are limited to this multiple of max_num_seqs
    reserved_blocks: int  # Blocks of a scheduler's KV cache that hold no sequence
    # {expert format: {device architecture: multiples to which the kernel pads hidden size and
    # expert intermediate size}}
    expert_multiples: Mapping[str, Mapping[str, Sequence[int]]]
    source: str  # Reference for the values
    # Those of the sampler that takes least among those that an installation may have; None if it
    # has one. It widens the interval of the cache.
    sampler_copies_fewest: float | None = None
    # Pages of models with compressed keys; None: not known, the bytes of the keys alone count
    compressed_pages: CompressedPages | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceLimits:
    """Default limits from a size of device memory on."""

    memory_bytes: float  # Least memory of the device [bytes]
    excludes: tuple[str, ...]  # Names of devices to which they do not apply
    max_num_seqs: int  # Maximum sequences per step
    max_num_batched_tokens: int  # Maximum tokens per step


@dataclass(frozen=True, kw_only=True)
class SchedulerDefaults:
    """Default limits and rules of the scheduler."""

    block_size: int  # Tokens per KV block
    # Limits by device memory, ascending; the last that applies to a device holds
    by_memory: tuple[DeviceLimits, ...]
    graph_sizes: tuple[int, ...]  # Captured decode batch sizes, ascending
    mixes: bool  # Whether prefill and decode share a step; otherwise decode waits
    rules: str  # Name of the scheduling policy
    chunked_prefill: bool  # Whether a prompt may be split over several steps
    # Whether the default max_num_batched_tokens is at least the longest prompt plus max_num_seqs
    holds_prompts: bool
    # Whether attention-data-parallel ranks share the default max_num_batched_tokens evenly
    shared_by_ranks: bool
    # Steps in which all attention-data-parallel ranks run the tokens of the busiest one:
    # `every_step`, `graph_steps` (up to the largest captured size, with and without prompts),
    # `decode_steps` (the same, without prompts) or `none`
    rank_padding: RankPadding
    # Maximum steps that prompts wait until all attention-data-parallel ranks have some, 0 for none
    rank_balance_iters: int
    source: str  # Documentation reference for the limits

    @property
    def padded_tokens(self) -> PaddedTokens:
        """Tokens of the busiest rank up to which steps pad all ranks to it, by `rank_padding`."""
        largest = float(self.graph_sizes[-1]) if self.graph_sizes else 0.0
        return {
            "every_step": PaddedTokens(math.inf, math.inf),
            "graph_steps": PaddedTokens(largest, largest),
            "decode_steps": PaddedTokens(largest, 0.0),
            "none": PaddedTokens(0.0, 0.0),
        }[self.rank_padding]

    def limits_on(self, name: str, memory_bytes: float) -> DeviceLimits:
        """Return the default limits on a device."""
        first, *larger = self.by_memory
        found = first
        for limits in larger:
            if memory_bytes >= limits.memory_bytes and name not in limits.excludes:
                found = limits
        return found


@dataclass(frozen=True, kw_only=True)
class Disaggregation:
    """Behavior with separate prefill and decode workers."""

    # Source of the first output token: "prefill" (the prefill worker, when the prompt ends),
    # "arrival" (the same token, when the sequence joins the decode batch) or "recomputed" (the
    # decode worker, from the last prompt token)
    first_from: Literal["prefill", "arrival", "recomputed"]
    source: str  # Documentation reference
    stages: bool = True  # Whether a worker can have pipeline stages


@dataclass(frozen=True, kw_only=True)
class RunsOn:
    """Vendors whose devices the engine runs on."""

    vendors: tuple[str, ...]  # As in hardware files
    source: str  # Where it is documented
    kinds: tuple[str, ...] = ()  # Kinds of machines, as `device.kind`; empty for all


@dataclass(frozen=True, kw_only=True)
class EarlierKernels:
    """Kernels that the engine ran before a release replaced them."""

    through: str  # Last release with measured tables of the earlier kernels
    source: str  # What was replaced, and where it is documented


@dataclass(frozen=True, kw_only=True)
class EngineProfile:
    """One version of an engine with its default settings."""

    id: str  # "vllm@0.24"
    name: str  # "vllm"
    version: str  # "0.24"
    date: str  # Month of the release, YYYY-MM
    kernel_family: str  # Family of kernel calibrations, "" for the fastest of all
    # Formats that the engine replaces, such as the generic "fp8", or formats that it runs
    # differently on some devices
    format_aliases: Mapping[str, FormatAlias]
    # "all_to_all", "all_gather_reduce_scatter", "quantized_all_gather" or "deepep"
    expert_exchange: Literal[
        "all_to_all", "all_gather_reduce_scatter", "quantized_all_gather", "deepep"
    ]
    all_reduce: AllReduceRules  # All-reduce implementation
    fusions: tuple[Fusion, ...]  # Operators fused into other kernels
    separate_kernels: tuple[SeparateKernels, ...]  # Operators that run as several kernels
    overlaps: tuple[Overlap, ...]  # Operators that run on a second stream
    batch_overlap: BatchOverlaps  # Overlap of the exchange between expert-parallel ranks
    host: HostTime  # Host work per step
    front: FrontEnd  # Latency of the front end
    memory: EngineMemory  # Device memory used by the engine itself
    scheduler: SchedulerDefaults  # Default limits
    disaggregation: Disaggregation  # Behavior with separate prefill and decode workers
    # Launch settings that the engine's documentation gives for models and devices
    recipes: tuple[Recipe, ...]
    # Speed of its attention over that of the measured kernels, None for theirs
    attention: AttentionSpeed | None = None
    # Kernels of graphs other than the measured ones, None for those
    graph_kernels: GraphKernels | None = None
    # Models whose sliding windows the engine does not apply, None for none
    full_attention: FullAttention | None = None
    borrowed: str = ""  # Release whose profile stands for this one, "" for a profile of its own
    borrowed_is_newer: bool = False  # Whether that release came after this one
    # Largest published ratio of rates of changed defaults between the two, the newer to the older;
    # 1 for none
    borrowed_gain: float = 1.0
    # Further gains on devices of a vendor alone, by vendor
    vendor_gains: Mapping[str, float] = field(default_factory=dict)
    # Kernels of earlier releases, None where none are known
    earlier_kernels: EarlierKernels | None = None
    runs_on: RunsOn | None = None  # Vendors of the devices, None for any
    # Networks that it runs: "language_models", "graphs" of operators, or "all"
    runs: str = "language_models"
    # Formats in which it runs products of graphs; empty for all
    graph_formats: tuple[str, ...] = ()

    @property
    def kernels(self) -> str:
        """Kernel family of the release: `vllm`, or `vllm@0.22` where it runs earlier kernels."""
        earlier = self.earlier_kernels
        if earlier is None:
            return self.kernel_family
        last, own = _numbers(earlier.through), _numbers(self.version)
        return (
            f"{self.kernel_family}@{earlier.through}"
            if own[: len(last)] <= last
            else self.kernel_family
        )

    def alias(self, format_name: str, architecture: str) -> FormatAlias | None:
        """Return the format that the engine uses on a device, or None if it is unchanged."""
        found = self.format_aliases.get(format_name)
        if found is None or (found.architectures and architecture not in found.architectures):
            return None
        return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))

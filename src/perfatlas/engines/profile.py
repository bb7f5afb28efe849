"""Engine profiles: the properties that distinguish serving engines, as dated data.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.engines.fusions import (
        AttentionSpeed,
        ContiguousExperts,
        Fusion,
        GraphKernels,
        SeparateKernels,
    )
    from perfatlas.operators import FloatArray


RANK_PADDINGS: Final = ("every_step", "graph_steps", "decode_steps", "none")
RankPadding = Literal["every_step", "graph_steps", "decode_steps", "none"]


class Launches(NamedTuple):
    """What the host launches in a step without CUDA graphs."""

    operators_C: FloatArray  # Operators, each counted in every layer (C,)
    expert_layers_C: FloatArray  # Layers with experts (C,)


@dataclass(frozen=True, kw_only=True)
class HostTime:
    """Host work per step."""

    step_s: float  # Scheduling and input preparation per step [s]
    per_sequence_s: float  # Additional time per sequence in the step [s]
    per_layer_prefill_s: float  # Kernel launch time per layer if no full CUDA graph runs [s]
    overlapped: bool  # The next step is prepared during GPU work; only the excess is exposed
    source: str  # Reference for the times
    # Time per output token that decoding sequences have so far, if requests set sampling penalties
    # [s]; None if unknown
    per_penalized_token_s: float | None = None
    # Time to launch one operator of a step with prompts, if such steps run without any CUDA graph
    # [s]
    per_operator_prefill_s: float = 0.0
    host_factor: float = 1.0  # 90% interval: these times over and times this factor
    # Further time to launch the routing and the experts of one layer of such a step [s]
    per_expert_layer_prefill_s: float = 0.0
    penalties: bool = False  # Whether requests set sampling penalties

    def prefill_launch_s(self, layers: FloatArray | float, launches: Launches) -> FloatArray:
        """Return the time to launch the kernels of a step with prompts (C,) [s].

        Args:
            launches: What it launches if no CUDA graph runs.
        """
        launch_s_C: FloatArray = (
            layers * self.per_layer_prefill_s
            + launches.operators_C * self.per_operator_prefill_s
            + launches.expert_layers_C * self.per_expert_layer_prefill_s
        )
        return launch_s_C

    def history_token_s(self) -> float:
        """Return the time per output token that a decoding sequence has so far [s]."""
        return (self.per_penalized_token_s or 0.0) if self.penalties else 0.0


@dataclass(frozen=True, kw_only=True)
class FrontEnd:
    """Latency of the front end, outside engine steps."""

    request_s: float  # HTTP handling before a request is queued; concurrent for all requests [s]
    token_s: float  # Detokenizing and streaming one output token; serial [s]
    response_s: float  # Time after the last token [s]
    tokenizes: bool  # Whether prompts arrive as text and are tokenized; serial
    # Whether each attention-data-parallel rank has its own tokenizer and detokenizer process;
    # otherwise one per replica
    per_rank: bool
    source: str  # Reference for the times
    # Fastest published `token_s`, to which the interval of a rate reaches, 0 if only one is known
    # [s]
    token_fastest_s: float = 0.0
    token_slowest_s: float = 0.0  # Slowest published `token_s`, likewise [s]
    # Fastest `request_s` known, to which the interval of TTFT reaches, 0 if only one is known [s]
    request_fastest_s: float = 0.0
    request_slowest_s: float = 0.0  # Slowest `request_s` known, likewise [s]
    # Whether the times are those of another engine: they delay tokens, but no rate of sending
    # follows from them
    assumed: bool = False
    tokenizing_ratio: float = 1.0  # Time to tokenize relative to the measured tokenizers


@dataclass(frozen=True, kw_only=True)
class TokenSum:
    """A number of tokens that depends on the load."""

    isl: int  # Times the longest prompt
    requests: int  # Times the requests in flight on a replica
    more: int  # Tokens added
    multiple: int  # The sum is rounded up to a multiple of it

    def of(
        self, isl_C: NDArray[np.float64], requests_C: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the tokens (C,)."""
        total_C = self.isl * isl_C + self.requests * requests_C + self.more
        tokens_C: NDArray[np.float64] = np.ceil(total_C / self.multiple) * self.multiple
        return tokens_C


@dataclass(frozen=True, kw_only=True)
class ReceiveInterval:
    """Steps between reads of new requests, which depend on the load."""

    few: int  # Decode-only steps between reads with few requests in flight
    many: int  # The same with many
    many_from: int  # Requests in flight on a replica from which they are many

    def of(self, requests: float) -> int:
        """Return the steps between reads.

        Args:
            requests: Requests in flight on a replica, inf if they are not known.
        """
        return self.many if requests >= self.many_from else self.few


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Launch settings for models on devices; None where the recipe does not set them."""

    name: str  # Name shown in answers
    models: tuple[str, ...]  # Catalog names of the models
    devices: tuple[str, ...]
    least_gpus: int  # Fewest GPUs of a replica
    most_gpus: float  # Most GPUs of a replica, inf if there is no limit
    max_num_batched_tokens: TokenSum | None  # Maximum tokens per step
    max_num_seqs: int | None  # Maximum sequences per step
    gpu_memory_utilization: float | None  # Fraction of GPU memory that the engine may use
    stream_interval: int | None  # Output tokens sent to the client per chunk
    # Decode-only steps between reads of new requests
    scheduler_recv_interval: ReceiveInterval | None
    source: str  # Documentation reference


@dataclass(frozen=True, kw_only=True)
class FullAttention:
    """Models whose layers attend to the whole cache in an engine, and keep it."""

    model_types: tuple[str, ...]  # Types of models as in config.json
    source: str  # Reference


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
class PageGroups:
    """Pages of the cache of models with windowed or recurrent layers: one pool, groups of layers.

    Every group has equally many layers of one kind, and its pages have the bytes of all others; an
    attention page holds so many blocks of tokens that a recurrent state fits.
    """

    # Below this ratio of the most to the fewest layers of a kind, a group has the most layers;
    # otherwise the fewest
    merge_below: float
    half_states: tuple[str, ...]  # Types of models whose recurrent states have 16 bits
    source: str  # Reference for the values


@dataclass(frozen=True, kw_only=True)
class CachePools:
    """Separate pools for layers with all tokens, windowed layers and recurrent states."""

    window_tokens: float  # Tokens in the pool of windowed layers per token in that of the others
    window_model_types: tuple[str, ...]  # Types of models with that pool; others keep all tokens
    source: str  # Reference for the values
    # Memory of the pool of states relative to that of keys and values; 0: not known, the bytes of
    # one state count
    state_ratio: float = 0.0
    states_per_request: float = 1.0  # States that the pool has for each running request


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
    # How the cache of models with windowed or recurrent layers is divided; None: not known, their
    # bytes alone count
    page_groups: PageGroups | None = None
    pools: CachePools | None = None


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
        """Return the default limits on a device with a memory [bytes]."""
        first, *larger = self.by_memory
        chosen = first
        for limits in larger:
            if memory_bytes >= limits.memory_bytes and name not in limits.excludes:
                chosen = limits
        return chosen


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
class KvOffload:
    """Behavior with a KV cache in host memory and on SSDs."""

    name: str  # What moves the blocks
    # Blocks that enter host memory: "computed" ones, or those "evicted" from the GPU
    stores: Literal["computed", "evicted"]
    store_waits: bool  # Whether a step waits until the blocks that it computes are stored
    layerwise: bool  # Whether layers are loaded while those before them are computed
    source: str  # Documentation reference


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
    # Behavior with a KV cache in host memory and on SSDs, None if the profile does not say
    kv_offload: KvOffload | None = None
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
    # Experts on contiguous rows, None where fused kernels run all
    contiguous_experts: ContiguousExperts | None = None
    # Kernels of earlier releases, None where none are known
    earlier_kernels: EarlierKernels | None = None
    runs_on: RunsOn | None = None  # Vendors of the devices, None for any
    # Networks that it runs: "language_models", "graphs" of operators, or "all"
    runs: str = "language_models"
    # Formats whose kernels have the parameters of another format, at their own rate and bytes
    product_kernels: Mapping[str, FormatAlias] = field(default_factory=dict)
    # Formats in which it runs products of graphs; empty for all
    graph_formats: tuple[str, ...] = ()

    @property
    def kernels(self) -> str:
        """Kernel family of the release: `vllm`, or `vllm@0.22` where it runs earlier kernels."""
        earlier = self.earlier_kernels
        if earlier is None:
            return self.kernel_family
        last, version = _numbers(earlier.through), _numbers(self.version)
        return (
            f"{self.kernel_family}@{earlier.through}"
            if version[: len(last)] <= last
            else self.kernel_family
        )

    def alias(self, format_name: str, architecture: str) -> FormatAlias | None:
        """Return the format that the engine uses on a device, or None if it is unchanged."""
        alias = self.format_aliases.get(format_name)
        if alias is None or (alias.architectures and architecture not in alias.architectures):
            return None
        return alias


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))

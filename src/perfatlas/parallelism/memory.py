"""Memory of one rank, and the cache capacity that remains.

Shape legend: C candidates. All bytes are per rank, on the fullest pipeline stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import ACTIVATION_BYTES, unique_rows
from perfatlas.parallelism import cache
from perfatlas.parallelism.plan import PlanColumns
from perfatlas.parallelism.weights import expert_padding_bytes, stage_weights_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.engines import CachePools, CompressedPages, PageGroups
    from perfatlas.networks import ModelFormats, Network, RoutedExperts
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.weights import Multiples

# The sampler uses fp32 logits of the whole vocabulary.
LOGIT_BYTES: Final = 4.0


def activation_bytes(
    network: Network,
    plan: PlanColumns,
    max_num_batched_tokens: FloatArray,
    max_num_seqs: FloatArray,
    moe_chunk_tokens: float,
    sampler_copies: float,
) -> FloatArray:
    """Return the activation peak of one rank (C,) [bytes].

    With T tokens of hidden size h in 16 bits, four hidden states (4h) are live in every block. The
    peak is the largest of:
        attention: projected heads and their output, divided over tp;
        dense network: 3f/tp (gate, up and their product; 2f without a gate);
        experts: min(T x attention_dp, chunk) x top_k rows of max((matrices - 1) f/moe_tp, h) and
            of max(f/moe_tp, h), plus the gathered tokens if attention_dp > 1;
        sampling: one hidden state and sampler_copies x max_num_seqs rows of fp32 logits.

    Args:
        plan: The plans (C,).
        max_num_batched_tokens: Tokens per step of an attention-DP rank (C,).
        max_num_seqs: Sequences that the sampler is sized for (C,).
        sampler_copies: fp32 copies of all logits at the sampling peak.

    Source: derived from the tensors that vLLM's profile run allocates (gpu_worker.py,
        determine_available_memory; fused_moe.py workspace_shapes for the two expert workspaces,
        (T, top_k, max(f, h)) and (T, top_k, max(2f, h))).
    Limits: Allocator fragmentation and kernel workspaces are not counted; the expert workspace
        does not shrink with ep, as in vLLM.
    """
    hidden = float(network.hidden_size)
    tokens = max_num_batched_tokens / plan.cp
    peak = tokens * hidden * ACTIVATION_BYTES
    peak = peak + sampler_copies * max_num_seqs * network.vocab_size * LOGIT_BYTES
    for live in network.live_elements():
        if live.experts is None:
            elements = tokens * (live.repeated + live.divided / plan.tp) + live.fixed
            everyone = max_num_batched_tokens * plan.attention_dp
            elements = elements + max_num_batched_tokens * live.whole
            elements = elements + everyone * live.tables / plan.ep
        else:
            workspace = _expert_elements(live.experts, plan, tokens, hidden, moe_chunk_tokens)
            elements = tokens * live.repeated + workspace
        peak = np.maximum(peak, elements * ACTIVATION_BYTES)
    return peak


def _expert_elements(
    ffn: RoutedExperts, plan: PlanColumns, tokens: FloatArray, hidden: float, chunk: float
) -> FloatArray:
    """Return elements of the expert workspace and of the gathered tokens (C,)."""
    everyone = tokens * plan.attention_dp
    width = ffn.intermediate_size / plan.moe_tp
    first = (2.0 if ffn.gated else 1.0) * width
    rows = np.minimum(everyone, chunk) * ffn.top_k
    # Gathered input and summed output; a rank that shares no tokens works in place.
    gathered = np.where(plan.attention_dp > 1, 2.0 * everyone, tokens) * hidden
    routed = float(ffn.width(int(hidden)))
    workspaces: FloatArray = np.maximum(first, routed) + np.maximum(width, routed)
    return rows * workspaces + gathered


@dataclass(frozen=True, kw_only=True)
class MemoryOverheads:
    """Memory of an engine that is neither weights, cache nor activations [bytes]."""

    context_bytes: float  # CUDA context and loaded kernels, if the rule counts them
    communication_bytes: float  # Communicators and buffers, if a replica has several ranks
    graph_bytes: float | FloatArray  # CUDA graphs, scalar or (C,)
    sampler_copies: float  # fp32 copies of all logits at the sampling peak
    rule: str = "total"  # Base of gpu_memory_utilization: "total", "free" or "static"
    # Tokens per call of the fused expert kernel; vLLM's VLLM_FUSED_MOE_CHUNK_SIZE (vllm/envs.py)
    moe_chunk_tokens: float = 16384.0
    compressed_pages: CompressedPages | None = None  # Pages of models with compressed keys
    # Pages or pools of models with windowed or recurrent layers
    page_groups: PageGroups | None = None
    pools: CachePools | None = None
    transfer_buffer_bytes: float | FloatArray = 0.0  # Of KV cache transfers, scalar or (C,)
    # Multiples to which hidden size and expert intermediate size are padded
    expert_multiples: Multiples = (1, 1)


@dataclass(frozen=True, kw_only=True)
class MemoryLoad:
    """The requested load per attention-DP rank."""

    sequences: FloatArray  # Sequences in flight (C,)
    # Cached tokens of each: isl + osl at the end of a static batch, the mean over the lifetime in
    # steady traffic (C,)
    tokens_per_sequence: FloatArray
    max_num_batched_tokens: FloatArray  # Tokens per step (C,)
    max_num_seqs: FloatArray  # Sequences that the sampler is sized for (C,)
    gpu_memory_utilization: FloatArray  # Fraction of device memory that the engine may use (C,)
    block_size: FloatArray  # Tokens per KV block (C,)
    kv_blocks: FloatArray  # KV blocks set by the user, NaN to derive them (C,)


@dataclass(frozen=True, kw_only=True)
class MemoryInputs:
    """Inputs of the memory model for C candidates."""

    network: Network
    formats: ModelFormats  # Its number formats
    plan: PlanColumns  # The plans (C,)
    load: MemoryLoad  # The load (C,)
    overheads: MemoryOverheads  # Memory used by the engine itself
    memory_bytes: FloatArray  # Memory of the device (C,)
    # Whether weights are spread evenly over all stages, not as whole layers (C,)
    spread_weights: NDArray[np.bool_]
    # Shares of the weights and of the cache in a second memory, scalar or (C,)
    weight_offload: FloatArray | float = 0.0
    kv_offload: FloatArray | float = 0.0
    # Whether such weights are fetched ahead, to a buffer of a layer, scalar or (C,)
    prefetched: NDArray[np.bool_] | bool = False
    second_bytes: FloatArray | float = 0.0  # That memory, scalar or (C,)


@dataclass(frozen=True, kw_only=True)
class MemoryColumns:
    """The memory of one rank, every field (C,)."""

    weights_bytes: FloatArray  # Weights with scales and the padding of expert kernels
    kv_bytes: FloatArray  # Cache of the load, not rounded to blocks
    activation_bytes: FloatArray  # Peak of a forward pass
    other_bytes: FloatArray  # Context, communication buffers and graphs
    total_bytes: FloatArray  # Sum of the four
    capacity_bytes: FloatArray  # Memory that the engine may use
    kv_capacity_tokens: FloatArray  # Cache capacity of one replica [tokens]
    max_sequences: FloatArray  # Sequences of the load's length that fit on one attention-DP rank
    second_weights_bytes: FloatArray  # Weights in a second memory
    second_kv_bytes: FloatArray  # Cache of the load in a second memory
    second_capacity_bytes: FloatArray  # That memory
    max_blocks: FloatArray  # Blocks that the device of a rank can hold beside everything else
    fits: NDArray[np.bool_]  # Whether the load fits, with its cache rounded up to whole blocks


def memory_footprint(question: MemoryInputs) -> MemoryColumns:
    """Return the memory of one rank and its cache capacity.

    Args:
        question: Model, plan, load, engine and device.

    Returns:
        Columns (C,). The cache gets the usable memory without weights, activation peak and
        overheads, in whole blocks, times the attention-DP ranks of a replica. If a windowed or
        recurrent layer keeps fewer tokens, capacity depends on the length: it is the number of
        sequences of `tokens_per_sequence` that fit, times their length in whole blocks. Compressed
        keys, windows and states take the pages or pools of the engine's rule, where it is known.
        `kv_blocks` replaces the derived number of blocks, whatever fraction of memory the engine
        may use; blocks that the device cannot hold are none.

    Source: vLLM v1/worker/gpu_worker.py determine_available_memory: usable fraction of memory minus
        everything but the cache; graphs are counted as in its current releases. SGLang
        model_runner.py profile_max_num_token: fraction of the memory free before weights load.
    Limits: vLLM's reserved null block (one per pool) is not subtracted; decode of pp micro-batches
        shares one pool.
    """
    load, plan = question.load, question.plan
    network = question.network
    stored = _weights_bytes(question)
    moved = stored * question.weight_offload
    layers = max(network.num_layers, 1) / plan.pp
    buffer = np.where((moved > 0.0) & question.prefetched, stored / layers, 0.0)
    weights = stored - moved + buffer
    activations = activation_bytes(
        network,
        plan,
        load.max_num_batched_tokens,
        load.max_num_seqs,
        question.overheads.moe_chunk_tokens,
        question.overheads.sampler_copies,
    )
    outside = _outside(question)
    other = outside + question.overheads.graph_bytes
    exact = _sequence_bytes(question, load.tokens_per_sequence)
    fixed = weights + activations + other
    capacity = _capacity(question, fixed, activations + other, outside)
    second = np.broadcast_to(question.second_bytes, weights.shape) - moved
    room = _cache_room(question, fixed, capacity, second)
    cache_bytes = load.sequences * exact.each + exact.in_flight
    kv_bytes = cache_bytes * (1.0 - question.kv_offload)
    return MemoryColumns(
        weights_bytes=weights,
        kv_bytes=kv_bytes,
        activation_bytes=activations,
        other_bytes=other,
        total_bytes=fixed + kv_bytes,
        capacity_bytes=capacity,
        kv_capacity_tokens=room.tokens,
        max_sequences=room.sequences,
        second_weights_bytes=moved,
        second_kv_bytes=cache_bytes - kv_bytes,
        second_capacity_bytes=np.broadcast_to(question.second_bytes, weights.shape),
        max_blocks=room.most_blocks,
        fits=(fixed + kv_bytes <= capacity)
        & (cache_bytes - kv_bytes <= second)
        & (load.sequences <= room.sequences),
    )


def _sequence_bytes(question: MemoryInputs, tokens: FloatArray) -> cache.SequenceBytes:
    """Return the cache that one sequence takes, and prompts in flight beside it (C,) [bytes]."""
    of_model, rules = (question.network, question.formats.kv, question.plan), question.overheads
    step = question.load.max_num_batched_tokens
    if cache.has_compressed_keys(question.network):
        pages = rules.compressed_pages
        if pages is not None and question.formats.kv in pages.formats:
            lengths = (tokens, pages.reserved_batches * step)
            return cache.SequenceBytes(cache.paged_bytes_per_sequence(*of_model, lengths, pages))
    elif cache.has_mixed_layers(question.network):
        if rules.page_groups is not None:
            of_pages = (tokens, step, question.load.block_size)
            return cache.grouped_bytes_per_sequence(*of_model, of_pages, rules.page_groups)
        if rules.pools is not None:
            return cache.pooled_bytes_per_sequence(*of_model, tokens, rules.pools)
    return cache.SequenceBytes(cache.kv_bytes_per_sequence(*of_model, tokens))


def _weights_bytes(question: MemoryInputs) -> FloatArray:
    """Return the weights with the padding of expert kernels (C,) [bytes], once for each plan."""
    plan = question.plan
    sizes = (plan.tp, plan.pp, plan.cp, plan.attention_dp, plan.ep, plan.moe_tp)
    spread_C = np.broadcast_to(question.spread_weights, plan.tp.shape)
    multiples = [np.broadcast_to(m, plan.tp.shape) for m in question.overheads.expert_multiples]
    first_U, place_C = unique_rows((*sizes, spread_C, *multiples))
    some = PlanColumns(**{name: values[first_U] for name, values in vars(plan).items()})
    of_model = question.network, question.formats, some
    hidden_C, width_C = multiples
    padding_U = expert_padding_bytes(*of_model, (hidden_C[first_U], width_C[first_U]))
    stage_U = stage_weights_bytes(*of_model, spread_C[first_U])
    weights_C: FloatArray = (stage_U + padding_U)[place_C]
    return weights_C


def _outside(question: MemoryInputs) -> FloatArray:
    """Return memory outside weights and steps: context, communicators and buffers (C,) [bytes]."""
    overheads = question.overheads
    several = question.plan.gpus_per_replica > 1
    communicators = np.where(several, overheads.communication_bytes, 0.0)
    return overheads.context_bytes + communicators + overheads.transfer_buffer_bytes


def _capacity(
    question: MemoryInputs,
    fixed_bytes: FloatArray,
    working_bytes: FloatArray,
    outside_bytes: FloatArray,
) -> FloatArray:
    """Return the memory that an engine may use by its own rule (C,) [bytes].

    "total": the fraction covers everything. "free": the cache gets the fraction of the memory
    left by everything else. "static": weights and cache get the fraction of the memory left by
    context and communicators; the remainder is for activations.
    """
    share, memory = question.load.gpu_memory_utilization, question.memory_bytes
    if question.overheads.rule == "free":
        return np.floor(fixed_bytes + share * np.maximum(memory - fixed_bytes, 0.0)) - np.where(
            fixed_bytes > memory, fixed_bytes - memory, 0.0
        )
    if question.overheads.rule == "static":
        room = share * np.maximum(memory - outside_bytes, 0.0)
        return np.floor(np.minimum(memory, room + working_bytes))
    return np.floor(memory * share)


@dataclass(frozen=True, kw_only=True)
class _Room:
    """Cache capacity: tokens of one replica, sequences and most blocks of a rank (C,)."""

    tokens: FloatArray
    sequences: FloatArray
    most_blocks: FloatArray


def _cache_room(
    question: MemoryInputs,
    fixed_bytes: FloatArray,
    capacity_bytes: FloatArray,
    second_bytes: FloatArray,
) -> _Room:
    """Return the capacity of the cache beside everything else, in whole blocks."""
    load, plan = question.load, question.plan
    block = load.block_size
    blocks_each = np.ceil(np.maximum(load.tokens_per_sequence, 1.0) / block)
    rounded = blocks_each * block
    each_bytes, in_flight = _sequence_bytes(question, rounded)
    # A model without a cache has no limit here; the smallest unit is one byte.
    first = 1.0 - question.kv_offload
    blocks_per_byte = blocks_each / np.maximum(each_bytes * first, 1.0)
    share = question.kv_offload
    beside = np.where(
        share == 0.0,
        np.inf,
        np.floor(
            np.maximum(second_bytes - in_flight * share, 0.0)
            * blocks_each
            / np.maximum(each_bytes * share, 1.0)
        ),
    )
    room = capacity_bytes - fixed_bytes - in_flight * first
    derived = np.minimum(np.floor(np.maximum(room, 0.0) * blocks_per_byte), beside)
    most = np.floor(np.maximum(question.memory_bytes - fixed_bytes, 0.0) * blocks_per_byte)
    most = np.minimum(most, beside)
    allocated = np.where((load.kv_blocks <= most) & (derived > 0.0), load.kv_blocks, 0.0)
    blocks = np.where(np.isnan(load.kv_blocks), derived, allocated)
    return _Room(
        tokens=blocks * block * plan.attention_dp,
        sequences=np.floor(blocks / blocks_each),
        most_blocks=most,
    )

"""Bytes of cache per sequence on one rank.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.formats import get_format
from perfatlas.parallelism.sharding import stage_share

if TYPE_CHECKING:
    from perfatlas.engines import CachePools, CompressedPages, PageGroups
    from perfatlas.networks import CacheLayout, Network
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import PlanColumns


def cache_borders(network: Network) -> tuple[int, ...]:
    """Return the lengths at which the cache growth per token decreases, ascending from 0.

    Between them the cache is linear in its tokens: windows are full, states have constant size.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.parallelism import cache_borders
        >>> cache_borders(resolve_model("openai/gpt-oss-20b").network)
        (0, 128)
    """
    limits = {layout.token_limit for layout in network.cache_layouts(1.0)}
    return tuple(sorted({0} | limits))


def kv_bytes_per_sequence(
    network: Network, kv_format: str, plan: PlanColumns, seq_len: FloatArray
) -> FloatArray:
    """Return the cache of one sequence on a rank of the fullest pipeline stage (C,) [bytes].

    Key-value heads are divided over tp until each rank has one, then replicated; a latent row (MLA)
    is replicated on every rank; a windowed layer keeps its window; a recurrent state has constant
    size and is divided over its heads. Context-parallel ranks hold copies, since each has gathered
    all keys; decode context-parallel ranks hold every dcp-th token of keys that are not windowed.

    Args:
        plan: The plans (C,).
        seq_len: Tokens of the sequence (C,).

    Source: The layouts of `cache_layout`; vLLM rule for replicated heads: max(1, heads/tp).
    Limits: Layers of different kinds are assumed evenly distributed over pipeline stages.

    Example:
        >>> import numpy as np
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.parallelism import PlanColumns
        >>> from perfatlas.parallelism import kv_bytes_per_sequence
        >>> one = np.ones(1)
        >>> plan = PlanColumns(tp=one, pp=one, cp=one, attention_dp=one, ep=one, moe_tp=one,
        ...     dp=one, ring_degree=one, guidance_degree=one, dcp=one)
        >>> model = resolve_model("meta-llama/Llama-3.1-70B-Instruct").network
        >>> float(kv_bytes_per_sequence(model, "bf16", plan, one)[0])  # 80 x 2 x 8 x 128 x 2
        327680.0
    """
    element_bytes = get_format(kv_format).weight_bytes
    total = np.zeros_like(plan.tp)
    for layout in network.cache_layouts(element_bytes):
        shared_by = np.minimum(plan.tp, layout.divided_by)
        striped = plan.dcp if layout.striped else 1.0
        total = total + layout.bytes_per_sequence(seq_len) / shared_by / striped
    return total * stage_share(network, plan)


def has_compressed_keys(network: Network) -> bool:
    """Return whether keys of a network stand for several tokens each."""
    return any(layout.tokens_per_row > 1 for layout in network.cache_layouts(1.0))


def paged_bytes_per_sequence(
    network: Network,
    kv_format: str,
    plan: PlanColumns,
    lengths: tuple[FloatArray, FloatArray],
    pages: CompressedPages,
) -> FloatArray:
    """Return the pages of one sequence of a model with compressed keys (C,) [bytes].

    All groups of layers share one pool of pages of equal bytes: for each size of a layer's page,
    as many as the largest group has of it. Pages of windows and states are padded to the next size
    of keys of all tokens. A windowed group or one of compressor states, with pages of b tokens and
    a window w, holds ceil(min(w - 1 + in flight, L) / b) + 1 pages. Layers of a kind are split
    into groups of equal size, the one that pads all kinds least.

    Args:
        lengths: Tokens of the sequence, and of it in steps in flight (C,).
        pages: The page rule of the engine.

    Source: vLLM 0.24, v1/core/kv_cache_utils.py, _get_kv_cache_groups_uniform_groups and
        _get_kv_cache_config_packed; vllm-project/vllm issue 54703, PRs 40946 and 52495.
    Limits: As admission counts pages. The start-up line of 0.24 weighs those of each group by its
        own bytes, which gives up to 5% more tokens.
    """
    seq_len_C, in_flight_C = lengths
    layouts = network.cache_layouts(get_format(kv_format).weight_bytes)

    def aligned(size: float) -> float:
        return float(np.ceil(size / pages.alignment_bytes) * pages.alignment_bytes)

    def page(layout: CacheLayout, block: int) -> float:
        extra = pages.row_extra_bytes if layout.kind == "latent" else 0.0
        row = layout.bytes_per_token * layout.tokens_per_row + extra
        return aligned(block / layout.tokens_per_row * row)

    def state_block(tokens: int) -> int:
        return next(
            (b for span, b in pages.state_blocks if tokens <= span), pages.state_blocks[-1][1]
        )

    layers: dict[float, int] = {}  # of pages with keys of all tokens, by the bytes of a page
    # bytes of a page of windows and states and their layers, by tokens kept and tokens of a page
    others: dict[tuple[int, int], dict[float, int]] = {}
    index = 0.0  # bytes of pages of keys that are not striped, over all layers
    for layout in layouts:
        size = page(layout, pages.window_block if layout.token_limit else pages.block)
        if layout.token_limit:
            of_size = others.setdefault((layout.token_limit, pages.window_block), {})
            of_size[size] = of_size.get(size, 0) + layout.layers
            continue
        index += 0.0 if layout.striped else size * layout.layers
        layers[size] = layers.get(size, 0) + layout.layers
        if layout.state_tokens:
            block = state_block(layout.state_tokens)
            of_size = others.setdefault((layout.state_tokens, block), {})
            size = aligned(block * layout.state_bytes_per_token)
            of_size[size] = of_size.get(size, 0) + layout.layers
    kinds = [max(layers.values()), *(max(of_size.values()) for of_size in others.values())]
    least = range(kinds[0], max(kinds) + 1)
    group = min(least, key=lambda size: (sum(-kind % size for kind in kinds), -size))
    slots = dict(layers)  # layers of the largest group, by the bytes of a page
    groups: dict[tuple[int, int], int] = {}  # number of groups, by tokens kept and tokens of a page
    for kept, of_size in others.items():
        groups[kept] = -(-max(of_size.values()) // group)
        for size, count in of_size.items():
            padded = min((keys for keys in layers if keys >= size), default=size)
            slots[padded] = max(slots.get(padded, 0), -(-count // groups[kept]))
    stride = sum(size * count for size, count in slots.items())
    # pages of striped keys; every rank keeps all keys of the index
    held_C = np.ceil(seq_len_C / (pages.block * plan.dcp))
    held_C = held_C + index / stride * (np.ceil(seq_len_C / pages.block) - held_C)
    for (span, block), number in groups.items():
        reached_C = np.minimum(span - 1.0 + in_flight_C, seq_len_C)
        held_C = held_C + number * (np.ceil(reached_C / block) + 1.0)
    paged_C: FloatArray = held_C * stride * stage_share(network, plan)
    return paged_C


class SequenceBytes(NamedTuple):
    """The cache of one sequence, and what prompts in flight take of a pool beside it (C,)."""

    each: FloatArray
    in_flight: FloatArray | float = 0.0


def has_mixed_layers(network: Network) -> bool:
    """Return whether some layers of a network keep windows or recurrent states, and others not."""
    kinds = {replace(layout, layers=1) for layout in network.cache_layouts(1.0)}
    mixed = any(kind.token_limit or kind.kind == "state" for kind in kinds)
    return len(kinds) > 1 and mixed and not has_compressed_keys(network)


def grouped_bytes_per_sequence(
    network: Network,
    kv_format: str,
    plan: PlanColumns,
    lengths: tuple[FloatArray, FloatArray, FloatArray],
    groups: PageGroups,
) -> SequenceBytes:
    """Return the pages of one sequence of a model with windowed or recurrent layers [bytes].

    Layers of each kind are split into groups of g layers. All groups take pages of one size from
    one pool: g times the bytes of a layer's page, which holds a block of tokens of the widest
    attention layer, enlarged in whole blocks until the largest state fits. A sequence of L tokens
    has ceil(L/b) pages in a group that keeps all tokens, at most ceil(w/b) + 1 in a windowed one,
    one in a recurrent one. Tokens of a step in flight take pages beside their windows.

    Args:
        lengths: Tokens of the sequence, tokens per step and tokens of a block (C,).
        groups: The page rule of the engine.

    Source: vLLM 0.24, v1/core/kv_cache_utils.py, unify_kv_cache_spec_page_size and
        _get_kv_cache_groups_uniform_page_size; platforms/interface.py, _align_hybrid_block_size;
        v1/core/single_type_kv_cache_manager.py, remove_skipped_blocks.
    Limits: Prefix caching keeps no further states, as is the default of hybrids. The start-up line
        reserves max_num_batched_tokens in the windows of each request, not once.
    """
    seq_len_C, step_C, block_C = lengths
    layers: dict[CacheLayout, int] = {}
    for layout in network.cache_layouts(get_format(kv_format).weight_bytes):
        kind = replace(layout, layers=1)
        layers[kind] = layers.get(kind, 0) + layout.layers
    halves = 2.0 if network.model_type in groups.half_states else 0.0
    shared = {kind: np.minimum(plan.tp, kind.divided_by) for kind in layers}
    row_C = np.max([kind.bytes_per_token / shared[kind] for kind in layers], axis=0)
    states = [(k.constant_bytes - halves * k.fp32_elements) / shared[k] for k in layers]
    state_C = np.max(states, axis=0)
    block_C = block_C * np.maximum(np.ceil(state_C / np.maximum(block_C * row_C, 1.0)), 1.0)
    page_C = np.maximum(block_C * row_C, state_C)
    size = min(layers.values())
    if max(layers.values()) < groups.merge_below * size:
        size = max(layers.values())
    pages_C, in_flight_C = np.zeros_like(page_C), np.zeros_like(page_C)
    for kind, count in layers.items():
        number = -(-count // size)
        if kind.kind == "state":
            pages_C = pages_C + number
            continue
        # a narrower layer has more tokens in a page if they fill it
        times_C = page_C / (block_C * kind.bytes_per_token / shared[kind])
        tokens_C = block_C * np.where(times_C == np.floor(times_C), times_C, 1.0)
        held_C = np.ceil(seq_len_C / (tokens_C * (plan.dcp if kind.striped else 1.0)))
        if kind.token_limit:
            beyond_C = np.maximum(1.0 - kind.token_limit / np.maximum(seq_len_C, 1.0), 0.0)
            in_flight_C = in_flight_C + number * np.ceil(step_C * beyond_C / tokens_C)
            held_C = np.minimum(held_C, np.ceil(kind.token_limit / tokens_C) + 1.0)
        pages_C = pages_C + number * held_C
    stride_C = page_C * size * stage_share(network, plan)
    return SequenceBytes(pages_C * stride_C, in_flight_C * stride_C)


def pooled_bytes_per_sequence(
    network: Network, kv_format: str, plan: PlanColumns, seq_len: FloatArray, pools: CachePools
) -> SequenceBytes:
    """Return the memory per sequence of a cache with a pool for each kind of layer (C,) [bytes].

    The pools have fixed shares of the memory, and the one that is full first limits the sequences.

    Source: SGLang 0.5.14, srt/model_executor/pool_configurator.py, HybridSWAPoolConfigurator;
        model_runner_kv_cache_mixin.py, handle_max_mamba_cache and _calculate_mamba_ratio.
    Limits: The radix cache is on, and max_running_requests is not set.
    """
    whole_C, window_C, state_C, kept_C = (np.zeros_like(plan.tp) for _ in range(4))
    for layout in network.cache_layouts(get_format(kv_format).weight_bytes):
        row_C = layout.layers * layout.bytes_per_token / np.minimum(plan.tp, layout.divided_by)
        if layout.kind == "state":
            state_C = state_C + layout.bytes_per_sequence(seq_len) / np.minimum(
                plan.tp, layout.divided_by
            )
        elif layout.token_limit and network.model_type in pools.window_model_types:
            window_C, kept_C = window_C + row_C, np.minimum(seq_len, layout.token_limit)
        else:
            whole_C = whole_C + row_C / (plan.dcp if layout.striped else 1.0)
    ratio = np.where(whole_C > 0, pools.window_tokens, 1.0)
    attention_C = (whole_C + ratio * window_C) * np.maximum(seq_len * (whole_C > 0), kept_C / ratio)
    each_C = attention_C + state_C
    if pools.state_ratio:
        requested_C = pools.states_per_request * state_C / pools.state_ratio
        pools_C = np.maximum(requested_C, attention_C) * (1.0 + pools.state_ratio)
        each_C = np.where(state_C > 0, pools_C, attention_C)
    return SequenceBytes(each_C * stage_share(network, plan))

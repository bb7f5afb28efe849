"""Bytes of cache per sequence on one rank.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.formats import get_format
from perfatlas.parallelism.sharding import stage_share

if TYPE_CHECKING:
    from perfatlas.engines import CompressedPages
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

    All groups of layers share one pool of pages of equal bytes, the stride: that of the layers
    that keep keys of all tokens in pages of a size which another group has too. A windowed group
    or one of compressor states, with pages of b tokens and a window w, holds
    ceil(min(w - 1 + in flight, L) / b) + 1 of them. Windowed layers form as many groups as they
    are times the layers of the stride.

    Args:
        lengths: Tokens of the sequence, and of it in steps in flight (C,).
        pages: The page rule of the engine.

    Source: vllm-project/vllm issue 54703, PRs 40946 and 52495.
    Limits: Checked by published figures of DeepSeek-V4-Flash in fp8; the stride with layers of a
        drafter is not published.
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
    others: set[float] = set()  # bytes of pages of windows and states
    index = 0.0  # bytes of pages of keys that are not striped, over all layers
    windows: dict[int, int] = {}  # layers by window
    groups: dict[tuple[int, int], int] = {}  # number of groups, by tokens kept and tokens of a page
    for layout in layouts:
        if layout.token_limit:
            others.add(page(layout, pages.window_block))
            windows[layout.token_limit] = windows.get(layout.token_limit, 0) + layout.layers
            continue
        size = page(layout, pages.block)
        index += 0.0 if layout.striped else size * layout.layers
        layers[size] = layers.get(size, 0) + layout.layers
        if layout.state_tokens:
            block = state_block(layout.state_tokens)
            others.add(aligned(block * layout.state_bytes_per_token))
            groups[layout.state_tokens, block] = 1
    shared = {min((size for size in layers if size >= other), default=other) for other in others}
    strided = {size: count for size, count in layers.items() if size in shared} or layers
    stride = sum(size * count for size, count in strided.items())
    for window, count in windows.items():
        groups[window, pages.window_block] = max(1, round(count / max(strided.values())))
    # pages of striped keys; every rank keeps all keys of the index
    held_C = np.ceil(seq_len_C / (pages.block * plan.dcp))
    held_C = held_C + index / stride * (np.ceil(seq_len_C / pages.block) - held_C)
    for (span, block), number in groups.items():
        reached_C = np.minimum(span - 1.0 + in_flight_C, seq_len_C)
        held_C = held_C + number * (np.ceil(reached_C / block) + 1.0)
    paged_C: FloatArray = held_C * stride * stage_share(network, plan)
    return paged_C

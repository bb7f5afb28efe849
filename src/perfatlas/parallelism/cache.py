"""Bytes of cache per sequence on one rank.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.formats import get_format
from perfatlas.parallelism.sharding import stage_share

if TYPE_CHECKING:
    from perfatlas.networks import Network
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
    all keys.

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
        ...     dp=one, ring_degree=one, guidance_degree=one)
        >>> model = resolve_model("meta-llama/Llama-3.1-70B-Instruct").network
        >>> float(kv_bytes_per_sequence(model, "bf16", plan, one)[0])  # 80 x 2 x 8 x 128 x 2
        327680.0
    """
    element_bytes = get_format(kv_format).weight_bytes
    total = np.zeros_like(plan.tp)
    for layout in network.cache_layouts(element_bytes):
        shared_by = np.minimum(plan.tp, layout.divided_by)
        total = total + layout.bytes_per_sequence(seq_len) / shared_by
    return total * stage_share(network, plan)

"""Peak activation memory of a forward pass on one rank.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import ACTIVATION_BYTES

if TYPE_CHECKING:
    from perfatlas.networks import Network, RoutedExperts
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import PlanColumns

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

"""Peak activation memory of a forward pass on one rank.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks import (
    CompressedAttention,
    DenseFfn,
    GatedDeltaNet,
    GqaAttention,
    Mamba1,
    Mamba2,
    MlaAttention,
    MoeFfn,
)
from perfatlas.operators import ACTIVATION_BYTES

if TYPE_CHECKING:
    from perfatlas.networks import Architecture, Mixer
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import PlanColumns

# The sampler uses fp32 logits of the whole vocabulary.
LOGIT_BYTES: Final = 4.0
# Hidden states of all tokens that are live beside the tensors of a block: the attention output and
# the residual, held by the caller of a compiled region, and the residual and normalized input
# inside it. Liveness alone allows three or four; the startup logs of three dense models on one GPU
# show four (validation/data/kv_capacity.toml, vLLM 0.11.0).
LIVE_HIDDEN: Final = 4.0


def activation_bytes(
    architecture: Architecture,
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
        architecture: The model.
        plan: The plans (C,).
        max_num_batched_tokens: Tokens per step of an attention-DP rank (C,).
        max_num_seqs: Sequences that the sampler is sized for (C,).
        moe_chunk_tokens: Tokens per call of the fused expert kernel.
        sampler_copies: fp32 copies of all logits at the sampling peak.

    Source: derived from the tensors that vLLM's profile run allocates (gpu_worker.py,
        determine_available_memory; fused_moe.py workspace_shapes for the two expert workspaces,
        (T, top_k, max(f, h)) and (T, top_k, max(2f, h))).
    Limits: Allocator fragmentation and kernel workspaces are not counted; the expert workspace
        does not shrink with ep, as in vLLM.
    """
    hidden = float(architecture.hidden_size)
    tokens = max_num_batched_tokens / plan.cp
    peak = tokens * hidden * ACTIVATION_BYTES
    peak = peak + sampler_copies * max_num_seqs * architecture.vocab_size * LOGIT_BYTES
    stream = LIVE_HIDDEN * hidden
    for group in architecture.layers:
        mixer = tokens * (stream + _mixer_width(group.mixer) / plan.tp)
        peak = np.maximum(peak, mixer * ACTIVATION_BYTES)
        if isinstance(group.ffn, DenseFfn):
            width = (3 if group.ffn.gated else 2) * group.ffn.intermediate_size
            ffn = tokens * (stream + width / plan.tp)
            peak = np.maximum(peak, ffn * ACTIVATION_BYTES)
        elif isinstance(group.ffn, MoeFfn):
            workspace = _expert_elements(group.ffn, plan, tokens, hidden, moe_chunk_tokens)
            peak = np.maximum(peak, (tokens * stream + workspace) * ACTIVATION_BYTES)
    return peak


def _expert_elements(
    ffn: MoeFfn, plan: PlanColumns, tokens: FloatArray, hidden: float, chunk: float
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


def _latent_width(mixer: MlaAttention | CompressedAttention) -> int:
    """Return elements per token and head of attention over latent rows."""
    if isinstance(mixer, CompressedAttention):
        return 2 * mixer.head_dim
    return 2 * (mixer.nope_dim + mixer.rope_dim + mixer.value_head_dim)


def _mixer_width(mixer: Mixer | None) -> float:
    """Return elements per token between the projections of a mixer, before tp."""
    match mixer:
        case None:
            return 0.0
        case GqaAttention():
            heads = mixer.num_heads * (mixer.head_dim + mixer.value_head_dim)
            gate = mixer.num_heads * mixer.value_head_dim if mixer.output_gate else 0
            return float(
                heads + gate + mixer.num_kv_heads * (mixer.head_dim + mixer.value_head_dim)
            )
        case MlaAttention() | CompressedAttention():
            gate = isinstance(mixer, MlaAttention) and mixer.output_gate
            gated = mixer.value_head_dim if isinstance(mixer, MlaAttention) and gate else 0
            return float(mixer.num_heads * (_latent_width(mixer) + gated))
        case GatedDeltaNet():
            key = mixer.num_key_heads * mixer.key_head_dim
            return float(2 * key + 3 * mixer.num_value_heads * mixer.value_head_dim)
        case Mamba2():
            inner = mixer.num_heads * mixer.head_dim
            return float(3 * inner + 2 * mixer.num_groups * mixer.state_size)
        case Mamba1():
            return 4.0 * mixer.intermediate_size

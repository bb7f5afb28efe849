"""Architecture of a language model: groups of identical layers, each a mixer and a feed-forward.

A family module converts a config.json into this; all other code reads only this.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SparseIndexer:
    """The lightning indexer of sparse attention: selects `top_k` keys per query.

    Args:
        num_heads: Score heads.
        head_dim: Width of a score head.
        top_k: Keys that a query attends to.
        shared: The layer has no indexer of its own and attends to the keys that the indexer of an
            earlier layer selected (GLM-5.2).
        block_size: Keys are selected in blocks of this many, by the largest score of a block, and
            separately by each score head (MiniMax-M3); 1: single keys, by scores summed over
            heads (DeepSeek-V3.2).
    """

    num_heads: int
    head_dim: int
    top_k: int
    shared: bool = False
    block_size: int = 1


@dataclass(frozen=True, kw_only=True)
class GqaAttention:
    """Softmax attention; MHA, GQA and MQA differ in num_kv_heads only.

    Args:
        num_heads: Query heads.
        num_kv_heads: Key-value heads.
        head_dim: Width of query and key heads.
        value_head_dim: Width of value heads (usually equal to head_dim).
        window: Sliding window [tokens], 0 for none.
        sinks: One learned sink logit per head.
        qkv_bias: Biases on q, k, v.
        output_bias: Bias on the output projection.
        qk_norm: Normalized width: "none", "head" (per head_dim) or "full" (over all heads).
        output_gate: The query projection also produces an output gate (qwen3_next, qwen3.5).
        qk_norm_weight: Whether the norm has learned weights.
        gate_per_head: The output gate has one value per head instead of one per element (Step-3.7).
        key_is_value: Values are the unnormalized keys: there is no value projection (Gemma 4).
        indexer: Selects the keys a query attends to (MiniMax-M3).
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int
    window: int = 0
    sinks: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: str = "none"
    output_gate: bool = False
    qk_norm_weight: bool = True
    gate_per_head: bool = False
    key_is_value: bool = False
    indexer: SparseIndexer | None = None


@dataclass(frozen=True, kw_only=True)
class MlaAttention:
    """Multi-head latent attention; q_lora_rank 0 means no query compression.

    `output_gate`: a projection of the layer's input gates every value head's output (Kimi-K3).
    """

    num_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    nope_dim: int
    rope_dim: int
    value_head_dim: int
    indexer: SparseIndexer | None = None
    output_gate: bool = False


@dataclass(frozen=True, kw_only=True)
class CompressedAttention:
    """Attention over a window and over keys that stand for several tokens (DeepSeek-V4).

    Args:
        num_heads: Query heads; all share one row per key, which is key and value.
        head_dim: Width of a head and of that row.
        q_lora_rank: Query compression.
        output_groups: Groups of heads in the first output projection.
        output_rank: Width of a group's output.
        window: Recent tokens with keys of their own.
        ratio: Tokens per compressed key, 0 for none.
        indexer: Selects compressed keys; None: all are used.
    """

    num_heads: int
    head_dim: int
    q_lora_rank: int
    output_groups: int
    output_rank: int
    window: int
    ratio: int = 0
    indexer: SparseIndexer | None = None

    @property
    def series(self) -> int:
        """Overlapping series of keys in a compressor: two where keys are selected."""
        return 1 if self.indexer is None else 2


@dataclass(frozen=True, kw_only=True)
class GatedDeltaNet:
    """Gated delta net (qwen3_next, qwen3.5): linear attention with a d_k x d_v state per head.

    `decay_rank`: width between the two projections of a decay per key channel (Kimi delta
    attention); 0 for one decay per value head.
    """

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    decay_rank: int = 0


@dataclass(frozen=True, kw_only=True)
class Mamba2:
    """Mamba-2 state-space mixer (nemotron_h)."""

    num_heads: int
    head_dim: int
    state_size: int
    num_groups: int
    conv_kernel: int
    conv_bias: bool = True
    projection_bias: bool = False


@dataclass(frozen=True, kw_only=True)
class Mamba1:
    """Mamba selective scan (jamba)."""

    intermediate_size: int
    state_size: int
    time_step_rank: int
    conv_kernel: int
    conv_bias: bool = True
    projection_bias: bool = False
    inner_norms: bool = False


@dataclass(frozen=True, kw_only=True)
class DenseFfn:
    """Feed-forward network; gated: gate, up and down (3 matrices), otherwise up and down."""

    intermediate_size: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, kw_only=True)
class MoeFfn:
    """Routed experts with optional shared experts.

    Args:
        num_experts: Routed experts.
        top_k: Experts per token.
        intermediate_size: Intermediate size of a routed expert.
        shared_intermediate_size: Total intermediate size of the shared experts, 0 for none.
        shared_gate: Whether a sigmoid gate scales the shared expert (qwen2_moe, qwen3_next).
        gated: Whether experts have 3 matrices instead of 2.
        bias: Whether experts have biases (gpt_oss).
        router_bias: Whether the router has a bias, such as DeepSeek's score correction.
        latent_size: Width of the routed experts' input and output, projected from and to the
            hidden size around dispatch and combine (Nemotron 3, Kimi-K3); 0 for the hidden size.
        redundant_experts: Copies of popular experts that a deployment holds besides them.
    """

    num_experts: int
    top_k: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    shared_gate: bool = False
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    latent_size: int = 0
    redundant_experts: int = 0

    @property
    def slots(self) -> int:
        """Experts that a deployment holds, copies included."""
        return self.num_experts + self.redundant_experts

    def width(self, hidden: int) -> int:
        """Return the width of the routed experts' input and output."""
        return self.latent_size or hidden


Mixer = GqaAttention | MlaAttention | CompressedAttention | GatedDeltaNet | Mamba2 | Mamba1
Ffn = DenseFfn | MoeFfn


@dataclass(frozen=True, kw_only=True)
class LayerGroup:
    """`count` identical layers; the mixer or feed-forward may be absent (nemotron_h).

    `norms` is the number of hidden-size norms per layer.
    """

    count: int
    mixer: Mixer | None
    ffn: Ffn | None
    norms: int = 2


@dataclass(frozen=True, kw_only=True)
class CheckpointFormats:
    """Number formats from the checkpoint's quantization_config; None if not stated.

    `source` quotes the config, as evidence.
    """

    gemm_format: str | None = None
    moe_format: str | None = None
    kv_format: str | None = None
    attention_quantized: bool = True
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A language model.

    Args:
        model_type: The `model_type` of its config.json.
        hidden_size: Hidden size.
        vocab_size: Rows of the embedding.
        tie_word_embeddings: Whether the LM head shares the embedding.
        layers: Groups of identical layers; their counts sum to the depth.
        mtp_layers: Multi-token-prediction layers of the checkpoint (not in `layers`).
        max_position_embeddings: Maximum sequence length.
        checkpoint: Number formats of the checkpoint.
        learned_norm: Whether norms have weights.
        layer_norm_bias: Whether norms have biases.
        lm_head_bias: Whether the LM head has a bias.
        position_rows: Rows of a table of learned positions, 0 for none (OPT).
        embedding_norm: Whether the embedding is normalized (BLOOM).
        residual_streams: Residual streams, mixed around every block (DeepSeek-V4).
        notes: Remarks for the user, such as "text part of a multimodal model".
    """

    model_type: str
    hidden_size: int
    vocab_size: int
    tie_word_embeddings: bool
    layers: tuple[LayerGroup, ...]
    mtp_layers: int = 0
    max_position_embeddings: int = 0
    checkpoint: CheckpointFormats = CheckpointFormats()
    learned_norm: bool = True
    layer_norm_bias: bool = False
    lm_head_bias: bool = False
    position_rows: int = 0
    embedding_norm: bool = False
    residual_streams: int = 1
    notes: tuple[str, ...] = ()

    @property
    def num_layers(self) -> int:
        """Number of layers over all groups."""
        return sum(group.count for group in self.layers)

    @property
    def has_experts(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(isinstance(group.ffn, MoeFfn) for group in self.layers)

    @property
    def has_shared_experts(self) -> bool:
        """Whether any layer runs a shared expert beside the routed ones."""
        networks = (group.ffn for group in self.layers)
        return any(isinstance(ffn, MoeFfn) and ffn.shared_intermediate_size > 0 for ffn in networks)

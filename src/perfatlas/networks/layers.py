"""Parts of the layers of a language model: mixers and feed-forwards, each with its dimensions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from perfatlas.networks.contract import DividedSize, RoutedExperts


class Block(ABC):
    """A mixer or a feed-forward, as its layer asks it."""

    modules: ClassVar[tuple[str, ...]] = ()
    is_recurrent: ClassVar[bool] = False
    kind: ClassVar[str] = ""  # Name of a mixer other than full attention, in the plural
    # Bytes per element of a recurrent state: `mamba_ssm_dtype` of Qwen3-Next and
    # `mamba_ssm_cache_dtype` of Nemotron-H are float32 in their config.json files
    state_bytes: ClassVar[float] = 4.0

    @property
    @abstractmethod
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""

    @property
    @abstractmethod
    def live_width(self) -> float:
        """Elements per token between the products of the block, before tp."""


@dataclass(frozen=True, kw_only=True)
class SparseIndexer:
    """The lightning indexer of sparse attention: selects `top_k` keys per query."""

    num_heads: int  # Score heads
    head_dim: int  # Width of a score head
    top_k: int  # Keys that a query attends to
    # The layer has no indexer of its own and attends to the keys that the indexer of an earlier
    # layer selected (GLM-5.2)
    shared: bool = False
    # Keys are selected in blocks of this many, by the largest score of a block, and separately by
    # each score head (MiniMax-M3); 1: single keys, by scores summed over heads (DeepSeek-V3.2)
    block_size: int = 1


@dataclass(frozen=True, kw_only=True)
class GqaAttention(Block):
    """Softmax attention; MHA, GQA and MQA differ in num_kv_heads only."""

    modules = ("core_attn",)

    num_heads: int  # Query heads
    num_kv_heads: int  # Key-value heads
    head_dim: int  # Width of query and key heads
    value_head_dim: int  # Width of value heads (usually equal to head_dim)
    window: int = 0  # Sliding window [tokens], 0 for none
    sinks: bool = False  # One learned sink logit per head
    qkv_bias: bool = False  # Biases on q, k, v
    output_bias: bool = False  # Bias on the output projection
    # Normalized width: "none", "head" (per head_dim) or "full" (over all heads)
    qk_norm: str = "none"
    # The query projection also produces an output gate (qwen3_next, qwen3.5)
    output_gate: bool = False
    qk_norm_weight: bool = True  # Whether the norm has learned weights
    # The output gate has one value per head instead of one per element (Step-3.7)
    gate_per_head: bool = False
    # Values are the unnormalized keys: there is no value projection (Gemma 4)
    key_is_value: bool = False
    indexer: SparseIndexer | None = None  # Selects the keys a query attends to (MiniMax-M3)
    # Every token sees all others of its sequence, and no cache is kept: an encoder
    bidirectional: bool = False
    # Keys and values are those of an earlier layer: no projections and no cache (Gemma 4)
    shared_cache: bool = False
    # Keys and values are those of images: the layer runs only for requests that have some
    cross: bool = False

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (
            DividedSize(label="num_heads", size=self.num_heads, by="tp", noun="attention heads"),
            DividedSize(
                label="num_kv_heads",
                size=self.num_kv_heads,
                by="tp",
                copied=True,
                noun="key-value heads",
            ),
        )

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        heads = self.num_heads * (self.head_dim + self.value_head_dim)
        gate = self.num_heads * self.value_head_dim if self.output_gate else 0
        return float(heads + gate + self.num_kv_heads * (self.head_dim + self.value_head_dim))


@dataclass(frozen=True, kw_only=True)
class MlaAttention(Block):
    """Multi-head latent attention; q_lora_rank 0 means no query compression.

    `output_gate`: a projection of the layer's input gates every value head's output (Kimi-K3).
    """

    modules = ("core_attn", "mla_up_proj")
    kind = "latent attention"

    num_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    nope_dim: int
    rope_dim: int
    value_head_dim: int
    indexer: SparseIndexer | None = None
    output_gate: bool = False

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (
            DividedSize(label="num_heads", size=self.num_heads, by="tp", noun="attention heads"),
        )

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        latent = 2 * (self.nope_dim + self.rope_dim + self.value_head_dim)
        return float(self.num_heads * (latent + (self.value_head_dim if self.output_gate else 0)))


@dataclass(frozen=True, kw_only=True)
class CompressedAttention(Block):
    """Attention over a window and over keys that stand for several tokens (DeepSeek-V4)."""

    kind = "compressed keys"

    num_heads: int  # Query heads; all share one row per key, which is key and value
    head_dim: int  # Width of a head and of that row
    q_lora_rank: int  # Query compression
    output_groups: int  # Groups of heads in the first output projection
    output_rank: int  # Width of a group's output
    window: int  # Recent tokens with keys of their own
    ratio: int = 0  # Tokens per compressed key, 0 for none
    indexer: SparseIndexer | None = None  # Selects compressed keys; None: all are used

    @property
    def series(self) -> int:
        """Overlapping series of keys in a compressor: two where keys are selected."""
        return 1 if self.indexer is None else 2

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (
            DividedSize(label="num_heads", size=self.num_heads, by="tp"),
            DividedSize(label="o_groups", size=self.output_groups, by="tp"),
        )

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        return float(self.num_heads * 2 * self.head_dim)


@dataclass(frozen=True, kw_only=True)
class GatedDeltaNet(Block):
    """Gated delta net (qwen3_next, qwen3.5): linear attention with a d_k x d_v state per head.

    `decay_rank`: width between the two projections of a decay per key channel (Kimi delta
    attention); 0 for one decay per value head.
    """

    is_recurrent = True
    kind = "gated delta nets"

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    decay_rank: int = 0
    gate_rank: int = 0  # Width between the two projections of the output gate, 0 for one

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (
            DividedSize(label="linear-attention key heads", size=self.num_key_heads, by="tp"),
            DividedSize(label="linear-attention value heads", size=self.num_value_heads, by="tp"),
        )

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        key = self.num_key_heads * self.key_head_dim
        return float(2 * key + 3 * self.num_value_heads * self.value_head_dim)


@dataclass(frozen=True, kw_only=True)
class Mamba2(Block):
    """Mamba-2 state-space mixer (nemotron_h)."""

    is_recurrent = True
    kind = "Mamba-2 layers"

    num_heads: int
    head_dim: int
    state_size: int
    num_groups: int
    conv_kernel: int
    conv_bias: bool = True
    projection_bias: bool = False

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (
            DividedSize(label="Mamba-2 heads", size=self.num_heads, by="tp"),
            DividedSize(label="Mamba-2 num_groups", size=self.num_groups, by="tp", copied=True),
        )

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        inner = self.num_heads * self.head_dim
        return float(3 * inner + 2 * self.num_groups * self.state_size)


@dataclass(frozen=True, kw_only=True)
class Mamba1(Block):
    """Mamba selective scan (jamba)."""

    is_recurrent = True
    kind = "Mamba layers"

    intermediate_size: int
    state_size: int
    time_step_rank: int
    conv_kernel: int
    conv_bias: bool = True
    projection_bias: bool = False
    inner_norms: bool = False

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (DividedSize(label="Mamba intermediate_size", size=self.intermediate_size, by="tp"),)

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        return 4.0 * self.intermediate_size


@dataclass(frozen=True, kw_only=True)
class LightningAttention(Block):
    """Linear attention with a fixed decay per head, a norm and an output gate (MiniMax-01)."""

    is_recurrent = True
    kind = "lightning attention"
    state_bytes = 2.0  # vLLM: MambaStateDtypeCalculator.linear_attention_state_dtype

    num_heads: int  # Each with a state of head_dim x head_dim
    head_dim: int

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (DividedSize(label="linear-attention heads", size=self.num_heads, by="tp"),)

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        return 5.0 * self.num_heads * self.head_dim


@dataclass(frozen=True, kw_only=True)
class ShortConvolution(Block):
    """A causal convolution of few tokens between two gates (LFM2)."""

    is_recurrent = True
    kind = "short convolutions"

    width: int  # Channels
    conv_kernel: int  # Tokens
    bias: bool = False  # Biases of the convolution and of both projections

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (DividedSize(label="convolution channels", size=self.width, by="tp"),)

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        return 4.0 * self.width


@dataclass(frozen=True, kw_only=True)
class GatedRecurrence(Block):
    """A recurrence of heads with a state each: RG-LRU, mLSTM and WKV.

    A head with `key_dim` has a state of key_dim x value_dim; without, one of each value.
    """

    is_recurrent = True
    kind = "gated recurrences"

    num_heads: int
    value_dim: int  # Width of a head
    input_columns: int  # Of all products with the hidden state
    key_dim: int = 0
    chunk: int = 0  # Tokens per chunk of prefill where states are matrices
    states: int = 1  # Of each value (numerator and denominator of WKV)
    gate_blocks: int = 0  # Products of each head by itself that give its gates (RG-LRU)
    conv_kernel: int = 0
    normed: bool = False  # Whether the output is normalized and gated
    vectors: int = 0  # Parameters of biases, decays and mixtures

    @property
    def inner(self) -> int:
        """Columns of all heads."""
        return self.num_heads * self.value_dim

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (DividedSize(label="recurrent heads", size=self.num_heads, by="tp"),)

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        return float(self.input_columns + self.inner)


@dataclass(frozen=True, kw_only=True)
class DenseFfn(Block):
    """Feed-forward network; gated: gate, up and down (3 matrices), otherwise up and down."""

    modules = ("mlp",)

    intermediate_size: int
    gated: bool = True
    bias: bool = False

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return (
            DividedSize(
                label="intermediate_size",
                size=self.intermediate_size,
                by="tp",
                noun="columns of the feed-forward network",
                weights="gemm",
            ),
        )

    @property
    def live_width(self) -> float:
        """Elements per token between the products, before tp."""
        return float((3 if self.gated else 2) * self.intermediate_size)


@dataclass(frozen=True, kw_only=True)
class MoeFfn(RoutedExperts):
    """Routed experts with optional shared experts."""

    # Whether a sigmoid gate scales the shared expert (qwen2_moe, qwen3_next)
    shared_gate: bool = False
    router_bias: bool = False  # Whether the router has a bias, such as DeepSeek's score correction
    # Width of the routed experts' input and output, projected from and to the hidden size around
    # dispatch and combine (Nemotron 3, Kimi-K3); 0 for the hidden size
    latent_size: int = 0

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of modules that recomputation can select."""
        return ("moe", "moe_act", *(("shared_experts",) if self.shared_intermediate_size else ()))

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        label = "experts with copies" if self.redundant_experts else "num_experts"
        width, shared = self.intermediate_size, self.shared_intermediate_size
        return (
            DividedSize(label=label, size=self.slots, by="ep", noun="experts"),
            DividedSize(
                label="moe_intermediate_size",
                size=width,
                by="moe_tp",
                noun="columns of an expert",
                weights="moe",
            ),
            DividedSize(label="shared-expert width", size=shared, by="tp", weights="gemm"),
        )

    def width(self, hidden: int) -> int:
        """Return the width of the routed experts' input and output."""
        return self.latent_size or hidden


Mixer = (
    GqaAttention
    | MlaAttention
    | CompressedAttention
    | GatedDeltaNet
    | Mamba2
    | Mamba1
    | LightningAttention
    | ShortConvolution
    | GatedRecurrence
)
Ffn = DenseFfn | MoeFfn

"""Networks: operators of typed phases and the dimensions that plans, memory and training ask for.

A network runs tokens through groups of identical layers; a token is whatever its operators count as
a row of `StepTokens`: a token of text, or an image. Readers build networks; all other packages ask
them through `Network` and `Segment` alone.

Shape legend: C candidates, G segments: what runs before the layers, each group of layers, the head.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

import numpy as np

from perfatlas.operators import Phase
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.formats import StoredModule
    from perfatlas.networks.emission import ModelFormats, StepTokens
    from perfatlas.operators import Backward, FloatArray, IntArray, Operator, Saving

DividedBy = Literal["tp", "cp", "ep", "moe_tp"]
ENCODER: Final = "vision_"  # prefix of the operators of a vision encoder
# names of operators
UNDIVIDED: Final = ("lm_head", "sampling", "kv_b_projection", ENCODER)


@dataclass(frozen=True, kw_only=True)
class DividedSize:
    """A size of a layer that a parallel size divides."""

    label: str  # Name of the size in descriptions of models, such as num_heads
    size: int  # Its value; 1 for a layer that is not divided
    by: DividedBy  # The field of a plan that divides it
    copied: bool = False  # Whether more ranks than the size may hold copies
    # What training counts, such as "attention heads"; "" where training divides unevenly
    noun: str = ""
    weights: str = ""  # Format of weights that have one row per unit: "gemm", "moe", or "" for none

    def allows(self, ways: FloatArray) -> NDArray[np.bool_]:
        """Return whether the size can be divided over the given number of ranks (C,).

        Args:
            ways: Ranks (C,).
        """
        divides: NDArray[np.bool_] = np.mod(self.size, ways) == 0
        if not self.copied:
            return divides
        copies: NDArray[np.bool_] = (ways > self.size) & (np.mod(ways, self.size) == 0)
        return np.logical_or(divides, copies)


@dataclass(frozen=True, kw_only=True)
class RoutedExperts(ABC):
    """Routed experts of a layer, with optional shared experts."""

    num_experts: int
    top_k: int  # Experts per token
    intermediate_size: int
    shared_intermediate_size: int = 0  # Total intermediate size of the shared experts, 0 for none
    gated: bool = True  # Whether experts have 3 matrices instead of 2
    bias: bool = False  # Whether experts have biases
    redundant_experts: int = 0  # Copies of popular experts that a deployment holds besides them

    @property
    def slots(self) -> int:
        """Experts that a deployment holds, copies included."""
        return self.num_experts + self.redundant_experts

    @abstractmethod
    def width(self, hidden: int) -> int:
        """Return the width of the routed experts' input and output.

        Args:
            hidden: Hidden size of the network.
        """


@dataclass(frozen=True, kw_only=True)
class LiveElements:
    """Elements per token that a rank holds at once inside a block."""

    # Elements on every tensor-parallel rank; of graphs with columns of sizes, as `fixed`, (C,)
    repeated: FloatArray | float
    fixed: FloatArray | float = 0.0  # Elements that do not grow with the tokens
    divided: float = 0.0  # Elements that tensor-parallel ranks divide
    whole: FloatArray | float = 0.0  # Elements that context-parallel ranks do not divide either
    # Sums of tables, which a rank holds for the tokens of all attention-DP ranks, and ep divides
    tables: float = 0.0
    experts: RoutedExperts | None = None  # Experts whose workspace comes on top; None for none


@dataclass(frozen=True, kw_only=True)
class Segment(ABC):
    """`count` identical layers.

    The defaults are those of layers without attention, experts and sizes that a plan divides.
    """

    count: int

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return ()

    @property
    def experts(self) -> RoutedExperts | None:
        """Routed experts, None for a layer without."""
        return None

    @property
    def tables(self) -> int:
        """Embedding tables that a plan divides as it divides experts, 0 for none."""
        return 0

    @property
    def modules(self) -> frozenset[str]:
        """Names of modules that recomputation can select, such as core_attn, mlp and moe."""
        return frozenset()

    @property
    def qkv_widths(self) -> tuple[int, int, int] | None:
        """Columns of queries, keys and values in a fused projection, None without one."""
        return None

    @property
    def is_recurrent(self) -> bool:
        """Whether tokens of a sequence are processed one after another."""
        return False

    @property
    def selects_keys(self) -> bool:
        """Whether queries attend to keys that an indexer selects."""
        return False

    @property
    def has_sinks(self) -> bool:
        """Whether attention has a learned sink logit per head."""
        return False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of what it has beside full attention, by which runs of engines are told apart."""
        return ()


@dataclass(frozen=True, kw_only=True)
class CacheLayout:
    """The unsharded cache of one group of identical layers.

    A tensor-parallel rank holds 1 / min(ranks, divided_by) of it: key-value heads are divided until
    each rank has one and then replicated; a latent row is replicated on every rank.
    """

    kind: str  # "attention", "latent", "index" or "state"
    layers: int
    bytes_per_token: float = 0.0  # Bytes per layer and token [bytes]
    token_limit: int = 0  # Maximum tokens kept (sliding window), 0 for all
    constant_bytes: float = 0.0  # Bytes per layer and sequence, independent of length [bytes]
    fp32_elements: float = 0.0  # Elements of `constant_bytes` that are held in fp32
    divided_by: int = 1  # Maximum number of shards: key-value heads, state heads, or 1 (replicated)
    tokens_per_row: int = 1  # Tokens that share a row (compressed keys)
    # Sums of a compressor: bytes per layer and token, and tokens kept. `bytes_per_sequence` leaves
    # them out, as they are small beside long sequences; page rules of engines count them.
    state_bytes_per_token: float = 0.0
    state_tokens: int = 0

    @property
    def striped(self) -> bool:
        """Whether decode context-parallel ranks hold every n-th token of it.

        Source: SGLang documentation, "Decode Context Parallelism", and its pull request 39330:
            keys of an index stay whole on every rank; vllm-project/vllm, v1/kv_cache_interface.py:
            windows are not striped.
        """
        return self.kind in ("attention", "latent") and not self.token_limit

    def bytes_per_sequence(self, seq_len: FloatArray) -> FloatArray:
        """Return the bytes of a sequence of seq_len tokens over all layers of the group (C,)."""
        kept_C = np.minimum(seq_len, self.token_limit) if self.token_limit else seq_len
        return self.layers * (self.constant_bytes + self.bytes_per_token * kept_C)


@dataclass(frozen=True, kw_only=True)
class ParameterCounts:
    """Parameters of a model, by the format they are stored in."""

    total: int  # All parameters of the network, tied embeddings counted once, without `mtp`
    active: int  # `total` without the routed experts that a token does not use
    embedding: int  # Input embedding
    lm_head: int  # LM head with its bias; 0 if it shares the embedding
    dense_linear: int  # Matrices of mixers, dense feed-forward and shared experts
    mixer_linear: int  # The part of `dense_linear` that belongs to mixers
    expert: int  # Matrices of the routed experts
    # Norms, biases, sinks, routers, convolutions, state vectors, vision encoder; never quantized
    other: int
    mtp: int  # Multi-token-prediction layers of the checkpoint, without shared embedding and head


@dataclass(frozen=True, kw_only=True)
class CheckpointFormats:
    """Number formats from the checkpoint's quantization_config; None if not stated.

    `source` quotes the config, as evidence. `unread` and `unread_kv` name the quantization whose
    number format is not known: without one of the user, nothing may be priced.
    """

    gemm_format: str | None = None
    moe_format: str | None = None
    kv_format: str | None = None
    attention_quantized: bool = True
    modules: tuple[StoredModule, ...] = ()  # Formats and bytes module by module
    engines: tuple[str, ...] = ()  # Families of engines that run it; () for all
    mx_vendors: tuple[str, ...] = ()  # Vendors whose GPUs multiply its MX formats; () for all
    source: str = ""
    unread: str = ""
    unread_kv: str = ""
    nearest: str = ""  # Formats that may stand for `unread`

    def refuse_unread(self, field: str) -> None:
        """Refuse to answer without a format of the user where that of the checkpoint is not known.

        Args:
            field: The unset field: kv_format, or one of matrix products.

        Raises:
            UnsupportedError: The message names what is not read, and formats that stand for it.
        """
        kv = field == "kv_format"
        problem = self.unread_kv if kv else self.unread
        if problem:
            near = "the nearest of bf16, fp8, int8 and nvfp4" if kv else self.nearest
            raise UnsupportedError(f"{field} is not set, and {problem}; set {field} to {near}")


@dataclass(frozen=True, kw_only=True)
class Images:
    """The images of every request, of one size."""

    number: int
    tokens: int  # Tokens that one of them adds to the prompt

    @property
    def prompt_tokens(self) -> int:
        """Tokens that all of them add to the prompt."""
        return self.number * self.tokens


@dataclass(frozen=True, kw_only=True)
class Network(ABC):
    """A network: operators of typed phases, and dimensions."""

    model_type: str  # Name of its family; engines state fusions by it
    hidden_size: int  # Elements per token between layers; the most where layers differ
    vocab_size: int  # Outputs per token of the head
    layers: tuple[Segment, ...]  # Groups of identical layers; their counts sum to the depth
    tie_word_embeddings: bool = False  # Whether the head shares the embedding
    mtp_layers: int = 0  # Multi-token-prediction layers of the checkpoint (not in `layers`)
    # Outputs per token of an EAGLE-3 drafter, which has a head of its own and reads hidden states
    # of three layers; 0 for a drafter with the head of the model
    draft_vocab_size: int = 0
    max_position_embeddings: int = 0  # Maximum sequence length; 0 for no limit
    checkpoint: CheckpointFormats = CheckpointFormats()  # Number formats of the checkpoint
    # What an item of a batch is where a network is a graph of operators, such as "image"
    item: str = ""
    images: Images | None = None  # Images of every request, which it encodes; None for none
    undescribed: str = ""  # What the description of its vision encoder lacks, a clause
    warnings: tuple[str, ...] = ()  # What its answers must warn of, such as an unknown family
    notes: tuple[str, ...] = ()  # Remarks for the user, such as "text part of a multimodal model"

    @abstractmethod
    def step_operators(
        self, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of one step of the whole network, unsharded, in execution order.

        Args:
            phase: One of `phases`, or Phase.FORWARD in training.
        """

    @abstractmethod
    def segment_operators(
        self, segment: int, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of one layer of a segment, whose counts are per layer.

        Args:
            segment: 0 for what runs before the layers, then the groups of layers, then the head.
            phase: One of `phases`, or Phase.FORWARD in training.
        """

    @abstractmethod
    def parameters(self) -> ParameterCounts:
        """Return the exact parameter counts."""

    @abstractmethod
    def live_elements(self) -> tuple[LiveElements, ...]:
        """Return the elements per token that are live inside each block of the layers."""

    @property
    def embedding_rows(self) -> int:
        """Rows of the embeddings before the layers, which tp divides; 0 for none."""
        return 0

    def cache_layouts(self, kv_bytes_per_element: float) -> tuple[CacheLayout, ...]:
        """Return the cache of every group of layers that has one; () without a cache.

        Args:
            kv_bytes_per_element: Bytes of a cached key, value or latent element, scales included.
        """
        del kv_bytes_per_element
        return ()

    def draft_operators(
        self, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of one pass of a drafter, unsharded, in execution order.

        Args:
            phase: Prefill or decode, or Phase.FORWARD in training.

        Raises:
            UnsupportedError: The network has no drafter.
        """
        del formats, phase, tokens
        raise self._without_drafter()

    def with_drafter(self) -> Self:
        """Return the network with the drafter's layer added, for memory accounting.

        Raises:
            UnsupportedError: The network has no drafter.
        """
        raise self._without_drafter()

    def drafted_by(self, drafter: Network, origin: str) -> Self:
        """Return the network with the drafter of another config.

        Args:
            drafter: Its layers, with `draft_vocab_size`.
            origin: Its file, for messages.

        Raises:
            UnsupportedError: The network has no drafter.
        """
        del drafter, origin
        raise self._without_drafter()

    def with_redundant_experts(self, copies: int) -> Self:
        """Return the network with copies of popular experts in each MoE layer."""
        del copies
        return self

    def with_images(self, number: int, height: int, width: int) -> Self:
        """Return the network whose requests have images.

        Args:
            number: Images of a request.
            height: Height of an image [pixels].
            width: Width of an image [pixels].

        Raises:
            UnsupportedError: It has no vision encoder, or one that is not described.
        """
        del height, width
        if not number:
            return self
        why = self.undescribed or f"no vision encoder of {self.model_type} is described"
        raise UnsupportedError(f"{why}; leave images out")

    def without_windows(self, note: str) -> Self:
        """Return the network whose layers attend to the whole cache and keep it.

        Args:
            note: Why, a sentence that its answers carry.
        """
        del note
        return self

    def split(self) -> tuple[Self, Self]:
        """Return the network without feed-forward networks, and these alone.

        Raises:
            UnsupportedError: The layers of the network have no such parts.
        """
        raise UnsupportedError(
            f"a {self.model_type} network has no attention to be split from feed-forward networks;"
            " leave feed_forward_system out"
        )

    def changed(self, settings: Mapping[str, str]) -> tuple[Self, dict[str, int]]:
        """Return the network with other dimensions, and the dimensions, a solved one included.

        Raises:
            InvalidSpecError: The network has no such dimensions, or they contradict each other.
        """
        raise InvalidSpecError(
            f"{', '.join(settings)}: {self.model_type} has no dimensions that can be overridden;"
            " change its file"
        )

    def describe_layers(self) -> tuple[dict[str, object], ...]:
        """Return what each group of layers is, beside its count."""
        return tuple({} for _ in self.layers)

    @property
    def permutes_images(self) -> bool:
        """Whether it stores images as NHWC itself."""
        return False

    def trained(self, fused: Collection[str] = ()) -> Self:
        """Return the part of the network that a training step runs: all of it.

        Args:
            fused: Kinds of operators that the engine fuses into others.
        """
        del fused
        return self

    def backward(self, operator: Operator, *, frozen: bool = False) -> Backward:
        """Return the operators of the backward pass of one of its operators.

        Args:
            frozen: Whether its weights have no gradients.
        """
        return operator.backward(frozen=frozen)

    def saved(self, operator: Operator, saving: Saving) -> FloatArray:
        """Return what one execution of an operator keeps for its backward pass (C,) [bytes].

        Args:
            saving: How the engine keeps activations.
        """
        return operator.saved(saving)

    def divides_tokens(self, operator: Operator) -> bool:
        """Return whether context-parallel ranks divide the tokens of one of its operators.

        The head has one row per sequence, on the rank of the last token. The expansion of latent
        keys and values is repeated for every key on every rank: gathering the expanded heads costs
        more. Images are encoded on every rank.
        """
        return operator.phase != Phase.DECODE and not operator.name.startswith(UNDIVIDED)

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Distinct sizes of the network that a plan divides."""
        return tuple(dict.fromkeys(size for group in self.layers for size in group.divided_sizes))

    @property
    def size_group(self) -> Hashable:
        """What networks share that can be priced together, with their sizes as columns."""
        return self

    def sized(self, networks: Sequence[Network], index_C: IntArray) -> Self:
        """Return the networks of candidates, of one `size_group`, as one with columns of sizes."""
        del networks, index_C
        return self

    def columns_of_sizes(self) -> tuple[FloatArray, ...]:
        """Return its sizes that differ between candidates, each (C,)."""
        return ()

    def take(self, index_C: IntArray) -> Self:
        """Return the network of some candidates, in the given order."""
        del index_C
        return self

    @property
    def encoder_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes of a vision encoder that tensor parallelism divides."""
        return ()

    @property
    def encoder_parameters(self) -> int:
        """Parameters of the vision encoder, 0 where prompts have no images."""
        return 0

    @property
    def divides_denoiser(self) -> bool:
        """Whether context-parallel ranks divide a denoiser that is a transformer."""
        sizes = self.divided_sizes
        return bool(self.item) and any(size.by == "cp" and size.size > 1 for size in sizes)

    @property
    def denoiser_tokens(self) -> float:
        """Tokens of the shortest sequence of a denoiser that ranks divide."""
        return math.inf

    @property
    def denoising(self) -> frozenset[str]:
        """Names of the operators of a denoiser, which guidance runs twice."""
        return frozenset()

    @property
    def guided(self) -> bool:
        """Whether a denoiser runs two passes for each item: with a prompt and without."""
        return False

    @property
    def num_layers(self) -> int:
        """Number of layers over all groups."""
        return sum(group.count for group in self.layers)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of what its layers have beside full attention, sorted."""
        return tuple(sorted({kind for group in self.layers for kind in group.kinds}))

    @property
    def has_experts(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(group.experts is not None for group in self.layers)

    @property
    def tables(self) -> int:
        """Embedding tables that attention-DP ranks divide, 0 for none."""
        return sum(group.tables for group in self.layers)

    @property
    def divides_weights(self) -> bool:
        """Whether attention-DP ranks divide weights: those of experts, or embedding tables."""
        return self.has_experts or self.tables > 0

    @property
    def has_shared_experts(self) -> bool:
        """Whether any layer runs a shared expert beside the routed ones."""
        experts = (group.experts for group in self.layers)
        return any(expert is not None and expert.shared_intermediate_size > 0 for expert in experts)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Phases of inference: without decode, one pass per request."""
        return (Phase.PREFILL, Phase.DECODE)

    @property
    def pass_tokens(self) -> FloatArray | float:
        """Tokens that one pass generates of each item, 0 where it generates none."""
        return 0.0

    @property
    def default_osl(self) -> int:
        """Output tokens of an item of a graph of operators where none are given."""
        return 1

    @property
    def longest_output(self) -> int:
        """Most output tokens of an item of a graph of operators, 1 without decode."""
        return 1

    @property
    def decodes(self) -> bool:
        """Whether sequences are decoded token by token."""
        return Phase.DECODE in self.phases

    def _without_drafter(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.model_type} does not decode token by token, so nothing can be drafted; leave"
            " drafter, speculative_depth and mtp_depth out"
        )

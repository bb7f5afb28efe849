"""What describes a language model: groups of identical layers, each a mixer and a feed-forward.

A family module converts a config.json into this; operators, parameters and cache follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.networks.contract import Network, Segment
from perfatlas.networks.layers import GqaAttention, MoeFfn

if TYPE_CHECKING:
    from perfatlas.networks.contract import DividedSize, RoutedExperts
    from perfatlas.networks.layers import Ffn, Mixer
    from perfatlas.networks.vision_encoder import GraphEncoder, VisionEncoder

SINKS: Final = "attention sinks"
SPARSE: Final = "sparse attention"


@dataclass(frozen=True, kw_only=True)
class LayerGroup(Segment):
    """`count` identical layers; the mixer or feed-forward may be absent (nemotron_h).

    `norms` is the number of hidden-size norms per layer.
    """

    mixer: Mixer | None
    ffn: Ffn | None
    norms: int = 2
    at: tuple[int, ...] = field(
        default=(), compare=False, repr=False
    )  # Places of a config's layers

    @property
    def blocks(self) -> tuple[Mixer | Ffn, ...]:
        """The mixer and the feed-forward that the layer has."""
        return tuple(block for block in (self.mixer, self.ffn) if block is not None)

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that a plan divides."""
        return tuple(size for block in self.blocks for size in block.divided_sizes if size.size > 0)

    @property
    def experts(self) -> RoutedExperts | None:
        """Routed experts, None for a layer without."""
        return self.ffn if isinstance(self.ffn, MoeFfn) else None

    @property
    def modules(self) -> frozenset[str]:
        """Names of modules that recomputation can select."""
        return frozenset(name for block in self.blocks for name in block.modules)

    @property
    def qkv_widths(self) -> tuple[int, int, int] | None:
        """Columns of queries, keys and values in a fused projection, None without one."""
        mixer = self.mixer
        if not isinstance(mixer, GqaAttention):
            return None
        keys = mixer.num_kv_heads * mixer.head_dim
        return mixer.num_heads * mixer.head_dim, keys, mixer.num_kv_heads * mixer.value_head_dim

    @property
    def is_recurrent(self) -> bool:
        """Whether tokens of a sequence are processed one after another."""
        return self.mixer is not None and self.mixer.is_recurrent

    @property
    def selects_keys(self) -> bool:
        """Whether queries attend to keys that an indexer selects."""
        return getattr(self.mixer, "indexer", None) is not None

    @property
    def needs_images(self) -> bool:
        """Whether the layer attends to images alone and is left out without any."""
        return isinstance(self.mixer, GqaAttention) and self.mixer.cross

    @property
    def has_sinks(self) -> bool:
        """Whether attention has a learned sink logit per head."""
        return isinstance(self.mixer, GqaAttention) and self.mixer.sinks

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of what it has beside full attention."""
        named = (self.mixer.kind if self.mixer else "", SINKS if self.has_sinks else "")
        return tuple(filter(None, (*named, SPARSE if self.selects_keys else "")))


@dataclass(frozen=True, kw_only=True)
class LanguageModel(Network):
    """The dimensions of a language model, beside those of every network."""

    tie_word_embeddings: bool  # Whether the LM head shares the embedding
    layers: tuple[LayerGroup, ...]  # Groups of identical layers; their counts sum to the depth
    learned_norm: bool = True  # Whether norms have weights
    layer_norm_bias: bool = False  # Whether norms have biases
    lm_head_bias: bool = False  # Whether the LM head has a bias
    position_rows: int = 0  # Rows of a table of learned positions, 0 for none (OPT)
    embedding_norm: bool = False  # Whether the embedding is normalized (BLOOM)
    residual_streams: int = 1  # Residual streams, mixed around every block (DeepSeek-V4)
    # Encodes images before the prefill; None for text alone
    encoder: VisionEncoder | GraphEncoder | None = None
    # Width of an embedding of each token for every layer, and the rows of its table (Gemma 4)
    per_layer_width: int = 0
    per_layer_rows: int = 0
    # Parameters that are held in memory and whose operators are not priced: a warning names them
    unpriced_parameters: int = 0
    drafter: LayerGroup | None = None  # Layer of the drafter; None for one like the last layer

    @property
    def embedding_rows(self) -> int:
        """Rows of the embedding, which tp divides."""
        return self.vocab_size

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes of layers that a plan divides, and of the encoder where it runs."""
        return (*super().divided_sizes, *(self.encoder_sizes if self.images else ()))

    @property
    def encoder_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes of the vision encoder that tensor parallelism divides."""
        return self.encoder.divided_sizes if self.encoder else ()

    @property
    def encoder_parameters(self) -> int:
        """Parameters of the vision encoder, 0 where prompts have no images."""
        return 0 if self.encoder is None else self.encoder.parameters

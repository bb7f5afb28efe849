"""A language model, with the cache of a sequence and the drafter of speculative decoding.

Multi-token-prediction modules and EAGLE heads have the same structure: the hidden state and the
embedding of the last token, projected to the hidden size, one layer, and the head of the model.

An EAGLE-3 drafter is a model of its own: hidden states of three layers are projected to one, its
first layer reads that beside the embedding, and it has a head over a vocabulary of its own.

Source: DeepSeek-V3 technical report (arXiv 2412.19437) section 2.2; Li et al., EAGLE
    (arXiv 2401.15077) section 4; EAGLE-3 (arXiv 2503.01840) section 3; sgl-project/sglang,
    models/llama_eagle3.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self, TypeVar

from perfatlas.networks.changes import (
    changed_model,
    split_layers,
    with_redundant_experts,
    without_windows,
)
from perfatlas.networks.contract import CacheLayout, Images, LiveElements
from perfatlas.networks.key_index import INDEX_KEY_BYTES, INDEX_SCALE_BYTES
from perfatlas.networks.language_model import LanguageModel
from perfatlas.networks.layers import (
    CompressedAttention,
    GatedDeltaNet,
    GatedRecurrence,
    GqaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    MlaAttention,
    MoeFfn,
    ShortConvolution,
)
from perfatlas.networks.parameters import parameter_counts
from perfatlas.networks.phases import FUSED, HEAD_OPERATORS, joining_projection, step_operators
from perfatlas.operators import ACTIVATION_BYTES, Gemm, Phase, with_fields
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from perfatlas.networks.contract import Network, ParameterCounts
    from perfatlas.networks.emission import ModelFormats, StepTokens
    from perfatlas.networks.language_model import LayerGroup
    from perfatlas.networks.layers import Mixer
    from perfatlas.operators import Operator

Kind = TypeVar("Kind", bound="LanguageModel")


# Hidden states of all tokens that are live beside the tensors of a block: the attention output and
# the residual, held by the caller of a compiled region, and the residual and normalized input
# inside it. Liveness alone allows three or four; the startup logs of three dense models on one GPU
# show four (validation/data/kv_capacity.toml, vLLM 0.11.0).
LIVE_HIDDEN: Final = 4.0


def draft_layer(architecture: LanguageModel) -> LayerGroup:
    """Return the layer of a drafter: like the last layer with attention and feed-forward."""
    for group in architecture.layers:
        if group.is_recurrent:
            raise UnsupportedError(
                f"speculative decoding of {architecture.model_type} is not supported: its recurrent"
                " layers would need a state per draft token; set speculative_depth to 0"
            )
    whole = [
        group
        for group in architecture.layers
        if group.mixer is not None and group.ffn is not None and not group.needs_images
    ]
    if architecture.drafter is not None:
        return architecture.drafter
    if not whole:
        raise UnsupportedError(
            f"{architecture.model_type} has no layer with attention and feed-forward to derive a"
            " drafter from; set speculative_depth to 0"
        )
    return replace(whole[-1], count=1)


def with_drafter(architecture: Kind) -> Kind:
    """Return a model with the drafter's layer added, for memory accounting.

    Limits: The projection of a drafter without a config of its own, 2 hidden_size^2 weights, is
        omitted. An EAGLE-3 drafter shares the embedding of the model.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> resolve_model("meta-llama/Llama-3.1-8B-Instruct").network.with_drafter().num_layers
        33
    """
    layer, hidden = draft_layer(architecture), architecture.hidden_size
    whole = replace(architecture, layers=(*architecture.layers, layer))
    if not architecture.draft_vocab_size:
        return whole
    wider = sum(layer.qkv_widths or ()) + 1  # of the first layer, and the norm of hidden states
    own = hidden * (FUSED * hidden + wider + architecture.draft_vocab_size + 1)
    return replace(whole, unpriced_parameters=architecture.unpriced_parameters + own)


def draft_operators(
    architecture: LanguageModel, formats: ModelFormats, phase: Phase, tokens: StepTokens
) -> tuple[Operator, ...]:
    """Return the operators of one pass of a drafter, unsharded, in execution order.

    Args:
        phase: Prefill or decode.

    Limits: The norms before the projection are omitted.
    """
    layer = draft_layer(architecture)
    vocabulary = architecture.draft_vocab_size or architecture.vocab_size
    alone = replace(architecture, layers=(layer,), vocab_size=vocabulary)
    embedding, *rest = step_operators(alone, formats, phase, tokens)
    if architecture.draft_vocab_size:  # its first layer reads hidden states and embeddings
        wider = 1.0 + 1.0 / layer.count
        rest = [
            with_fields(operator, k=wider * operator.k)
            if isinstance(operator, Gemm) and operator.name == "qkv_projection"
            else operator
            for operator in rest
        ]
    return (embedding, *joining_projection(architecture, formats, phase, tokens), *rest)


def cache_layouts(
    architecture: LanguageModel, kv_bytes_per_element: float
) -> tuple[CacheLayout, ...]:
    """Return the cache of every group of layers that has one.

    Args:
        kv_bytes_per_element: Bytes of a cached key, value or latent element, scales included.

    Source: GQA: arXiv 2305.13245; latent row kv_lora_rank + rope: arXiv 2405.04434 section 2.1.3;
        index keys in fp8 with one fp32 scale: DeepSeek-V3.2-Exp report and inference code; fp32
        recurrent states and 16-bit convolution states: config.json of the hybrids.
    Limits: A windowed layer counts exactly its window; engines without a separate pool for
        windowed layers keep every token instead. Alignment and paging depend on the engine.

    Example:
        >>> from perfatlas.networks import Architecture, GqaAttention, LayerGroup
        >>> attention = GqaAttention(num_heads=64, num_kv_heads=8, head_dim=128,
        ...     value_head_dim=128)
        >>> model = Architecture(model_type="llama", hidden_size=8192, vocab_size=128256,
        ...     tie_word_embeddings=False,
        ...     layers=(LayerGroup(count=80, mixer=attention, ffn=None, norms=1),))
        >>> model.cache_layouts(2.0)[0].bytes_per_token  # 8 heads x (128 + 128) x 2
        4096.0
    """
    return tuple(
        layout
        for group in architecture.layers
        for layout in _layouts(group.mixer, group.count, kv_bytes_per_element)
    )


def _layouts(mixer: Mixer | None, layers: int, element_bytes: float) -> tuple[CacheLayout, ...]:
    match mixer:
        case None:
            return ()
        case GqaAttention(cross=True) | GqaAttention(shared_cache=True):
            return ()
        case GqaAttention():
            width = mixer.num_kv_heads * (mixer.head_dim + mixer.value_head_dim)
            rows = CacheLayout(
                kind="attention",
                layers=layers,
                bytes_per_token=width * element_bytes,
                token_limit=mixer.window,
                divided_by=mixer.num_kv_heads,
            )
            if mixer.indexer is None:
                return (rows,)
            key_bytes = mixer.indexer.head_dim * ACTIVATION_BYTES
            return rows, CacheLayout(kind="index", layers=layers, bytes_per_token=key_bytes)
        case MlaAttention():
            row = CacheLayout(
                kind="latent",
                layers=layers,
                bytes_per_token=(mixer.kv_lora_rank + mixer.rope_dim) * element_bytes,
            )
            if mixer.indexer is None or mixer.indexer.shared:
                return (row,)
            index_bytes = mixer.indexer.head_dim * INDEX_KEY_BYTES + INDEX_SCALE_BYTES
            return row, CacheLayout(kind="index", layers=layers, bytes_per_token=index_bytes)
        case CompressedAttention():
            return _compressed_layouts(mixer, layers, element_bytes)
        case _:
            return (_state_layout(mixer, layers),)


def _compressed_layouts(
    mixer: CompressedAttention, layers: int, element_bytes: float
) -> tuple[CacheLayout, ...]:
    row_bytes = mixer.head_dim * element_bytes
    recent = CacheLayout(
        kind="latent", layers=layers, bytes_per_token=row_bytes, token_limit=mixer.window
    )
    if not mixer.ratio:
        return (recent,)

    def compressed(kind: str, row_bytes: float, width: int) -> CacheLayout:
        # a compressor sums values and scores of each series in fp32
        return CacheLayout(
            kind=kind,
            layers=layers,
            bytes_per_token=row_bytes / mixer.ratio,
            tokens_per_row=mixer.ratio,
            state_bytes_per_token=mixer.series * width * 2 * mixer.state_bytes,
            state_tokens=mixer.series * mixer.ratio,
        )

    rows = compressed("latent", row_bytes, mixer.head_dim)
    if mixer.indexer is None:
        return recent, rows
    width = mixer.indexer.head_dim
    return recent, rows, compressed("index", width * INDEX_KEY_BYTES + INDEX_SCALE_BYTES, width)


def _state_layout(
    mixer: GatedDeltaNet
    | Mamba2
    | Mamba1
    | LightningAttention
    | ShortConvolution
    | GatedRecurrence,
    layers: int,
) -> CacheLayout:
    match mixer:
        case LightningAttention():
            state, channels, heads = mixer.num_heads * mixer.head_dim**2, 0, mixer.num_heads
        case GatedRecurrence():
            state = mixer.inner * (mixer.key_dim or mixer.states)
            channels, heads = mixer.inner, mixer.num_heads
        case ShortConvolution():
            state, channels, heads = 0, mixer.width, mixer.width
        case GatedDeltaNet():
            value = mixer.num_value_heads * mixer.value_head_dim
            channels = 2 * mixer.num_key_heads * mixer.key_head_dim + value
            state, heads = value * mixer.key_head_dim, mixer.num_value_heads
        case Mamba2():
            inner = mixer.num_heads * mixer.head_dim
            channels = inner + 2 * mixer.num_groups * mixer.state_size
            state, heads = inner * mixer.state_size, mixer.num_heads
        case Mamba1():
            channels = heads = mixer.intermediate_size
            state = channels * mixer.state_size
    kernel = 1 if isinstance(mixer, LightningAttention) else max(mixer.conv_kernel, 1)
    conv_bytes = channels * (kernel - 1) * ACTIVATION_BYTES
    return CacheLayout(
        kind="state",
        layers=layers,
        constant_bytes=state * mixer.state_bytes + conv_bytes,
        fp32_elements=state if mixer.state_bytes > ACTIVATION_BYTES else 0,
        divided_by=heads,
    )


@dataclass(frozen=True, kw_only=True)
class Architecture(LanguageModel):
    """A language model.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> resolve_model("meta-llama/Llama-3.1-8B").network.parameters().total
        8030261248
    """

    def step_operators(
        self, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of one step: `phases.step_operators` behind those of its images."""
        whole = step_operators(self, formats, phase, tokens)
        if self.encoder is None or tokens.images is None or phase != Phase.PREFILL:
            return whole
        tokens_per_image = 1 if self.images is None else self.images.tokens
        encoding = self.encoder.operators(tokens_per_image, formats, tokens.images)
        return (*whole[:1], *encoding, *whole[1:])

    def segment_operators(
        self, segment: int, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of the embedding, of one layer of a group, or of the head.

        Limits: A norm of the embedding (BLOOM) and the collapse of residual streams (DeepSeek-V4)
            count with every layer.
        """
        last = len(self.layers) + 1
        group = self.layers[min(max(segment, 1), last - 1) - 1]
        single = replace(self, layers=(replace(group, count=1),))
        embedding, *others = step_operators(single, formats, phase, tokens)
        if segment == 0:
            return (embedding,)
        is_head = segment == last
        return tuple(other for other in others if (other.name in HEAD_OPERATORS) == is_head)

    def parameters(self) -> ParameterCounts:
        """Return the exact parameter counts."""
        return parameter_counts(self)

    def cache_layouts(self, kv_bytes_per_element: float) -> tuple[CacheLayout, ...]:
        """Return the cache of every group of layers that has one."""
        return cache_layouts(self, kv_bytes_per_element)

    def live_elements(self) -> tuple[LiveElements, ...]:
        """Return the elements per token that are live inside each block of the layers."""
        stream = LIVE_HIDDEN * self.hidden_size
        live = []
        for group in self.layers:
            width = 0.0 if group.mixer is None else group.mixer.live_width
            live.append(LiveElements(repeated=stream, divided=width))
            if isinstance(group.ffn, MoeFfn):
                live.append(LiveElements(repeated=stream, experts=group.ffn))
            elif group.ffn is not None:
                live.append(LiveElements(repeated=stream, divided=group.ffn.live_width))
        return tuple(live)

    def draft_operators(
        self, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of one pass of a drafter, unsharded, in execution order."""
        return draft_operators(self, formats, phase, tokens)

    def with_drafter(self) -> Self:
        """Return the model with the drafter's layer added, for memory accounting."""
        return with_drafter(self)

    def drafted_by(self, drafter: Network, origin: str) -> Self:
        """Return the model with an EAGLE-3 drafter, whose width must be its own."""
        own = drafter if isinstance(drafter, Architecture) else None
        layers = own.layers if own else ()
        if len(layers) != 1 or not isinstance(layers[0].mixer, GqaAttention):
            raise UnsupportedError(f"{origin}: its layers are not those of one kind of attention")
        for name in ("hidden_size", "vocab_size"):
            size, other = getattr(self, name), getattr(drafter, name)
            if size != other:
                raise InvalidSpecError(
                    f"{origin}: {name} = {other:,} must be that of the model, {size:,}; use a"
                    " drafter of this model"
                )
        return replace(self, drafter=layers[0], draft_vocab_size=drafter.draft_vocab_size)

    def with_redundant_experts(self, copies: int) -> Self:
        """Return the model as a deployment holds it, with copies of popular experts."""
        return with_redundant_experts(self, copies)

    def with_images(self, number: int, height: int, width: int) -> Self:
        """Return the model whose requests have images."""
        if self.encoder is None or not number:
            return super().with_images(number, height, width)
        if self.encoder.tiles:
            raise UnsupportedError(f"{self.encoder.tiles}; leave images out")
        images = Images(number=number, tokens=self.encoder.resizing.tokens(height, width))
        note = (
            f"prompts have isl + {images.prompt_tokens:,} tokens: {number:,} x {images.tokens:,} of"
            f" images of {height:,} x {width:,} pixels"
        )
        return replace(self, images=images, notes=(*self.notes, note))

    def trained(self, fused: Collection[str] = ()) -> Self:
        """Return the part of the model that a training step runs: the language model alone."""
        alone = replace(self, encoder=None, unpriced_parameters=0)
        return super().trained(fused) if alone == self else alone

    def without_windows(self, note: str) -> Self:
        """Return the model whose layers attend to the whole cache and keep it."""
        return without_windows(self, note)

    def split(self) -> tuple[Self, Self]:
        """Return the model without feed-forward networks, and these alone, without vocabulary."""
        return split_layers(self)

    def changed(self, settings: Mapping[str, str]) -> tuple[Self, dict[str, int]]:
        """Return the model with other dimensions, and the dimensions, a solved one included."""
        return changed_model(self, settings)

    def describe_layers(self) -> tuple[dict[str, object], ...]:
        """Return the mixer and the feed-forward of each group of layers."""
        return tuple({"mixer": group.mixer, "ffn": group.ffn} for group in self.layers)

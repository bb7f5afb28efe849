"""A language model as a network: its operators, parameters, cache and activations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from perfatlas.networks.cache_layout import cache_layouts
from perfatlas.networks.changes import (
    changed_model,
    split_layers,
    with_redundant_experts,
    without_windows,
)
from perfatlas.networks.contract import Images, LiveElements
from perfatlas.networks.drafting import draft_operators, with_drafter
from perfatlas.networks.language_model import LanguageModel
from perfatlas.networks.layers import MoeFfn
from perfatlas.networks.parameters import parameter_counts
from perfatlas.networks.phases import HEAD_OPERATORS, step_operators
from perfatlas.operators import Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from perfatlas.networks.contract import CacheLayout, ParameterCounts
    from perfatlas.networks.emission import ModelFormats, StepTokens
    from perfatlas.operators import Operator

# Hidden states of all tokens that are live beside the tensors of a block: the attention output and
# the residual, held by the caller of a compiled region, and the residual and normalized input
# inside it. Liveness alone allows three or four; the startup logs of three dense models on one GPU
# show four (validation/data/kv_capacity.toml, vLLM 0.11.0).
LIVE_HIDDEN: Final = 4.0


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
        found = []
        for group in self.layers:
            width = 0.0 if group.mixer is None else group.mixer.live_width
            found.append(LiveElements(repeated=stream, divided=width))
            if isinstance(group.ffn, MoeFfn):
                found.append(LiveElements(repeated=stream, experts=group.ffn))
            elif group.ffn is not None:
                found.append(LiveElements(repeated=stream, divided=group.ffn.live_width))
        return tuple(found)

    def draft_operators(
        self, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        """Return the operators of one pass of a drafter, unsharded, in execution order."""
        return draft_operators(self, formats, phase, tokens)

    def with_drafter(self) -> Self:
        """Return the model with the drafter's layer added, for memory accounting."""
        return with_drafter(self)

    def with_redundant_experts(self, copies: int) -> Self:
        """Return the model as a deployment holds it, with copies of popular experts."""
        return with_redundant_experts(self, copies)

    def with_images(self, number: int, height: int, width: int) -> Self:
        """Return the model whose requests have images."""
        if self.encoder is None or not number:
            return super().with_images(number, height, width)
        images = Images(number=number, tokens=self.encoder.resizing.tokens(height, width))
        note = (
            f"prompts have isl + {images.prompt_tokens:,} tokens: {number:,} x {images.tokens:,} of"
            f" images of {height:,} x {width:,} pixels"
        )
        return replace(self, images=images, notes=(*self.notes, note))

    def trained(self, fused: Collection[str] = ()) -> Self:
        """Return the part of the model that a training step runs: the language model alone."""
        return super().trained(fused) if self.encoder is None else replace(self, encoder=None)

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

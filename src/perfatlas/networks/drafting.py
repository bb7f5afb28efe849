"""The drafter of speculative decoding: one layer behind a projection.

Multi-token-prediction modules and EAGLE heads have the same structure: the hidden state and the
embedding of the last token, projected to the hidden size, one layer, and the head of the model.

Source: DeepSeek-V3 technical report (arXiv 2412.19437) section 2.2; Li et al., EAGLE
    (arXiv 2401.15077) section 4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from perfatlas.networks.phases import joining_projection, step_operators
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from perfatlas.networks.emission import ModelFormats, StepTokens
    from perfatlas.networks.language_model import LanguageModel, LayerGroup
    from perfatlas.operators import Operator, Phase

Kind = TypeVar("Kind", bound="LanguageModel")


def draft_layer(architecture: LanguageModel) -> LayerGroup:
    """Return the layer of a drafter: like the last layer with attention and feed-forward."""
    for group in architecture.layers:
        if group.is_recurrent:
            raise UnsupportedError(
                f"speculative decoding of {architecture.model_type} is not supported: its recurrent"
                " layers would need a state per draft token; set speculative_depth to 0"
            )
    whole = [g for g in architecture.layers if g.mixer is not None and g.ffn is not None]
    if not whole:
        raise UnsupportedError(
            f"{architecture.model_type} has no layer with attention and feed-forward to derive a"
            " drafter from; set speculative_depth to 0"
        )
    return replace(whole[-1], count=1)


def with_drafter(architecture: Kind) -> Kind:
    """Return a model with the drafter's layer added, for memory accounting.

    Limits: The projection of the drafter, 2 hidden_size^2 weights, is omitted.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> resolve_model("meta-llama/Llama-3.1-8B-Instruct").network.with_drafter().num_layers
        33
    """
    return replace(architecture, layers=(*architecture.layers, draft_layer(architecture)))


def draft_operators(
    architecture: LanguageModel, formats: ModelFormats, phase: Phase, tokens: StepTokens
) -> tuple[Operator, ...]:
    """Return the operators of one pass of a drafter, unsharded, in execution order.

    Args:
        phase: Prefill or decode.

    Limits: The norms before the projection are omitted.
    """
    alone = replace(architecture, layers=(draft_layer(architecture),))
    embedding, *rest = step_operators(alone, formats, phase, tokens)
    return (embedding, *joining_projection(architecture, formats, phase, tokens), *rest)

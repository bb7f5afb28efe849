"""The drafter of speculative decoding: a layer of the model behind a projection.

A multi-token-prediction module and an EAGLE head are both of this shape: the hidden state and the
embedding of the last token, projected to one width, through one layer, to the head of the model.

Source: DeepSeek-V3 technical report (arXiv 2412.19437) section 2.2; Li et al., EAGLE
    (arXiv 2401.15077) section 4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.models.architecture import GqaAttention, LayerGroup, MlaAttention
from perfatlas.models.phases import joining_projection, step_operators
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from perfatlas.models.architecture import Architecture
    from perfatlas.models.emission import ModelFormats, StepTokens
    from perfatlas.operators import Operator, Phase


def draft_layer(architecture: Architecture) -> LayerGroup:
    """Return the layer a drafter of a model has: one as the last with attention and feed-forward.

    Args:
        architecture: The model that verifies.

    Raises:
        UnsupportedError: A layer of the model keeps a recurrent state, from which rejected drafts
            cannot be taken back as they are from a cache.
    """
    attention = (GqaAttention, MlaAttention)
    for group in architecture.layers:
        if group.mixer is not None and not isinstance(group.mixer, attention):
            raise UnsupportedError(
                f"speculative decoding of {architecture.model_type} is not priced: its recurrent"
                " layers would have to keep a state for every draft; set speculative_depth to 0"
            )
    whole = [g for g in architecture.layers if g.mixer is not None and g.ffn is not None]
    if not whole:
        raise UnsupportedError(
            f"{architecture.model_type} has no layer with attention and feed-forward that a drafter"
            " could be like; set speculative_depth to 0"
        )
    return replace(whole[-1], count=1)


def with_drafter(architecture: Architecture) -> Architecture:
    """Return a model with the layer of its drafter among its own: what memory holds.

    Args:
        architecture: The model that verifies; embedding and head are shared.

    Limits: the projection of the drafter is left out, 2 hidden_size^2 weights.

    Example:
        >>> from perfatlas.models import resolve_model
        >>> from perfatlas.models import with_drafter
        >>> with_drafter(resolve_model("meta-llama/Llama-3.1-8B-Instruct").architecture).num_layers
        33
    """
    return replace(architecture, layers=(*architecture.layers, draft_layer(architecture)))


def draft_operators(
    architecture: Architecture, formats: ModelFormats, phase: Phase, tokens: StepTokens
) -> tuple[Operator, ...]:
    """Return the operators of one pass of a drafter, unsharded, in execution order.

    Args:
        architecture: The model that verifies.
        formats: The formats of the deployment.
        phase: Prefill or decode.
        tokens: The tokens of the pass.

    Limits: the norms in front of the projection are left out.
    """
    alone = replace(architecture, layers=(draft_layer(architecture),))
    embedding, *rest = step_operators(alone, formats, phase, tokens)
    return (embedding, *joining_projection(architecture, formats, phase, tokens), *rest)

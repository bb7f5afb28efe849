"""Bytes of weights on one rank.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks import StepTokens
from perfatlas.operators import Gemm, GroupedGemm, Phase, with_fields
from perfatlas.parallelism.groups import ACTIVATION_BYTES
from perfatlas.parallelism.sharding import divide_gemm, stage_share

Multiples = tuple[int, int]
"""Multiples to which a kernel pads the hidden size and the expert intermediate size of a rank."""

if TYPE_CHECKING:
    from perfatlas.networks import ModelFormats, Network
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import PlanColumns

# The head's GEMM in `models`, and the weights that are stored twice.
_HEAD: Final = "lm_head"
_EXPANSION: Final = "kv_b_projection"
_ABSORBED: Final = ("latent_q_absorb", "latent_v_expand")


@dataclass(frozen=True, kw_only=True)
class WeightColumns:
    """Weights of one rank by pipeline position (C,) [bytes].

    Args:
        layers_bytes: All layers, as for a single stage.
        embedding_bytes: Input embedding, on the first stage.
        head_bytes: LM head, on the last stage; 0 for a single stage with shared embedding.
        stage_bytes: Weights of the fullest stage.
    """

    layers_bytes: FloatArray
    embedding_bytes: FloatArray
    head_bytes: FloatArray
    stage_bytes: FloatArray


def weight_columns(
    architecture: Network, formats: ModelFormats, plan: PlanColumns
) -> WeightColumns:
    """Return the weight bytes of one rank, including scales.

    Linear layers are divided as in `shard_operators`: experts over ep x moe_tp, heads and widths
    over tp, key-value heads replicated beyond their number; MLA down projections, routers and
    sparse indexers are replicated. Norms, biases and convolutions are replicated, in 16 bits. The
    fullest pipeline stage holds ceil(L/pp) layers and the larger of embedding and head.

    Args:
        architecture: The model.
        formats: The formats of the deployment.
        plan: The plans (C,).

    Source: MLA: engines hold the absorbed matrices in 16 bits beside a quantized kv_b_projection
        (vLLM v1/attention/backends/mla/common.py, process_weights_after_loading); an
        unquantized one is shared.
    Limits: Multi-token-prediction layers are not loaded. Biases and convolutions, which engines
        divide, are counted as replicated (below 0.2% of the weights). Layers of different kinds
        are assumed evenly distributed over pipeline stages.

    Example:
        >>> import numpy as np
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.networks import ModelFormats
        >>> from perfatlas.parallelism import PlanColumns
        >>> from perfatlas.parallelism import weight_columns
        >>> formats = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
        >>> one = np.ones(1)
        >>> plan = PlanColumns(tp=one, pp=one, cp=one, attention_dp=one, ep=one, moe_tp=one, dp=one)
        >>> model = resolve_model("meta-llama/Llama-3.1-8B-Instruct").network
        >>> float(weight_columns(model, formats, plan).stage_bytes[0])  # 8,030,261,248 parameters
        16060522496.0
    """
    layers_bytes = np.full(
        plan.tp.shape, _small_parameters(architecture, formats) * ACTIVATION_BYTES
    )
    head_bytes = np.zeros_like(plan.tp)
    quantized_expansion = False
    for operator in _linear_layers(architecture, formats, Phase.PREFILL, plan.tp):
        if operator.name == _HEAD:
            head_bytes = _held_bytes(operator, plan)
        else:
            layers_bytes = layers_bytes + _held_bytes(operator, plan)
        quantized_expansion |= operator.name == _EXPANSION and operator.format != formats.head
    if quantized_expansion:
        layers_bytes = layers_bytes + _absorbed_copies(architecture, formats, plan)
    rows = np.ceil(architecture.embedding_rows / plan.tp)
    embedding_bytes = rows * architecture.hidden_size * ACTIVATION_BYTES
    single = plan.pp == 1
    if architecture.tie_word_embeddings:
        head_bytes = np.where(single, 0.0, head_bytes)
    ends = np.where(single, embedding_bytes + head_bytes, np.maximum(embedding_bytes, head_bytes))
    return WeightColumns(
        layers_bytes=layers_bytes,
        embedding_bytes=embedding_bytes,
        head_bytes=head_bytes,
        stage_bytes=layers_bytes * stage_share(architecture, plan) + ends,
    )


def expert_padding_bytes(
    architecture: Network, formats: ModelFormats, plan: PlanColumns, multiples: Multiples
) -> FloatArray:
    """Return the padding that kernel tiles add to the experts of one rank (C,) [bytes].

    Args:
        architecture: The model.
        formats: The formats of the deployment.
        plan: The plans (C,).
        multiples: Multiples to which hidden size and expert intermediate size are padded.

    Example:
        >>> import numpy as np
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.networks import ModelFormats
        >>> from perfatlas.parallelism import PlanColumns
        >>> from perfatlas.parallelism.weights import expert_padding_bytes
        >>> formats = ModelFormats(gemm="bf16", moe="mxfp4", kv="bf16", attention="bf16")
        >>> one = np.ones(1)
        >>> plan = PlanColumns(tp=one, pp=one, cp=one, attention_dp=one, ep=one, moe_tp=one, dp=one)
        >>> model = resolve_model("openai/gpt-oss-20b").network
        >>> # 24 layers x 32 experts x 3 matrices x (3072 x 2944 - 2880 x 2880) x 4.25 bits
        >>> float(expert_padding_bytes(model, formats, plan, (256, 128))[0])
        917471232.0
    """
    hidden_multiple, width_multiple = multiples
    total = np.zeros_like(plan.tp)
    if not architecture.has_experts:
        return total
    for operator in _linear_layers(architecture, formats, Phase.PREFILL, plan.tp):
        if isinstance(operator, GroupedGemm):
            width = operator.intermediate / plan.moe_tp
            padded = (np.ceil(operator.hidden / hidden_multiple) * hidden_multiple) * (
                np.ceil(width / width_multiple) * width_multiple
            )
            matrices = operator.matrices * operator.experts / plan.ep * operator.count
            added = matrices * (padded - operator.hidden * width)
            total = total + added * operator.weight_bytes_per_element
    return total * stage_share(architecture, plan)


def _linear_layers(
    architecture: Network, formats: ModelFormats, phase: Phase, tp: FloatArray | None
) -> list[Gemm | GroupedGemm]:
    """Return the undivided linear layers of a step, with heads replicated for tp if given."""
    one = np.ones(1 if tp is None else tp.shape)
    tokens = StepTokens(batch=one, q_len=one, kv_len=one, head_ranks=tp)
    return [
        operator
        for operator in architecture.step_operators(formats, phase, tokens)
        if isinstance(operator, Gemm | GroupedGemm)
    ]


def _elements(operator: Gemm | GroupedGemm) -> FloatArray:
    """Return the elements of the operator's weights over all its layers (C,)."""
    if isinstance(operator, Gemm):
        return operator.n * operator.k * operator.count
    matrix = operator.hidden * operator.intermediate / operator.moe_tp
    return operator.matrices * matrix * operator.experts / operator.ep * operator.count


def _held_bytes(operator: Gemm | GroupedGemm, plan: PlanColumns) -> FloatArray:
    """Return the bytes of the operator's weights on one rank, over all its layers (C,)."""
    local = (
        divide_gemm(operator, plan)
        if isinstance(operator, Gemm)
        else with_fields(operator, ep=plan.ep, moe_tp=plan.moe_tp)
    )
    return _elements(local) * operator.weight_bytes_per_element


def _absorbed_copies(architecture: Network, formats: ModelFormats, plan: PlanColumns) -> FloatArray:
    """Return the bytes of the absorbed matrices stored in addition to the expansion (C,)."""
    return sum(
        (
            _held_bytes(operator, plan)
            for operator in _linear_layers(architecture, formats, Phase.DECODE, plan.tp)
            if operator.name in _ABSORBED
        ),
        np.zeros_like(plan.tp),
    )


@cache
def _small_parameters(architecture: Network, formats: ModelFormats) -> float:
    """Return the parameters outside linear layers: norms, biases, sinks, convolutions."""
    architecture = architecture.with_redundant_experts(0)  # copies are no parameters of the model
    counts = architecture.parameters()
    linear = sum(
        float(_elements(operator)[0])
        for operator in _linear_layers(architecture, formats, Phase.PREFILL, None)
        if operator.name != _HEAD
    )
    return counts.total - counts.embedding - counts.lm_head - linear

"""Bytes of weights on one rank.

Shape legend: C candidates.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks import ENCODER, StepTokens
from perfatlas.operators import ACTIVATION_BYTES, Phase
from perfatlas.parallelism.sharding import dividing_ranks, stage_share
from perfatlas.parallelism.tables import hold_tables

Multiples = tuple["float | FloatArray", "float | FloatArray"]
"""Multiples to which a kernel pads the hidden and the expert intermediate size of a rank (C,)."""

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.networks import ModelFormats, Network
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.parallelism.plan import PlanColumns

# The head's GEMM in `networks`, and the weights that are stored twice.
_HEAD: Final = "lm_head"
_EXPANSION: Final = "kv_b_projection"
_ABSORBED: Final = ("latent_q_absorb", "latent_v_expand")


def stage_weights_bytes(
    network: Network,
    formats: ModelFormats,
    plan: PlanColumns,
    spread_C: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Return the weights of a rank of the fullest pipeline stage, including scales (C,) [bytes].

    Linear layers are divided as in `shard_operators`: experts over ep x moe_tp, heads and widths
    over tp, key-value heads replicated beyond their number; MLA down projections, routers and
    sparse indexers are replicated. Norms, biases and convolutions are replicated, in 16 bits. The
    fullest pipeline stage holds ceil(L/pp) layers and the larger of embedding and head, or its
    share of both. Every stage holds the vision encoder, whether requests have images or not; ranks
    that do not divide its sizes hold all of it.
    Embedding tables of a graph are those of the rank with the most bytes of them.

    Args:
        plan: The plans (C,).
        spread_C: Whether a compiler spreads weights evenly over all stages, layers cut where it
            needs (C,).

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
        >>> from perfatlas.parallelism import stage_weights_bytes
        >>> formats = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
        >>> one = np.ones(1)
        >>> plan = PlanColumns(tp=one, pp=one, cp=one, attention_dp=one, ep=one, moe_tp=one,
        ...     dp=one, ring_degree=one, guidance_degree=one, dcp=one)
        >>> model = resolve_model("meta-llama/Llama-3.1-8B-Instruct").network
        >>> float(stage_weights_bytes(model, formats, plan)[0])  # 8,030,261,248 parameters
        16060522496.0
    """
    small, stored = _small_parameters(network, formats)
    layers_bytes, encoder_bytes = np.zeros_like(plan.tp), np.zeros_like(plan.tp)
    head_bytes, ranks = np.zeros_like(plan.tp), dividing_ranks(plan)
    quantized_expansion = False
    layers = _linear_layers(network, formats, Phase.PREFILL, plan.tp)
    for operator in hold_tables(layers, plan):
        if operator.name == _HEAD:
            head_bytes = operator.divided(ranks).weight_bytes()
        elif not operator.name.startswith(ENCODER):
            layers_bytes = layers_bytes + operator.divided(ranks).weight_bytes()
        quantized_expansion |= operator.name == _EXPANSION and (
            operator.compute_format != formats.head
        )
    if quantized_expansion:
        for operator in _linear_layers(network, formats, Phase.DECODE, plan.tp):
            if operator.name in _ABSORBED:
                layers_bytes = layers_bytes + operator.divided(ranks).weight_bytes()
    if network.encoder_parameters:
        encoder_bytes = _encoder_bytes(network, formats, plan)
    layers_bytes = layers_bytes * stored + small * ACTIVATION_BYTES
    width = network.parameters().embedding / max(network.embedding_rows, 1)
    embedding_bytes = np.ceil(network.embedding_rows / plan.tp) * width * ACTIVATION_BYTES
    single = plan.pp == 1
    if network.tie_word_embeddings:
        head_bytes = np.where(single, 0.0, head_bytes)
    ends = np.where(single, embedding_bytes + head_bytes, np.maximum(embedding_bytes, head_bytes))
    share = stage_share(network, plan)
    if spread_C is not None:
        of_head = 0.0 if network.tie_word_embeddings else head_bytes
        ends = np.where(spread_C, (embedding_bytes + of_head) / plan.pp, ends)
        share = np.where(spread_C, 1.0 / plan.pp, share)
    return np.asarray(layers_bytes * share + encoder_bytes + ends)


def _encoder_bytes(network: Network, formats: ModelFormats, plan: PlanColumns) -> FloatArray:
    """Return the weights of the linear layers of a vision encoder on one rank (C,) [bytes]."""
    divides_C = np.logical_and.reduce([size.allows(plan.tp) for size in network.encoder_sizes])
    tp_C = np.where(divides_C, plan.tp, 1.0)
    ranks = dividing_ranks(plan)._replace(tp=tp_C)
    total_C = np.zeros_like(tp_C)
    for operator in _linear_layers(network, formats, Phase.PREFILL, tp_C):
        if operator.name.startswith(ENCODER):
            total_C = total_C + operator.divided(ranks).weight_bytes()
    return total_C


def expert_padding_bytes(
    network: Network, formats: ModelFormats, plan: PlanColumns, multiples: Multiples
) -> FloatArray:
    """Return the padding that kernel tiles add to the experts of one rank (C,) [bytes].

    Args:
        plan: The plans (C,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.networks import ModelFormats
        >>> from perfatlas.parallelism import PlanColumns
        >>> from perfatlas.parallelism.weights import expert_padding_bytes
        >>> formats = ModelFormats(gemm="bf16", moe="mxfp4", kv="bf16", attention="bf16")
        >>> one = np.ones(1)
        >>> plan = PlanColumns(tp=one, pp=one, cp=one, attention_dp=one, ep=one, moe_tp=one,
        ...     dp=one, ring_degree=one, guidance_degree=one, dcp=one)
        >>> model = resolve_model("openai/gpt-oss-20b").network
        >>> # 24 layers x 32 experts x 3 matrices x (3072 x 2944 - 2880 x 2880) x 4.25 bits
        >>> float(expert_padding_bytes(model, formats, plan, (256, 128))[0])
        917471232.0
    """
    hidden_multiple, width_multiple = multiples
    total = np.zeros_like(plan.tp)
    if not network.has_experts:
        return total
    ranks = dividing_ranks(plan)
    for operator in _linear_layers(network, formats, Phase.PREFILL, plan.tp):
        for weight in operator.divided(ranks).weights() if operator.routed else ():
            width = np.ceil(weight.rows / weight.fused / width_multiple) * width_multiple
            columns = np.ceil(weight.columns / hidden_multiple) * hidden_multiple
            padded = weight._replace(rows=weight.fused * width, columns=columns).elements()
            total += (padded - weight.elements()) * operator.count * weight.bytes_per_element
    return total * stage_share(network, plan)


def _linear_layers(
    network: Network, formats: ModelFormats, phase: Phase, tp: FloatArray | None
) -> list[Operator]:
    """Return the undivided operators with weights, with heads replicated for tp if given."""
    column = np.ones(1 if tp is None else tp.shape)
    tokens = StepTokens(batch=column, q_len=column, kv_len=column, head_ranks=tp, images=column)
    operators = network.step_operators(formats, phase, tokens)
    return [operator for operator in operators if operator.weights()]


@cache
def _small_parameters(network: Network, formats: ModelFormats) -> tuple[float, float]:
    """Return the parameters outside linear layers: norms, biases, sinks, convolutions.

    Also the share of the weights of linear layers that is stored: a graph may run layers, as
    those of a denoiser, several times.
    """
    network = network.with_redundant_experts(0)  # copies are no parameters of the model
    counts = network.parameters()
    linear = sum(
        float((operator.weight_elements() * operator.count)[0])
        for operator in _linear_layers(network, formats, Phase.PREFILL, None)
        if operator.name != _HEAD
    )
    rest = counts.total - counts.embedding - counts.lm_head
    return (0.0, rest / linear) if network.item and linear > rest else (rest - linear, 1.0)

"""One step of a whole model as operator columns, before parallelism.

Contract for the code that divides the operators:

* The model is unsharded and processes the tokens of one attention-DP rank. Every operator has a tag
  `shard`, and dividing the tagged dimension is exact: `column` and `vocab` n, `row` and
  `row_partial` k, `heads` the head columns of attention and flop, io and state bytes of a scan,
  `width` the read, write and cold bytes of a streaming operator. `replicated` operators are not
  divided, and neither is `count`: executions over all layers (divided by pipeline parallelism).
* Fewer key-value heads (or Mamba-2 groups) than ranks are replicated here: with
  `StepTokens.head_ranks` = the tensor-parallel size, 8 heads become max(8, ranks) in the fused qkv
  projection, the cache append and the attention. The architecture is not needed to divide the
  operators. Query heads are never replicated.
* `experts` has the tokens of this rank; with attention-DP multiply by it, and set ep, moe_tp.
* Operators are in execution order: embedding; the vision encoder, if the step has images; per
  group of layers the mixer (norm first), then the feed-forward (norm first); final norm, LM head,
  sampling. Names are unique within a group. A `row` GEMM ends a block and its sum is reduced;
  `row_partial` is added to the expert output.
* Resident weights per GEMM are n x k; `latent_q_absorb` with `latent_v_expand` (decode) use the
  weights of `kv_b_projection` (prefill).

Kinds of streaming operators, as used in the engines' fusion lists: embedding, norm, qk_norm,
latent_norm, rope, rope_and_cache, cache_append, output_gate, activation, quantize, routing, add,
selection, gated_norm, sampling. Residual additions are part of `norm`.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.formats import get_format
from perfatlas.networks import recurrent_mixers
from perfatlas.networks.compressed import collapse_streams, compressed_operators, hyper_connection
from perfatlas.networks.elementwise import TOKEN_ID_BYTES, activation_bytes
from perfatlas.networks.emission import Emission, ModelFormats, StepTokens
from perfatlas.networks.layers import (
    CompressedAttention,
    DenseFfn,
    GatedDeltaNet,
    GatedRecurrence,
    GqaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    MlaAttention,
    ShortConvolution,
)
from perfatlas.networks.mixers import gqa_operators, mla_operators
from perfatlas.operators import ACTIVATION_BYTES, GroupedGemm

if TYPE_CHECKING:
    from perfatlas.networks.language_model import LanguageModel, LayerGroup
    from perfatlas.networks.layers import Ffn, Mixer, MoeFfn
    from perfatlas.operators import Operator, Phase, Shard

# A routed token carries an expert id (int32) and a weight (fp32) per chosen expert.
ROUTE_BYTES: Final = 8.0


__all__ = ["ModelFormats", "StepTokens", "layer_operators", "step_operators"]
FUSED: Final = 3  # layers whose hidden states an EAGLE-3 drafter reads
FUSING: Final = "fusing_projection"  # of these, before the first draft of a step
# What runs after the layers
HEAD_OPERATORS: Final = ("final_norm", "lm_head", "sampling")


def ffn_operators(emission: Emission, ffn: Ffn) -> tuple[Operator, ...]:
    """Return the operators of a feed-forward network, dense or routed."""
    if isinstance(ffn, DenseFfn):
        return _dense(emission, ffn.intermediate_size, gated=ffn.gated)
    return moe_operators(emission, ffn)


def moe_operators(emission: Emission, ffn: MoeFfn) -> tuple[Operator, ...]:
    """Return router, routing, experts and shared experts of one MoE layer.

    `experts` covers both GEMMs, the activation between them and the quantization of their inputs,
    as the engines' fused kernels (and their measured tables) do.

    Source: Shazeer et al. 2017 (arXiv 1701.06538); shared experts: DeepSeekMoE (2401.06066).
    """
    number_format = get_format(emission.formats.moe)
    weight_bytes = number_format.weight_bytes
    if (stored := emission.formats.module("experts")) is not None:
        number_format = get_format(stored.format or emission.formats.head)
        weight_bytes = stored.bytes_per_element(ffn.width(emission.hidden))
    column = emission.column
    router = emission.gemm(
        "router", ffn.num_experts, emission.hidden, "replicated", format_name=emission.formats.head
    )
    routing = emission.streaming(
        "routing",
        "routing",
        (ffn.num_experts * ACTIVATION_BYTES, ffn.top_k * ROUTE_BYTES),
    )
    experts = GroupedGemm(
        name="experts",
        phase=emission.phase,
        count=emission.count,
        shard="experts",
        tokens=emission.rows,
        hidden=column(ffn.width(emission.hidden)),
        intermediate=column(ffn.intermediate_size),
        experts=column(ffn.slots),
        top_k=column(ffn.top_k),
        ep=column(1.0),
        moe_tp=column(1.0),
        matrices=3 if ffn.gated else 2,
        format=number_format.name,
        weight_bytes_per_element=weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
    )
    before, after = _latent_projections(emission, ffn)
    return (*router, routing, *before, experts, *after, *_shared(emission, ffn))


def _latent_projections(
    emission: Emission, ffn: MoeFfn
) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    """Return the projections into and out of the routed experts' latent width, if it has one.

    Source: vllm/model_executor/models/nemotron_h.py, NemotronHMoE: `fc1_latent_proj` and
        `fc2_latent_proj` are replicated; ranks project their partial sums before the reduction.
    """
    if not ffn.latent_size:
        return (), ()
    latent, hidden = ffn.latent_size, emission.hidden
    return (
        emission.gemm("latent_down_projection", latent, hidden, "replicated"),
        emission.gemm("latent_up_projection", hidden, latent, "replicated"),
    )


def _shared(emission: Emission, ffn: MoeFfn) -> tuple[Operator, ...]:
    if not ffn.shared_intermediate_size:
        return ()
    width_bytes = emission.hidden * ACTIVATION_BYTES
    gate = (
        emission.gemm(
            "shared_expert_gate",
            1.0,
            emission.hidden,
            "replicated",
            format_name=emission.formats.head,
        )
        if ffn.shared_gate
        else ()
    )
    return (
        *_dense(emission, ffn.shared_intermediate_size, gated=ffn.gated, prefix="shared_expert_"),
        *gate,
        emission.streaming("shared_expert_add", "add", (2.0 * width_bytes, width_bytes)),
    )


def _dense(
    emission: Emission, intermediate: int, *, gated: bool, prefix: str = ""
) -> tuple[Operator, ...]:
    """Return up (and gate) projection, activation and down projection.

    The down projection of a shared expert is added to the routed output before the reduction.
    """
    width = float(intermediate)
    matrices = 2.0 if gated else 1.0
    moved = activation_bytes(width, gated=gated)
    first = "gate_up_projection" if gated else "up_projection"
    down: Shard = "row_partial" if prefix else "row"
    return (
        *emission.gemm(f"{prefix}{first}", matrices * width, emission.hidden, "column"),
        emission.streaming(
            f"{prefix}activation",
            "activation",
            (moved.read, moved.write),
            shard="width",
        ),
        *emission.gemm(f"{prefix}down_projection", emission.hidden, width, down),
    )


def step_operators(
    architecture: LanguageModel, formats: ModelFormats, phase: Phase, tokens: StepTokens
) -> tuple[Operator, ...]:
    """Return the operators of one step of the whole model, unsharded, in execution order.

    Args:
        formats: The formats of the deployment. Projections of the mixers use `formats.head` if
            the checkpoint does not quantize attention.
        phase: Prefill or decode.

    Limits: Multi-token-prediction layers are in `drafting`, vision encoders in `vision_encoder`.

    Example:
        >>> import numpy as np
        >>> from perfatlas.networks import Architecture, DenseFfn, GqaAttention, LayerGroup
        >>> from perfatlas.networks import ModelFormats, StepTokens
        >>> from perfatlas.operators import Phase
        >>> attention = GqaAttention(num_heads=8, num_kv_heads=2, head_dim=64, value_head_dim=64)
        >>> layers = LayerGroup(count=4, mixer=attention, ffn=DenseFfn(intermediate_size=2048))
        >>> model = Architecture(model_type="llama", hidden_size=512, vocab_size=1000,
        ...     tie_word_embeddings=False, layers=(layers,))
        >>> formats = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
        >>> one = np.ones(1)
        >>> step = StepTokens(batch=one, q_len=one, kv_len=100 * one)
        >>> [one.name for one in model.step_operators(formats, Phase.DECODE, step)][:4]
        ['embedding', 'input_norm', 'qkv_projection', 'rope_and_cache']
    """
    outer = _emission(architecture, formats, phase, tokens, 1)
    layers = [
        operator
        for group in architecture.layers
        if tokens.images is not None or not group.needs_images
        for operator in layer_operators(architecture, group, formats, phase, tokens)
    ]
    if not architecture.vocab_size:  # the feed-forward networks of a model that is split
        return tuple(layers)
    operators: list[Operator] = [_embedding(outer, learned=architecture.position_rows > 0)]
    if architecture.embedding_norm:
        operators.append(outer.norm("embedding_norm", residual=False))
    if architecture.per_layer_width:
        operators.extend(_per_layer_embedding(outer, architecture))
    operators.extend(layers)
    operators.extend(collapse_streams(outer, architecture.residual_streams))
    operators.extend(_head(outer, architecture.vocab_size))
    return tuple(operators)


def layer_operators(
    architecture: LanguageModel,
    group: LayerGroup,
    formats: ModelFormats,
    phase: Phase,
    tokens: StepTokens,
) -> tuple[Operator, ...]:
    """Return the operators of one group of identical layers; `count` is its number of layers.

    Args:
        phase: Prefill or decode.
    """
    emission = _emission(architecture, formats, phase, tokens, group.count, group.mixer)
    blocks = int(group.mixer is not None) + int(group.ffn is not None)
    before = min(blocks, group.norms)  # one in front of each block, the rest behind them
    behind = group.norms - before
    operators: list[Operator] = []
    if group.mixer is not None:
        operators.extend(hyper_connection(emission, architecture.residual_streams, "mixer"))
        operators.append(emission.norm("input_norm"))
        operators.extend(_mixer(emission, group.mixer))
        if behind > 0:
            operators.append(emission.norm("mixer_output_norm", residual=False))
    if group.ffn is not None:
        operators.extend(hyper_connection(emission, architecture.residual_streams, "ffn"))
        if group.mixer is None or before == blocks:
            operators.append(emission.norm("ffn_norm"))
        operators.extend(ffn_operators(emission, group.ffn))
        mixer_norms = 1 if group.mixer is not None else 0
        operators.extend(
            emission.norm(f"ffn_inner_norm_{i}", residual=False)
            for i in range(1, behind - mixer_norms)  # around experts beside a dense network
        )
        if behind > mixer_norms:
            operators.append(emission.norm("ffn_output_norm", residual=False))
    operators.extend(_layer_embedding_input(emission, architecture.per_layer_width))
    return tuple(operators)


def _per_layer_embedding(emission: Emission, architecture: LanguageModel) -> tuple[Operator, ...]:
    """Return the look-up of the embeddings of all layers, to which the token's is projected.

    Source: transformers, `Gemma4TextModel.get_per_layer_inputs` and `project_per_layer_inputs`.
    """
    width = float(architecture.num_layers * architecture.per_layer_width)
    width_bytes = width * ACTIVATION_BYTES
    rows = emission.rows * width_bytes
    return (
        emission.streaming("layer_embedding", "embedding", (0.0, width_bytes), cold=rows),
        *emission.gemm("layer_embedding_projection", width, emission.hidden, "replicated"),
        emission.streaming("layer_embedding_norm", "norm", (2.0 * width_bytes, width_bytes)),
    )


def _layer_embedding_input(emission: Emission, width: int) -> tuple[Operator, ...]:
    """Return the gate of the embedding of a layer, and its projection behind the layer."""
    if not width:
        return ()
    moved = 2.0 * width * ACTIVATION_BYTES, width * ACTIVATION_BYTES
    return (
        *emission.gemm("layer_input_gate", width, emission.hidden, "replicated"),
        emission.streaming("layer_input_activation", "activation", moved),
        *emission.gemm("layer_input_projection", emission.hidden, width, "replicated"),
        emission.norm("layer_input_norm"),
    )


def joining_projection(
    architecture: LanguageModel, formats: ModelFormats, phase: Phase, tokens: StepTokens
) -> tuple[Operator, ...]:
    """Return the projection of a concatenated hidden state and embedding to the hidden size.

    That of an EAGLE-3 drafter joins the hidden states of three layers of the model.

    Args:
        phase: Prefill or decode.
    """
    hidden = architecture.hidden_size
    name, joined = ("joining_projection", 2.0)
    if architecture.draft_vocab_size:
        name, joined = FUSING, float(FUSED)
    emission = _emission(architecture, formats, phase, tokens, 1)
    return emission.gemm(name, hidden, joined * hidden, "replicated", format_name=formats.head)


def _emission(
    architecture: LanguageModel,
    formats: ModelFormats,
    phase: Phase,
    tokens: StepTokens,
    layers: int,
    mixer: Mixer | None = None,
) -> Emission:
    quantized = architecture.checkpoint.attention_quantized
    return Emission(
        phase=phase,
        tokens=tokens,
        formats=formats,
        hidden=architecture.hidden_size,
        layers=layers,
        projection_format=formats.gemm if quantized else formats.head,
        mixer=type(mixer).__name__,
    )


def _mixer(emission: Emission, mixer: Mixer) -> tuple[Operator, ...]:
    match mixer:
        case GqaAttention():
            return gqa_operators(emission, mixer)
        case MlaAttention():
            return mla_operators(emission, mixer)
        case CompressedAttention():
            return compressed_operators(emission, mixer)
        case GatedDeltaNet():
            return recurrent_mixers.delta_net_operators(emission, mixer)
        case Mamba2():
            return recurrent_mixers.mamba2_operators(emission, mixer)
        case Mamba1():
            return recurrent_mixers.mamba1_operators(emission, mixer)
        case LightningAttention():
            return recurrent_mixers.lightning_operators(emission, mixer)
        case GatedRecurrence():
            return recurrent_mixers.gated_recurrence_operators(emission, mixer)
        case ShortConvolution():
            return recurrent_mixers.short_convolution_operators(emission, mixer)


def _embedding(emission: Emission, *, learned: bool) -> Operator:
    """Return the lookup of tokens, and of their positions if these are learned."""
    width_bytes = emission.hidden * ACTIVATION_BYTES
    tables = 2.0 if learned else 1.0
    return emission.streaming(
        "embedding",
        "embedding",
        (0.0, width_bytes),
        cold=emission.rows * tables * width_bytes,
        shard="vocab",
    )


def _head(emission: Emission, vocab_size: int) -> tuple[Operator, ...]:
    """Return final norm, LM head and sampling."""
    tokens = emission.tokens
    rows_C = tokens.batch if tokens.logits_rows is None else tokens.logits_rows
    if tokens.decodes is not None:
        rows_C = rows_C + tokens.decodes
    return (
        emission.norm("final_norm"),
        *emission.gemm(
            "lm_head",
            vocab_size,
            emission.hidden,
            "vocab",
            format_name=emission.formats.head,
            rows=rows_C,
        ),
        emission.streaming(
            "sampling",
            "sampling",
            (vocab_size * ACTIVATION_BYTES, TOKEN_ID_BYTES),
            rows=rows_C,
        ),
    )

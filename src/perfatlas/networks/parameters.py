"""Exact parameter counts of an architecture, as in its reference implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.networks import layers
from perfatlas.networks.contract import ParameterCounts

if TYPE_CHECKING:
    from perfatlas.networks.language_model import LanguageModel, LayerGroup


class _Block(NamedTuple):
    """Parameters of one mixer or feed-forward: matrices, routed experts, others."""

    linear: int
    expert: int
    other: int


_NOTHING = _Block(0, 0, 0)


def parameter_counts(architecture: LanguageModel) -> ParameterCounts:
    """Return the exact parameter counts of a model.

    Source: The layer equations of the papers named in `phases` and its mixers; checked
        against the transformers implementation on fake tensors (tests/networks/oracle).
    Limits: Score-correction vectors of DeepSeek routers count as parameters; transformers has
        them as buffers.

    Example:
        >>> from perfatlas.networks import Architecture, DenseFfn, GqaAttention, LayerGroup
        >>> attention = GqaAttention(num_heads=2, num_kv_heads=1, head_dim=4, value_head_dim=4)
        >>> layers = LayerGroup(count=1, mixer=attention, ffn=DenseFfn(intermediate_size=16))
        >>> model = Architecture(model_type="llama", hidden_size=8, vocab_size=10,
        ...     tie_word_embeddings=True, layers=(layers,))
        >>> model.parameters().total  # 80 + 8*(16) + 8*8 + 3*8*16 + 3*8
        680
    """
    hidden = architecture.hidden_size
    embedding = architecture.vocab_size * hidden
    head = 0 if architecture.tie_word_embeddings else embedding
    head += architecture.vocab_size if architecture.lm_head_bias else 0
    norm = hidden * (bool(architecture.learned_norm) + bool(architecture.layer_norm_bias))
    mixer_linear = dense = expert = idle = 0
    other = norm  # the final norm
    other += architecture.position_rows * hidden + (norm if architecture.embedding_norm else 0)
    if (streams := architecture.residual_streams) > 1:
        # hyper-connections: two per layer, and the collapse at the end
        outputs = (2 + streams) * streams
        connection = outputs * streams * hidden + outputs + 3
        other += 2 * architecture.num_layers * connection
        other += streams * streams * hidden + streams + 1
    for group in architecture.layers:
        mixer, ffn = _mixer(group.mixer, hidden), _ffn(group.ffn, hidden)
        mixer_linear += group.count * mixer.linear
        dense += group.count * (mixer.linear + ffn.linear)
        expert += group.count * ffn.expert
        if group.ffn is not None and not isinstance(group.ffn, layers.DenseFfn):
            unused = group.ffn.num_experts - group.ffn.top_k  # by one token
            idle += group.count * unused * sum(_expert(group.ffn, hidden))
        other += group.count * (mixer.other + ffn.other + group.norms * norm)
    if width := architecture.per_layer_width:
        depth = architecture.num_layers
        embedding += architecture.per_layer_rows * depth * width
        dense += 3 * depth * width * hidden  # of the model, gate and projection of each layer
        other += width + depth * hidden
    other += architecture.encoder_parameters + architecture.unpriced_parameters
    total = embedding + head + dense + expert + other
    return ParameterCounts(
        total=total,
        active=total - idle,
        embedding=embedding,
        lm_head=head,
        dense_linear=dense,
        mixer_linear=mixer_linear,
        expert=expert,
        other=other,
        mtp=_mtp(architecture, norm),
    )


def _mtp(architecture: LanguageModel, norm: int) -> int:
    """Return the parameters of the multi-token-prediction layers.

    Each has a projection of [hidden, embedding] to hidden, three norms and one layer of the last
    attention kind.

    Source: DeepSeek-V3 technical report (arXiv 2412.19437) section 2.2.
    """
    if not architecture.mtp_layers:
        return 0
    attention = (layers.GqaAttention, layers.MlaAttention, layers.CompressedAttention)
    kinds = [g for g in architecture.layers if isinstance(g.mixer, attention)]
    layer: LayerGroup = (kinds or list(architecture.layers))[-1]
    hidden = architecture.hidden_size
    block = sum(_mixer(layer.mixer, hidden)) + sum(_ffn(layer.ffn, hidden)) + layer.norms * norm
    return architecture.mtp_layers * (block + 2 * hidden * hidden + 3 * norm)


def _ffn(ffn: layers.Ffn | None, hidden: int) -> _Block:
    if ffn is None:
        return _NOTHING
    if not isinstance(ffn, layers.DenseFfn):
        return _moe(ffn, hidden)
    matrices = 3 if ffn.gated else 2
    bias = (matrices - 1) * ffn.intermediate_size + hidden if ffn.bias else 0
    return _Block(matrices * hidden * ffn.intermediate_size, 0, bias)


def _expert(ffn: layers.MoeFfn, hidden: int) -> tuple[int, int]:
    """Return the matrix and bias parameters of one routed expert."""
    matrices, width = 3 if ffn.gated else 2, ffn.width(hidden)
    bias = (matrices - 1) * ffn.intermediate_size + width if ffn.bias else 0
    return matrices * width * ffn.intermediate_size, bias


def _moe(ffn: layers.MoeFfn, hidden: int) -> _Block:
    matrix, bias = _expert(ffn, hidden)
    router = ffn.num_experts * (hidden + int(ffn.router_bias))
    shared = (3 if ffn.gated else 2) * hidden * ffn.shared_intermediate_size
    return _Block(
        shared + 2 * hidden * ffn.latent_size,
        ffn.num_experts * matrix,
        router + ffn.num_experts * bias + (hidden if ffn.shared_gate else 0),
    )


def _mixer(mixer: layers.Mixer | None, hidden: int) -> _Block:
    match mixer:
        case None:
            return _NOTHING
        case layers.GqaAttention():
            return _gqa(mixer, hidden)
        case layers.MlaAttention():
            return _mla(mixer, hidden)
        case layers.CompressedAttention():
            return _compressed(mixer, hidden)
        case layers.GatedDeltaNet():
            return _delta_net(mixer, hidden)
        case layers.Mamba2():
            return _mamba2(mixer, hidden)
        case layers.Mamba1():
            return _mamba1(mixer, hidden)
        case layers.LightningAttention():
            inner = mixer.num_heads * mixer.head_dim
            return _Block(5 * inner * hidden, 0, inner)
        case layers.GatedRecurrence():
            products = mixer.input_columns * hidden + mixer.inner * hidden
            blocks = mixer.gate_blocks * mixer.inner * mixer.value_dim
            convolved = mixer.inner * (mixer.conv_kernel + 1) if mixer.conv_kernel else 0
            return _Block(products + blocks, 0, convolved + mixer.vectors)
        case layers.ShortConvolution():
            biases = 4 * mixer.width + hidden if mixer.bias else 0
            return _Block(4 * mixer.width * hidden, 0, mixer.width * mixer.conv_kernel + biases)


def _gqa(mixer: layers.GqaAttention, hidden: int) -> _Block:
    query = mixer.num_heads * mixer.head_dim
    key = mixer.num_kv_heads * mixer.head_dim
    value = mixer.num_kv_heads * mixer.value_head_dim
    out = mixer.num_heads * mixer.value_head_dim
    projected = query + (0 if mixer.shared_cache else key + (0 if mixer.key_is_value else value))
    gate = mixer.num_heads if mixer.gate_per_head else out
    projected += gate if mixer.output_gate else 0
    other = mixer.num_heads if mixer.sinks else 0
    other += projected if mixer.qkv_bias else 0
    other += hidden if mixer.output_bias else 0
    if mixer.qk_norm_weight and mixer.qk_norm != "none":
        widths = (mixer.head_dim, mixer.head_dim) if mixer.qk_norm == "head" else (query, key)
        other += widths[0] if mixer.shared_cache else sum(widths)
    linear = hidden * (projected + out)
    if mixer.indexer is not None:
        width = mixer.indexer.head_dim
        linear += hidden * (mixer.indexer.num_heads + 1) * width
        other += 2 * width  # norms of index queries and keys
    return _Block(linear, 0, other)


def _mla(mixer: layers.MlaAttention, hidden: int) -> _Block:
    heads, rank = mixer.num_heads, mixer.kv_lora_rank
    query = heads * (mixer.nope_dim + mixer.rope_dim)
    lora = mixer.q_lora_rank
    linear = hidden * lora + lora * query if lora else hidden * query
    linear += hidden * (rank + mixer.rope_dim)
    linear += rank * heads * (mixer.nope_dim + mixer.value_head_dim)
    linear += heads * mixer.value_head_dim * hidden * (2 if mixer.output_gate else 1)
    other = lora + rank
    indexer = mixer.indexer
    if indexer is not None and not indexer.shared:
        linear += (lora or hidden) * indexer.num_heads * indexer.head_dim
        linear += hidden * indexer.head_dim
        other += 2 * indexer.head_dim + hidden * indexer.num_heads  # layer norm, head weights
    return _Block(linear, 0, other)


def _compressed(mixer: layers.CompressedAttention, hidden: int) -> _Block:
    heads, head, rank = mixer.num_heads, mixer.head_dim, mixer.q_lora_rank
    linear = hidden * (rank + head) + rank * heads * head
    linear += heads * head * mixer.output_rank + mixer.output_groups * mixer.output_rank * hidden
    other = rank + head + heads  # norms and sinks
    widths = [head] if mixer.ratio else []
    if mixer.indexer is not None:
        widths.append(mixer.indexer.head_dim)
        linear += rank * mixer.indexer.num_heads * mixer.indexer.head_dim
        other += hidden * mixer.indexer.num_heads  # weights of score heads
    for width in widths:  # keys, their weights, positions in a group, norm
        projected = mixer.series * width
        other += 2 * hidden * projected + mixer.ratio * projected + width
    return _Block(linear, 0, other)


def _delta_net(mixer: layers.GatedDeltaNet, hidden: int) -> _Block:
    key = mixer.num_key_heads * mixer.key_head_dim
    value = mixer.num_value_heads * mixer.value_head_dim
    linear = hidden * 2 * (key + value) + value * hidden
    if mixer.gate_rank:
        linear += mixer.gate_rank * (hidden + value) - hidden * value
    conv = (2 * key + value) * mixer.conv_kernel
    if mixer.decay_rank:
        linear += (hidden + key) * mixer.decay_rank
        beta_decay, biases = hidden * mixer.num_value_heads, key
    else:
        beta_decay, biases = hidden * 2 * mixer.num_value_heads, mixer.num_value_heads
    vectors = mixer.num_value_heads + biases + mixer.value_head_dim  # A_log, dt_bias, norm
    return _Block(linear, 0, beta_decay + conv + vectors)


def _mamba2(mixer: layers.Mamba2, hidden: int) -> _Block:
    inner = mixer.num_heads * mixer.head_dim
    channels = inner + 2 * mixer.num_groups * mixer.state_size
    projected = inner + channels + mixer.num_heads
    other = channels * (mixer.conv_kernel + int(mixer.conv_bias))
    other += 3 * mixer.num_heads + inner  # A_log, D, dt_bias, norm
    other += projected + hidden if mixer.projection_bias else 0
    return _Block(hidden * projected + inner * hidden, 0, other)


def _mamba1(mixer: layers.Mamba1, hidden: int) -> _Block:
    inner, rank, state = mixer.intermediate_size, mixer.time_step_rank, mixer.state_size
    linear = hidden * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden
    other = inner * (mixer.conv_kernel + int(mixer.conv_bias))
    other += inner * state + 2 * inner  # A_log, D, bias of the time step
    other += 2 * inner + hidden if mixer.projection_bias else 0
    other += rank + 2 * state if mixer.inner_norms else 0
    return _Block(linear, 0, other)

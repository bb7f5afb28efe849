"""Operators of the recurrent mixers: delta net, Mamba, lightning, convolution; see phases.py.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas import operators

if TYPE_CHECKING:
    from perfatlas.networks.emission import Emission
    from perfatlas.networks.layers import (
        GatedDeltaNet,
        GatedRecurrence,
        LightningAttention,
        Mamba1,
        Mamba2,
        ShortConvolution,
    )

# Tokens per chunk in Nemotron-H (`chunk_size` of its config.json); no causal saving in a chunk.
SSD_CHUNK: Final = 128.0
LIGHTNING_CHUNK: Final = 256.0


def delta_net_flop_per_token(mixer: GatedDeltaNet, *, chunk: float = 0.0) -> float:
    """Return the arithmetic of the gated delta rule per token, all heads [FLOP].

    Args:
        chunk: Tokens per chunk, 0 for the recurrent form.

    Source: `operators.delta_rule_flop`.

    Example:
        >>> from perfatlas.networks import GatedDeltaNet
        >>> from perfatlas.networks.recurrent_mixers import delta_net_flop_per_token
        >>> one = GatedDeltaNet(num_key_heads=1, num_value_heads=1, key_head_dim=128,
        ...     value_head_dim=128, conv_kernel=4)
        >>> delta_net_flop_per_token(one)
        114688.0
    """
    key, value = float(mixer.key_head_dim), float(mixer.value_head_dim)
    return mixer.num_value_heads * float(operators.delta_rule_flop(key, value, chunk))


def mamba2_flop_per_token(mixer: Mamba2, *, groups: float, chunk: float = 0.0) -> float:
    """Return the arithmetic of the Mamba-2 recurrence per token, all heads [FLOP].

    Recurrent form (chunk 0), per head with a state of P x N: decay 1, rank-one input 2, output 2:
    5 P N. Chunked form with Q tokens: state update and read 4 P N and the Q x Q product in the
    chunk 2 Q P per head, and C B^T 2 Q N per group.

    Args:
        chunk: Tokens per chunk, 0 for the recurrent form.

    Source: Dao and Gu 2024, Transformers are SSMs (arXiv 2405.21060) sections 3 and 6.
    """
    width, state = float(mixer.head_dim), float(mixer.state_size)
    if not chunk:
        return mixer.num_heads * 5.0 * width * state
    inside = mixer.num_heads * 2.0 * chunk * width + groups * 2.0 * chunk * state
    return mixer.num_heads * 4.0 * width * state + inside


def mamba1_flop_per_token(mixer: Mamba1) -> float:
    """Return the arithmetic of the selective scan per token [FLOP].

    Per channel and state: dt A 1, (dt x) B 1, h = a h + b 2, y = C h 2; per channel dt x 1 and
    the skip D x 2. Exponentials are not counted. Prefill runs the same recurrence in parallel.

    Source: Gu and Dao 2023, Mamba (arXiv 2312.00752) equations 2 and 4, algorithm 2.
    """
    return mixer.intermediate_size * (6.0 * mixer.state_size + 3.0)


class _State(NamedTuple):
    """Heads of a scan, bytes of a head's state, head width, tokens per chunk (0: none)."""

    heads: float
    bytes_per_head: float
    head_width: float
    chunk: float


def _scan(
    emission: Emission,
    mixer: str,
    flop_per_token: float | operators.FloatArray,
    io_width: float | operators.FloatArray,
    state: _State,
) -> operators.Scan:
    return operators.Scan(
        name="scan",
        phase=emission.phase,
        count=emission.count,
        shard="heads",
        batch=emission.tokens.batch,
        tokens=emission.tokens.new_tokens,
        flop_per_token=emission.column(flop_per_token),
        io_bytes_per_token=emission.column(io_width * operators.ACTIVATION_BYTES),
        state_bytes=emission.column(state.heads * state.bytes_per_head),
        num_heads=emission.column(state.heads),
        head_width=state.head_width,
        chunk=state.chunk or 1.0,
        mixer=mixer,
    )


def _conv(
    emission: Emission, channels: float | operators.FloatArray, kernel: int
) -> operators.Operator:
    """Return the depthwise causal convolution."""
    return operators.Convolution(
        name="causal_conv",
        phase=emission.phase,
        count=emission.count,
        shard="width",
        batch=emission.tokens.batch,
        tokens=emission.tokens.new_tokens,
        channels=emission.column(channels),
        kernel=kernel,
        bytes_per_element=operators.ACTIVATION_BYTES,
    )


def _gated_norm(emission: Emission, width: float) -> operators.Operator:
    """Return the norm of the scan output, gated by a second tensor of the same width."""
    return emission.streaming(
        "gated_norm",
        "gated_norm",
        (2.0 * width * operators.ACTIVATION_BYTES, width * operators.ACTIVATION_BYTES),
        shard="width",
    )


def delta_net_operators(emission: Emission, mixer: GatedDeltaNet) -> tuple[operators.Operator, ...]:
    """Return the operators of one gated delta net layer; all are divided over heads.

    Source: Yang, Kautz, Hatamizadeh 2024 (arXiv 2412.06464) figure 1; with a decay per channel
        Kimi Linear (arXiv 2510.26692) and `KimiDeltaAttention` of flash-linear-attention.
    Limits: A decay per channel has the arithmetic of one per head; the scaling of queries and keys
        by it inside a chunk is not counted.
    """
    key = float(mixer.num_key_heads * mixer.key_head_dim)
    value = float(mixer.num_value_heads * mixer.value_head_dim)
    chunk = operators.DELTA_CHUNK if emission.phase != operators.Phase.DECODE else 0.0
    projection, hidden = emission.projection_format, emission.hidden
    rank, joined = float(mixer.gate_rank), 2.0 * (key + value)
    gate = (
        *emission.gemm("gate_a_projection", rank, hidden, "replicated", format_name=projection),
        *emission.gemm("gate_b_projection", value, rank, "column", format_name=projection),
    )
    return (
        *emission.gemm(
            "qkvz_projection",
            joined - value if rank else joined,
            hidden,
            "column",
            format_name=projection,
        ),
        *(gate if rank else ()),
        *_beta_and_decay(emission, mixer),
        _conv(emission, 2.0 * key + value, mixer.conv_kernel),
        _scan(
            emission,
            "gated_delta_net",
            delta_net_flop_per_token(mixer, chunk=chunk),
            operators.delta_rule_width(
                mixer.num_key_heads, mixer.key_head_dim, mixer.num_value_heads, mixer.value_head_dim
            ),
            _State(
                mixer.num_value_heads,
                mixer.key_head_dim * mixer.value_head_dim * mixer.state_bytes,
                mixer.key_head_dim + mixer.value_head_dim,
                chunk,
            ),
        ),
        _gated_norm(emission, value),
        *emission.gemm("output_projection", hidden, value, "row", format_name=projection),
    )


def _beta_and_decay(emission: Emission, mixer: GatedDeltaNet) -> tuple[operators.Operator, ...]:
    """Return the projections of the write strength and of the decay."""
    heads, hidden = float(mixer.num_value_heads), emission.hidden
    head, projection = emission.formats.head, emission.projection_format
    if not mixer.decay_rank:
        return (
            *emission.gemm(
                "beta_decay_projection", 2.0 * heads, hidden, "column", format_name=head
            ),
        )
    key = float(mixer.num_key_heads * mixer.key_head_dim)
    rank = float(mixer.decay_rank)
    return (
        *emission.gemm("beta_projection", heads, hidden, "column", format_name=head),
        *emission.gemm("decay_a_projection", rank, hidden, "replicated", format_name=projection),
        *emission.gemm("decay_b_projection", key, rank, "column", format_name=projection),
    )


def mamba2_operators(emission: Emission, mixer: Mamba2) -> tuple[operators.Operator, ...]:
    """Return the operators of one Mamba-2 layer; all are divided over heads.

    Fewer groups than ranks are replicated, like key-value heads.

    Source: Dao and Gu 2024 (arXiv 2405.21060) section 7, tensor-parallel form of the block.
    """
    inner = float(mixer.num_heads * mixer.head_dim)
    groups_C = emission.repeated(mixer.num_groups)
    channels_C = inner + 2.0 * groups_C * mixer.state_size
    projection, hidden = emission.projection_format, emission.hidden
    chunk = SSD_CHUNK if emission.phase != operators.Phase.DECODE else 0.0
    flop = mamba2_flop_per_token(mixer, groups=mixer.num_groups, chunk=chunk)
    return (
        *emission.gemm(
            "input_projection",
            inner + channels_C + float(mixer.num_heads),
            hidden,
            "column",
            format_name=projection,
        ),
        _conv(emission, channels_C, mixer.conv_kernel),
        _scan(
            emission,
            "mamba2",
            flop,
            inner + channels_C + mixer.num_heads,
            _State(
                mixer.num_heads,
                mixer.state_size * mixer.head_dim * mixer.state_bytes,
                mixer.head_dim,
                chunk,
            ),
        ),
        _gated_norm(emission, inner),
        *emission.gemm("output_projection", hidden, inner, "row", format_name=projection),
    )


def mamba1_operators(emission: Emission, mixer: Mamba1) -> tuple[operators.Operator, ...]:
    """Return the operators of one Mamba layer; all are divided over channels.

    `state_projection` contracts the divided channels, so it is a row GEMM with its own reduction.

    Source: Gu and Dao 2023 (arXiv 2312.00752) section 3.4; inner norms: Jamba (arXiv 2403.19887).
    """
    inner = float(mixer.intermediate_size)
    state_width = float(mixer.time_step_rank + 2 * mixer.state_size)
    projection, hidden = emission.projection_format, emission.hidden
    normed = state_width * operators.ACTIVATION_BYTES
    norms: tuple[operators.Operator, ...] = ()
    if mixer.inner_norms:
        norms = (emission.streaming("state_norm", "latent_norm", (normed, normed)),)
    return (
        *emission.gemm("input_projection", 2.0 * inner, hidden, "column", format_name=projection),
        _conv(emission, inner, mixer.conv_kernel),
        *emission.gemm("state_projection", state_width, inner, "row", format_name=projection),
        *norms,
        *emission.gemm(
            "time_step_projection", inner, mixer.time_step_rank, "column", format_name=projection
        ),
        _scan(
            emission,
            "mamba",
            mamba1_flop_per_token(mixer),
            4.0 * inner + 2.0 * mixer.state_size,
            _State(inner, mixer.state_size * mixer.state_bytes, 1.0, 0.0),
        ),
        *emission.gemm("output_projection", hidden, inner, "row", format_name=projection),
    )


def lightning_operators(
    emission: Emission, mixer: LightningAttention
) -> tuple[operators.Operator, ...]:
    """Return the operators of one layer of lightning attention; all are divided over heads.

    Its arithmetic is that of Mamba-2 with a group, a head width and a state size per head.

    Source: MiniMax-01 (arXiv 2501.08313) section 2.2; the duality: arXiv 2405.21060 section 3;
        chunks: `block_size` = 256 of its config.json.
    """
    inner = float(mixer.num_heads * mixer.head_dim)
    projection, hidden = emission.projection_format, emission.hidden
    chunk = LIGHTNING_CHUNK if emission.phase != operators.Phase.DECODE else 0.0
    head = float(mixer.head_dim)
    flop = mixer.num_heads * ((4.0 * head + 4.0 * chunk) * head if chunk else 5.0 * head**2)
    return (
        *emission.gemm("qkvg_projection", 4.0 * inner, hidden, "column", format_name=projection),
        _scan(
            emission,
            "lightning",
            flop,
            4.0 * inner,
            _State(mixer.num_heads, head * head * mixer.state_bytes, 2.0 * head, chunk),
        ),
        _gated_norm(emission, inner),
        *emission.gemm("output_projection", hidden, inner, "row", format_name=projection),
    )


def gated_recurrence_flop(mixer: GatedRecurrence, *, chunk: float = 0.0) -> float:
    """Return the arithmetic of a gated recurrence per token, all heads [FLOP].

    States of single values: decay 1, input 2, output 1 and gate 2 of each. Matrices: as Mamba-2.

    Source: De et al. 2024 (arXiv 2402.19427) equations 1 to 4; Peng et al. 2023 (arXiv 2305.13048)
        equation 16; Beck et al. 2025 (arXiv 2503.13427) section 2. Exponentials are not counted.

    Example:
        >>> from perfatlas.networks.layers import GatedRecurrence
        >>> from perfatlas.networks.recurrent_mixers import gated_recurrence_flop
        >>> gated_recurrence_flop(
        ...     GatedRecurrence(num_heads=1, value_dim=8, key_dim=4, input_columns=32))
        160.0
    """
    value, key = float(mixer.value_dim), float(mixer.key_dim)
    if not key:
        return 6.0 * mixer.states * mixer.inner
    inside = 2.0 * chunk * (key + value)
    return mixer.num_heads * (4.0 * key * value + inside if chunk else 5.0 * key * value)


def gated_recurrence_operators(
    emission: Emission, mixer: GatedRecurrence
) -> tuple[operators.Operator, ...]:
    """Return the operators of one layer of a gated recurrence; all are divided over heads.

    Limits: The gates of RG-LRU are one product of as many FLOP and weights.
    """
    inner, key = float(mixer.inner), float(mixer.num_heads * mixer.key_dim)
    projection, hidden = emission.projection_format, emission.hidden
    chunk = float(mixer.chunk) if emission.phase != operators.Phase.DECODE else 0.0
    gates = emission.gemm(
        "gate_blocks",
        mixer.gate_blocks * inner,
        mixer.value_dim,
        "column",
        format_name=emission.formats.head,  # parameters that no method quantizes
    )
    state = mixer.key_dim * mixer.value_dim if mixer.key_dim else mixer.states * mixer.value_dim
    return (
        *emission.gemm(
            "input_projection", mixer.input_columns, hidden, "column", format_name=projection
        ),
        *([_conv(emission, inner, mixer.conv_kernel)] if mixer.conv_kernel else []),
        *(gates if mixer.gate_blocks else ()),
        _scan(
            emission,
            "lightning" if mixer.key_dim else "mamba",
            gated_recurrence_flop(mixer, chunk=chunk),
            2.0 * key + 3.0 * inner,
            _State(
                mixer.num_heads, state * mixer.state_bytes, mixer.key_dim + mixer.value_dim, chunk
            ),
        ),
        *([_gated_norm(emission, inner)] if mixer.normed else []),
        *emission.gemm("output_projection", hidden, inner, "row", format_name=projection),
    )


def short_convolution_operators(
    emission: Emission, mixer: ShortConvolution
) -> tuple[operators.Operator, ...]:
    """Return the operators of one gated short convolution; all are divided over channels.

    Source: transformers, `Lfm2ShortConv`: the projected input is B, C and x; C * conv(B * x).
    """
    width = float(mixer.width)
    projection, hidden = emission.projection_format, emission.hidden
    width_bytes = width * operators.ACTIVATION_BYTES
    gates = [
        emission.streaming(name, "output_gate", (2.0 * width_bytes, width_bytes), shard="width")
        for name in ("input_gate", "output_gate")
    ]
    return (
        *emission.gemm("input_projection", 3.0 * width, hidden, "column", format_name=projection),
        gates[0],
        _conv(emission, width, mixer.conv_kernel),
        gates[1],
        *emission.gemm("output_projection", hidden, width, "row", format_name=projection),
    )

"""Operators of recurrent mixers, and the FLOP and bytes of recurrences.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from perfatlas.operators.copies import with_fields
from perfatlas.operators.operator import Operator
from perfatlas.operators.work import FloatArray, Work

if TYPE_CHECKING:
    from perfatlas.operators.operator import Ranks

# Tokens per chunk of gated delta net kernels (arXiv 2412.06464); no causal saving in a chunk.
DELTA_CHUNK: Final = 64.0


@dataclass(frozen=True, kw_only=True)
class Scan(Operator):
    """A recurrent or chunked linear mixer (Mamba, Mamba-2, gated delta net) without projections."""

    kind: ClassVar[str] = "scan"
    per_sequence: ClassVar[bool] = True

    batch: FloatArray  # Sequences (C,)
    tokens: FloatArray  # Tokens over all sequences (C,)
    flop_per_token: FloatArray  # Arithmetic of the recurrence (C,) [FLOP]
    io_bytes_per_token: FloatArray  # Inputs and outputs (C,) [bytes]
    state_bytes: FloatArray  # Recurrent state of a sequence, read and written once (C,) [bytes]
    num_heads: FloatArray  # Heads with separate states, or channels if each has its own (C,)
    # Elements per token and head stored between the kernels of the chunked form: a key and a value,
    # or only the value if keys are shared
    head_width: float | FloatArray
    chunk: float  # Tokens per chunk; 1 in the recurrent form
    mixer: str  # "mamba", "mamba2", "lightning" or "gated_delta_net"

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        return Work(
            flop=self.tokens * self.flop_per_token,
            cold_bytes=2.0 * self.batch * self.state_bytes,
            activation_bytes=self.tokens * self.io_bytes_per_token,
        )

    def divided(self, ranks: Ranks) -> Self:
        """Return the heads of one rank; a recurrence is not divided along the sequence."""
        if not self.tensor_parallel:
            return self
        return with_fields(
            self,
            flop_per_token=self.flop_per_token / ranks.tp,
            io_bytes_per_token=self.io_bytes_per_token / ranks.tp,
            state_bytes=self.state_bytes / ranks.tp,
            num_heads=self.num_heads / ranks.tp,
        )

    def saved_inputs(self) -> FloatArray:
        """Return its inputs and outputs (C,) [bytes]."""
        return self.tokens * self.io_bytes_per_token


@dataclass(frozen=True, kw_only=True)
class Convolution(Operator):
    """The causal depthwise convolution before a recurrence; its state is the latest inputs."""

    kind: ClassVar[str] = "convolution"
    per_sequence: ClassVar[bool] = True

    batch: FloatArray  # Sequences (C,)
    tokens: FloatArray  # Tokens over all sequences (C,)
    channels: FloatArray  # Channels, each with its own kernel (C,)
    # Kernel width, scalar or (C,); kernel - 1 inputs are stored per sequence and channel
    kernel: int | FloatArray
    bytes_per_element: float = 2.0  # Bytes per element of input, output and state

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,).

        Multiplications do not use tensor cores, overlap with the traffic and are not counted.
        """
        row_bytes = self.channels * self.bytes_per_element
        return Work(
            flop=np.zeros_like(self.tokens),
            cold_bytes=self.batch * row_bytes * (self.kernel - 1.0),
            activation_bytes=2.0 * self.tokens * row_bytes,
        )

    def divided(self, ranks: Ranks) -> Self:
        """Return the channels of one rank; the sequence is not divided."""
        if not self.tensor_parallel:
            return self
        return with_fields(self, channels=self.channels / ranks.tp)


def delta_rule_flop(
    key_dim: float | FloatArray, value_dim: float | FloatArray, chunk: float
) -> float | FloatArray:
    """Return the arithmetic of the gated delta rule per token and value head [FLOP].

    Recurrent form (chunk 0) with a state of d_k x d_v: decay 1, read of the key 2, rank-one update
    2, read of the query 2, that is 7 d_k d_v. Chunked form with C tokens: three products with the
    state 6 d_k d_v, and inside the chunk K K^T, Q K^T and the key side of the WY form 3 x 2 C d_k,
    the value side and the output 2 x 2 C d_v, the triangular inverse C^2/3.

    Args:
        chunk: Tokens per chunk, 0 for the recurrent form.

    Source: Yang, Kautz, Hatamizadeh 2024, Gated Delta Networks (arXiv 2412.06464) equation 10 and
        section 3.3.

    Example:
        >>> from perfatlas.operators import delta_rule_flop
        >>> delta_rule_flop(128.0, 128.0, 0.0)
        114688.0
    """
    if not chunk:
        return 7.0 * key_dim * value_dim
    inside = 2.0 * chunk * (3.0 * key_dim + 2.0 * value_dim) + chunk * chunk / 3.0
    return 6.0 * key_dim * value_dim + inside


def delta_rule_width(
    key_heads: float | FloatArray,
    key_dim: float | FloatArray,
    value_heads: float | FloatArray,
    value_dim: float | FloatArray,
) -> float | FloatArray:
    """Return elements that the gated delta rule reads and writes per token, without its states.

    Inputs: queries, keys, values, decays and strengths. Output: one value per head.

    Args:
        value_heads: Value heads, each with a state.
    """
    return 2.0 * key_heads * key_dim + 2.0 * value_heads * value_dim + 2.0 * value_heads

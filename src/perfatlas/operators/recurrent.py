"""Operators of recurrent mixers.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from perfatlas.operators.copies import with_fields
from perfatlas.operators.operator import Operator
from perfatlas.operators.work import FloatArray, Work

if TYPE_CHECKING:
    from perfatlas.operators.operator import Ranks


@dataclass(frozen=True, kw_only=True)
class Scan(Operator):
    """A recurrent or chunked linear mixer (Mamba, Mamba-2, gated delta net) without projections.

    Args:
        batch: Sequences (C,).
        tokens: Tokens over all sequences (C,).
        flop_per_token: Arithmetic of the recurrence (C,) [FLOP].
        io_bytes_per_token: Inputs and outputs (C,) [bytes].
        state_bytes: Recurrent state of a sequence, read and written once (C,) [bytes].
        num_heads: Heads with separate states, or channels if each has its own (C,).
        head_width: Elements per token and head stored between the kernels of the chunked form: a
            key and a value, or only the value if keys are shared.
        chunk: Tokens per chunk; 1 in the recurrent form.
        mixer: "mamba", "mamba2" or "gated_delta_net".
    """

    kind: ClassVar[str] = "scan"
    per_sequence: ClassVar[bool] = True
    # It reads its inputs again and writes their gradients.
    # Source: assumption; Mamba-2 (arXiv 2405.21060) recomputes states in the backward pass.
    backward_passes: ClassVar[float] = 2.5

    batch: FloatArray
    tokens: FloatArray
    flop_per_token: FloatArray
    io_bytes_per_token: FloatArray
    state_bytes: FloatArray
    num_heads: FloatArray
    head_width: float | FloatArray
    chunk: float
    mixer: str

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        return Work(
            flop=self.tokens * self.flop_per_token,
            cold_bytes=2.0 * self.batch * self.state_bytes,
            activation_bytes=self.tokens * self.io_bytes_per_token,
        )

    def divided(self, ranks: Ranks) -> Self:
        """Return the heads of one rank; a recurrence is not divided along the sequence.

        Args:
            ranks: Ranks that divide it.
        """
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
    """The causal depthwise convolution before a recurrence; its state is the latest inputs.

    Args:
        batch: Sequences (C,).
        tokens: Tokens over all sequences (C,).
        channels: Channels, each with its own kernel (C,).
        kernel: Kernel width, scalar or (C,); kernel - 1 inputs are stored per sequence and
            channel.
        bytes_per_element: Bytes per element of input, output and state.
    """

    kind: ClassVar[str] = "convolution"
    per_sequence: ClassVar[bool] = True
    backward_passes: ClassVar[float] = Scan.backward_passes

    batch: FloatArray
    tokens: FloatArray
    channels: FloatArray
    kernel: int | FloatArray
    bytes_per_element: float = 2.0

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
        """Return the channels of one rank; the sequence is not divided.

        Args:
            ranks: Ranks that divide it.
        """
        if not self.tensor_parallel:
            return self
        return with_fields(self, channels=self.channels / ranks.tp)

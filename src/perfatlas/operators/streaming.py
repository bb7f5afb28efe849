"""Bandwidth-limited operators.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from perfatlas.operators.copies import with_fields
from perfatlas.operators.operator import ACTIVATION_BYTES, Backward, Operator, WeightMatrix
from perfatlas.operators.work import FloatArray, Work

if TYPE_CHECKING:
    from perfatlas.operators.operator import Collective, Ranks

EMBEDDING: Final = "embedding"
EMBEDDING_BAG: Final = "embedding_bag"  # sums of rows
QUANTIZE: Final = "quantize"
INDEX_BYTES: Final = 8.0  # a token id, int64
_MULTIPLY_ADD: Final = 2.0  # FLOP
# A backward pass of these reads the inputs of the forward pass again.
_READ_AGAIN: Final = ("activation", "output_gate", "qk_norm", "latent_norm", "gated_norm")
# A norm over divided heads reduces the squared sums of queries and keys in fp32.
# Source: vllm/model_executor/models/minimax_m2.py and mamba/linear_attn.py, MiniMaxText01RMSNormTP.
_NORM_SUMS: Final = 2.0
_SUM_BYTES: Final = 4.0


@dataclass(frozen=True, kw_only=True)
class Streaming(Operator):
    """A bandwidth-limited operator: norm, activation, quantize, embedding, rope, sampling, copy."""

    kind: ClassVar[str] = "streaming"
    row_columns: ClassVar[tuple[str, ...]] = ("tokens", "read_bytes", "write_bytes")

    stream: str  # Kind of operator; engines name it in their fusion lists
    tokens: FloatArray  # Rows (C,)
    read_bytes: FloatArray  # Activations read (C,) [bytes]
    write_bytes: FloatArray  # Activations written (C,) [bytes]
    cold_read_bytes: FloatArray  # Tables or cache rows read from device memory (C,) [bytes]
    taps: FloatArray | float = 0.0  # Inputs of each output of a depthwise convolution, else 0 (C,)
    # Rows that are looked up, repeated ones included, else 0 (C,)
    gathers: FloatArray | float = 0.0
    # Bytes of a row that is looked up, or that one thread block reduces, else 0 (C,)
    row_bytes: FloatArray | float = 0.0
    # Rows of the table that is looked up, which ranks divide, else 0 (C,)
    table_rows: FloatArray | float = 0.0

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.tokens)
        return Work(
            flop=zero,
            cold_bytes=self.cold_read_bytes,
            activation_bytes=self.read_bytes + self.write_bytes,
        )

    @property
    def vector_flop(self) -> FloatArray:
        """Arithmetic of a depthwise convolution, which tensor cores do not run (C,) [FLOP]."""
        return _MULTIPLY_ADD * self.taps * self.write_bytes / ACTIVATION_BYTES

    @property
    def stream_kind(self) -> str:
        """Kind of the operator."""
        return self.stream

    def weights(self) -> tuple[WeightMatrix, ...]:
        """Return the table that is looked up."""
        if not np.any(self.table_rows):
            return ()
        rows_C, width_C = np.broadcast_arrays(self.table_rows, self.row_bytes)
        return (WeightMatrix(rows_C, width_C / ACTIVATION_BYTES, None, ACTIVATION_BYTES),)

    def divided(self, ranks: Ranks) -> Self:
        """Return the part of one rank.

        The vocabulary-parallel embedding writes whole rows, zero for tokens of other ranks.
        """
        if ranks.cp is None and not self.tensor_parallel:
            return self
        parts = 1.0 if ranks.cp is None else ranks.cp
        read = parts * ranks.tp if self.tensor_parallel else parts
        return with_fields(
            self,
            tokens=self.tokens / parts,
            read_bytes=self.read_bytes / read,
            write_bytes=self.write_bytes / (parts if self.shard == "vocab" else read),
            cold_read_bytes=self.cold_read_bytes / read,
        )

    def collectives(self, ranks: Ranks) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
        """Return the sums of a divided norm, before it, or of a divided embedding, after it."""
        if self.shard == "width_sums":
            size = self.tokens * _NORM_SUMS * _SUM_BYTES
            return (self.collective("all_reduce", size, ranks.tensor_group()),), ()
        if self.shard == "vocab":
            return (), (self.collective("all_reduce", self.write_bytes, ranks.tensor_group()),)
        return (), ()

    def saved_inputs(self) -> FloatArray:
        """Return the token ids of an embedding, or what its gradient reads again (C,) [bytes]."""
        return self.tokens * INDEX_BYTES if self.stream == EMBEDDING else self._read_again()

    def _read_again(self) -> FloatArray:
        """Return the inputs that its gradient reads (C,) [bytes]: a norm keeps one sum of two."""
        if self.stream == "norm":
            return self.read_bytes / 2.0
        return self.read_bytes if self.stream in _READ_AGAIN else 0.0 * self.read_bytes

    def backward(self, *, frozen: bool = False) -> Backward:
        """Return its gradient, which no quantization and no frozen embedding have.

        It reads the gradients of what the forward pass wrote and writes those of what it read.
        Norms and activations also read their inputs again, of which a norm with a residual has one.
        """
        if self.stream == QUANTIZE or (frozen and self.stream == EMBEDDING):
            return Backward(())
        if self.stream == "sampling":  # the gradient of the loss replaces the logits
            return Backward((with_fields(self, write_bytes=self.read_bytes),))
        # an embedding adds rows to the gradient of the table
        write = self.write_bytes if self.stream == EMBEDDING else self.read_bytes
        read = self.write_bytes + self._read_again()
        return Backward((with_fields(self, read_bytes=read, write_bytes=write),))

"""The vocabulary of operators. Every dimension is a column over candidates; there is no time here.

Shape legend: C candidates. A column is float64 of shape (C,), whole-numbered where it counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from perfatlas.operators.expert_load import least_active_experts
from perfatlas.operators.work import FloatArray, Work

if TYPE_CHECKING:
    from perfatlas.operators.phases import Phase

# How a tensor-parallel group divides an operator (see parallelism).
# replicated: every rank does all of it. column: n is divided. row: k is divided and the partial
# sums are reduced. row_partial: as row, but summed into the expert output and reduced with it.
# heads: query and key-value heads are divided. vocab: vocabulary rows are divided. experts: ep and
# moe_tp divide it. width: bytes of a tensor whose last dimension is divided. width_sums: as width,
# and every row needs sums over the whole width, which are reduced first.
Shard = Literal[
    "replicated", "column", "row", "row_partial", "heads", "vocab", "experts", "width", "width_sums"
]


@dataclass(frozen=True, kw_only=True)
class Operator(ABC):
    """One operator of a step on one rank, for C candidates at once.

    Args:
        name: Words of the trade, unique within a layer kind: "qkv_projection".
        phase: The step it belongs to.
        count: Executions in one step (C,); 0 where the candidate does not run it.
        shard: How tensor parallelism divides it.
    """

    kind: ClassVar[str]

    name: str
    phase: Phase
    count: FloatArray
    shard: Shard = "replicated"

    @abstractmethod
    def work(self) -> Work:
        """Return the least FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""

    @property
    def compute_format(self) -> str:
        """Number format whose dense peak bounds the arithmetic."""
        return "bf16"


@dataclass(frozen=True, kw_only=True)
class Gemm(Operator):
    """C[m, n] = A[m, k] W[k, n]; the weights are cold, A and C are activations.

    Args:
        m: Rows, that is tokens (C,).
        n: Output features (C,).
        k: Contraction length (C,).
        format: Number format of the product, a name of `formats`.
        weight_bytes_per_element: Bytes of a stored weight with its scales.
        input_bytes_per_element: Bytes of an element of A as the kernel reads it.
        output_bytes_per_element: Bytes of an element of C.
        quantizes_input: 1 where A is quantized from 16 bits by a kernel of its own just before,
            which the price then includes; else 0 (C,).
    """

    kind: ClassVar[str] = "gemm"

    m: FloatArray
    n: FloatArray
    k: FloatArray
    format: str
    weight_bytes_per_element: float
    input_bytes_per_element: float
    output_bytes_per_element: float = 2.0
    quantizes_input: FloatArray | float = 0.0

    @property
    def compute_format(self) -> str:
        """Format of the products."""
        return self.format

    def work(self) -> Work:
        """Return the least FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        read = self.k * self.input_bytes_per_element
        read = read + self.quantizes_input * (read + 2.0 * self.k)  # 16 bits in, quantized out
        return Work(
            flop=2.0 * self.m * self.n * self.k,
            cold_bytes=self.n * self.k * self.weight_bytes_per_element,
            activation_bytes=self.m * (read + self.n * self.output_bytes_per_element),
        )


@dataclass(frozen=True, kw_only=True)
class GroupedGemm(Operator):
    """The fused expert network of one MoE layer on one rank of the expert-parallel group.

    Args:
        tokens: Tokens routed by the whole group, before top-k (C,).
        hidden: Model width (C,).
        intermediate: Width of one expert before `moe_tp` (C,).
        experts: Routed experts of the layer before `ep` (C,).
        top_k: Experts per token (C,).
        ep: Expert-parallel ranks (C,).
        moe_tp: Tensor-parallel ranks inside an expert (C,).
        matrices: 3 with a gate, 2 without.
        format: Number format of the product.
        weight_bytes_per_element: Bytes of a stored weight with its scales.
        input_bytes_per_element: Bytes of an activation as the kernel reads it.
        distribution: Of tokens over experts, as in `expert_load`.
    """

    kind: ClassVar[str] = "grouped_gemm"

    tokens: FloatArray
    hidden: FloatArray
    intermediate: FloatArray
    experts: FloatArray
    top_k: FloatArray
    ep: FloatArray
    moe_tp: FloatArray
    matrices: int
    format: str
    weight_bytes_per_element: float
    input_bytes_per_element: float
    distribution: str = "uniform"

    @property
    def compute_format(self) -> str:
        """Format of the products."""
        return self.format

    def work(self) -> Work:
        """Return the least FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        rows = self.tokens * self.top_k / self.ep
        width = self.intermediate / self.moe_tp
        active = least_active_experts(
            self.distribution, self.tokens, self.experts, self.top_k, self.ep
        )
        return Work(
            flop=2.0 * self.matrices * rows * self.hidden * width,
            cold_bytes=self.matrices * active * self.hidden * width * self.weight_bytes_per_element,
            activation_bytes=rows * self.hidden * (self.input_bytes_per_element + 2.0),
        )


@dataclass(frozen=True, kw_only=True)
class Scan(Operator):
    """A recurrent or chunked linear mixer (Mamba, Mamba-2, gated delta net) without projections.

    Args:
        batch: Sequences (C,).
        tokens: Tokens over all sequences (C,).
        flop_per_token: Arithmetic of the recurrence (C,) [FLOP].
        io_bytes_per_token: Inputs and outputs (C,) [bytes].
        state_bytes: Recurrent state of one sequence, read and written once (C,) [bytes].
        num_heads: Heads with a state of their own; channels where every channel has one (C,).
        head_width: Elements of a token that one head keeps between the kernels of the chunked
            form: a key and a value, or the value where keys are shared.
        chunk: Tokens the chunked form takes at a time; 1 in the recurrent form.
        mixer: "mamba", "mamba2" or "gated_delta_net".
    """

    kind: ClassVar[str] = "scan"

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
        """Return the least FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        return Work(
            flop=self.tokens * self.flop_per_token,
            cold_bytes=2.0 * self.batch * self.state_bytes,
            activation_bytes=self.tokens * self.io_bytes_per_token,
        )


@dataclass(frozen=True, kw_only=True)
class Convolution(Operator):
    """The causal depthwise convolution before a recurrence; its state is the last inputs.

    Args:
        batch: Sequences (C,).
        tokens: Tokens over all sequences (C,).
        channels: Channels, each with a kernel of its own (C,).
        kernel: Taps of a kernel, the same or (C,); kernel - 1 inputs are kept per sequence and
            channel.
        bytes_per_element: Bytes of an element of input, output and state.
    """

    kind: ClassVar[str] = "convolution"

    batch: FloatArray
    tokens: FloatArray
    channels: FloatArray
    kernel: int | FloatArray
    bytes_per_element: float = 2.0

    def work(self) -> Work:
        """Return the least FLOP [FLOP] and bytes [bytes] of one execution, each (C,).

        The multiplications run beside the traffic, on no tensor core, and are not counted.
        """
        row_bytes = self.channels * self.bytes_per_element
        return Work(
            flop=np.zeros_like(self.tokens),
            cold_bytes=self.batch * row_bytes * (self.kernel - 1.0),
            activation_bytes=2.0 * self.tokens * row_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Streaming(Operator):
    """A bandwidth-limited operator: norm, activation, quantize, embedding, rope, sampling, copy.

    Args:
        stream: Which one; engines name it in their fusion lists.
        tokens: Rows (C,).
        read_bytes: Activations read (C,) [bytes].
        write_bytes: Activations written (C,) [bytes].
        cold_read_bytes: Tables or cache rows that come from device memory (C,) [bytes].
    """

    kind: ClassVar[str] = "streaming"

    stream: str
    tokens: FloatArray
    read_bytes: FloatArray
    write_bytes: FloatArray
    cold_read_bytes: FloatArray

    def work(self) -> Work:
        """Return the least FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.tokens)
        return Work(
            flop=zero,
            cold_bytes=self.cold_read_bytes,
            activation_bytes=self.read_bytes + self.write_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Collective(Operator):
    """Communication of a group of ranks.

    `stride` is the distance between neighbours of the group in the global rank order (tensor
    ranks are innermost, stride 1); with the size of a scale-up domain it places the group.

    Args:
        op: all_reduce, all_gather, reduce_scatter, all_to_all, dispatch, combine or send_recv.
        bytes: As nccl-tests counts them (C,): all_reduce the buffer, all_gather the gathered
            output, reduce_scatter the input, all_to_all one rank's send buffer [bytes].
        ranks: Size of the group (C,).
        stride: Distance between neighbours (C,).
    """

    kind: ClassVar[str] = "collective"

    op: str
    bytes: FloatArray
    ranks: FloatArray
    stride: FloatArray

    def work(self) -> Work:
        """Return the least FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.bytes)
        return Work(flop=zero, cold_bytes=zero, activation_bytes=zero)

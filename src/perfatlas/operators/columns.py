"""Operator types. All dimensions are columns over candidates; times are computed elsewhere.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from perfatlas.operators.expert_load import least_active_experts
from perfatlas.operators.work import FloatArray, Work

if TYPE_CHECKING:
    from perfatlas.operators.phases import Phase

# How a tensor-parallel group divides an operator (see parallelism).
# replicated: not divided. column: n is divided. row: k is divided and partial sums are reduced.
# row_partial: as row, but reduced together with the expert output. heads: query and key-value
# heads are divided. vocab: vocabulary rows are divided. experts: divided by ep and moe_tp.
# width: bytes of a tensor whose last dimension is divided. width_sums: as width, preceded by a
# reduction of per-row sums over the whole width.
Shard = Literal[
    "replicated", "column", "row", "row_partial", "heads", "vocab", "experts", "width", "width_sums"
]


class _OperatorType(ABCMeta):
    """Checks instances by inheritance alone, in half the time: nothing is registered as one."""

    __instancecheck__ = type.__instancecheck__


@dataclass(frozen=True, kw_only=True)
class Operator(metaclass=_OperatorType):
    """One operator of a step on one rank, for C candidates at once.

    Args:
        name: Unique within a layer kind, such as "qkv_projection".
        phase: The step it belongs to.
        count: Executions per step (C,); 0 if the candidate does not run it.
        shard: How tensor parallelism divides it.
    """

    kind: ClassVar[str]

    name: str
    phase: Phase
    count: FloatArray
    shard: Shard = "replicated"

    @abstractmethod
    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""

    @property
    def compute_format(self) -> str:
        """Number format of the arithmetic, whose dense peak applies."""
        return "bf16"


@dataclass(frozen=True, kw_only=True)
class Gemm(Operator):
    """C[m, n] = A[m, k] W[k, n]; W is read from device memory, A and C are activations.

    Args:
        m: Rows: tokens (C,).
        n: Output features (C,).
        k: Inner dimension (C,).
        format: Number format, a name of `formats`.
        weight_bytes_per_element: Bytes per stored weight with its scales.
        input_bytes_per_element: Bytes per element of A as the kernel reads it.
        output_bytes_per_element: Bytes per element of C.
        groups: Products with weights of their own that share the rows; 1 for a plain GEMM (C,).
        tile_rows: Rows of the kernel's only output tile, 0 where it is chosen for the shape (C,).
        tile_columns: Columns of that tile (C,).
        uneven_groups: 1 if the rows are cut into groups at random points, 0 if equally (C,).
        quantizes_input: 1 if a separate kernel quantizes A from 16 bits just before, which the
            price then includes; else 0 (C,).
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
    groups: FloatArray | float = 1.0
    tile_rows: FloatArray | float = 0.0
    tile_columns: FloatArray | float = 0.0
    uneven_groups: FloatArray | float = 0.0

    @property
    def compute_format(self) -> str:
        """Format of the products."""
        return self.format

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        read = self.k * self.input_bytes_per_element
        read = read + self.quantizes_input * (read + 2.0 * self.k)  # 16 bits in, quantized out
        return Work(
            flop=2.0 * self.m * self.n * self.k,
            cold_bytes=self.n * self.k * self.weight_bytes_per_element * self.groups,
            activation_bytes=self.m * (read + self.n * self.output_bytes_per_element),
        )


@dataclass(frozen=True, kw_only=True)
class GroupedGemm(Operator):
    """The fused experts of one MoE layer on one rank of the expert-parallel group.

    Args:
        tokens: Tokens of the whole group, before top-k (C,).
        hidden: Hidden size (C,).
        intermediate: Intermediate size of an expert before `moe_tp` (C,).
        experts: Routed experts of the layer before `ep` (C,).
        top_k: Experts per token (C,).
        ep: Expert-parallel ranks (C,).
        moe_tp: Tensor-parallel ranks inside an expert (C,).
        matrices: 3 with a gate, 2 without.
        format: Number format of the product.
        weight_bytes_per_element: Bytes per stored weight with its scales.
        input_bytes_per_element: Bytes per activation as the kernel reads it.
        distribution: Routing of tokens to experts, as in `expert_load`.
        ranks_per_token: Mean number of ep ranks to which an all-to-all sends a token, so that a
            rank holds only the tokens that it received; 0 where every rank holds all tokens (C,).
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
    ranks_per_token: FloatArray | float = 0.0

    @property
    def compute_format(self) -> str:
        """Format of the products."""
        return self.format

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
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
        state_bytes: Recurrent state of a sequence, read and written once (C,) [bytes].
        num_heads: Heads with separate states, or channels if each has its own (C,).
        head_width: Elements per token and head stored between the kernels of the chunked form: a
            key and a value, or only the value if keys are shared.
        chunk: Tokens per chunk; 1 in the recurrent form.
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
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        return Work(
            flop=self.tokens * self.flop_per_token,
            cold_bytes=2.0 * self.batch * self.state_bytes,
            activation_bytes=self.tokens * self.io_bytes_per_token,
        )


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


@dataclass(frozen=True, kw_only=True)
class Streaming(Operator):
    """A bandwidth-limited operator: norm, activation, quantize, embedding, rope, sampling, copy.

    Args:
        stream: Kind of operator; engines name it in their fusion lists.
        tokens: Rows (C,).
        read_bytes: Activations read (C,) [bytes].
        write_bytes: Activations written (C,) [bytes].
        cold_read_bytes: Tables or cache rows read from device memory (C,) [bytes].
    """

    kind: ClassVar[str] = "streaming"

    stream: str
    tokens: FloatArray
    read_bytes: FloatArray
    write_bytes: FloatArray
    cold_read_bytes: FloatArray

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.tokens)
        return Work(
            flop=zero,
            cold_bytes=self.cold_read_bytes,
            activation_bytes=self.read_bytes + self.write_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Collective(Operator):
    """Communication within a group of ranks.

    `stride` is the distance between neighbors in the global rank order (tensor-parallel ranks are
    innermost, with stride 1); with the size of a scale-up domain it places the group.

    Args:
        op: all_reduce, all_gather, reduce_scatter, all_to_all, dispatch, combine or send_recv.
        bytes: Size as nccl-tests defines it (C,): all_reduce the buffer, all_gather the gathered
            output, reduce_scatter the input, all_to_all one rank's send buffer [bytes].
        ranks: Size of the group (C,).
        stride: Distance between neighbors (C,).
    """

    kind: ClassVar[str] = "collective"

    op: str
    bytes: FloatArray
    ranks: FloatArray
    stride: FloatArray

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.bytes)
        return Work(flop=zero, cold_bytes=zero, activation_bytes=zero)

"""Products of activations and weights: linear layers and routed experts.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators.copies import with_fields
from perfatlas.operators.expert_load import MeasuredLoads, least_active_experts
from perfatlas.operators.operator import ACTIVATION_BYTES, Backward, Operator, WeightMatrix
from perfatlas.operators.streaming import QUANTIZE, Streaming
from perfatlas.operators.work import FloatArray, Phase, Work

if TYPE_CHECKING:
    from perfatlas.operators.operator import Collective, Ranks, Saving, WorkClass

# The products of the head keep logits in fp32 for the loss.
# Source: Megatron-LM, `vocab_parallel_cross_entropy`; Korthikanti et al. 2022, section 4.3.
LOGIT_BYTES: Final = 4.0
MASK_BYTES: Final = 1.0  # a dropout mask
# A quantized tensor is written along its rows and along its columns: the products of gradients
# multiply along the other dimension. Those of frozen weights do not exist.
# Source: Transformer Engine documentation, "FP8 primer" and "MXFP8": transposed copies.
COPIES: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Gemm(Operator):
    """C[m, n] = A[m, k] W[k, n]; W is read from device memory, A and C are activations."""

    kind: ClassVar[str] = "gemm"
    work_class: ClassVar[WorkClass] = "products"
    row_columns: ClassVar[tuple[str, ...]] = ("m",)

    m: FloatArray  # Rows: tokens (C,)
    n: FloatArray  # Output features (C,)
    k: FloatArray  # Inner dimension (C,)
    format: str  # Number format, a name of `formats`
    weight_bytes_per_element: float  # Bytes per stored weight with its scales
    input_bytes_per_element: FloatArray | float  # Bytes per element of A as the kernel reads it
    output_bytes_per_element: float = 2.0
    # 1 if a separate kernel quantizes A from 16 bits just before, which the price then includes;
    # else 0 (C,)
    quantizes_input: FloatArray | float = 0.0
    # Products with weights of their own that share the rows; 1 for a plain GEMM (C,)
    groups: FloatArray | float = 1.0
    # Rows of the kernel's only output tile, 0 where it is chosen for the shape (C,)
    tile_rows: FloatArray | float = 0.0
    tile_columns: FloatArray | float = 0.0  # Columns of that tile (C,)
    # 1 if the rows are cut into groups at random points, 0 if equally (C,)
    uneven_groups: FloatArray | float = 0.0
    has_weights: bool = True  # Whether W is a weight; else it is an activation
    kernel_format: str = ""  # Format whose kernels have the parameters of its own, "" for its own

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        read = self.k * self.input_bytes_per_element
        read = read + self.quantizes_input * (read + 2.0 * self.k)  # 16 bits in, quantized out
        return Work(
            flop=2.0 * self.m * self.n * self.k,
            cold_bytes=self.n * self.k * self.weight_bytes_per_element * self.groups,
            activation_bytes=self.m * (read + self.n * self.output_bytes_per_element),
        )

    def divided(self, ranks: Ranks) -> Self:
        """Return the part of one rank; a vocabulary is rounded up, as engines pad it."""
        local = self if ranks.cp is None else self.split_rows(ranks.cp)
        match self.shard:
            case "row" | "row_partial":
                return with_fields(local, k=self.k / ranks.tp)
            case "vocab":
                return with_fields(local, n=np.ceil(self.n / ranks.tp))
            case "column" | "heads" | "width" | "width_sums":
                return with_fields(local, n=self.n / ranks.tp)
            case _:
                return local

    def collectives(self, ranks: Ranks) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
        """Return the reduction of partial sums or the gather of logits, after the product."""
        size = self.m * self.n * self.output_bytes_per_element
        if self.shard == "row":
            return (), (self.collective("all_reduce", size, ranks.tensor_group()),)
        if self.shard == "vocab":
            return (), (self.collective("all_gather", size * ranks.tp, ranks.tensor_group()),)
        return (), ()

    def weights(self) -> tuple[WeightMatrix, ...]:
        """Return the matrix W of each group, unless it is an activation."""
        if not self.has_weights:
            return ()
        number = self.groups if isinstance(self.groups, np.ndarray) else None
        return (WeightMatrix(self.n, self.k, number, self.weight_bytes_per_element),)

    def saved(self, saving: Saving) -> FloatArray:
        """Return its input unless it is frozen, its logits and the mask of dropout (C,) [bytes]."""
        saved_C = self.m * self.n * LOGIT_BYTES if self.shard == "vocab" else 0.0 * self.m
        if saving.frozen:
            return saved_C
        inputs = self.m * self.k * _saved_bytes_per_element(self, saving)
        divides = self.shard in ("column", "vocab")
        saved_C = saved_C + (inputs / saving.token_ranks if divides else inputs)
        if saving.dropout and self.shard == "row":
            saved_C = saved_C + self.m * self.n / saving.token_ranks * MASK_BYTES
        return saved_C

    def kept_outputs(self) -> FloatArray:
        """Return its output (C,) [bytes]."""
        return self.m * self.n * ACTIVATION_BYTES

    def backward(self, *, frozen: bool = False) -> Backward:
        """Return dX[m, k] = dY[m, n] W^T[n, k] and dW[n, k] = dY^T[n, m] X[m, k].

        A quantized product quantizes its output gradient, with a copy for each of both.
        """
        by_input = with_fields(self, n=self.k, k=self.n)
        by_weight = with_fields(
            self,
            m=self.n,
            n=self.k,
            k=self.m,
            weight_bytes_per_element=self.input_bytes_per_element,
        )
        weights = () if frozen else (by_weight,)
        if get_format(self.format).quantize == "none":
            return Backward((by_input,), weights)
        elements = self.m * self.n
        quantized = Streaming(
            name=f"{self.name}_gradient_quantize",
            phase=self.phase,
            count=self.count,
            shard=self.shard,
            stream=QUANTIZE,
            tokens=self.m,
            read_bytes=elements * ACTIVATION_BYTES,
            write_bytes=(1.0 if frozen else COPIES) * elements * self.input_bytes_per_element,
            cold_read_bytes=np.zeros_like(elements),
        )
        return Backward((quantized, by_input), weights)


@dataclass(frozen=True, kw_only=True)
class GroupedGemm(Operator):
    """The fused experts of one MoE layer on one rank of the expert-parallel group."""

    kind: ClassVar[str] = "grouped_gemm"
    work_class: ClassVar[WorkClass] = "experts"
    input_module: ClassVar[str] = "moe"

    tokens: FloatArray  # Tokens of the whole group, before top-k (C,)
    hidden: FloatArray  # Hidden size (C,)
    intermediate: FloatArray  # Intermediate size of an expert before `moe_tp` (C,)
    experts: FloatArray  # Routed experts of the layer before `ep` (C,)
    top_k: FloatArray  # Experts per token (C,)
    ep: FloatArray  # Expert-parallel ranks (C,)
    moe_tp: FloatArray  # Tensor-parallel ranks inside an expert (C,)
    matrices: int  # 3 with a gate, 2 without
    format: str  # Number format of the product
    weight_bytes_per_element: float  # Bytes per stored weight with its scales
    input_bytes_per_element: float  # Bytes per activation as the kernel reads it
    distribution: str | MeasuredLoads = (
        "uniform"  # Routing of tokens to experts, as in `expert_load`
    )
    # Mean number of ep ranks to which an all-to-all sends a token, so that a rank holds only the
    # tokens that it received; 0 where every rank holds all tokens (C,)
    ranks_per_token: FloatArray | float = 0.0
    # Least clocks of an SM per element of the inner dimension of a default tile, 0 where tiles are
    # those that were measured (C,)
    loop_cycles: FloatArray | float = 0.0

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        rows, width = self.sent_rows(), self.width()
        active = least_active_experts(
            self.distribution, self.tokens, self.experts, self.top_k, self.ep
        )
        return Work(
            flop=2.0 * self.matrices * rows * self.hidden * width,
            cold_bytes=self.matrices * active * self.hidden * width * self.weight_bytes_per_element,
            activation_bytes=rows * self.hidden * (self.input_bytes_per_element + 2.0),
        )

    def sent_rows(self) -> FloatArray:
        """Return the rows that all experts of a rank receive (C,)."""
        return self.tokens * self.top_k / self.ep

    def width(self) -> FloatArray:
        """Return the intermediate size of an expert on a rank (C,)."""
        return self.intermediate / self.moe_tp

    def divided(self, ranks: Ranks) -> Self:
        """Return the experts of one rank, over the tokens of the whole expert group."""
        tokens = self.tokens * ranks.attention_dp
        tokens = tokens if ranks.cp is None else tokens / ranks.cp
        return with_fields(self, tokens=tokens, ep=ranks.ep, moe_tp=ranks.moe_tp)

    def weights(self) -> tuple[WeightMatrix, ...]:
        """Return the matrices into and out of the intermediate size."""
        width, experts = self.width(), self.experts / self.ep
        out = WeightMatrix(width, self.hidden, experts, self.weight_bytes_per_element)
        into = self.matrices - 1  # with a gate, two matrices stored as one
        return out._replace(rows=into * width, fused=into), out

    def activation(self) -> Streaming:
        """Return the activation between its products, as a kernel of its own."""
        rows, width_bytes = self.sent_rows(), self.width() * ACTIVATION_BYTES
        return Streaming(
            name=f"{self.name}_activation",
            phase=Phase.FORWARD,
            count=self.count,
            shard="replicated",
            stream="activation",
            tokens=rows,
            read_bytes=rows * (self.matrices - 1) * width_bytes,
            write_bytes=rows * width_bytes,
            cold_read_bytes=0.0 * rows,
        )

    def saved(self, saving: Saving) -> FloatArray:
        """Return the inputs of its products, unless frozen, and of its activation (C,) [bytes]."""
        between = self.activation().read_bytes
        if saving.frozen:
            return between
        element_bytes = _saved_bytes_per_element(self, saving)
        return self.sent_rows() * ((self.hidden + self.width()) * element_bytes) + between


def _saved_bytes_per_element(operator: Gemm | GroupedGemm, saving: Saving) -> FloatArray | float:
    """Return the bytes of an element of a product's input, as the backward pass reads it."""
    quantized = get_format(operator.format).quantize != "none"
    if quantized and not saving.quantized:
        return ACTIVATION_BYTES
    return operator.input_bytes_per_element

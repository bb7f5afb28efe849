"""What every operator says of itself; its dimensions are columns over candidates.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, Self, get_args

import numpy as np

from perfatlas.operators.copies import with_fields
from perfatlas.operators.work import FloatArray, Work

if TYPE_CHECKING:
    from perfatlas.operators.work import Phase

# How a tensor-parallel group divides an operator (see parallelism).
# replicated: not divided. column: n is divided. row: k is divided and partial sums are reduced.
# row_partial: as row, but reduced together with the expert output. heads: query and key-value
# heads are divided. vocab: vocabulary rows are divided. experts: divided by ep and moe_tp.
# width: bytes of a tensor whose last dimension is divided. width_sums: as width, preceded by a
# reduction of per-row sums over the whole width.
Shard = Literal[
    "replicated", "column", "row", "row_partial", "heads", "vocab", "experts", "width", "width_sums"
]
_TENSOR_SHARDS: Final = frozenset(
    {"column", "row", "row_partial", "heads", "vocab", "width", "width_sums"}
)
# Classes of operators by what their energy depends on.
WorkClass = Literal["products", "experts", "attention", "other_kernels", "communication"]
WORK_CLASSES: Final = get_args(WorkClass)
ACTIVATION_BYTES: Final = 2.0  # activations have 16 bits, unless a product quantizes them


class Ranks(NamedTuple):
    """Ranks that divide an operator, each (C,)."""

    tp: FloatArray  # Tensor-parallel ranks
    attention_dp: FloatArray  # Attention data-parallel ranks, whose tokens experts share
    ep: FloatArray  # Expert-parallel ranks
    moe_tp: FloatArray  # Tensor-parallel ranks inside an expert
    # Context-parallel ranks, which divide the tokens; None where they do not
    cp: FloatArray | None = None
    # Those of a sequence among which keys and values rotate; None where none do
    ring: FloatArray | None = None
    # Those that divide the passes with and without a prompt; None where none do
    guidance: FloatArray | None = None
    # Tensor-parallel ranks over which cached keys are striped; None where none are
    dcp: FloatArray | None = None

    def tensor_group(self) -> Group:
        """Return the tensor-parallel group."""
        return Group(ranks=self.tp, stride=np.ones_like(self.tp))


class WeightMatrix(NamedTuple):
    """Equal matrices of weights of one execution of an operator on its rank."""

    rows: FloatArray  # Output features, or the intermediate size of experts (C,)
    columns: FloatArray  # Input features, or the hidden size of experts (C,)
    number: FloatArray | None  # Matrices (C,); None for one
    bytes_per_element: float  # Bytes per stored weight with its scales
    fused: int = 1  # Matrices of the same input that are stored as one, below each other

    def elements(self) -> FloatArray:
        """Return the elements of all matrices (C,)."""
        elements = self.rows * self.columns
        return elements if self.number is None else elements * self.number


class Saving(NamedTuple):
    """How a training engine keeps activations."""

    token_ranks: FloatArray  # Ranks that divide the tokens outside tensor-parallel products (C,)
    quantized: bool = False  # Whether quantized products keep the quantized input
    # Whether the sum of a row-parallel product is dropped out, whose mask is kept
    dropout: bool = False
    frozen: bool = False  # Whether weights have no gradients


class Backward(NamedTuple):
    """Operators of a backward pass: gradients of inputs, and of weights."""

    inputs: tuple[Operator, ...]
    weights: tuple[Operator, ...] = ()


class Group(NamedTuple):
    """Groups of communicating ranks, as columns."""

    ranks: FloatArray  # Size of the group (C,)
    stride: FloatArray  # Distance between neighbors in the global rank order (C,)


class _OperatorType(ABCMeta):
    """Checks instances by inheritance alone, in half the time: nothing is registered as one."""

    __instancecheck__ = type.__instancecheck__


@dataclass(frozen=True, kw_only=True)
class Operator(metaclass=_OperatorType):
    """One operator of a step on one rank, for C candidates at once.

    A type says by its methods how it is divided, what it weighs, what it keeps for the backward
    pass and what that runs. The defaults are those of an operator that has no weights, keeps
    nothing and of which every tensor-parallel rank executes all.
    """

    kind: ClassVar[str]
    work_class: ClassVar[WorkClass] = "other_kernels"
    communicates: ClassVar[bool] = False
    # Runs sequence by sequence: apart for prefills and decodes, without the padding of a batch.
    per_sequence: ClassVar[bool] = False
    # Its time depends on the keys in the KV cache.
    reads_keys: ClassVar[bool] = False
    # Columns proportional to the tokens of a rank.
    row_columns: ClassVar[tuple[str, ...]] = ()
    # Module whose recomputation computes its input again, "" for none.
    input_module: ClassVar[str] = ""
    # Forward passes that take as long as the backward pass of an operator without weights: of a
    # scan, which reads its inputs again and writes their gradients.
    # Source: assumption; Mamba-2 (arXiv 2405.21060) recomputes states in the backward pass.
    backward_passes: ClassVar[float] = 2.5

    name: str  # Unique within a layer kind, such as "qkv_projection"
    phase: Phase  # The step it belongs to
    count: FloatArray  # Executions per step (C,); 0 if the candidate does not run it
    shard: Shard = "replicated"  # How tensor parallelism divides it

    @abstractmethod
    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""

    @property
    def compute_format(self) -> str:
        """Number format of the arithmetic, whose dense peak applies: `format`, if it has one."""
        name: str = getattr(self, "format", "bf16")
        return name

    @property
    def stream_kind(self) -> str:
        """Kind of a bandwidth-limited operator, "" for others."""
        return ""

    @property
    def multiplies(self) -> bool:
        """Whether it is a product with weights."""
        return self.work_class in {"products", "experts"}

    @property
    def routed(self) -> bool:
        """Whether it runs routed experts."""
        return self.work_class == "experts"

    @property
    def tensor_parallel(self) -> bool:
        """Whether a tensor-parallel group divides it."""
        return self.shard in _TENSOR_SHARDS

    def rows(self) -> FloatArray | None:
        """Return the tokens of a rank (C,); None if `row_columns` is empty."""
        column: FloatArray | None = getattr(self, self.row_columns[0]) if self.row_columns else None
        return column

    def split_rows(self, parts: FloatArray) -> Self:
        """Return it over the tokens of one of several ranks with the same weights.

        Args:
            parts: The ranks (C,).
        """
        return with_fields(self, **{name: getattr(self, name) / parts for name in self.row_columns})

    def divided(self, ranks: Ranks) -> Self:
        """Return the part of one rank."""
        return self if ranks.cp is None else self.split_rows(ranks.cp)

    def context_elements(self) -> FloatArray | None:
        """Return what a rank sends to the others of its sequence (C,) [elements]; None: nothing."""
        return None

    def collectives(self, ranks: Ranks) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
        """Return the collectives before and after the part of one rank, with their copies."""
        if ranks.cp is None or (sent := self.context_elements()) is None:
            return (), ()
        sequence = Group(ranks=ranks.cp, stride=ranks.tp * ranks.attention_dp)
        return (self.collective("all_gather", sent * ranks.cp * ACTIVATION_BYTES, sequence),), ()

    def collective(
        self, op: str, size_bytes: FloatArray, group: Group, *, label: str = ""
    ) -> Collective:
        """Return a collective that runs as often as this; its count is 0 in a group of one.

        Args:
            size_bytes: Bytes in the convention of `Collective` (C,).
            label: Suffix of the name, `op` if empty.
        """
        return Collective(
            name=f"{self.name}_{label or op}",
            phase=self.phase,
            count=np.where(group.ranks > 1, self.count, 0.0),
            op=op,
            bytes=size_bytes,
            ranks=group.ranks,
            stride=group.stride,
        )

    def weights(self) -> tuple[WeightMatrix, ...]:
        """Return the matrices of one execution; small weights, such as biases, are not counted."""
        return ()

    def weight_elements(self) -> FloatArray:
        """Return the elements of the weights of one execution (C,)."""
        sizes = [weight.elements() for weight in self.weights()]
        return sum(sizes[1:], sizes[0]) if sizes else np.zeros_like(self.count)

    def weight_bytes(self) -> FloatArray:
        """Return the bytes of its weights over all executions, with scales (C,) [bytes]."""
        sizes = [
            weight.elements() * self.count * weight.bytes_per_element for weight in self.weights()
        ]
        return sum(sizes[1:], sizes[0]) if sizes else np.zeros_like(self.count)

    def saved(self, saving: Saving) -> FloatArray:
        """Return what one execution keeps for its backward pass (C,) [bytes].

        Args:
            saving: How the engine keeps activations.
        """
        return np.zeros_like(saving.token_ranks) + self.saved_inputs()

    def saved_inputs(self) -> FloatArray | float:
        """Return the inputs that it keeps however activations are kept (C,) [bytes]."""
        return 0.0

    def softmax_rows(self) -> FloatArray | float:
        """Return the queries of all heads whose softmax has statistics (C,)."""
        return 0.0

    def scores(self) -> FloatArray | float:
        """Return the scores that are stored unless kernels are fused, masked ones too (C,)."""
        return 0.0

    def kept_outputs(self) -> FloatArray | float:
        """Return what is kept of it if all but every second product run again (C,) [bytes]."""
        return 0.0

    def backward(self, *, frozen: bool = False) -> Backward:
        """Return the operators of its backward pass.

        Args:
            frozen: Whether its weights have no gradients.
        """
        if self.weights():
            return Backward((self,), () if frozen else (self,))
        return Backward((with_fields(self, count=self.backward_passes * self.count),))


@dataclass(frozen=True, kw_only=True)
class Collective(Operator):
    """Communication within a group of ranks.

    `stride` is the distance between neighbors in the global rank order (tensor-parallel ranks are
    innermost, with stride 1); with the size of a scale-up domain it places the group.
    """

    kind: ClassVar[str] = "collective"
    work_class: ClassVar[WorkClass] = "communication"
    communicates: ClassVar[bool] = True

    op: str  # all_reduce, all_gather, reduce_scatter, all_to_all, dispatch, combine or send_recv
    # Size as nccl-tests defines it (C,): all_reduce the buffer, all_gather the gathered output,
    # reduce_scatter the input, all_to_all one rank's send buffer [bytes]
    bytes: FloatArray
    ranks: FloatArray  # Size of the group (C,)
    stride: FloatArray  # Distance between neighbors (C,)
    window: str = ""  # Operator of which one execution runs beside each transfer; "" for none
    pause_s: float = 0.0  # Time that ranks wait for the host instead of the links [s]

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.bytes)
        return Work(flop=zero, cold_bytes=zero, activation_bytes=zero)

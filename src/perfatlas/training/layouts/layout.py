"""Layouts: parallel sizes, batches and sharding of a training job, as columns.

Shape legend: C candidates. Rank order, as in Megatron-LM: tensor-parallel ranks are innermost, then
context-parallel, data-parallel and pipeline ranks. The tp x cp x dp ranks of a stage also form
groups of ep x expert_tp ranks that hold the experts, with expert_tp innermost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray

# What the backward pass computes again: nothing, the attention of a layer, or whole layers.
RECOMPUTE_LEVELS: Final = ("none", "selective", "full")


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """The layouts of C candidates; sizes are integer-valued columns (C,)."""

    tp: FloatArray  # Tensor-parallel ranks
    pp: FloatArray  # Pipeline stages
    cp: FloatArray  # Context-parallel ranks
    dp: FloatArray  # Data-parallel ranks
    ep: FloatArray  # Expert-parallel ranks
    expert_tp: FloatArray  # Tensor-parallel ranks inside an expert
    vpp: FloatArray  # Chunks of layers per stage of an interleaved pipeline
    sequence_length: FloatArray  # Tokens per sequence
    global_batch: FloatArray  # Sequences per step over all ranks
    micro_batch: FloatArray  # Sequences per forward pass of a rank
    # What data-parallel ranks shard: 0 nothing, 1 optimizer states, 2 also gradients, 3 also
    # weights
    zero: IntArray
    # Whether tensor-parallel ranks divide the tokens of norms and residuals
    sequence_parallel: NDArray[np.bool_]
    recompute: IntArray  # Position in `RECOMPUTE_LEVELS`

    @property
    def size(self) -> int:
        """Number of candidates."""
        return int(self.tp.size)

    @property
    def gpus(self) -> FloatArray:
        """GPUs of the job (C,)."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def micro_batches(self) -> FloatArray:
        """Micro-batches of a pipeline per step (C,)."""
        return self.global_batch / (self.dp * self.micro_batch)

    @property
    def tokens(self) -> FloatArray:
        """Tokens of a micro-batch on the ranks of one tensor-parallel group (C,)."""
        return self.micro_batch * self.sequence_length / self.cp

    @property
    def tokens_per_step(self) -> FloatArray:
        """Tokens of a step over all ranks (C,)."""
        return self.global_batch * self.sequence_length

    @property
    def token_ranks(self) -> FloatArray:
        """Ranks that divide the tokens of norms and residuals (C,)."""
        return np.where(self.sequence_parallel, self.tp, 1.0)

    @property
    def stage_ranks(self) -> FloatArray:
        """Ranks of a stage (C,)."""
        return self.tp * self.cp * self.dp

    @property
    def expert_dp(self) -> FloatArray:
        """Ranks that hold the same experts (C,)."""
        return self.stage_ranks / (self.ep * self.expert_tp)

    def row(self, row: int) -> dict[str, Any]:
        """Return the sizes of a candidate, and what follows from them."""
        derived = {"tokens": self.tokens, "copies": self.dp * self.cp}
        derived |= {"stage_ranks": self.stage_ranks, "expert_dp": np.floor(self.expert_dp)}
        return {name: values[row] for name, values in (vars(self) | derived).items()}


def take_layouts(layouts: Layouts, index: IntArray) -> Layouts:
    """Return the layouts at the given positions.

    Args:
        layouts: The layouts (C,).
    """
    return replace(layouts, **{name: values[index] for name, values in vars(layouts).items()})


def distinct_rows(values: FloatArray | IntArray) -> tuple[IntArray, IntArray]:
    """Return the first position of each distinct row, and the distinct row of each row.

    As `numpy.unique` of rows, which compares whole rows: with few values in each column, ranks of
    the values sort 10 times as fast.

    Args:
        values: Rows (C, D).

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.layouts import distinct_rows
        >>> first, which = distinct_rows(np.array([[1, 2], [0, 5], [1, 2]]))
        >>> first.tolist(), which.tolist()
        ([1, 0], [1, 0, 1])
    """
    code_C = np.zeros(len(values), np.int64)
    for column_C in values.T:
        distinct, rank_C = np.unique(column_C, return_inverse=True)
        code_C = np.unique(code_C * len(distinct) + rank_C, return_inverse=True)[1].reshape(-1)
    _, first, which_C = np.unique(code_C, return_index=True, return_inverse=True)
    return first, which_C.reshape(-1)

"""Rows of passes, as the compiled orders of schedules write them.

Shape legend: P ranks, N passes of a rank, A attributes of a pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from perfatlas.compiled import inlined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Passes: TypeAlias = NDArray[np.int32]

# Kinds of passes, as compiled code numbers them.
FORWARD: Final = 0
INPUT_GRADIENT: Final = 1
WEIGHT_GRADIENT: Final = 2
BACKWARD: Final = 3  # input and weight gradient as one pass; the gradient is sent at its end
PAIR: Final = 4  # a forward of one micro-batch overlapped with a backward of another
KINDS: Final = ("forward", "input_gradient", "weight_gradient", "backward", "pair")

# Attributes of a pass.
KIND: Final = 0
STAGE: Final = 1
MICRO_BATCH: Final = 2
BACKWARD_STAGE: Final = 3  # of a pair: stage and micro-batch of its backward
BACKWARD_MICRO_BATCH: Final = 4
ATTRIBUTES: Final = 5


@inlined
def put(pass_PNA: Passes, i: int, n: int, kind: int, stage: int, micro_batch: int) -> int:
    """Write a pass as the n-th of rank i and return the number of passes."""
    pass_PNA[i, n, KIND] = kind
    pass_PNA[i, n, STAGE] = stage
    pass_PNA[i, n, MICRO_BATCH] = micro_batch
    pass_PNA[i, n, BACKWARD_STAGE] = -1
    pass_PNA[i, n, BACKWARD_MICRO_BATCH] = -1
    return n + 1

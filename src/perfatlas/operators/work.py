"""What an operator must do at the least: arithmetic, and bytes with the residency of tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Work(NamedTuple):
    """Least work of one execution on one rank, as columns over candidates.

    Shape legend: C candidates.

    Args:
        flop: Tensor-core arithmetic, a multiply-add is 2 (C,) [FLOP].
        cold_bytes: Weights and KV cache that must come from device memory (C,) [bytes].
        activation_bytes: Tensors produced by the step itself, in cache or not (C,) [bytes].
    """

    flop: FloatArray
    cold_bytes: FloatArray
    activation_bytes: FloatArray

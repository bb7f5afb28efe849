"""Minimum work of an operator: arithmetic and memory traffic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Work(NamedTuple):
    """Minimum work of one execution on one rank, as columns over candidates.

    Shape legend: C candidates.

    Args:
        flop: Tensor-core arithmetic; a multiply-add is 2 (C,) [FLOP].
        cold_bytes: Weights and KV cache that must come from device memory (C,) [bytes].
        activation_bytes: Tensors produced within the step, cached or not (C,) [bytes].
    """

    flop: FloatArray
    cold_bytes: FloatArray
    activation_bytes: FloatArray

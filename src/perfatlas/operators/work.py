"""Phases, minimum work and bounds of operators."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BOUND_COMPUTE: Final = 0
BOUND_MEMORY: Final = 1
BOUND_NETWORK: Final = 2
BOUND_LATENCY: Final = 3
BOUND_HOST: Final = 4  # of steps, and of the pauses of a rebalance of experts
# What SMs compute beyond the minimum where the roofline is memory: partly empty output tiles that
# fill the device, or instructions for each element of a sort or a join.
BOUND_PADDING: Final = 5
BOUND_NAMES: Final = ("compute", "memory", "network", "latency", "host")
# Position in BOUND_NAMES of the name of each code: padded tiles are computed.
NAMED_BOUNDS: Final = (0, 1, 2, 3, 4, 0)


class Phase(StrEnum):
    """The phase of an operator; the value is what answers print."""

    PREFILL = "prefill"  # new tokens of a prompt
    DECODE = "decode"  # one new token per sequence
    FORWARD = "forward"  # training: as prefill, but activations are kept
    WEIGHT_GRADIENT = "weight gradient"


class Work(NamedTuple):
    """Minimum work of one execution on one rank, as columns over candidates.

    Shape legend: C candidates.
    """

    flop: FloatArray  # Tensor-core arithmetic; a multiply-add is 2 (C,) [FLOP]
    cold_bytes: FloatArray  # Weights and KV cache that must come from device memory (C,) [bytes]
    activation_bytes: FloatArray  # Tensors produced within the step, cached or not (C,) [bytes]

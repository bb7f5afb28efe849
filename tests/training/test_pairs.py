"""Overlapped pairs of passes, and the trace of one that DeepSeek published.

The durations below are those of the kernels in github.com/deepseek-ai/profile-data, train.json
(2025-02-25, H800, EP64, 4 layers), summed over each annotated part; computing parts count the time
in which at least one of their kernels runs. They contain the contention of the run: communication
kernels occupied 20 of 132 SMs. The check is therefore one of the order of the parts, not of rates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.step.overlap import Exposed
from perfatlas.training.pairs import PairParts, pair_times

# attention F, experts B, experts W, experts F, attention B, attention W [ms], by layer
COMPUTE_MS = [
    [4.306, 5.693, 5.325, 4.250, 9.018, 2.375],
    [4.258, 5.408, 5.050, 4.384, 9.368, 2.382],
    [4.433, 5.407, 5.249, 5.175, 9.452, 2.392],
    [4.454, 4.716, 4.627, 4.606, 9.525, 2.405],
]
# combine B, dispatch F, dispatch B, combine F [ms], by layer, with the casts before dispatch
COMMUNICATION_MS = [
    [4.38, 6.06, 7.30, 7.33],
    [5.22, 5.71, 7.91, 8.26],
    [6.21, 7.08, 7.27, 9.52],
    [7.27, 7.92, 7.46, 9.63],
]
SPAN_MS = 129.012


def pair(compute: Any, communication: Any, rate: float = 1.0) -> Exposed:  # noqa: ANN401 - columns
    """Return the overlap of one candidate."""
    compute_CN6 = np.array([compute], dtype=float)
    return pair_times(
        PairParts(
            compute_s_CN6=compute_CN6,
            communication_s_CN4=np.array([communication], dtype=float),
            compute_rate_CN6=np.full(compute_CN6.shape, rate),
            transfer_rate_C=np.ones(1),
        )
    )


def test_the_published_trace_follows_from_the_order_of_its_parts() -> None:
    """Measured: 129.0 ms, 96% of communication hidden; the order alone gives 126.3 ms and 98%."""
    exposed = pair(COMPUTE_MS, COMMUNICATION_MS)
    total = float(exposed.total_s_C[0])
    assert total == pytest.approx(SPAN_MS, rel=0.03)
    hidden = float(exposed.hidden_s_C[0]) / np.sum(COMMUNICATION_MS)
    assert hidden == pytest.approx(0.96, abs=0.03)
    assert total < SPAN_MS  # gaps between kernels are not part of it


def test_a_pair_lasts_as_long_as_its_longer_stream() -> None:
    """By hand: 12 parts of 1 s; communication of 1 s each finds a part to hide behind."""
    layers = np.ones((2, 6)), np.ones((2, 4))
    assert pair(*layers).total_s_C.tolist() == [12.0]
    assert pair(layers[0], 0 * layers[1]).total_s_C.tolist() == [12.0]
    # 8 s of communication beside computation at 3/4 of its speed: 8 s do the work of 6 s
    assert pair(*layers, rate=0.75).total_s_C.tolist() == [14.0]
    assert float(pair(layers[0], 5 * layers[1]).total_s_C[0]) >= 40.0


def test_parts_of_another_number_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match=r"6 .*4 communicating"):
        pair(np.ones((2, 5)), np.ones((2, 4)))

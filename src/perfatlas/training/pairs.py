"""A forward pass overlapped with a backward pass of another micro-batch, as DualPipe runs them.

The layers of the two passes alternate: while the experts of one micro-batch compute, tokens of the
other one travel. Communication kernels keep SMs of their own, which computation lacks.

Shape legend: C candidates, N layers of the stage, 6 computing and 4 communicating parts of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.step.overlap import ON_START, Exposed, Streams, exposed_communication

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

COMPUTE_PARTS: Final = (
    "attention_forward",
    "experts_input_gradient",
    "experts_weight_gradient",
    "experts_forward",
    "attention_input_gradient",
    "attention_weight_gradient",
)
COMMUNICATION_PARTS: Final = (
    "combine_backward",  # gradients of the experts' outputs travel to the experts
    "dispatch_forward",
    "dispatch_backward",  # gradients of the experts' inputs travel back
    "combine_forward",
)
# Of each communicating part: the part that makes its data and the part that waits for it, in layers
# of 6 parts; -2 is attention_input_gradient of the layer before, 6 attention_forward of the next.
_READY_AFTER: Final = (-2, 0, 1, 3)
_NEEDED_BY: Final = (1, 3, 4, 6)


@dataclass(frozen=True, kw_only=True)
class PairParts:
    """Durations of the parts of overlapped layers."""

    # Computing parts, alone on the device, in the order of `COMPUTE_PARTS` [s]
    compute_s_CN6: FloatArray
    # Communicating parts, alone, in the order of `COMMUNICATION_PARTS` [s]
    communication_s_CN4: FloatArray
    # Speed of computing parts beside communication, over their speed alone, from `contended_rate`
    compute_rate_CN6: FloatArray
    # Speed of communication beside computation, over its speed alone (C,)
    transfer_rate_C: FloatArray


def pair_times(parts: PairParts) -> Exposed:
    """Return the duration of overlapped pairs and what their communication leaves exposed.

    Raises:
        InvalidSpecError: The columns do not have the same layers, or a duration is invalid.

    Source: The order of the parts is that of figure 4 of DeepSeek-AI, arXiv 2412.19437, and of the
        published trace (github.com/deepseek-ai/profile-data).

    Limits: The transfer between pipeline stages is not part of a pair. The first combine_backward
        and the last combine_forward belong to neighbouring stages in time, and only the windows of
        this pair hide them.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.pairs import PairParts, pair_times
        >>> one_CN6, one_CN4 = np.ones((1, 2, 6)), np.ones((1, 2, 4))
        >>> pair_times(
        ...     PairParts(
        ...         compute_s_CN6=one_CN6,
        ...         communication_s_CN4=one_CN4,
        ...         compute_rate_CN6=one_CN6,
        ...         transfer_rate_C=np.ones(1),
        ...     )
        ... ).total_s_C.tolist()
        [12.0]
    """
    compute_CN6 = np.asarray(parts.compute_s_CN6, dtype=np.float64)
    transfer_CN4 = np.asarray(parts.communication_s_CN4, dtype=np.float64)
    count, layers = compute_CN6.shape[:2]
    if compute_CN6.shape[2] != len(COMPUTE_PARTS) or transfer_CN4.shape != (count, layers, 4):
        raise InvalidSpecError(
            f"a pair has {len(COMPUTE_PARTS)} computing and {len(COMMUNICATION_PARTS)}"
            f" communicating parts per layer, not {compute_CN6.shape} and {transfer_CN4.shape}"
        )
    first_N1 = len(COMPUTE_PARTS) * np.arange(layers)[:, None]
    ready_K = np.maximum((first_N1 + np.array(_READY_AFTER)).ravel(), ON_START)
    needed_K = (first_N1 + np.array(_NEEDED_BY)).ravel()
    return exposed_communication(
        Streams(
            window_s_CL=compute_CN6.reshape(count, -1),
            transfer_s_CK=transfer_CN4.reshape(count, -1),
            ready_after_CK=np.broadcast_to(ready_K, (count, len(ready_K))),
            needed_by_CK=np.broadcast_to(needed_K, (count, len(needed_K))),
            compute_rate_CL=np.broadcast_to(parts.compute_rate_CN6, compute_CN6.shape).reshape(
                count, -1
            ),
            transfer_rate_C=np.asarray(parts.transfer_rate_C, dtype=np.float64),
        )
    )

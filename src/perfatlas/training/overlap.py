"""Order of the collectives of data parallelism: gradient buckets, gathers of parameters.

Shape legend: L windows, B buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.step.overlap import ON_START

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


def gradient_buckets(gradient_bytes_L: FloatArray, bucket_bytes: float) -> tuple[Any, Any]:
    """Return the windows after which gradient buckets are full, and the bytes of each (B,).

    Args:
        gradient_bytes_L: Bytes of gradients that each window of the backward pass makes, in the
            order of the backward pass [bytes] (L,).
        bucket_bytes: A bucket is sent once it has this size [bytes]; the last one at the end.

    Raises:
        InvalidSpecError: The size is not positive.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.overlap import gradient_buckets
        >>> ready_after_B, bytes_B = gradient_buckets(np.array([3.0, 3.0, 3.0]), 5.0)
        >>> ready_after_B.tolist(), bytes_B.tolist()
        ([1, 2], [6.0, 3.0])
    """
    if not bucket_bytes > 0:
        raise InvalidSpecError(f"bucket_bytes is {bucket_bytes}; it is positive")
    ready, sizes, filled = [], [], 0.0
    for window, size in enumerate(np.asarray(gradient_bytes_L).tolist()):
        filled += size
        if filled >= bucket_bytes or (window == len(gradient_bytes_L) - 1 and filled > 0):
            ready.append(window)
            sizes.append(filled)
            filled = 0.0
    return np.array(ready, dtype=np.int64), np.array(sizes)


def gather_order(windows: int, prefetch: int) -> tuple[IntArray, IntArray]:
    """Return ready_after and needed_by of parameter all-gathers in a forward pass (L,).

    The parameters of a window are gathered from the start of the window `prefetch` places earlier
    on, and the window waits for them (FSDP2, ZeRO-3).

    Args:
        windows: Windows with sharded parameters.
        prefetch: Windows that gathers are ahead; 0 gathers only what is needed next.

    Raises:
        InvalidSpecError: A number is negative.
    """
    if windows < 0 or prefetch < 0:
        raise InvalidSpecError(f"windows {windows} and prefetch {prefetch} are not negative")
    window_L = np.arange(windows)
    return np.maximum(window_L - prefetch - 1, ON_START), window_L


def sharded_backward_order(windows: int, prefetch: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return ready_after, needed_by and the window of each transfer of a sharded backward pass.

    The parameters of each window are gathered as in `gather_order`, and its gradients are
    reduce-scattered after it, behind the gather that is queued when the window ends.

    Args:
        windows: Windows in the order of the backward pass.
        prefetch: Windows that gathers are ahead.

    Returns:
        Three columns of 2 L transfers: ready_after, needed_by, and l for the gather of window l or
        L + l for its reduce-scatter.

    Raises:
        InvalidSpecError: A number is negative.

    Example:
        >>> from perfatlas.training.overlap import sharded_backward_order
        >>> [column.tolist() for column in sharded_backward_order(2, 1)]
        [[-1, -1, 0, 1], [0, 1, 2, 2], [0, 1, 2, 3]]
    """
    gather_ready, gather_needed = gather_order(windows, prefetch)
    window_L = np.arange(windows)
    ready = np.concatenate((gather_ready, window_L))
    needed = np.concatenate((gather_needed, np.full(windows, windows)))
    order = np.lexsort((np.repeat((0, 1), windows), ready))
    which = np.arange(2 * windows)
    return ready[order], needed[order], which[order]

"""How much of a transfer the computation beside it does not hide.

Shape legend: any shape; all arguments broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


def exposed_beside(time_s: FloatArray, window_s: FloatArray, slowdown: FloatArray) -> FloatArray:
    """Return the time that a transfer adds beside computation that does not wait for it [s].

    Args:
        time_s: The transfer alone [s].
        window_s: The computation alone [s].
        slowdown: Share of the SMs that the transfer takes: the computation beside it is slower.

    Source: derived: kernels of communication occupy SMs (NCCL documentation, NCCL_MAX_CTAS).

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.step.exposure import exposed_beside
        >>> # 3 ms beside 2 ms: 1 ms is left; 10% of the SMs slow 2 ms down to 2.2 ms
        >>> float(exposed_beside(np.array(3e-3), np.array(2e-3), np.array(0.1)).round(6))
        0.0012
    """
    left_s: FloatArray = np.maximum(time_s - window_s, 0.0)
    return left_s + slowdown * np.minimum(time_s, window_s)


def exposed_in_tiles(
    time_s: FloatArray, window_s: FloatArray, tiles: FloatArray, slowdown: FloatArray
) -> FloatArray:
    """Return the time that a transfer adds when it is cut into tiles beside those of a product [s].

    The first tile of the transfer (or the last one, of an output) has nothing to run beside; each
    other one runs beside a tile of the product.

    Args:
        time_s: The whole transfer alone [s].
        window_s: The whole product alone [s].
        tiles: Number of tiles, at least 1.
        slowdown: Share of the SMs that the transfer takes.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.step.exposure import exposed_in_tiles
        >>> # 4 tiles of 1 ms beside 4 tiles of 2 ms: the first one is exposed
        >>> args = (np.array(4e-3), np.array(8e-3), np.array(4.0), np.array(0.0))
        >>> float(exposed_in_tiles(*args))
        0.001
    """
    share = (tiles - 1.0) / tiles
    return time_s / tiles + exposed_beside(time_s * share, window_s * share, slowdown)

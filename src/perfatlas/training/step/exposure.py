"""How much of a transfer the computation beside it does not hide.

Shape legend: any shape; all arguments broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


def exposed_beside(time_s: FloatArray, window_s: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the time that a transfer adds beside computation that does not wait for it [s].

    The computation proceeds at its rate until the transfer has ended: what is added is the longer
    of what the transfer has left when the computation has ended, and the work that it held back.

    Args:
        time_s: The transfer alone [s].
        window_s: The computation alone [s].
        rate: Speed of the computation while the transfer runs, over its speed alone, from
            `contended_rate`.

    Source: derived, as `exposed_communication` for one window and one transfer.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.step.exposure import exposed_beside
        >>> # 3 ms beside 4 ms: 2.7 ms of work are done in 3 ms, 1.3 ms are left: 4.3 ms in all
        >>> float(exposed_beside(np.array(3e-3), np.array(4e-3), np.array(0.9)).round(6))
        0.0003
    """
    added_s: FloatArray = np.maximum(time_s - window_s, time_s * (1.0 - rate))
    return added_s


def exposed_in_tiles(
    time_s: FloatArray, window_s: FloatArray, tiles: FloatArray, rate: FloatArray
) -> FloatArray:
    """Return the time that a transfer adds when it is cut into tiles beside those of a product [s].

    The first tile of the transfer (or the last one, of an output) has nothing to run beside; each
    other one runs beside a tile of the product.

    Args:
        time_s: The whole transfer alone [s].
        window_s: The whole product alone [s].
        tiles: Number of tiles, at least 1.
        rate: Speed of the product while the transfer runs, over its speed alone.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.step.exposure import exposed_in_tiles
        >>> # 4 tiles of 1 ms beside 4 tiles of 2 ms: the first one is exposed
        >>> args = (np.array(4e-3), np.array(8e-3), np.array(4.0), np.array(1.0))
        >>> float(exposed_in_tiles(*args))
        0.001
    """
    share = (tiles - 1.0) / tiles
    return time_s / tiles + exposed_beside(time_s * share, window_s * share, rate)

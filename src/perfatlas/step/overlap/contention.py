"""Speed of computation beside communication, and the part of a transfer that it does not hide.

Shape legend: any shape; all arguments broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


def contended_rate(
    memory_bound: FloatArray, sm_share: FloatArray, bandwidth_share: FloatArray
) -> FloatArray:
    """Return the speed of computation beside communication, over its speed alone.

    1 / ((1 - f)/(1 - s) + f/(1 - b)): the part f of the time that memory bounds slows by the
    bandwidth b that communication takes, the rest by the SMs s that it occupies.

    Args:
        memory_bound: Share of the time that memory bandwidth bounds, 0 to 1.
        sm_share: SMs that communication kernels occupy, over those of the device, below 1.
        bandwidth_share: Memory bandwidth that communication takes, over that of the device.

    Raises:
        InvalidSpecError: A share is not in its range.

    Source: Assumption: kernels slow as if the device had so many fewer SMs and so much less
        bandwidth. DeepSeek-AI, arXiv 2412.19437, section 3.2.2, reserves 20 of 132 SMs.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step.overlap import contended_rate
        >>> round(float(contended_rate(np.array(0.0), np.array(20 / 132), np.array(0.0))), 4)
        0.8485
    """
    shares = (("sm_share", sm_share), ("bandwidth_share", bandwidth_share))
    for name, share in shares:
        if not np.all((np.asarray(share) >= 0) & (np.asarray(share) < 1)):
            raise InvalidSpecError(f"{name} is {share}; it is at least 0 and below 1")
    if not np.all((np.asarray(memory_bound) >= 0) & (np.asarray(memory_bound) <= 1)):
        raise InvalidSpecError(f"memory_bound is {memory_bound}; it is between 0 and 1")
    return 1.0 / ((1.0 - memory_bound) / (1.0 - sm_share) + memory_bound / (1.0 - bandwidth_share))


def exposed_time(time_s: FloatArray, window_s: FloatArray, held_back_s: FloatArray) -> FloatArray:
    """Return the time that a transfer adds beside computation that does not wait for it [s].

    What is added is the longer of what the transfer has left when the computation has ended, and
    the work that it held back. Both streams end no later where any of the three times is shorter.

    Args:
        time_s: The transfer alone [s].
        window_s: The computation alone [s].
        held_back_s: Computation that is not done while the transfer runs [s]: the transfer's time
            times 1 - `contended_rate`.

    Source: derived, as `exposed_communication` for one window and one transfer.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step.overlap import exposed_time
        >>> # 3 ms beside 4 ms: 2.7 ms of work are done in 3 ms, 1.3 ms are left: 4.3 ms in all
        >>> float(exposed_time(np.array(3e-3), np.array(4e-3), np.array(0.3e-3)).round(6))
        0.0003
    """
    added_s: FloatArray = np.maximum(time_s - window_s, held_back_s)
    return added_s


def exposed_in_tiles(
    time_s: FloatArray, window_s: FloatArray, tiles: FloatArray, held_back_s: FloatArray
) -> FloatArray:
    """Return the time that a transfer adds when it is cut into tiles beside those of a product [s].

    The first tile of the transfer (or the last one, of an output) has nothing to run beside; each
    other one runs beside a tile of the product.

    Args:
        time_s: The whole transfer alone [s].
        window_s: The whole product alone [s].
        tiles: Number of tiles, at least 1.
        held_back_s: Work of the product that is not done while the whole transfer runs [s].

    Example:
        >>> import numpy as np
        >>> from perfatlas.step.overlap import exposed_in_tiles
        >>> # 4 tiles of 1 ms beside 4 tiles of 2 ms: the first one is exposed
        >>> args = (np.array(4e-3), np.array(8e-3), np.array(4.0), np.array(0.0))
        >>> float(exposed_in_tiles(*args))
        0.001
    """
    share = (tiles - 1.0) / tiles
    return time_s / tiles + exposed_time(time_s * share, window_s * share, held_back_s * share)

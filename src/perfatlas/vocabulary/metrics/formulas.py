"""Metric formulas that several verbs share.

All take numbers or arrays of one shape. Shape legend: N values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from perfatlas.quantities import HOUR_S
from perfatlas.vocabulary.metrics.metric import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


@overload
def output_tokens_per_s_per_gpu(tokens_per_s: float, gpus: float) -> float: ...
@overload
def output_tokens_per_s_per_gpu(tokens_per_s: None, gpus: float) -> None: ...
@overload
def output_tokens_per_s_per_gpu(tokens_per_s: float | None, gpus: float) -> float | None: ...
@overload
def output_tokens_per_s_per_gpu(
    tokens_per_s: FloatArray, gpus: FloatArray | float
) -> FloatArray: ...
def output_tokens_per_s_per_gpu(
    tokens_per_s: FloatArray | float | None, gpus: FloatArray | float
) -> FloatArray | float | None:
    """Return the output rate per GPU [tokens/s/GPU], None if there is no rate.

    Args:
        tokens_per_s: Output tokens per second of all GPUs; or output tokens of a run.
        gpus: All GPUs of the deployment, including idle ones; or GPU-seconds of the run.

    Example:
        >>> from perfatlas.vocabulary.metrics import output_tokens_per_s_per_gpu
        >>> output_tokens_per_s_per_gpu(8000.0, 8)
        1000.0
    """
    return None if tokens_per_s is None else tokens_per_s / gpus


@overload
def output_tokens_per_s_per_user(tpot_s: float) -> float: ...
@overload
def output_tokens_per_s_per_user(tpot_s: None) -> None: ...
@overload
def output_tokens_per_s_per_user(tpot_s: float | None) -> float | None: ...
@overload
def output_tokens_per_s_per_user(tpot_s: FloatArray) -> FloatArray: ...
def output_tokens_per_s_per_user(tpot_s: FloatArray | float | None) -> FloatArray | float | None:
    """Return the output rate per user [tokens/s/user], None if there is no TPOT.

    Args:
        tpot_s: Time per output token [s]; 0 in an array gives inf.

    Example:
        >>> from perfatlas.vocabulary.metrics import output_tokens_per_s_per_user
        >>> output_tokens_per_s_per_user(0.02)
        50.0
    """
    if tpot_s is None:
        return None
    with np.errstate(divide="ignore"):
        return 1.0 / tpot_s


def share(part: float, whole: float) -> float | None:
    """Return part / whole, None if the whole is 0.

    Example:
        >>> from perfatlas.vocabulary.metrics import share
        >>> share(3, 4), share(0, 0)
        (0.75, None)
    """
    return part / whole if whole else None


def utilization(busy_s: float, there_s: float) -> float | None:
    """Return the fraction of time in which something runs, None if there is no time.

    Args:
        busy_s: Time in which it runs [s]; may exceed `there_s`, because a step that was scheduled
            ahead may end after the last request.
        there_s: Total time [s].

    Example:
        >>> from perfatlas.vocabulary.metrics import utilization
        >>> utilization(3.0, 4.0), utilization(4.1, 4.0), utilization(0.0, 0.0)
        (0.75, 1.0, None)
    """
    return min(busy_s / there_s, 1.0) if there_s else None


@overload
def gpu_hours(gpu_s: float) -> float: ...
@overload
def gpu_hours(gpu_s: FloatArray) -> FloatArray: ...
def gpu_hours(gpu_s: FloatArray | float) -> FloatArray | float:
    """Return GPU-seconds as GPU-hours.

    Args:
        gpu_s: Number of GPUs times the time they are held [s].

    Example:
        >>> from perfatlas.vocabulary.metrics import gpu_hours
        >>> gpu_hours(8 * 1800.0)
        4.0
    """
    return gpu_s / HOUR_S


def statistics(value_N: FloatArray, names: Sequence[str] = STATISTICS) -> dict[str, float | None]:
    """Return mean and percentiles of the finite values; None for each if there are none.

    Percentiles interpolate linearly between order statistics.

    Args:
        value_N: Values (N,); others than finite ones are ignored.
        names: "mean" and percentiles such as "p50".

    Example:
        >>> import numpy as np
        >>> from perfatlas.vocabulary.metrics import statistics
        >>> statistics(np.array([1.0, 2.0, np.nan, 3.0]), ("mean", "p50"))
        {'mean': 2.0, 'p50': 2.0}
    """
    finite_N = value_N[np.isfinite(value_N)]
    if not finite_N.size:
        return dict.fromkeys(names)
    percents = [int(name[1:]) for name in names if name != "mean"]
    values = dict(zip(percents, _percentiles(finite_N, percents), strict=True))
    mean = float(finite_N.mean())
    return {name: mean if name == "mean" else values[int(name[1:])] for name in names}


def _percentiles(value_N: FloatArray, percents: Sequence[int]) -> list[float]:
    """Return what `np.percentile` returns for finite values, to the last digit.

    Its checks of arguments take ten times as long as the percentiles of a few values.
    """
    last = value_N.size - 1
    positions = [last * (percent / 100) for percent in percents]
    below = [int(position) for position in positions]
    above = [min(index + 1, last) for index in below]
    sorted_N = np.partition(value_N, sorted({*below, *above}))
    percentiles = []
    for position, lower, upper in zip(positions, below, above, strict=True):
        start, end, share = float(sorted_N[lower]), float(sorted_N[upper]), position - lower
        step = end - start
        percentiles.append(start + step * share if share < 0.5 else end - step * (1 - share))
    return percentiles

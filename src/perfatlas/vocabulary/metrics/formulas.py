"""What more than one verb computes of a metric, once.

All take numbers or arrays of one shape. Shape legend: N values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, overload

import numpy as np

from perfatlas.vocabulary.metrics.metric import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

HOUR_S: Final = 3600.0


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
    """Return the output rate of a GPU [tokens/s/GPU], None where there is no rate.

    Args:
        tokens_per_s: Output tokens per second of all of them; or output tokens of a run.
        gpus: All GPUs of the deployment, idle ones too; or GPU-seconds held in the run.

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
    """Return the output rate that a user sees [tokens/s/user], None where there is no TPOT.

    Args:
        tpot_s: Time per output token [s]; of an array, 0 gives inf.

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
    """Return a part of a whole as a share of it, None where there is nothing to share.

    Args:
        part: What is counted.
        whole: Of what.

    Example:
        >>> from perfatlas.vocabulary.metrics import share
        >>> share(3, 4), share(0, 0)
        (0.75, None)
    """
    return part / whole if whole else None


def utilization(busy_s: float, there_s: float) -> float | None:
    """Return the share of a time in which something runs, None of no time.

    Args:
        busy_s: Time in which it runs [s]; a step decided ahead may end after the last request, so
            that it may be longer than `there_s`.
        there_s: Time in which it could run [s].

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
        gpu_s: GPUs times the time for which they are held [s].

    Example:
        >>> from perfatlas.vocabulary.metrics import gpu_hours
        >>> gpu_hours(8 * 1800.0)
        4.0
    """
    return gpu_s / HOUR_S


def statistics(value_N: FloatArray, names: Sequence[str] = STATISTICS) -> dict[str, float | None]:
    """Return mean and percentiles of the finite values; None of each where there are none.

    Percentiles interpolate linearly between order statistics.

    Args:
        value_N: Values (N,); what is not finite is left out.
        names: "mean" and percentiles by their names, such as "p50".

    Example:
        >>> import numpy as np
        >>> from perfatlas.vocabulary.metrics import statistics
        >>> statistics(np.array([1.0, 2.0, np.nan, 3.0]), ("mean", "p50"))
        {'mean': 2.0, 'p50': 2.0}
    """
    known = value_N[np.isfinite(value_N)]
    if not known.size:
        return dict.fromkeys(names)
    percents = [int(name[1:]) for name in names if name != "mean"]
    at = dict(zip(percents, np.percentile(known, percents).tolist(), strict=True))
    return {name: float(known.mean()) if name == "mean" else at[int(name[1:])] for name in names}

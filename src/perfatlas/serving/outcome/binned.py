"""Time series in few equal bins, as shown in answers.

Shape legend: W rows of a series, B bins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.serving.outcome.columns import Series


def binned_series(
    series: Series, kv_blocks: int, most: int
) -> dict[str, float | list[float] | None]:
    """Return a time series in equal bins between its first and last row.

    A row is valid until the next one; means are over time. Peaks between rows are not visible.

    Args:
        series: State over time.
        kv_blocks: KV cache blocks of all schedulers.
        most: Maximum number of bins; at most one per row.

    Returns:
        `bin_width_s`; the starts of the bins, `time_s`; the mean and maximum (`_max`) per bin of
        `running_requests`, `waiting_requests` and `kv_used_share` (blocks in use by requests over
        all; unused cached blocks count as free); and the mean of `serving_replicas`. For a series
        without rows, `bin_width_s` is None and the lists are empty.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.outcome import binned_series
        >>> from perfatlas.serving.outcome import Series
        >>> second = 10**12
        >>> rows = np.array([[0, 2, 0, 4, 1], [second, 4, 1, 8, 1], [4 * second, 0, 0, 0, 1]])
        >>> found = binned_series(Series(*rows.T), 16, 2)
        >>> found["time_s"], found["running_requests"], found["kv_used_share_max"]
        ([0.0, 2.0], [3.0, 4.0], [0.5, 0.5])
    """
    time_W = series.time_W / TICKS_PER_SECOND
    count = min(most, max(time_W.size - 1, 0))
    edges = np.linspace(time_W[0], time_W[-1], count + 1) if count else np.zeros(1)
    columns = {
        "running_requests": series.running_W.astype(np.float64),
        "waiting_requests": series.waiting_W.astype(np.float64),
        "kv_used_share": series.used_W / max(kv_blocks, 1),
    }
    found: dict[str, float | list[float] | None] = {
        "bin_width_s": float(edges[1] - edges[0]) if count else None,
        "time_s": edges[:-1].tolist(),
    }
    for name, value_W in columns.items():
        found[name] = _means(time_W, value_W, edges).tolist()
        found[f"{name}_max"] = _largest(time_W, value_W, edges).tolist()
    found["serving_replicas"] = _means(time_W, series.replicas_W.astype(float), edges).tolist()
    return found


def _means(time_W: FloatArray, value_W: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the means of a step function over bins (B,)."""
    if edges.size < 2:
        return np.zeros(0)
    area_W = np.concatenate(([0.0], np.cumsum(value_W[:-1] * np.diff(time_W))))
    means_B: FloatArray = np.diff(np.interp(edges, time_W, area_W)) / (edges[1] - edges[0])
    return means_B


def _largest(time_W: FloatArray, value_W: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the maxima of a step function in bins (B,)."""
    if edges.size < 2:
        return np.zeros(0)
    starts_B: NDArray[np.int64] = np.searchsorted(time_W, edges[:-1], side="right") - 1
    ends_B: NDArray[np.int64] = np.searchsorted(time_W, edges[1:], side="left")
    largest_B: FloatArray = np.array(
        [value_W[start:end].max() for start, end in zip(starts_B, ends_B, strict=True)]
    )
    return largest_B

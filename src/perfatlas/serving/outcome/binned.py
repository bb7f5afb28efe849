"""Time series in few equal bins, as shown in answers.

Shape legend: W rows of a series, B bins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.serving.outcome.columns import RunEnergy, Series

DIGITS: Final = 9  # of a power that is a difference of energies


def binned_series(
    series: Series, kv_blocks: int, most: int
) -> dict[str, float | list[float] | None]:
    """Return a time series in equal bins between its first and last row.

    A row is valid until the next one; means are over time. Peaks between rows are not visible.

    Args:
        kv_blocks: KV cache blocks of all schedulers.
        most: Maximum number of bins; at most one per row.

    Returns:
        `bin_width_s`; the starts of the bins, `time_s`; the mean and maximum (`_max`) per bin of
        `running_requests`, `waiting_requests` and `kv_used_share` (blocks in use by requests over
        all; unused cached blocks count as free); and the mean of `serving_replicas`. For a series
        without rows, `bin_width_s` is None and the lists are empty.
    """
    time_W = series.time_W / TICKS_PER_SECOND
    edges = _edges(time_W, most)
    columns = {
        "running_requests": series.running_W.astype(np.float64),
        "waiting_requests": series.waiting_W.astype(np.float64),
        "kv_used_share": series.used_W / max(kv_blocks, 1),
    }
    result: dict[str, float | list[float] | None] = {
        "bin_width_s": float(edges[1] - edges[0]) if edges.size > 1 else None,
        "time_s": edges[:-1].tolist(),
    }
    for name, value_W in columns.items():
        result[name] = _means(time_W, value_W, edges).tolist()
        result[f"{name}_max"] = _largest(time_W, value_W, edges).tolist()
    result["serving_replicas"] = _means(time_W, series.replicas_W.astype(float), edges).tolist()
    return result


def binned_power(series: Series, energy: RunEnergy, most: int) -> dict[str, list[float]]:
    """Return the power of all GPUs in the bins of `binned_series`.

    Args:
        most: Maximum number of bins.

    Returns:
        The mean and maximum per bin of `deployment_power_w` [W], the maximum over the windows
        between rows that start in the bin, or its mean if that is larger.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.outcome import RunEnergy, Series, binned_power
        >>> time = 10**12 * np.array([0, 1, 4])
        >>> series = Series(time, *np.zeros((4, 3), np.int64))
        >>> none = np.zeros(0)
        >>> energy = RunEnergy(none, none, none, none, none, time, np.array([0.0, 500.0, 1100.0]))
        >>> binned_power(series, energy, 2)
        {'deployment_power_w': [350.0, 200.0], 'deployment_power_max_w': [500.0, 200.0]}
    """
    edges = _edges(series.time_W / TICKS_PER_SECOND, most)
    if edges.size < 2:
        return {"deployment_power_w": [], "deployment_power_max_w": []}
    time_W = energy.time_W / TICKS_PER_SECOND
    mean_w_B = np.diff(np.interp(edges, time_W, energy.energy_j_W)) / (edges[1] - edges[0])
    gap_W = np.diff(time_W)
    power_w_W = np.diff(energy.energy_j_W) / np.where(gap_W > 0.0, gap_W, np.inf)
    largest_w_B = _largest(time_W, np.append(power_w_W, 0.0), edges)
    return {
        "deployment_power_w": mean_w_B.tolist(),
        # differences of energies over short windows have rounding errors, which would exceed a TDP
        "deployment_power_max_w": [
            float(f"{power_w:.{DIGITS}g}") for power_w in np.maximum(mean_w_B, largest_w_B).tolist()
        ],
    }


def _edges(time_W: FloatArray, most: int) -> FloatArray:
    """Return the edges of at most `most` equal bins between the first and last row (B + 1,)."""
    count = min(most, max(time_W.size - 1, 0))
    edges: FloatArray = np.linspace(time_W[0], time_W[-1], count + 1) if count else np.zeros(1)
    return edges


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

"""Step times from price tables.

Shape legend: R steps, M chunks of all steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.serving.prices.tables import StepPrices, Ticks

Counts = NDArray[np.int64]


class StepLoads(NamedTuple):
    """Contents of the steps of a scheduler."""

    decodes_R: Counts  # Decoding sequences (R,)
    keys_R: Counts  # Total keys of these, including new tokens (R,)
    sampled_R: Counts  # Sampled tokens (R,)
    step_M: Counts  # Step of each chunk (M,)
    queries_M: Counts  # Tokens of each chunk (M,), at least 1
    before_M: Counts  # Keys before each chunk (M,)


def step_s(prices: StepPrices, loads: StepLoads) -> FloatArray:
    """Return the time of each step of one rank, or of ranks with equal loads (R,) [s].

    Args:
        loads: Contents of the steps, within the limits of the tables.
    """
    steps, decodes_R = loads.decodes_R.size, loads.decodes_R
    chunks_R = np.bincount(loads.step_M, minlength=steps)
    prompt_R = np.bincount(loads.step_M, loads.queries_M, minlength=steps).astype(np.int64)
    mixed_R = chunks_R > 0
    linear_R = np.where(
        mixed_R,
        prices.mixed_linear_T[
            np.where(mixed_R, decodes_R * prices.tokens_per_decode + prompt_R, 0)
        ],
        prices.decode_linear_B[decodes_R],
    )
    added_M = _read(prices, prices.prefill_added_QP, loads)
    prefill_R = np.bincount(loads.step_M, added_M, minlength=steps)
    last_R = np.full(steps, -np.inf)
    np.maximum.at(last_R, loads.step_M, _read(prices, prices.prefill_last_QP, loads))
    prefill_R = prefill_R + np.where(mixed_R, last_R, 0.0)
    batch_R, keys_R = loads.decodes_R, loads.keys_R
    mean_R = keys_R // np.maximum(batch_R, 1)
    cell_R = np.searchsorted(prices.context_K, mean_R, side="right") - 1
    beyond_R = keys_R - batch_R * prices.context_K[cell_R]
    ticks_R: Counts = (
        prices.decode_base_BK[batch_R, cell_R] + prices.decode_slope_BK[batch_R, cell_R] * beyond_R
    )
    gpu_R = linear_R + prices.head_B[loads.sampled_R] + ticks_R + prefill_R
    host_R = prices.host_step + (decodes_R + chunks_R) * prices.host_sequence
    host_R = host_R + np.where(mixed_R, prices.host_prefill, 0)
    total_R = np.maximum(gpu_R, host_R) if prices.host_overlapped else gpu_R + host_R
    time_s_R: FloatArray = total_R / TICKS_PER_SECOND
    return time_s_R


def _read(prices: StepPrices, table_QP: Ticks, loads: StepLoads) -> FloatArray:
    """Return the value of a table for each chunk (M,) [ps]."""
    row_M, down_M = _cell_of(prices.queries_Q, loads.queries_M)
    column_M, right_M = _cell_of(prices.before_P, loads.before_M)
    upper_M = _between(table_QP[row_M, column_M], table_QP[row_M, column_M + 1], right_M)
    lower_M = _between(table_QP[row_M + 1, column_M], table_QP[row_M + 1, column_M + 1], right_M)
    return np.rint(_between(upper_M, lower_M, down_M))


def _between(
    first_M: Ticks | FloatArray, second_M: Ticks | FloatArray, share_M: FloatArray
) -> FloatArray:
    return first_M + (second_M - first_M) * share_M


def _cell_of(borders_X: Counts, value_M: Counts) -> tuple[Counts, FloatArray]:
    """Return the cell of each value, and its relative position in the cell."""
    cell_M = np.clip(np.searchsorted(borders_X, value_M, side="right") - 1, 0, borders_X.size - 2)
    width_M = borders_X[cell_M + 1] - borders_X[cell_M]
    return cell_M, (value_M - borders_X[cell_M]) / width_M

"""What operators that run at the same time cost each other.

Shape legend: C candidates, O operators, W windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.machines import communication_share
from perfatlas.operators import (
    BOUND_COMPUTE,
    BOUND_MEMORY,
    BOUND_NETWORK,
    Collective,
    Phase,
)
from perfatlas.step.overlap import contended_rate, exposed_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step.cost import PricedStep

MAX_CONTENTION: Final = 0.99  # of SMs or memory bandwidth: computation never stops
# A token that travels is read once and written once on every rank.
READ_AND_WRITTEN: Final = 2.0
SHARED_LINK: Final = 0.5  # of a link's rate for each of two transfers


def deepep() -> Mapping[str, Any]:
    """Return what the kernels of DeepEP take from computation, by mode."""
    return shipped_table("data/collectives/deepep.toml")


def kernel_times_s(collective: Collective, label: str) -> tuple[FloatArray, FloatArray]:
    """Return the times of the send and of the receive kernel of an exchange, each (C,) [s].

    They occupy the SMs, so that no other batch computes beside them. Those of the normal kernels
    are part of their 20 SMs. A dispatch of 128 tokens of DeepSeek-V3 over 16 ranks takes
    18.1 us + 2.80e-12 s x 128 x 6.523 x 7,392 bytes = 35.4 us, of which 25.5 us send.

    Args:
        label: "dispatch" or "combine".

    Source: send and receive times of DeepEP's own test on H20 (`data/collectives/deepep.toml`).
    Limits: Measured on one device; more SMs pack faster, more ranks need more requests per token.
    """
    if collective.phase != Phase.DECODE:
        zero_C = np.zeros_like(collective.bytes)
        return zero_C, zero_C
    kernels = deepep()["low_latency"]["kernels"]
    both_s_C = kernels["fixed_s"] + kernels[f"{label}_s_per_byte"] * collective.bytes
    send_s_C = kernels["send_share"] * both_s_C
    return send_s_C, both_s_C - send_s_C


def rate_beside_exchange(
    step: PricedStep, busy_s_CO: FloatArray, windows: Sequence[Sequence[int]], moved: Sequence[int]
) -> FloatArray:
    """Return the speed of windows while tokens travel, over their speed alone (C, W).

    Args:
        windows: Operators of each window (W).

    Source: Assumption: SMs and memory bandwidth are lost as in `contended_rate`; a collective of
        a window and the exchange halve each other's rate.
    """
    shape = (busy_s_CO.shape[0], len(windows))
    if not step.contends:
        return np.ones(shape)
    moving_s_C = busy_s_CO[:, moved].sum(axis=1)
    bytes_C = sum(
        (
            step.count_CO[:, i] * op.bytes * READ_AND_WRITTEN
            for i in moved
            if isinstance(op := step.operators[i], Collective)
        ),
        start=np.zeros(shape[0]),
    )
    traffic_C = bytes_C / np.where(moving_s_C > 0.0, moving_s_C, 1.0)
    phase = step.operators[moved[0]].phase
    mode = "low_latency" if phase == Phase.DECODE else "normal"
    taken_C = communication_share(step.devices, float(deepep()[mode]["sms"]))
    bandwidth_C = traffic_C / step.devices.gather("memory_bandwidth")
    code_CO, rate_CW = step.prices.code_CO, np.ones(shape)
    for index, window in enumerate(windows):
        time_s_C = busy_s_CO[:, window].sum(axis=1)
        safe_C = np.where(time_s_C > 0.0, time_s_C, 1.0)
        memory_C, links_C = (
            np.where(code_CO[:, window] == code, busy_s_CO[:, window], 0.0).sum(axis=1) / safe_C
            for code in (BOUND_MEMORY, BOUND_NETWORK)
        )
        own_C = np.maximum(1.0 - links_C, 1e-12)
        kernels_C = contended_rate(
            np.clip(memory_C / own_C, 0.0, 1.0),
            np.minimum(taken_C, MAX_CONTENTION),
            np.minimum(bandwidth_C, MAX_CONTENTION),
        )
        rate_CW[:, index] = 1.0 / (own_C / kernels_C + links_C / SHARED_LINK)
    slowed_CW: FloatArray = np.minimum(rate_CW, 1.0)
    return slowed_CW


def exposed_exchange(
    step: PricedStep, busy_s_CO: FloatArray, moved: Sequence[int], window: Sequence[int]
) -> FloatArray:
    """Return the time that an exchange adds to the operators beside it (C,) [s]."""
    rate_C = rate_beside_exchange(step, busy_s_CO, [window], moved)[:, 0]
    moving_s_C, window_s_C = (busy_s_CO[:, some].sum(axis=1) for some in (moved, window))
    added_s_C: FloatArray = np.minimum(
        exposed_time(moving_s_C, window_s_C, moving_s_C * (1.0 - rate_C)), moving_s_C
    )
    return added_s_C


def exposed_computation(
    step: PricedStep, busy_s_CO: FloatArray, hidden: Sequence[int], window: Sequence[int]
) -> FloatArray:
    """Return the time that operators on a second stream add to those beside them (C,) [s].

    Side by side, both take s times as long, where s is the sum of the shares of a resource that
    each uses alone, at least 1: memory bandwidth, or the peak of the arithmetic.

    Source: derived: a resource has no more than all of its rate to give.
    """
    hidden_s_C, beside_s_C = (busy_s_CO[:, some].sum(axis=1) for some in (hidden, window))
    longer_s_C: FloatArray = np.maximum(hidden_s_C - beside_s_C, 0.0)
    if not step.contends:
        return longer_s_C
    used = [_used(step, busy_s_CO, some) for some in (hidden, window)]
    slower_C = np.maximum(np.max(used[0] + used[1], axis=0), 1.0)
    both_s_C = np.minimum(hidden_s_C, beside_s_C) * (slower_C - 1.0)
    added_s_C: FloatArray = np.minimum(longer_s_C + both_s_C, hidden_s_C)
    return added_s_C


def _used(step: PricedStep, busy_s_CO: FloatArray, some: Sequence[int]) -> FloatArray:
    """Return the shares of memory bandwidth and of arithmetic that operators use (2, C)."""
    time_s_C = busy_s_CO[:, some].sum(axis=1)
    safe_C = np.where(time_s_C > 0.0, time_s_C, 1.0)
    prices, count_CO = step.prices, step.count_CO[:, some]
    bytes_C = (count_CO * prices.memory_bytes_CO[:, some]).sum(axis=1)
    limited_CO = np.where(prices.code_CO[:, some] == BOUND_COMPUTE, prices.bound_s_CO[:, some], 0.0)
    memory_C = bytes_C / (step.devices.gather("memory_bandwidth") * safe_C)
    return np.stack((memory_C, (count_CO * limited_CO).sum(axis=1) / safe_C))

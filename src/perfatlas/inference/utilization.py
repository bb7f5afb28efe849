"""How much of the arithmetic and the bandwidth of a GPU a step uses.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates, StepCost


class Utilization(NamedTuple):
    """MFU and MBU of one GPU over one step of each phase, each (C,); NaN without the phase."""

    prefill_mfu: FloatArray
    prefill_mbu: FloatArray
    decode_mfu: FloatArray
    decode_mbu: FloatArray


def utilization_of(
    question: Candidates, prefill: StepCost, decode: StepCost, occupied_C: FloatArray
) -> Utilization:
    """Return the shares of peak and bandwidth that a prefill chunk and a decode step use.

    Source: model FLOP utilization as in Chowdhery et al., PaLM, 2022, appendix B, with causal
        attention counted; model bandwidth utilization: weights and KV cache over the bandwidth,
        of graphs of operators all bytes of device memory that kernels need.

    Limits: What several tensor-parallel ranks compute alike is counted for each of them.
    """
    whole_C = np.ones_like(occupied_C)
    first = step_utilization(question, prefill, whole_C)
    if not question.model.network.decodes:
        return Utilization(*first, np.full_like(whole_C, np.nan), np.full_like(whole_C, np.nan))
    return Utilization(*first, *step_utilization(question, decode, occupied_C))


def step_utilization(
    question: Candidates, cost: StepCost, occupied_C: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return MFU and MBU of one GPU over one step, each (C,)."""
    devices = question.placement.devices()
    flop_C, bytes_C = np.zeros_like(occupied_C), np.zeros_like(occupied_C)
    for operator, count_C in zip(cost.operators, cost.count_CO.T, strict=True):
        if operator.communicates:
            continue
        work = operator.work()
        # sequences run their attention alone; all else runs on the padded batch of a graph
        own_C = 1.0 if operator.per_sequence else occupied_C
        flop_C = flop_C + count_C * work.flop * own_C
        bytes_C = bytes_C + count_C * work.cold_bytes
    if question.model.network.item:
        bytes_C = np.sum(cost.count_CO * cost.prices.memory_bytes_CO, axis=1)
    time_s_C = cost.total_s()
    peak_C = devices.peak_flop_per_s(question.formats.gemm)
    bandwidth_C = devices.gather("memory_bandwidth")
    return flop_C / (time_s_C * peak_C), bytes_C / (time_s_C * bandwidth_C)

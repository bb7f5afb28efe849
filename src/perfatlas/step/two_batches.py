"""A step of two batches whose layers alternate: one computes while the tokens of the other travel.

Of each layer with experts, the operators before the dispatch, those between dispatch and combine,
and the shared expert are windows of each batch; dispatches and combines are the transfers.

Shape legend: C candidates, O operators, L windows, K transfers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.networks import ENCODER
from perfatlas.operators import Collective, Phase
from perfatlas.step.contention import kernel_times_s, rate_beside_exchange
from perfatlas.step.overlap import Streams, exposed_communication

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.networks import StepTokens
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.step.context import StepContext
    from perfatlas.step.cost import PricedStep, Step

BATCHES: Final = 2.0
# operators of the whole step, which two batches do not split
OUTER: Final = ("embedding", ENCODER, "final_norm", "lm_head", "sampling", "draft_")
_SHARED: Final = "shared_expert_"
_EXPERTS: Final = "experts"
# Windows of a layer in their order: attention of the first batch, the shared expert of the second
# batch's layer before, its attention, the experts of both, the shared expert of the first.
_KINDS: Final = ("attention", "shared", "attention", "experts", "experts", "shared")
# Of the dispatches and combines of both batches: the window that makes their data, and the one that
# waits for them, in windows of this layer and the next.
_READY_AFTER: Final = (0, 2, 3, 4)
_NEEDED_BY: Final = (3, 4, 6, 8)


class _Layers(NamedTuple):
    """Operators of equal layers with experts, as positions."""

    attention: list[int]  # Before the dispatch, of all layers since the last experts
    dispatch: int
    experts: list[int]  # Between dispatch and combine
    shared: list[int]
    combine: int
    number: int


class _Kernels(NamedTuple):
    """Times of an exchange that occupy the SMs, each (C,) [s]."""

    send_s_C: FloatArray
    receive_s_C: FloatArray

    def total(self) -> FloatArray:
        """Return both (C,) [s]."""
        return self.send_s_C + self.receive_s_C


def batch_count(context: StepContext, phase: Phase, tokens_C: FloatArray) -> FloatArray | None:
    """Return the batches into which a step is split (C,), None if no step is.

    Args:
        phase: Prefill or decode.
    """
    overlaps = context.profile.batch_overlap
    setting = overlaps.two_batch
    if overlaps.value != "two_batch" or setting is None:
        return None
    least = setting.decode_tokens if phase == Phase.DECODE else setting.prefill_tokens
    split_C = (tokens_C > least) & (tokens_C >= BATCHES) & (context.plan.attention_dp > 1)
    return np.where(split_C, BATCHES, 1.0) if np.any(split_C) else None


def part_of(tokens: StepTokens, batches_C: FloatArray) -> StepTokens:
    """Return the tokens of one batch: half of the sequences, or half of the only one.

    The halves of a sequence see keys up to their end; their mean has the pairs of the whole.
    """
    by_sequence = tokens.batch >= batches_C
    parts_C = np.where(by_sequence, batches_C, 1.0)
    cut_C = np.where(by_sequence, 1.0, batches_C)
    decodes = None if tokens.decodes is None else tokens.decodes / batches_C
    return replace(
        tokens,
        batch=tokens.batch / parts_C,
        q_len=tokens.q_len / cut_C,
        kv_len=tokens.kv_len - tokens.q_len * (1.0 - 1.0 / cut_C) / 2.0,
        decodes=decodes,
    )


def two_batch_share(step: PricedStep, busy_s_CO: FloatArray) -> FloatArray:
    """Return the fraction of each operator's time that is not overlapped (C, O).

    Source: docs.vllm.ai design/dbo and sglang operations_strategy.py: the order of the windows, and
        the shared expert between combine and its wait. The send and receive kernels of DeepEP's
        low-latency mode are part of the windows before and after a transfer (`kernel_times_s`).
    Limits: Of equal layers; collectives inside a window wait for nothing of the other batch.
    """
    share_CO = np.ones(busy_s_CO.shape)
    for layers in _sections(step):
        moved = [layers.dispatch, layers.combine]
        total_C = busy_s_CO[:, moved].sum(axis=1)
        exposed_s_C = _exposed_s(step, busy_s_CO, layers)
        safe_C = np.where(total_C > 0.0, total_C, 1.0)
        share_CO[:, moved] = np.where(total_C > 0.0, exposed_s_C / safe_C, 1.0)[:, None]
    return np.minimum(share_CO, 1.0)


def _exposed_s(step: PricedStep, busy_s_CO: FloatArray, layers: _Layers) -> FloatArray:
    """Return the time that the exchanges of equal layers add to their computation (C,) [s]."""
    number = layers.number
    windows = {
        "attention": layers.attention,
        "experts": layers.experts,
        "shared": layers.shared,
    }
    moved = [layers.dispatch, layers.combine]
    rates_CW = rate_beside_exchange(step, busy_s_CO, list(windows.values()), moved)
    window_s = {
        name: busy_s_CO[:, some].sum(axis=1) / (number * BATCHES) for name, some in windows.items()
    }
    sent_C, returned_C = (busy_s_CO[:, i] / (number * BATCHES) for i in moved)
    dispatch, combine = (
        _kernels_s(step, position, label, time_s_C)
        for position, label, time_s_C in zip(
            moved, ("dispatch", "combine"), (sent_C, returned_C), strict=True
        )
    )
    window_s["attention"] = window_s["attention"] + dispatch.send_s_C + combine.receive_s_C
    window_s["experts"] = window_s["experts"] + dispatch.receive_s_C + combine.send_s_C
    kernels_s_C = dispatch.total() + combine.total()
    sent_C = np.maximum(sent_C - dispatch.total(), 0.0)
    returned_C = np.maximum(returned_C - combine.total(), 0.0)
    rate = dict(zip(windows, rates_CW.T, strict=True))
    window_CL = np.tile(np.stack([window_s[kind] for kind in _KINDS], axis=1), (1, number))
    rate_CL = np.tile(np.stack([rate[kind] for kind in _KINDS], axis=1), (1, number))
    window_CL[:, _KINDS.index("shared")] = 0.0  # no layer before the first
    window_CL = np.column_stack((window_CL, window_s["shared"]))
    rate_CL = np.column_stack((rate_CL, rate["shared"]))
    transfer_CK = np.tile(np.stack((sent_C, sent_C, returned_C, returned_C), axis=1), (1, number))
    first_N1 = len(_KINDS) * np.arange(number)[:, None]
    ready_K, needed_K = (
        (first_N1 + np.array(positions)).ravel() for positions in (_READY_AFTER, _NEEDED_BY)
    )
    needed_K = np.where(needed_K >= len(_KINDS) * number, window_CL.shape[1], needed_K)
    count = busy_s_CO.shape[0]
    exposed_s_C: FloatArray = exposed_communication(
        Streams(
            window_s_CL=window_CL,
            transfer_s_CK=transfer_CK,
            ready_after_CK=np.broadcast_to(ready_K, (count, ready_K.size)),
            needed_by_CK=np.broadcast_to(needed_K, (count, needed_K.size)),
            compute_rate_CL=rate_CL,
            transfer_rate_C=np.ones(count),
        )
    ).exposed_s_C
    return exposed_s_C + number * BATCHES * kernels_s_C


def _kernels_s(step: PricedStep, position: int, label: str, time_s_C: FloatArray) -> _Kernels:
    """Return the send and receive kernels of one batch's exchange, no longer than the exchange."""
    collective = step.operators[position]
    if not step.contends or not isinstance(collective, Collective) or collective.op != label:
        zero_C = np.zeros_like(time_s_C)
        return _Kernels(zero_C, zero_C)
    send_s_C, receive_s_C = kernel_times_s(collective, label)
    both_s_C = send_s_C + receive_s_C
    part_C = np.minimum(time_s_C / np.where(both_s_C > 0.0, both_s_C, 1.0), 1.0)
    return _Kernels(send_s_C * part_C, receive_s_C * part_C)


def _sections(step: PricedStep) -> list[_Layers]:
    """Return the layers with experts whose tokens travel, in execution order."""
    operators, sections, begun = step.step.operators, [], 0
    priced = _priced_positions(operators)
    times = _times(step.step)
    for index, operator in enumerate(operators):
        if not operator.routed or operator.name != _EXPERTS:
            continue
        dispatch = _nearest(operators, "dispatch", range(index - 1, begun - 1, -1))
        combine = _nearest(operators, "combine", range(index + 1, len(operators)))
        if dispatch is None or combine is None:
            continue
        within = range(dispatch + 1, combine)
        shared = [i for i in within if operators[i].name.startswith(_SHARED)]
        sections.append(
            _Layers(
                attention=[priced[i] for i in _before(operators, times, begun, dispatch)],
                dispatch=priced[dispatch],
                experts=[priced[i] for i in within if i not in shared],
                shared=[priced[i] for i in shared],
                combine=priced[combine],
                number=max(round(times[index] / BATCHES), 1),
            )
        )
        begun = combine + 1
    return sections


def _priced_positions(operators: Sequence[Operator]) -> list[int]:
    """Return where each operator of a step is once priced: collectives come last."""
    order = sorted(range(len(operators)), key=lambda i: operators[i].communicates)
    positions = [0] * len(operators)
    for position, i in enumerate(order):
        positions[i] = position
    return positions


def _nearest(operators: Sequence[Operator], label: str, positions: range) -> int | None:
    """Return the first place of an exchange of the experts, None if there is none."""
    named = f"{_EXPERTS}_{label}"
    return next((i for i in positions if operators[i].name == named), None)


def _times(step: Step) -> list[float]:
    """Return how often each operator runs in the steps that are split, whatever others do."""
    split_C = np.ones(1, np.bool_) if step.batches_C is None else step.batches_C > 1.0
    return [float(np.max(op.count, where=split_C, initial=0.0)) for op in step.operators]


def _before(
    operators: Sequence[Operator], times: Sequence[float], begun: int, dispatch: int
) -> list[int]:
    """Return the operators of the same layers before a dispatch; others run as often or not."""
    indexes: list[int] = []
    for i in range(dispatch - 1, begun - 1, -1):
        if operators[i].name.startswith(OUTER) or times[i] not in (0.0, times[dispatch]):
            break
        indexes.insert(0, i)
    return indexes

"""Operators of a step that run on a second stream, and the part of them that stays exposed.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import Collective
from perfatlas.step.contention import beside_communication, together
from perfatlas.step.two_batches import two_batch_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.step.cost import PricedStep

TINY: Final = 1e-30  # divides zeros
PREFIX: Final = "_"  # a name that ends with it stands for all names that begin with it


def exposed_share(step: PricedStep, busy_s_CO: FloatArray, profile: EngineProfile) -> FloatArray:
    """Return the fraction of each operator's time that is not overlapped (C, O).

    Operators on a second stream cost the time by which they exceed the operators beside them, and
    the time by which both slow each other down. In a step of two batches, only the exchanges of
    tokens are overlapped.

    Source: Assumption: kernels side by side share SMs and memory bandwidth (`contention`).
    """
    operators, tokens_C = step.operators, step.step.tokens_C
    share_CO = np.ones(busy_s_CO.shape)
    active = profile.batch_overlap.value
    taken = {o.beside for o in profile.overlaps if o.batch_overlap == active}
    for overlap in profile.overlaps:
        if overlap.batch_overlap not in ("", active) or overlap.prefix in taken:
            continue
        hidden = [i for i, op in enumerate(operators) if op.name.startswith(overlap.prefix)]
        beside = _named(operators, overlap.beside)
        hidden_C = busy_s_CO[:, hidden].sum(axis=1)
        if any(operators[i].communicates for i in hidden):
            exposed_C = beside_communication(step, busy_s_CO, hidden, beside)
        else:
            exposed_C = together(step, busy_s_CO, hidden, beside)
        part_C = exposed_C / np.maximum(hidden_C, TINY)
        runs_C = (tokens_C <= overlap.max_tokens) & _on(step, overlap.architectures)
        share_CO[:, hidden] = np.where(runs_C, part_C, 1.0)[:, None]
    for index, operator in enumerate(operators):
        if isinstance(operator, Collective) and operator.beside:
            share_CO[:, index] = _rotated_share(step, busy_s_CO, index, operator.beside)
    batches_C = step.step.batches_C
    if batches_C is not None:
        two_CO = (batches_C > 1.0)[:, None]
        share_CO = np.where(two_CO, two_batch_share(step, busy_s_CO), share_CO)
    return share_CO


def _rotated_share(step: PricedStep, busy_s_CO: FloatArray, moved: int, beside: str) -> FloatArray:
    """Return the fraction of transfers that the operator beside them does not hide (C,).

    Source: Assumption: transfers take SMs as an exchange of tokens does (`contention`).
    """
    window = _named(step.operators, beside)
    runs_CW = np.minimum(step.count_CO[:, [moved]], step.count_CO[:, window])
    window_s_CO = busy_s_CO.copy()
    window_s_CO[:, window] *= runs_CW / np.maximum(step.count_CO[:, window], TINY)
    exposed_s_C = beside_communication(step, window_s_CO, [moved], window)
    share_C: FloatArray = exposed_s_C / np.maximum(busy_s_CO[:, moved], TINY)
    return share_C


def _named(operators: Sequence[Operator], name: str) -> list[int]:
    """Return the positions of operators of a name, or whose name begins with a prefix."""
    if name.endswith(PREFIX):
        return [i for i, op in enumerate(operators) if op.name.startswith(name)]
    return [i for i, op in enumerate(operators) if op.name == name]


def _on(step: PricedStep, architectures: Sequence[str]) -> NDArray[np.bool_]:
    """Return which devices have one of some architectures, all for none (C,)."""
    known = [not architectures or d.architecture in architectures for d in step.devices.devices]
    return np.array(known)[step.devices.index_C]

"""What an engine absorbs into other kernels or hides beside them.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import Collective, FloatArray, Gemm, IntArray, Operator, Streaming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import Device


def apply_fusions(
    operators: Sequence[Operator],
    profile: EngineProfile,
    *,
    devices: Sequence[Device],
    device_index_C: IntArray,
    tp_C: FloatArray,
) -> tuple[Operator, ...]:
    """Return the operators with fused ones counted 0, as the engine profile states.

    Args:
        operators: One rank's operators with its collectives.
        profile: The engine; each fusion names its source.
        devices: Distinct devices.
        device_index_C: Device of each candidate (C,).
        tp_C: Tensor-parallel ranks (C,).

    Limits: a fused operator costs nothing of its own; the host kernel is not made slower.
    """
    absorbed = _absorbed_names(operators, profile)
    norm_fused_C = _norm_fused(operators, profile, devices, device_index_C, tp_C)
    result: list[Operator] = []
    for operator in operators:
        if operator.name in absorbed:
            result.append(replace(operator, count=np.zeros_like(operator.count)))
        elif isinstance(operator, Streaming) and operator.stream == "norm":
            result.append(replace(operator, count=np.where(norm_fused_C, 0.0, operator.count)))
        else:
            result.append(operator)
    return tuple(result)


def _absorbed_names(operators: Sequence[Operator], profile: EngineProfile) -> set[str]:
    """Names of quantizations whose GEMM has a format of the fusion."""
    formats = {op.name: op.format for op in operators if isinstance(op, Gemm)}
    absorbed = set()
    for fusion in profile.fusions:
        for name in fusion.operators:
            gemm_format = formats.get(name.removesuffix("_quantize"), "")
            if not fusion.formats or gemm_format in fusion.formats:
                absorbed.add(name)
    return absorbed


def _norm_fused(
    operators: Sequence[Operator],
    profile: EngineProfile,
    devices: Sequence[Device],
    device_index_C: IntArray,
    tp_C: FloatArray,
) -> NDArray[np.bool_]:
    """Where the all-reduce kernel also adds the residual and normalises (C,)."""
    sizes = [op.bytes for op in operators if isinstance(op, Collective) and op.op == "all_reduce"]
    if not sizes or not profile.all_reduce.norm_fusion_bytes:
        return np.zeros(tp_C.shape, np.bool_)
    largest_C = np.maximum.reduce(sizes)
    limit_C = np.zeros(tp_C.shape)
    for position, device in enumerate(devices):
        for tp, limit in profile.all_reduce.norm_fusion_bytes.get(device.architecture, {}).items():
            limit_C[(device_index_C == position) & (tp_C == tp)] = limit
    fused_C: NDArray[np.bool_] = (tp_C > 1) & (largest_C <= limit_C)
    return fused_C


def exposed_share(
    operators: Sequence[Operator],
    busy_s_CO: FloatArray,
    profile: EngineProfile,
    tokens_C: FloatArray,
) -> FloatArray:
    """Return which share of each operator's time is not hidden beside another one (C, O).

    Operators on a second stream cost only what exceeds the operator they run beside.

    Args:
        operators: What runs (O).
        busy_s_CO: Time over all executions (C, O) [s].
        profile: The engine.
        tokens_C: Tokens of the step (C,).

    Limits: the two streams do not slow each other down, so this is optimistic.
    """
    share_CO = np.ones(busy_s_CO.shape)
    for overlap in profile.overlaps:
        hidden = [i for i, op in enumerate(operators) if op.name.startswith(overlap.prefix)]
        beside = [i for i, op in enumerate(operators) if op.name == overlap.beside]
        hidden_C = busy_s_CO[:, hidden].sum(axis=1)
        beside_C = busy_s_CO[:, beside].sum(axis=1)
        exposed_C = np.maximum(hidden_C - beside_C, 0.0) / np.maximum(hidden_C, 1e-30)
        share_CO[:, hidden] = np.where(tokens_C <= overlap.max_tokens, exposed_C, 1.0)[:, None]
    return share_CO

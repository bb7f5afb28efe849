"""What an engine absorbs into other kernels or hides beside them.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.numerics import get_format
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

    Returns:
        The operators in order. Quantizations with dynamic scales become part of their product.

    Limits: a fused operator costs nothing of its own; the host kernel is not made slower.
    """
    formats = {op.name: op.format for op in operators if isinstance(op, Gemm)}
    norm_fused_C = _norm_fused(operators, profile, devices, device_index_C, tp_C)
    apart = {
        name: _apart(f"{name}_quantize", format_name, profile, norm_fused_C)
        for name, format_name in formats.items()
    }
    result: list[Operator] = []
    for operator in operators:
        if isinstance(operator, Streaming) and operator.stream == "norm":
            result.append(replace(operator, count=np.where(norm_fused_C, 0.0, operator.count)))
        elif isinstance(operator, Streaming) and operator.stream == "quantize":
            gemm = operator.name.removesuffix("_quantize")
            if get_format(formats[gemm]).quantize == "static":
                result.append(replace(operator, count=operator.count * apart[gemm]))
        elif isinstance(operator, Gemm) and get_format(operator.format).quantize == "dynamic":
            result.append(replace(operator, quantizes_input=apart[operator.name]))
        else:
            result.append(operator)
    return tuple(result)


def _apart(
    name: str, format_name: str, profile: EngineProfile, norm_fused_C: NDArray[np.bool_]
) -> FloatArray:
    """Return 1 where a quantization runs as a kernel of its own, else 0 (C,).

    Dynamic scales are measured together with the product they feed and priced with it. A norm
    that the all-reduce kernel absorbed takes only the quantizations that kernel knows.
    """
    apart_C = np.ones(norm_fused_C.shape)
    for fusion in profile.fusions:
        if name in fusion.operators and (not fusion.formats or format_name in fusion.formats):
            with_reduce = format_name in profile.all_reduce.norm_fusion_formats
            lost_C = norm_fused_C & (fusion.into == "norm") & (not with_reduce)
            apart_C = np.where(lost_C, apart_C, 0.0)
    return apart_C


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

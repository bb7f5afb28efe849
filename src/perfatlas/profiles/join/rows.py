"""Measured operators as the rows that `calibrate --measurements` reads.

Shape legend: N activities, P pairs of an operator and one execution of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.profiles.classes import class_codes
from perfatlas.profiles.events import NO_INDEX
from perfatlas.profiles.join.operators import grouped_operators
from perfatlas.profiles.join.predicted import priced_kind
from perfatlas.profiles.join.shapes import attention_shape, gemm_shape, streaming_shape
from perfatlas.profiles.join.systems import system_of
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.profiles.classes import Rule
    from perfatlas.profiles.events import Profile
    from perfatlas.profiles.join.operators import MeasuredOperator

FAMILY: Final = "torch"  # kernels of the framework's operators, whichever library has them
UNFORMATTED: Final = "bf16"  # a row states a format; that of a stream says nothing
_MAX_NAME_LENGTH: Final = 64  # characters
_SHAPES: Final = {
    "gemm": ("m", "n", "k"),
    "attention": ("batch", "q_len", "kv_len", "num_heads", "num_kv_heads", "head_dim"),
    "streaming": ("bytes", "tokens"),
}


def measured_rows(
    profiles: Sequence[Profile], rules: Sequence[Rule], system: str | None = None
) -> dict[str, list[Any]]:
    """Return the median time of each shape as columns of measured rows.

    Products, causal and decode attention, pointwise operators, softmax and norms have rows; batched
    products and attention without a mask have none, since calibrations have no such operator.

    Args:
        profiles: Profiles of one device.
        rules: Rules that give kernels a class.
        system: System with the device, for profiles that do not name one of the catalog.

    Returns:
        Columns of docs/calibrate.md by name, and `count`: the executions of each shape.

    Raises:
        InvalidSpecError: No operator has such a shape, or the profiles do not name their device.
    """
    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for profile in profiles:
        operators, group_N = grouped_operators(profile, class_codes(profile, rules))
        rows_G = [_row(operator) for operator in operators]
        activities = profile.activities
        instance_N = np.where(
            activities.instance_N == NO_INDEX, -2 - np.arange(len(group_N)), activities.instance_N
        )
        pairs_N = np.stack([group_N, instance_N], axis=1)
        pairs_P, pair_N = np.unique(pairs_N, axis=0, return_inverse=True)
        time_s_P = np.bincount(pair_N.ravel(), activities.time_s_N, len(pairs_P))
        for group, time_s in zip(pairs_P[:, 0].tolist(), time_s_P.tolist(), strict=True):
            row = rows_G[group]
            if row is not None and time_s > 0.0:
                times[row].append(time_s)
    if not times:
        raise InvalidSpecError(
            "no operator of the profile has a shape that calibrations have: record with"
            " torch.profiler.profile(record_shapes=True), outside of CUDA graphs"
        )
    name = next((profile.device for profile in profiles if profile.device), "")
    device = _device(name, system or system_of(name))
    numbers = dict.fromkeys(name for names in _SHAPES.values() for name in names)
    rows = [
        {
            "device": device,
            "operator": operator,
            "kernel_family": FAMILY,
            "format": number_format,
            "kv_format": number_format,
            **numbers,
            **dict(shape),
            "time_s": float(np.median(samples)),
            "count": len(samples),
        }
        for (operator, number_format, shape), samples in times.items()
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _row(operator: MeasuredOperator) -> tuple[Any, ...] | None:
    """Return operator, format and shape of a row, None if calibrations have no such operator."""
    call = operator.call
    if call is None or not priced_kind(operator):
        return None
    gemm, attention, streaming = gemm_shape(call), attention_shape(call), streaming_shape(call)
    if gemm is not None:
        named = tuple((name, getattr(gemm, name)) for name in _SHAPES["gemm"])
        return ("gemm", gemm.format, named) if gemm.groups == 1 else None
    if attention is not None:
        named = tuple((name, getattr(attention, name)) for name in _SHAPES["attention"])
        is_decode = attention.q_len == 1
        ordered = (
            attention.q_len <= attention.kv_len and attention.num_kv_heads <= attention.num_heads
        )
        if not ordered or not (is_decode or attention.causal):
            return None
        return (f"{'decode' if is_decode else 'prefill'}_attention", attention.format, named)
    if streaming is None:
        return None
    moved = ("bytes", streaming.read_bytes + streaming.write_bytes)
    return ("streaming", UNFORMATTED, (moved, ("tokens", streaming.tokens)))


def _device(name: str, system: str) -> str:
    """Return the catalog name of a device, or the profiler's as a file of the user can name it."""
    named = system if system and "{" not in system else name or system
    plain = re.sub(r"[^A-Za-z0-9_.\-]+", "_", named)
    if not plain.strip("_"):
        raise InvalidSpecError(
            "the profile does not name its device, which rows of measurements state: set --system"
        )
    return plain.strip("_")[:_MAX_NAME_LENGTH]

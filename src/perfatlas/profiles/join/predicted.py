"""Predicted times of measured operators.

Shape legend: C shapes of one kind and format.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import price_columns
from perfatlas.collectives import CollectiveShapes, price_collectives
from perfatlas.engines import resolve_engine
from perfatlas.formats import get_format
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.operators import Attention, Gemm, Phase, Streaming
from perfatlas.profiles.classes import CLASSES
from perfatlas.profiles.join.shapes import (
    AttentionShape,
    GemmShape,
    StreamingShape,
    attention_shape,
    gemm_shape,
    streaming_shape,
)
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.hardware import System
    from perfatlas.machines import Tier
    from perfatlas.operators import Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.profiles.events import OperatorCall
    from perfatlas.profiles.join.operators import MeasuredOperator

COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")


_CLASSES: Final = {
    "collective": ("communication",),
    "gemm": ("gemm",),
    "attention": ("attention",),
    "streaming": ("elementwise", "norm"),
}


class Prediction(NamedTuple):
    """Times of one execution [s]; None if there is no price."""

    time_s: float | None = None  # Predicted time
    low_s: float | None = None  # Lower end of its 90% interval
    high_s: float | None = None  # Upper end; None where the time is a lower limit
    roofline_s: float | None = None  # Roofline; None where caches may hold all bytes


NO_PREDICTION: Final = Prediction()


def predictions(
    operators: Sequence[MeasuredOperator], system: System, tier: Tier = "auto"
) -> tuple[list[Prediction], list[str]]:
    """Return the prediction of each operator, and why formats have none.

    Kernels of another class in the same operator, as the fill of a buffer, have none.

    Args:
        tier: Tier of the prices; "bound" prices all devices alike.
    """
    predicted = [NO_PREDICTION] * len(operators)
    notes: list[str] = []
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, operator in enumerate(operators):
        if key := priced_kind(operator):
            groups[key].append(index)
    for key, indices in groups.items():
        members = [call for index in indices if (call := operators[index].call) is not None]
        try:
            priced = list(_priced(key, members, system, tier))
        except UnsupportedError as error:
            notes.append(str(error))
            continue
        for index, prediction in zip(indices, priced, strict=True):
            predicted[index] = prediction
    return predicted, notes


def priced_kind(operator: MeasuredOperator) -> tuple[Any, ...]:
    """Return what operators that are priced together share; () for those without a model."""
    key = () if operator.call is None else _kind(operator.call)
    return key if key and CLASSES[operator.code] in _CLASSES[key[0]] else ()


def _kind(call: OperatorCall) -> tuple[Any, ...]:
    if call.name in COLLECTIVES:
        return ("collective", call.name) if call.bytes > 0.0 and call.ranks > 1 else ()
    gemm, attention = gemm_shape(call), attention_shape(call)
    if gemm is not None and gemm.format:
        return ("gemm", gemm.format)
    if attention is not None and attention.format:
        return ("attention", attention.format, attention.causal, attention.q_len == 1)
    return ("streaming",) if streaming_shape(call) is not None else ()


def _priced(
    key: tuple[Any, ...], calls: Sequence[OperatorCall], system: System, tier: Tier
) -> Iterator[Prediction]:
    if key[0] == "collective":
        prices = _collectives(key[1], calls, system, tier)
    else:
        shapes = [
            shape
            for call in calls
            if (shape := gemm_shape(call) or attention_shape(call) or streaming_shape(call))
        ]
        prices = _operators(_columns(shapes, key), system, tier)
    columns = price_columns(prices)
    names = ("time_s", "time_s_low", "time_s_high", "bound_time_s")
    for time_s, low_s, high_s, bound_s in zip(*(columns[name] for name in names), strict=True):
        yield Prediction(time_s, low_s, high_s, bound_s or None)


def _columns(
    shapes: Sequence[GemmShape | AttentionShape | StreamingShape], key: tuple[Any, ...]
) -> Operator:
    """Return shapes of one kind as columns of one operator."""
    size = {
        name: np.array([float(getattr(shape, name)) for shape in shapes])
        for name in shapes[0]._fields
        if name not in {"format", "causal"}
    }
    ones = np.ones(len(shapes))
    if key[0] == "streaming":
        return Streaming(
            name="activation",
            phase=Phase.PREFILL,
            count=ones,
            stream="activation",
            tokens=size["tokens"],
            read_bytes=size["read_bytes"],
            write_bytes=size["write_bytes"],
            cold_read_bytes=np.zeros(len(shapes)),
        )
    number_format = get_format(key[1])
    if key[0] == "gemm":
        return Gemm(
            name="gemm",
            phase=Phase.PREFILL,
            count=ones,
            m=size["m"] * size["groups"],
            n=size["n"],
            k=size["k"],
            groups=size["groups"],
            format=number_format.name,
            weight_bytes_per_element=number_format.weight_bytes,
            input_bytes_per_element=number_format.activation_bytes,
        )
    return Attention(
        name="attention",
        phase=Phase.DECODE if key[3] else Phase.PREFILL,
        count=ones,
        batch=size["batch"],
        q_len=size["q_len"],
        kv_len=size["kv_len"],
        num_heads=size["num_heads"],
        num_kv_heads=size["num_kv_heads"],
        head_dim=size["head_dim"],
        value_head_dim=size["head_dim"],
        window=np.zeros(len(shapes)),
        format=number_format.name,
        kv_format=number_format.name,
        kv_bytes_per_element=number_format.weight_bytes,
        causal=key[2],
        cache_append=False,
    )


def _operators(operator: Operator, system: System, tier: Tier) -> PricedOperators:
    """Return the prices of an operator with the fastest kernels of all engines."""
    index_C = np.zeros(len(operator.count), np.int64)
    devices = DeviceColumns(devices=(system.device,), index_C=index_C)
    family = resolve_engine("ideal").kernel_family
    return price_operators([operator], devices, family=family, tier=tier)


def _collectives(
    op: str, calls: Sequence[OperatorCall], system: System, tier: Tier
) -> PricedOperators:
    """Return the prices of collectives of the library; ranks fill nodes unless nodes are known."""
    ranks = np.array([float(call.ranks) for call in calls])
    nodes = np.array([float(call.nodes or 1) for call in calls])
    inside = system.node.devices
    has_nodes = np.array([call.nodes > 1 for call in calls])
    stride = np.where(has_nodes, np.maximum(inside * nodes / ranks, 1.0), 1.0)
    shapes = CollectiveShapes(
        op=op, bytes=np.array([call.bytes for call in calls]), ranks=ranks, stride=stride
    )
    return price_collectives(
        shapes, systems=[system], system_index_U=np.zeros(len(calls), np.int64), tier=tier
    ).prices

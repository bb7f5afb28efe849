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
    Product,
    Softmax,
    Stream,
    product_of,
    softmax_of,
    stream_of,
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
    "product": ("gemm",),
    "softmax": ("attention",),
    "stream": ("elementwise", "norm"),
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
    found = [NO_PREDICTION] * len(operators)
    notes: list[str] = []
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for at, operator in enumerate(operators):
        if key := priced_kind(operator):
            groups[key].append(at)
    for key, places in groups.items():
        members = [call for at in places if (call := operators[at].call) is not None]
        try:
            priced = list(_priced(key, members, system, tier))
        except UnsupportedError as error:
            notes.append(str(error))
            continue
        for at, prediction in zip(places, priced, strict=True):
            found[at] = prediction
    return found, notes


def priced_kind(operator: MeasuredOperator) -> tuple[Any, ...]:
    """Return what operators that are priced together share; () for those without a model."""
    key = () if operator.call is None else _kind(operator.call)
    return key if key and CLASSES[operator.code] in _CLASSES[key[0]] else ()


def _kind(call: OperatorCall) -> tuple[Any, ...]:
    if call.name in COLLECTIVES:
        return ("collective", call.name) if call.bytes > 0.0 and call.ranks > 1 else ()
    product, softmax = product_of(call), softmax_of(call)
    if product is not None and product.format:
        return ("product", product.format)
    if softmax is not None and softmax.format:
        return ("softmax", softmax.format, softmax.causal, softmax.q_len == 1)
    return ("stream",) if stream_of(call) is not None else ()


def _priced(
    key: tuple[Any, ...], calls: Sequence[OperatorCall], system: System, tier: Tier
) -> Iterator[Prediction]:
    if key[0] == "collective":
        prices = _collectives(key[1], calls, system, tier)
    else:
        shapes = [product_of(call) or softmax_of(call) or stream_of(call) for call in calls]
        prices = _operators(_columns(shapes, key), system, tier)
    columns = price_columns(prices)
    names = ("time_s", "time_s_low", "time_s_high", "bound_time_s")
    for time_s, low_s, high_s, bound_s in zip(*(columns[name] for name in names), strict=True):
        yield Prediction(time_s, low_s, high_s, bound_s or None)


_SIZES: Final = {
    "product": Product._fields,
    "softmax": Softmax._fields,
    "stream": Stream._fields,
}


def _columns(shapes: Sequence[Product | Softmax | Stream | None], key: tuple[Any, ...]) -> Operator:
    """Return shapes of one kind as columns of one operator."""
    size = {
        name: np.array([float(getattr(shape, name)) for shape in shapes])
        for name in _SIZES[key[0]]
        if name not in {"format", "causal"}
    }
    ones = np.ones(len(shapes))
    if key[0] == "stream":
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
    if key[0] == "product":
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
    known = np.array([call.nodes > 1 for call in calls])
    stride = np.where(known, np.maximum(inside * nodes / ranks, 1.0), 1.0)
    shapes = CollectiveShapes(
        op=op, bytes=np.array([call.bytes for call in calls]), ranks=ranks, stride=stride
    )
    return price_collectives(
        shapes, systems=[system], system_index_U=np.zeros(len(calls), np.int64), tier=tier
    ).prices

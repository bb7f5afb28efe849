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
from perfatlas.operators import Attention, Gemm, Phase
from perfatlas.profiles.join.shapes import Product, Softmax, product_of, softmax_of
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.hardware import System
    from perfatlas.operators import Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.profiles.events import OperatorCall

COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")


class Prediction(NamedTuple):
    """Times of one execution [s]; None if there is no price.

    Args:
        time_s: Predicted time.
        low_s: Lower end of its 90% interval.
        high_s: Upper end; None where the time is a lower limit.
        roofline_s: Roofline.
    """

    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    roofline_s: float | None = None


NO_PREDICTION: Final = Prediction()


def predictions(
    calls: Sequence[OperatorCall | None], system: System
) -> tuple[list[Prediction], list[str]]:
    """Return the prediction of each call, and why formats have none.

    Args:
        calls: The calls; None for kernels whose operator is unknown.
        system: The system that was measured.
    """
    found = [NO_PREDICTION] * len(calls)
    notes: list[str] = []
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for at, call in enumerate(calls):
        if call is not None and (key := _group(call)):
            groups[key].append(at)
    for key, places in groups.items():
        members = [call for at in places if (call := calls[at]) is not None]
        try:
            priced = list(_priced(key, members, system))
        except UnsupportedError as error:
            notes.append(str(error))
            continue
        for at, one in zip(places, priced, strict=True):
            found[at] = one
    return found, notes


def _group(call: OperatorCall) -> tuple[Any, ...]:
    """Return what calls that are priced together share; () for calls without a model."""
    if call.name in COLLECTIVES:
        return ("collective", call.name) if call.bytes > 0.0 and call.ranks > 1 else ()
    product, softmax = product_of(call), softmax_of(call)
    if product is not None and product.format:
        return ("product", product.format)
    if softmax is not None and softmax.format:
        return ("softmax", softmax.format, softmax.causal, softmax.q_len == 1)
    return ()


def _priced(
    key: tuple[Any, ...], calls: Sequence[OperatorCall], system: System
) -> Iterator[Prediction]:
    if key[0] == "collective":
        prices = _collectives(key[1], calls, system)
    else:
        shapes = [product_of(call) or softmax_of(call) for call in calls]
        prices = _operators(_columns(shapes, key), system)
    columns = price_columns(prices)
    names = ("time_s", "time_s_low", "time_s_high", "bound_time_s")
    for row in zip(*(columns[name] for name in names), strict=True):
        yield Prediction(*row)


def _columns(shapes: Sequence[Product | Softmax | None], key: tuple[Any, ...]) -> Operator:
    """Return products or attentions as columns of one operator."""
    size = {
        name: np.array([float(getattr(one, name)) for one in shapes])
        for name in (Product if key[0] == "product" else Softmax)._fields
        if name not in {"format", "causal"}
    }
    ones, number_format = np.ones(len(shapes)), get_format(key[1])
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


def _operators(operator: Operator, system: System) -> PricedOperators:
    """Return the prices of an operator with the fastest kernels of all engines."""
    index_C = np.zeros(len(operator.count), np.int64)
    devices = DeviceColumns(devices=(system.device,), index_C=index_C)
    family = resolve_engine("ideal").kernel_family
    return price_operators([operator], devices, family=family, tier="auto")


def _collectives(op: str, calls: Sequence[OperatorCall], system: System) -> PricedOperators:
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
        shapes, systems=[system], system_index_U=np.zeros(len(calls), np.int64), tier="auto"
    ).prices

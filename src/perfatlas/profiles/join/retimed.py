"""How much longer measured operators take on another system.

Shape legend: G operators, E estimates (expected, low, high).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.profiles.classes import CLASSES, COMMUNICATION
from perfatlas.profiles.join.predicted import predictions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import System
    from perfatlas.profiles.join.operators import MeasuredOperator
    from perfatlas.profiles.join.predicted import Prediction

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

KEPT, OF_CLASS, OF_OPERATOR = range(3)  # what a ratio is of
_STREAMING: Final = ("elementwise", "norm")
_COMPUTED: Final = ("gemm", "attention", "moe")
_PEAKS: Final = ("bf16", "fp16", "fp32")


@dataclass(frozen=True, kw_only=True)
class Retiming:
    """Time on another system / measured time.

    Args:
        ratio_EG: Expected ratio and the ends of its 90% interval (E, G).
        of_G: KEPT where the measured time is kept, OF_CLASS where the ratio is that of other
            operators of the class or of a bandwidth, OF_OPERATOR where it is that of prices (G,).
        is_doubtful_G: Whether the measured time is outside the interval of its price (G,).
        has_interval: Whether all prices have an interval; lower limits have none.
    """

    ratio_EG: FloatArray
    of_G: IntArray
    is_doubtful_G: NDArray[np.bool_]
    has_interval: bool


def retiming(operators: Sequence[MeasuredOperator], old: System, new: System) -> Retiming:
    """Return how much longer operators take on a system than on that of their profile.

    Args:
        operators: Operators (G).
        old: System on which they were measured.
        new: The other system.
    """
    ratio_EG, of_G = np.ones((3, len(operators))), np.full(len(operators), KEPT, np.int64)
    pairs = list(zip(*(predictions(operators, one)[0] for one in (old, new)), strict=True))
    priced = [
        at
        for at, (before, after) in enumerate(pairs)
        if before.time_s is not None and after.time_s is not None
    ]
    of_G[priced] = OF_OPERATOR
    # the errors of prices of one device and its variants are the same, and cancel
    same = old.device.name.split("{")[0] == new.device.name.split("{")[0]
    is_limited = False
    for at in priced:
        before, after = pairs[at]
        if before.high_s is not None and after.high_s is not None:
            ratio_EG[:, at] = _ratios(before, after, same=same)
        elif before != after:  # limits with limits: a limit and a measured tier do not compare
            is_limited = True
            limits = [predictions([operators[at]], one, "bound")[0][0] for one in (old, new)]
            ratio_EG[:, at] = (limits[1].time_s or 0.0) / (limits[0].time_s or np.inf)
    _fill_classes(operators, ratio_EG, of_G, (old, new))
    return Retiming(
        ratio_EG=ratio_EG,
        of_G=of_G,
        is_doubtful_G=np.array(
            [_is_outside(*one) for one in zip(operators, pairs, strict=True)], np.bool_
        ),
        has_interval=not is_limited,
    )


def _fill_classes(
    operators: Sequence[MeasuredOperator],
    ratio_EG: FloatArray,
    of_G: IntArray,
    systems: tuple[System, System],
) -> None:
    """Give operators without a price the mean ratio of their class, or that of the hardware."""
    time_s_G = np.array([one.time_s for one in operators])
    code_G = np.array([one.code for one in operators], np.int64)
    has_price_G = (of_G == OF_OPERATOR) & (time_s_G > 0.0)
    for at in np.flatnonzero(of_G == KEPT).tolist():
        known = has_price_G & (code_G == code_G[at])
        if known.any():
            ratio_EG[:, at] = np.average(ratio_EG[:, known], axis=1, weights=time_s_G[known])
        elif (ratio := _of_hardware(operators[at], *systems)) is not None:
            ratio_EG[:, at] = with_interval(np.array(ratio))
        else:
            continue
        of_G[at] = OF_CLASS


def _is_outside(operator: MeasuredOperator, pair: tuple[Prediction, ...]) -> bool:
    """Return whether an operator was measured outside the interval of its price."""
    low_s, high_s = pair[0].low_s, pair[0].high_s
    if low_s is None or high_s is None:
        return False
    return not low_s <= operator.time_s / operator.executions <= high_s


def _ratios(before: Prediction, after: Prediction, *, same: bool) -> FloatArray:
    """Return the ratio of two predictions and its interval (E,).

    Independent errors of both are added in quadrature; those of the same device are equal.
    """
    old, new = (
        np.array([one.time_s, one.low_s, one.high_s], np.float64) for one in (before, after)
    )
    if same:
        ratio = new / old
        return np.array([ratio[0], ratio.min(), ratio.max()])
    up = np.hypot(np.log(new[2] / new[0]), np.log(old[0] / old[1]))
    down = np.hypot(np.log(new[0] / new[1]), np.log(old[2] / old[0]))
    scaled: FloatArray = new[0] / old[0] * np.exp(np.array([0.0, -down, up]))
    return scaled


def _of_hardware(operator: MeasuredOperator, old: System, new: System) -> float | None:
    """Return the ratio of what bounds a class, None if nothing is known to."""
    before, after = old.device, new.device
    memory = before.memory_bandwidth / after.memory_bandwidth
    name = CLASSES[operator.code]
    if name in _STREAMING:
        return memory
    if name in _COMPUTED:  # the smaller gain of both bounds
        peaks = [one.peak_flop_per_s for one in (before, after)]
        both = [one for one in _PEAKS if all(one in peak for peak in peaks)]
        return max(memory, peaks[0][both[0]] / peaks[1][both[0]]) if both else None
    links = [one.scale_up.bandwidth for one in (before, after)]
    return links[0] / links[1] if operator.code == COMMUNICATION and all(links) else None


def with_interval(ratio: FloatArray) -> FloatArray:
    """Return ratios of hardware with their interval: from all of the ratio to no change (E, N).

    Args:
        ratio: Ratios (N,).
    """
    return np.stack([ratio, np.minimum(ratio, 1.0), np.maximum(ratio, 1.0)])


def copy_ratio(name: str, old: System, new: System) -> float:
    """Return how much longer a copy or fill takes: by the link that it uses, or by the memory.

    Args:
        name: Name of the copy as a profiler writes it.
        old: System on which it was measured.
        new: The other system.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.profiles.join import copy_ratio
        >>> old, new = resolve_system("a100_sxm"), resolve_system("h100_sxm")
        >>> copy_ratio("Memcpy DtoH (Device -> Pageable)", old, new)
        0.5
    """
    text = re.sub(r"[^a-z]", "", name.lower())
    links = [one.memory_bandwidth for one in (old.device, new.device)]
    if re.search("htod|dtoh|hosttodevice|devicetohost", text):
        links = [one.host_link_bandwidth for one in (old.device, new.device)]
    elif re.search("ptop|peertopeer", text):
        links = [one.scale_up.bandwidth for one in (old.device, new.device)]
    return links[0] / links[1] if all(links) else 1.0

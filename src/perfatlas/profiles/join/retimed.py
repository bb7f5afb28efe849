"""How much longer the activities of a profile take on another system.

Shape legend: N activities, G operators, E estimates (expected, low, high).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.profiles.classes import CLASSES, COMMUNICATION, COPIES
from perfatlas.profiles.join.operators import grouped_operators
from perfatlas.profiles.join.predicted import predictions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import Device, System
    from perfatlas.profiles.events import Profile
    from perfatlas.profiles.join.operators import MeasuredOperator
    from perfatlas.profiles.join.predicted import Prediction

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

RATIOS: Final = ("kept", "class", "operator")  # what a ratio is of
_KEPT, _OF_CLASS, _OF_OPERATOR = range(len(RATIOS))
_STREAMING: Final = ("elementwise", "norm")
_COMPUTED: Final = ("gemm", "attention", "moe")
_PEAKS: Final = ("bf16", "fp16", "fp32")
_HOST_COPY: Final = re.compile("htod|dtoh|hosttodevice|devicetohost")
_PEER_COPY: Final = re.compile("ptop|peertopeer")


class Retiming(NamedTuple):
    """Time on another system / measured time."""

    ratio_EN: FloatArray  # Expected ratio and the ends of its 90% interval (E, N)
    # Index in `RATIOS`: the measured time is kept; the ratio is that of other operators of the
    # class, or of a bandwidth; it is that of the operator's prices (N,)
    of_N: IntArray
    has_interval: bool  # Whether all prices have an interval; lower limits have none


def retiming(profile: Profile, class_N: IntArray, old: System, new: System) -> Retiming:
    """Return how much longer activities take on a system than on that of their profile.

    Args:
        class_N: Class of each activity (N,).
        old: System on which they were measured.
        new: The other system.
    """
    operators, group_N = grouped_operators(profile, class_N)
    ratio_EG, of_G, has_interval = _of_operators(operators, old, new)
    ratio_EN, of_N = ratio_EG[:, group_N], of_G[group_N]
    is_copy_N = class_N == COPIES  # whatever operator asked for it
    names = [profile.names[at] for at in profile.activities.name_N[is_copy_N]]
    ratio_EN[:, is_copy_N] = _with_interval(
        np.array([_copied(name, old.device, new.device) for name in names])
    )
    of_N[is_copy_N] = _OF_CLASS
    return Retiming(ratio_EN, of_N, has_interval)


def _of_operators(
    operators: Sequence[MeasuredOperator], old: System, new: System
) -> tuple[FloatArray, IntArray, bool]:
    """Return ratios (E, G), what they are of (G,), and whether all prices have an interval."""
    ratio_EG, of_G = np.ones((3, len(operators))), np.full(len(operators), _KEPT, np.int64)
    # the errors of prices of one device and its variants are the same, and cancel
    same = old.device.name.split("{")[0] == new.device.name.split("{")[0]
    has_interval = True
    pairs = zip(*(predictions(operators, system)[0] for system in (old, new)), strict=True)
    for group, (before, after) in enumerate(pairs):
        if before.time_s is None or after.time_s is None:
            continue
        of_G[group] = _OF_OPERATOR
        if before.high_s is not None and after.high_s is not None:
            ratio_EG[:, group] = _ratios(before, after, same=same)
        elif before != after:  # limits with limits: a limit and a measured tier do not compare
            has_interval = False
            old_limit, new_limit = (
                predictions([operators[group]], system, "bound")[0][0] for system in (old, new)
            )
            ratio_EG[:, group] = (new_limit.time_s or 0.0) / (old_limit.time_s or np.inf)
    time_s_G = np.array([operator.time_s for operator in operators])
    code_G = np.array([operator.code for operator in operators], np.int64)
    has_price_G = (of_G == _OF_OPERATOR) & (time_s_G > 0.0)
    for group in np.flatnonzero(of_G == _KEPT).tolist():
        peers = np.flatnonzero(has_price_G & (code_G == code_G[group]))
        if peers.size:
            ratio_EG[:, group] = np.average(ratio_EG[:, peers], axis=1, weights=time_s_G[peers])
        elif (ratio := _of_hardware(int(code_G[group]), old.device, new.device)) is not None:
            ratio_EG[:, group] = _with_interval(np.array(ratio))
        else:
            continue
        of_G[group] = _OF_CLASS
    return ratio_EG, of_G, has_interval


def _ratios(before: Prediction, after: Prediction, *, same: bool) -> FloatArray:
    """Return the ratio of two predictions and its interval (E,).

    Independent errors of both are added in quadrature; those of the same device are equal.
    """
    old, new = (
        np.array([prediction.time_s, prediction.low_s, prediction.high_s], np.float64)
        for prediction in (before, after)
    )
    if same:
        ratio = new / old
        return np.array([ratio[0], ratio.min(), ratio.max()])
    up = np.hypot(np.log(new[2] / new[0]), np.log(old[0] / old[1]))
    down = np.hypot(np.log(new[0] / new[1]), np.log(old[2] / old[0]))
    scaled: FloatArray = new[0] / old[0] * np.exp(np.array([0.0, -down, up]))
    return scaled


def _with_interval(ratio: FloatArray) -> FloatArray:
    """Return ratios of hardware with their interval: from all of the ratio to no change (E, N)."""
    return np.stack([ratio, np.minimum(ratio, 1.0), np.maximum(ratio, 1.0)])


def _of_hardware(code: int, old: Device, new: Device) -> float | None:
    """Return the ratio of what bounds a class, None if nothing is known to."""
    memory = old.memory_bandwidth / new.memory_bandwidth
    if CLASSES[code] in _STREAMING:
        return memory
    if CLASSES[code] in _COMPUTED:  # the smaller gain of both bounds
        peaks = old.peak_flop_per_s, new.peak_flop_per_s
        both = [name for name in _PEAKS if all(name in peak for peak in peaks)]
        return max(memory, peaks[0][both[0]] / peaks[1][both[0]]) if both else None
    links = old.scale_up.bandwidth, new.scale_up.bandwidth
    return links[0] / links[1] if code == COMMUNICATION and all(links) else None


def _copied(name: str, old: Device, new: Device) -> float:
    """Return the ratio of a copy or fill, by the link that it uses, or by the memory."""
    text = re.sub(r"[^a-z]", "", name.lower())
    rates = old.memory_bandwidth, new.memory_bandwidth
    if _HOST_COPY.search(text):
        rates = old.host_link_bandwidth, new.host_link_bandwidth
    elif _PEER_COPY.search(text):
        rates = old.scale_up.bandwidth, new.scale_up.bandwidth
    return rates[0] / rates[1] if all(rates) else 1.0

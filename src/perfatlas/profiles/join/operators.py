"""Activities of a profile grouped by operator, shape and class.

Shape legend: N activities, G groups.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.profiles.events import NO_INDEX, OperatorCall
from perfatlas.profiles.join.shapes import case_text
from perfatlas.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.profiles.events import Profile

    IntArray = NDArray[np.int64]

MAX_NAME: Final = 80  # characters; names of templates run to thousands
_TEMPLATE: Final = re.compile(r"^(?:void|std::enable_if<.*?>::type) +")


class MeasuredOperator(NamedTuple):
    """All executions of an operator with one shape, as far as their kernels share a class."""

    name: str  # Name of the operator, or of the kernel where the operator is unknown
    code: int  # Class, its index in `classes.CLASSES`
    shape: str  # Shape in words, "" if unknown
    executions: int  # Executions of the operator, or kernels where it is unknown
    time_s: float  # Time of its kernels [s]
    call: OperatorCall | None  # The call with its shapes; None if unknown


def measured_operators(
    profiles: Sequence[Profile], classes: Sequence[IntArray]
) -> list[MeasuredOperator]:
    """Return the operators of profiles, the longest first.

    Args:
        classes: Class of each activity, an array (N) for each profile.
    """
    operators: dict[tuple[str, str, int], MeasuredOperator] = {}
    for profile, class_N in zip(profiles, classes, strict=True):
        for operator in grouped_operators(profile, class_N)[0]:
            key = operator.name, operator.shape, operator.code
            if (previous := operators.get(key)) is not None:
                operator = operator._replace(  # noqa: PLW2901
                    executions=operator.executions + previous.executions,
                    time_s=operator.time_s + previous.time_s,
                )
            operators[key] = operator
    return sorted(operators.values(), key=lambda operator: -operator.time_s)


def grouped_operators(
    profile: Profile, class_N: IntArray
) -> tuple[list[MeasuredOperator], IntArray]:
    """Return the operators of one profile and which of them each activity belongs to (N)."""
    activities = profile.activities
    if not len(class_N):
        return [], np.zeros(0, np.int64)
    name_N = np.where(activities.call_N == NO_INDEX, activities.name_N, NO_INDEX)
    keys = np.stack([activities.call_N, name_N, class_N], axis=1)
    unique_G, group_N = np.unique(keys, axis=0, return_inverse=True)
    group_N = group_N.ravel()
    time_s_G = np.bincount(group_N, activities.time_s_N)
    # an execution counts once, however many kernels it launched
    instance_N = np.where(
        activities.instance_N == NO_INDEX, -1 - np.arange(len(group_N)), activities.instance_N
    )
    pairs, first = np.unique(np.stack([group_N, instance_N], axis=1), axis=0, return_index=True)
    count_G = np.bincount(pairs[:, 0], activities.counts()[first]).astype(np.int64)
    rows_G = zip(unique_G.tolist(), count_G.tolist(), time_s_G.tolist(), strict=True)
    return [_operator(profile, *row) for row in rows_G], group_N


def _operator(profile: Profile, row: Sequence[int], count: int, time_s: float) -> MeasuredOperator:
    call, name, code = row
    if call == NO_INDEX:
        shown = short_name(profile.names[name])
        return MeasuredOperator(shown, code, "", count, time_s, None)
    called = profile.calls[call]
    return MeasuredOperator(short_name(called.name), code, case_text(called), count, time_s, called)


def short_name(name: str) -> str:
    """Return the name of a kernel without return type and arguments, cut to one line.

    Example:
        >>> from perfatlas.profiles.join.operators import short_name
        >>> short_name("void cudnn::ops::nchwToNhwcKernel<float>(cudnn::params_t<float>, float*)")
        'cudnn::ops::nchwToNhwcKernel<float>'
    """
    text = _TEMPLATE.sub("", name).replace("(anonymous namespace)::", "")
    text = printable(text.split("(")[0] or text).replace("\n", " ").strip()
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 3] + "..."

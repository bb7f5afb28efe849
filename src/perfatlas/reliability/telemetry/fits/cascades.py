"""Secondary errors: errors that follow an error of another kind on the same device.

A GPU that falls off the bus takes its NVLinks down; a double-bit error is followed by a contained
error and a failed remapping. Counted separately, one failure would count several times.

Shape legend: E events.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.history import EFFECT, FAILURE, Labels

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.history import History

CASCADE_S: Final = 60.0


def without_cascades(history: History, window_s: float = CASCADE_S) -> tuple[History, int]:
    """Return the history with secondary failures marked as effects, and their number.

    Args:
        window_s: A failure of another cause within this time after the first one on its device is
            its effect [s]. Assumption: a minute, as drivers log consequences at once. 0 keeps every
            failure.

    Raises:
        InvalidSpecError: The window is negative or not finite.

    Limits: The first line is taken as the cause, which may be wrong within a second. Events without
        a node are unchanged; devices of the same node are separate.
    """
    if not 0.0 <= window_s < math.inf:
        raise InvalidSpecError(
            f"cascade_s = {repr_for_error(window_s)}: expected a finite time, 0 s or more"
        )
    first: dict[str, tuple[float, int]] = {}
    follows_E = np.zeros(history.size, bool)
    cause_E = history.cause.code_E
    has_node_E = ~history.node.is_any([""])
    for event in np.flatnonzero(history.kind.is_any([FAILURE]) & has_node_E).tolist():
        time_s, cause = float(history.start_s_E[event]), int(cause_E[event])
        unit = history.unit(event)
        begun_s, root = first.get(unit, (-np.inf, -1))
        if time_s - begun_s >= window_s:
            first[unit] = (time_s, cause)
        else:
            follows_E[event] = cause != root
    if not follows_E.any():
        return history, 0
    names = history.kind.names
    names = names if EFFECT in names else (*names, EFFECT)
    code_E = np.where(follows_E, names.index(EFFECT), history.kind.code_E).astype(np.int32)
    return replace(history, kind=Labels(code_E, names)), int(np.count_nonzero(follows_E))

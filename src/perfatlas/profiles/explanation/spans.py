"""Activities of a profile with their predicted durations, as measured and as they would start.

Shape legend: N activities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.profiles.classes import CLASSES, class_codes
from perfatlas.profiles.events import NO_INDEX
from perfatlas.profiles.join import grouped_operators, predictions, short_name
from perfatlas.profiles.timeline import Replay
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.profiles.classes import Rule
    from perfatlas.profiles.events import Profile

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


def activity_spans(
    profiles: Sequence[Profile], rules: Sequence[Rule], results: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Return a row for each activity as columns.

    An operator of several kernels shares its prediction among them as it shares its time. The
    timeline at the predictions keeps the dependencies of the profile; what has no prediction keeps
    its time.

    Args:
        profiles: Profiles of one run.
        rules: Rules that give kernels a class.
        results: Results of `explain`.

    Returns:
        device (which file and GPU), stream, name, class, operator, start_s, time_s; predicted_s
        with predicted_s_low and predicted_s_high (None where there is none), predicted_start_s.

    Raises:
        InvalidSpecError: The profiles have no timeline.
    """
    if results["wall_s"] is None:
        raise InvalidSpecError(
            "--trace needs a timeline with activity of a GPU: pass a Kineto trace or an Nsight"
            " Systems profile that has it"
        )
    columns: dict[str, list[Any]] = {}
    for number, profile in enumerate(profiles):
        named = f"rank {number if profile.rank == NO_INDEX else profile.rank}, "
        spans = _spans(profile, class_codes(profile, rules), results["system"])
        devices = [
            f"{named if len(profiles) > 1 else ''}GPU {device}" for device in spans["device"]
        ]
        for name, values in (spans | {"device": devices}).items():
            columns.setdefault(name, []).extend(values)
    return columns


def _spans(profile: Profile, class_N: IntArray, system: str | None) -> dict[str, list[Any]]:
    activities = profile.activities
    operators, group_N = grouped_operators(profile, class_N)
    predicted = predictions(operators, resolve_system(system))[0] if system else []
    share_G = np.array([operator.executions / (operator.time_s or 1.0) for operator in operators])
    share_N = activities.time_s_N * share_G[group_N]
    times = {
        name: share_N
        * np.array([getattr(prediction, field) for prediction in predicted], np.float64)[group_N]
        if predicted
        else np.full(len(group_N), np.nan)
        for name, field in (
            ("predicted_s", "time_s"),
            ("predicted_s_low", "low_s"),
            ("predicted_s_high", "high_s"),
        )
    }
    predicted_s_N = times["predicted_s"]
    durations_s_N = np.where(np.isnan(predicted_s_N), activities.time_s_N, predicted_s_N)
    replayed = Replay(profile).run(durations_s_N).profile.activities if len(group_N) else activities
    return {
        "device": activities.device_N.tolist(),
        "stream": activities.stream_N.tolist(),
        "name": [short_name(profile.names[index]) for index in activities.name_N.tolist()],
        "class": [CLASSES[code] for code in class_N.tolist()],
        "operator": [" ".join(filter(None, operators[index][0:3:2])) for index in group_N.tolist()],
        "start_s": activities.start_s_N.tolist(),
        "time_s": activities.time_s_N.tolist(),
        **{
            name: [None if np.isnan(value) else float(value) for value in values_N]
            for name, values_N in times.items()
        },
        "predicted_start_s": replayed.start_s_N.tolist(),
    }

"""The table of pipeline schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.training.schedules import (
    dualpipe,
    gpipe,
    interleaved,
    one_forward_one_backward,
    zb_h1,
    zb_v,
)

if TYPE_CHECKING:
    from perfatlas.training.schedules.schedule import PipelineSchedule

# compiled code identifies a schedule by its index
SCHEDULES: Final[tuple[PipelineSchedule, ...]] = (
    gpipe.GPIPE,
    one_forward_one_backward.ONE_F_ONE_B,
    interleaved.INTERLEAVED,
    zb_h1.ZB_H1,
    zb_v.ZB_V,
    dualpipe.DUALPIPE,
)


def find_schedule(name: str) -> PipelineSchedule:
    """Return the pipeline schedule of a name.

    Args:
        name: Value of `pipeline_schedule`.

    Raises:
        InvalidSpecError: There is no schedule of this name.

    Example:
        >>> from perfatlas.training.schedules import find_schedule
        >>> find_schedule("zb_h1").splits_backward
        True
    """
    for schedule in SCHEDULES:
        if schedule.name == name:
            return schedule
    names = [schedule.name for schedule in SCHEDULES]
    raise InvalidSpecError(
        f"unknown pipeline_schedule {repr_for_error(name)}; choose one of {', '.join(names)}"
        f"{did_you_mean(name, names)}"
    )

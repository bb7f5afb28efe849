"""The table of pipeline schedules, and which layouts each one refuses.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, broken_rules, did_you_mean, repr_for_error
from perfatlas.training.schedules import (
    dualpipe,
    gpipe,
    interleaved,
    one_forward_one_backward,
    zb_h1,
    zb_v,
)
from perfatlas.training.schedules.schedule import PipelineSize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.quantities import PerfatlasError
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


def pipeline_refusals(
    schedule_C: Sequence[str],
    ranks_C: NDArray[Any],
    micro_batches_C: NDArray[Any],
    chunks_C: NDArray[Any],
) -> dict[int, PerfatlasError]:
    """Return why candidates cannot run their schedules, by candidate.

    Args:
        schedule_C: Values of `pipeline_schedule` (C,).
        ranks_C: Ranks of the pipeline, `pp` (C,).
        micro_batches_C: Micro-batches per step and pipeline (C,).
        chunks_C: Chunks of layers per rank, `vpp` (C,).

    Raises:
        InvalidSpecError: There is no schedule of a name.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.schedules import pipeline_refusals
        >>> one = np.array([1])
        >>> pipeline_refusals(["dualpipe"], 5 * one, 16 * one, one)
        {0: InvalidSpecError('pipeline_schedule dualpipe needs an even pp, not 5')}
    """
    names_C = np.asarray(schedule_C, dtype=np.str_)
    refusals: dict[int, PerfatlasError] = {}
    for name in sorted(set(names_C.tolist())):
        rows = np.flatnonzero(names_C == name)
        size = PipelineSize(
            schedule=name,
            ranks=ranks_C[rows],
            micro_batches=micro_batches_C[rows],
            chunks=chunks_C[rows],
        )
        broken = broken_rules(find_schedule(name).rules, size)
        refusals |= {int(rows[at]): problem for at, problem in broken.items()}
    return refusals

"""Power of the boards of a job over a step: passes, waits, collectives and the optimizer.

Shape legend: N passes, R pipeline ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.energy import PowerCourse
from perfatlas.training.step.timeline import FIRST_PASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.training.step.run import TrainingSteps
    from perfatlas.training.step.timeline import StepTimeline


def rank_courses(
    steps: TrainingSteps, timeline: StepTimeline, ranks: Sequence[Sequence[int]]
) -> list[PowerCourse]:
    """Return the power of a mean board of groups of pipeline ranks over a step.

    A board draws its power without kernels at all times, and beside it the dynamic energy of its
    passes evenly over them, and that of the optimizer over its time. Bubbles, collectives that
    nothing hides and waits have no dynamic power. The mean over all ranks has the energy of
    `steps.power`, or less where passes would exceed the power limit.

    Args:
        steps: The step, as first candidate.
        timeline: Its course.
        ranks: Pipeline ranks of each group.

    Limits: Boards follow their work without delay. Kernels and collectives within a pass, which
        alternate faster than 10 ms, have one power. All ranks have the same power in passes.
    """
    power, passes = steps.power, timeline.passes
    on_w, cap_w = float(power.on_w_C[0]), float(power.power.cap_w[0])
    # a pair is one pass
    alone_N = ~passes["overlapped"] | np.isin(passes["pass"], FIRST_PASSES)
    rank_N, start_s, end_s = (passes[name][alone_N] for name in ("rank", "start_s", "end_s"))
    count = int(rank_N.max()) + 1
    update_s = timeline.later_s["optimizer"]
    update_j = float(
        power.parts_j["optimizer"][0] - power.on_w_C[0] * steps.waterfall["optimizer"][0]
    )
    busy_s = float((end_s - start_s).sum()) / count
    pass_w = min((float(power.dynamic_j_C[0]) - update_j) / busy_s, cap_w - on_w)
    update_w = min(update_j / update_s, cap_w - on_w) if update_s else 0.0
    before_s = timeline.step_s - sum(
        seconds for name, seconds in timeline.later_s.items() if name != "exposed_dp"
    )
    courses = []
    for group in ranks:
        of_group = np.isin(rank_N, group)
        each_w = np.full(int(of_group.sum()), pass_w / len(group))
        courses.append(
            PowerCourse.of_changes(
                np.concatenate(
                    [[0.0], start_s[of_group], end_s[of_group], [before_s, before_s + update_s]]
                ),
                np.concatenate([[on_w], each_w, -each_w, [update_w, -update_w]]),
                timeline.step_s,
            )
        )
    return courses

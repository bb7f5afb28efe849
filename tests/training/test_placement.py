"""Which stages a rank holds."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.training.schedules import SCHEDULES, stages_of_ranks


@pytest.mark.parametrize("schedule", [one.name for one in SCHEDULES])
def test_every_stage_is_held_equally_often(schedule: str) -> None:
    """Once, and twice with DualPipe, whose micro-batches enter at both ends."""
    chunks = {"interleaved": 3, "zb_v": 2}.get(schedule, 1)
    stages = stages_of_ranks(schedule, 6, chunks)
    copies = 2 if schedule == "dualpipe" else 1
    assert np.all(np.bincount(stages.ravel()) == copies)
    assert stages.shape == (6, chunks * copies)
    assert stages[0, 0] == 0

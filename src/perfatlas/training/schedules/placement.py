"""Which rank of a pipeline holds which stages.

Shape legend: P ranks, V stages that a rank holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.training.schedules.table import find_schedule

if TYPE_CHECKING:
    from perfatlas.training.schedules.columns import IntArray


def stages_of_ranks(schedule: str, ranks: int, chunks: int) -> IntArray:
    """Return the pipeline stages that each rank holds (P, V).

    Args:
        schedule: Value of `pipeline_schedule`.
        ranks: Ranks of the pipeline, `pp`.
        chunks: Chunks of layers per rank, `vpp`.

    Raises:
        InvalidSpecError: There is no schedule of this name.

    Example:
        >>> from perfatlas.training.schedules import stages_of_ranks
        >>> stages_of_ranks("interleaved", 2, 2).tolist()
        [[0, 2], [1, 3]]
        >>> stages_of_ranks("zb_v", 2, 2).tolist()
        [[0, 3], [1, 2]]
        >>> stages_of_ranks("dualpipe", 2, 1).tolist()
        [[0, 1], [1, 0]]
    """
    return find_schedule(schedule).stages(ranks, chunks)

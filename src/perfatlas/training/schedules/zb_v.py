"""ZB-V: two chunks per rank in the shape of a V, no bubble where all passes last equally long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import inlined, part
from perfatlas.quantities import Rule
from perfatlas.training.schedules.passes import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, put
from perfatlas.training.schedules.schedule import PipelineSchedule, v_shaped_stages

if TYPE_CHECKING:
    from perfatlas.training.schedules.passes import Passes


@inlined
def _existing(
    pass_PNA: Passes, i: int, n: int, kind: int, position: tuple[int, int], micro_batches: int
) -> int:
    """Write a pass (stage, micro-batch) unless the step has fewer micro-batches."""
    stage, j = position
    if j < micro_batches:
        return put(pass_PNA, i, n, kind, stage, j)
    return n


@inlined
def _backward(
    pass_PNA: Passes, i: int, n: int, position: tuple[int, int], micro_batches: int
) -> int:
    """Write an input gradient and the weight gradient after it."""
    n = _existing(pass_PNA, i, n, INPUT_GRADIENT, position, micro_batches)
    return _existing(pass_PNA, i, n, WEIGHT_GRADIENT, position, micro_batches)


@part
def order(pass_PNA: Passes, i: int, ranks: int, micro_batches: int, chunks: int) -> int:  # noqa: ARG001 - as all schedules
    """Write the passes of rank i and return their number; arguments as in `PipelineSchedule`.

    The order is that of max(m, 2 P - 1) micro-batches, without those that do not exist.
    """
    down, up = i, 2 * ranks - 1 - i  # stages of the two sides of the V
    all_of_them = max(micro_batches, 2 * ranks - 1)
    n = 0
    first = 2 * (ranks - i) - 1
    for j in range(first):
        n = _existing(pass_PNA, i, n, FORWARD, (down, j), micro_batches)
    for j in range(i):
        n = _existing(pass_PNA, i, n, FORWARD, (up, j), micro_batches)
        n = _existing(pass_PNA, i, n, FORWARD, (down, first + j), micro_batches)
    for j in range(ranks - i):
        n = _existing(pass_PNA, i, n, FORWARD, (up, i + j), micro_batches)
        n = _backward(pass_PNA, i, n, (up, j), micro_batches)
    for j in range(all_of_them - ranks):
        n = _existing(pass_PNA, i, n, FORWARD, (down, first + i + j), micro_batches)
        n = _backward(pass_PNA, i, n, (down, j), micro_batches)
        n = _existing(pass_PNA, i, n, FORWARD, (up, ranks + j), micro_batches)
        n = _backward(pass_PNA, i, n, (up, ranks - i + j), micro_batches)
    return _drain(pass_PNA, i, n, ranks, micro_batches)


@part
def _drain(pass_PNA: Passes, i: int, n: int, ranks: int, micro_batches: int) -> int:
    """Write the passes after the last forward pass: weight gradients fill the waits."""
    down, up = i, 2 * ranks - 1 - i
    all_of_them = max(micro_batches, 2 * ranks - 1)
    begun_down = all_of_them - ranks
    begun_up = begun_down + ranks - i
    for j in range(i):
        n = _existing(pass_PNA, i, n, INPUT_GRADIENT, (down, begun_down + j), micro_batches)
        n = _existing(pass_PNA, i, n, INPUT_GRADIENT, (up, begun_up + j), micro_batches)
    for j in range(ranks - i):
        n = _existing(pass_PNA, i, n, INPUT_GRADIENT, (down, begun_down + i + j), micro_batches)
        n = _existing(pass_PNA, i, n, WEIGHT_GRADIENT, (down, begun_down + j), micro_batches)
    for j in range(begun_up, all_of_them):
        n = _existing(pass_PNA, i, n, WEIGHT_GRADIENT, (up, j), micro_batches)
    for j in range(begun_down + ranks - i, all_of_them):
        n = _existing(pass_PNA, i, n, WEIGHT_GRADIENT, (down, j), micro_batches)
    return n


ZB_V: Final = PipelineSchedule(
    name="zb_v",
    title="ZB-V",
    description="Rank i holds stages i and 2 P - 1 - i, so that loss and embedding are on rank 0;"
    " weight gradients are separate passes.",
    source="Qi et al., arXiv 2401.10241, section 6; arXiv 2405.15362",
    rules=(
        Rule(
            lambda size: size.chunks != 2,
            "pipeline_schedule {schedule} runs two chunks of layers per rank, not {chunks}",
            "set vpp = 2",
        ),
    ),
    splits_backward=True,
    order=order,
    stages=v_shaped_stages,
)

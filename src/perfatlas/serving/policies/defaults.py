"""Default implementations of the policy protocol.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import MANY, blocks, queue_last

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def append_to_queue(sim: SimulationState, i: int) -> bool:
    """Append a request to the queue; return whether it may start in the next step.

    Args:
        sim: The simulation.
        i: The request, at its scheduler.
    """
    scheduler = sim.scheduler_S[sim.request_N[i].scheduler]
    opens = scheduler.waiting == 0 and scheduler.running < sim.max_num_seqs
    queue_last(sim, i)
    return bool(opens)


@part
def always_steady(sim: SimulationState, s: int) -> int:  # noqa: ARG001 - part of the protocol
    """Return MANY: the head of the queue, if it does not fit now, will not fit later.

    While sequences only decode, free blocks decrease and no sequence leaves.

    Args:
        sim: The simulation.
        s: The scheduler.
    """
    return MANY


@part
def do_nothing(sim: SimulationState, place: int) -> None:
    """Do nothing.

    Args:
        sim: The simulation.
        place: Index of the request or the scheduler.
    """


@part
def fits_in_cache(sim: SimulationState, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether the KV cache has blocks for all tokens of a request.

    Args:
        sim: The simulation.
        i: The request.
        tokens: Tokens of its prompt and output.
    """
    return bool(blocks.count(sim, tokens) <= sim.kv_blocks)

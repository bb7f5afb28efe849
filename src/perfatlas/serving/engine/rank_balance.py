"""Prompts that wait until every attention-data-parallel rank of a replica has some.

A step with prompts of one rank makes all ranks wait. TensorRT-LLM can hold prompts back while all
ranks decode, so that they run in the same steps; after a number of steps they run in any case.

Source: NVIDIA/TensorRT-LLM tensorrt_llm/_torch/pyexecutor/py_executor.py, `_balance_adp_requests`
with `attention_dp_config.enable_balance` and `timeout_iters`; `batching_wait_iters` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def hold_prompts(sim: SimulationState, first: int) -> None:
    """Decide whether prompts wait in the next step of a replica.

    Args:
        sim: The simulation.
        first: Its first scheduler.

    Limits: A prompt is ready if its rank has a free sequence slot; blocks that are missing are not
        looked at.
    """
    replica = sim.replica_R[first // sim.ranks]
    ready = 0
    decoding = 0
    for s in range(first, first + sim.ranks):
        scheduler = sim.scheduler_S[s]
        begun = scheduler.partial != NO_INDEX
        room = scheduler.running - scheduler.leaving < sim.max_num_seqs
        if begun or (scheduler.waiting > 0 and room):
            ready += 1
        if scheduler.decoding > 0:
            decoding += 1
    step = sim.scheduler_S[first].step
    waits = step - replica.prompted < sim.rank_balance_iters
    replica.holds = 0
    if 0 < ready < sim.ranks and decoding == sim.ranks and waits:
        replica.holds = 1
    elif ready > 0:
        replica.prompted = step

"""The static batching policy: the next batch starts when all sequences have finished.

Blocks are reserved and prompts run as with `trtllm_guaranteed_no_evict`; requests start only when
no sequence decodes.

Source: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp,
StaticBatchScheduler::operator().

Shape legend: S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.policies.policy import BatchingPolicy
from perfatlas.serving.policies.trtllm import READS, check_while_waiting, decode_all, run_prompts

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def schedule_static(sim: SimulationState, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        now: Start of the step [ps].
    """
    decode_all(sim, s, now)
    scheduler = sim.scheduler_S[s]
    if scheduler.preempted == 0 and scheduler.decoding == 0:
        run_prompts(sim, s, now)


STATIC: Final = BatchingPolicy(
    name="static",
    title="static batching",
    description=(
        "requests wait for the current batch: the next one starts when its longest output is done"
    ),
    reads=READS,
    chunks_whole_blocks=True,
    reserves_blocks=True,
    schedule=schedule_static,
    steady_steps=check_while_waiting,
)

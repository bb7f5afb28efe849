"""Pipeline stages: several batches of a replica are in flight, each on its way through all stages.

A replica with p stages has up to p batches in flight. Each is a row of replicas with schedulers of
its own, which hold the sequences of that batch; no sequence is in two batches. The batches share
the KV cache, the queue of waiting requests and the front end: the batch that is scheduled takes the
free blocks and the queue from the one scheduled before it. Where an engine starts the next chunk of
a prompt while the one before it is in flight, it takes the partially computed prompt too.

The first batches of all replicas come first: row r belongs to replica r modulo their number.

Source: vLLM: vllm/v1/engine/core.py, step_with_batch_queue(), with a queue of as many batches as
stages (max_concurrent_batches) and one scheduler for all; vllm/v1/core/sched/scheduler.py,
schedule(), which skips requests without new tokens and starts the next chunk of a prompt at once.
SGLang: python/sglang/srt/managers/scheduler_pp_mixin.py, event_loop_pp(), with a running batch per
micro-batch, one queue, one chunked request, and max_running_requests divided by the stages.
TensorRT-LLM: tensorrt_llm/_torch/pyexecutor/py_executor.py, _executor_loop_pp(), with as many
micro-batches as stages, from which requests in flight (inflight_req_ids) are excluded.

Limits: A sequence stays in its batch until it is preempted, and only sequences of the batch that is
scheduled are preempted. SGLang's ratio of new tokens is estimated by batch. vLLM's asynchronous
scheduling with stages and SGLang's --pp-async-batch-depth, which schedule one batch more than there
are stages, are not simulated.

Shape legend: N requests, S schedulers, R replicas of a type and their further batches, P stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def first_batch(sim: SimulationState, r: int) -> int:
    """Return the row of the first batch of a replica, which has what its batches share."""
    return int(r % sim.stage_free_RP.shape[0]) if sim.stages > 0 else r


@part
def cache_owner(sim: SimulationState, s: int) -> int:
    """Return the scheduler whose tables hold the named blocks of a scheduler."""
    return int(s % (sim.stage_free_RP.shape[0] * sim.ranks)) if sim.stages > 0 else s


@part
def queue_owner(sim: SimulationState, s: int) -> int:
    """Return the scheduler that holds the queue of a scheduler: of the last scheduled batch."""
    if sim.stages == 0:
        return s
    replicas = sim.stage_free_RP.shape[0]
    home = s // sim.ranks % replicas
    return int((home + sim.replica_R[home].slot * replicas) * sim.ranks + s % sim.ranks)


@part
def in_flight(sim: SimulationState, r: int) -> int:
    """Return the batches in flight of a replica with stages."""
    replicas = sim.stage_free_RP.shape[0]
    running = 0
    for slot in range(sim.stages):
        running += min(sim.replica_R[r % replicas + slot * replicas].steps, 1)
    return int(running)

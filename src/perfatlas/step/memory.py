"""Device memory of candidates, and advice when it does not suffice.

Shape legend: C candidates, S graph sizes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import parallelism
from perfatlas.files import shipped_table
from perfatlas.hardware import alternatives
from perfatlas.machines import spreads_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.step.columns import Candidates


SPREAD: Final = "data/memory_spread.toml"


def memory_inputs(question: Candidates) -> parallelism.MemoryInputs:
    """Return the inputs of the memory model; a request ends with isl + osl tokens."""
    load, limits, engine = question.load, question.limits, question.profile.memory
    placement, devices = question.placement, question.placement.devices()
    return parallelism.MemoryInputs(
        network=question.model.network.with_drafter()
        if question.drafts
        else question.model.network,
        formats=question.formats,
        plan=question.plan,
        load=parallelism.MemoryLoad(
            sequences=np.ceil(load.sequences / question.plan.attention_dp),
            tokens_per_sequence=load.isl + load.osl,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            max_num_seqs=limits.max_num_seqs
            if engine.reserves_sampler
            else np.minimum(limits.max_num_seqs, load.sequences),
            gpu_memory_utilization=limits.gpu_memory_utilization,
            block_size=limits.block_size,
            kv_blocks=limits.kv_blocks,
        ),
        overheads=parallelism.MemoryOverheads(
            context_bytes=engine.context_bytes,
            communication_bytes=engine.communication_bytes,
            transfer_buffer_bytes=limits.transfer_buffer_bytes,
            graph_bytes=engine.graph_bytes * _captured_share(question),
            sampler_copies=engine.sampler_copies,
            rule=engine.rule,
            expert_multiples=_expert_multiples(question),
            compressed_pages=engine.compressed_pages,
            page_groups=engine.page_groups,
            pools=engine.pools,
        ),
        memory_bytes=devices.gather("memory_bytes"),
        spread_weights=spreads_weights(devices),
        weight_offload=0.0 if placement.weight_offload_C is None else placement.weight_offload_C,
        kv_offload=0.0 if placement.kv_offload_C is None else placement.kv_offload_C,
        prefetched=False if placement.prefetch_C is None else placement.prefetch_C,
        second_bytes=devices.gather("second_memory_bytes"),
    )


def _expert_multiples(question: Candidates) -> tuple[FloatArray, FloatArray]:
    """Return the multiples to which MoE kernels pad hidden and expert sizes, 1 for none (C,)."""
    columns = question.placement.devices()
    by_device = question.profile.memory.expert_multiples.get(question.formats.moe, {})
    of_device_D = [by_device.get(device.architecture, (1, 1)) for device in columns.devices]
    hidden_C, width_C = np.array(of_device_D, np.float64)[columns.index_C].T
    return hidden_C, width_C


def _captured_share(question: Candidates) -> FloatArray:
    """Return the fraction of an engine's CUDA graph sizes that it captures (C,).

    Source: vLLM v1/worker/gpu_model_runner.py profile_cudagraph_memory: the estimate grows with
        the number of graphs; config/vllm.py: the largest size is twice max_num_seqs.
    """
    sizes_S = np.array(question.profile.scheduler.graph_sizes, np.float64)
    largest = question.profile.memory.graphs_up_to * question.limits.max_num_seqs
    captured = np.searchsorted(sizes_S, largest, side="right")
    share: FloatArray = captured / max(sizes_S.size, 1)
    return share


def candidate_memory(question: Candidates) -> parallelism.MemoryColumns:
    """Return the memory of each candidate's rank with the highest usage.

    With continuous batching, requests queue for memory, so one request must fit.
    """
    inputs = memory_inputs(question)
    memory = parallelism.memory_footprint(inputs)
    if not np.any(question.aggregated_C):
        return memory
    sequences = inputs.load.sequences
    queued = np.where(
        question.aggregated_C, np.clip(memory.max_sequences, 1.0, sequences), sequences
    )
    kv_bytes = memory.kv_bytes * (queued / sequences)
    second_kv_bytes = memory.second_kv_bytes * (queued / sequences)
    total_bytes = memory.total_bytes - memory.kv_bytes + kv_bytes
    second_bytes = memory.second_weights_bytes + second_kv_bytes
    fits = (total_bytes <= memory.capacity_bytes) & (queued <= memory.max_sequences)
    fits &= second_bytes <= memory.second_capacity_bytes
    return replace(
        memory,
        kv_bytes=kv_bytes,
        second_kv_bytes=second_kv_bytes,
        total_bytes=total_bytes,
        fits=fits,
    )


def cache_limits(question: Candidates, memory: parallelism.MemoryColumns) -> dict[str, FloatArray]:
    """Return the cache capacity and the ends of its 90% interval [tokens], each (C,).

    The interval is that of the memory which engines leave for the cache in start-up logs; blocks
    that the user set have none. That of a release that borrows its profile is wider, and the upper
    end is that of the smallest sampler that an installation of the engine may have. A network
    without a cache has no capacity: NaN.

    Source: data/memory_spread.toml.
    """
    less, more = _spread("borrowed" if question.profile.borrowed else "released")
    device = question.placement.devices().gather("memory_bytes")
    fixed = memory.weights_bytes + memory.activation_bytes + memory.other_bytes
    room = np.maximum(memory.capacity_bytes - fixed, 1.0)
    derived_C = np.isnan(question.limits.kv_blocks)
    lost = np.where(derived_C, np.clip(more * device / room, 0.0, 1.0), 0.0)
    won = np.where(derived_C, (less * device + _spared_by_sampler(question, memory)) / room, 0.0)
    has_cache = bool(question.model.network.cache_layouts(1.0))
    tokens = memory.kv_capacity_tokens if has_cache else np.full_like(room, np.nan)
    return {
        "kv_capacity_tokens": tokens,
        "kv_capacity_tokens_low": np.floor(tokens * (1.0 - lost)),
        "kv_capacity_tokens_high": np.floor(tokens * (1.0 + won)),
    }


def _spared_by_sampler(
    question: Candidates, memory: parallelism.MemoryColumns
) -> FloatArray | float:
    """Return what the smallest sampler of an installation takes less than assumed (C,) [bytes]."""
    fewest = question.profile.memory.sampler_copies_fewest
    if fewest is None:
        return 0.0
    inputs = memory_inputs(question)
    overheads = replace(inputs.overheads, sampler_copies=fewest)
    smaller = parallelism.memory_footprint(replace(inputs, overheads=overheads))
    spared: FloatArray = memory.activation_bytes - smaller.activation_bytes
    return spared


@cache
def _spread(kind: str) -> tuple[float, float]:
    """Return what engines take less and more than derived, as shares of the device's memory."""
    raw = shipped_table(SPREAD)[kind]
    return float(raw["less"]), float(raw["more"])


def does_not_fit(
    question: Candidates,
    accepts: Callable[[Mapping[str, float | str]], bool],
    *,
    states_gpus: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """Return the memory shortfall of the first candidate, and changes that would make it fit.

    Args:
        accepts: Returns whether the question is answered with changed fields, such as {"tp": 2}.
        states_gpus: Whether the question states its total of GPUs.
    """
    columns = question.placement.devices()
    others = alternatives(columns.devices[columns.index_C[0]])
    inputs = memory_inputs(question)
    sentence, *advice = parallelism.shortfall_advice(
        inputs, devices=others, accepts=accepts, states_gpus=states_gpus
    )
    return sentence, tuple(advice)

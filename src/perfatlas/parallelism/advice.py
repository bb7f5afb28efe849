"""Advice for a load that does not fit: the shortfall, and changes that would make it fit.

Shape legend: C candidates; here the variants of one question.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.parallelism.memory import MemoryColumns, MemoryInputs, memory_footprint
from perfatlas.parallelism.plan import plan_problems
from perfatlas.quantities import format_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.operators import FloatArray

    # whether a question with some fields changed is answered, such as {"tp": 2}
    Accepts = Callable[[Mapping[str, float | str]], bool]

_DOUBLINGS: Final = 2.0 ** np.arange(1, 8)
_STAGES: Final = np.concatenate((np.arange(2.0, 17.0), 2.0 ** np.arange(5, 8)))
NO_SINGLE_CHANGE: Final = (
    "no single change makes it fit: use a smaller batch or shorter sequences, or combine changes."
)
# Formats to try for the weights, in order of accuracy, and for the cache.
_WEIGHT_FORMATS: Final = ("fp8_dynamic", "int8_wo", "int4_wo")
_CACHE_FORMAT: Final = "fp8_static"
_DEVICES_NAMED: Final = 3
_MAX_DEVICE: Final = 4096.0  # times the current memory


def _accept_all(_: Mapping[str, float | str]) -> bool:
    return True


def shortfall_advice(
    question: MemoryInputs,
    *,
    devices: Mapping[str, float] | None = None,
    accepts: Accepts = _accept_all,
    states_gpus: bool = False,
) -> list[str]:
    """Return the shortfall of a load that does not fit, and each single change that would fit it.

    Args:
        question: The question (C,), whose first candidate counts.
        devices: Memory [bytes] of other devices by name, in order of preference: the first that
            are large enough are named; if none is, larger memory is not suggested.
        accepts: Returns whether the question is answered with changed fields; memory is checked
            here, but not whether the device has the format, or the kernels can be priced.
        states_gpus: Whether the question states its total of GPUs, which then changes with a plan.

    Returns:
        The shortfall, then one sentence for each single change that makes the load fit: more tp,
        pp or attention_dp, smaller weights, a smaller cache, fewer sequences, a device with more
        memory; if none does, tp and pp combined with smaller weights and cache.

    Limits: tp and attention_dp are doubled in steps, pp takes every multiple up to 16. The
        accuracy of smaller formats is not considered.
    """
    memory_inputs = _repeat(question, 1)
    footprint = memory_footprint(memory_inputs)
    sentences = [_shortfall(memory_inputs, footprint)]
    changes = [
        *_fewer_blocks(memory_inputs, footprint),
        *_wider(memory_inputs, "tp", accepts, states_gpus=states_gpus),
        *_wider(memory_inputs, "pp", accepts, states_gpus=states_gpus),
        *_wider(memory_inputs, "attention_dp", accepts, states_gpus=states_gpus),
        *_smaller_weights(memory_inputs, accepts),
        *_smaller_cache(memory_inputs, accepts),
        *_fewer_sequences(memory_inputs, footprint, accepts),
        *_larger_device(memory_inputs, devices or {}, accepts),
        *_second_memory(memory_inputs, accepts),
    ]
    return sentences + (changes or _everything(memory_inputs, accepts, states_gpus=states_gpus))


def _second_memory(question: MemoryInputs, accepts: Accepts) -> list[str]:
    """Advise the least share of the weights, in steps of 5%, that a second memory must hold."""
    shares = np.arange(21) / 20.0
    variants = replace(_repeat(question, shares.size), weight_offload=shares)
    for share, fits in zip(shares.tolist(), memory_footprint(variants).fits.tolist(), strict=True):
        if fits and accepts({"weight_offload": share}):
            return [f"weight_offload = {share:g} fits: {share:.0%} in the second memory."]
    return []


def _fewer_blocks(question: MemoryInputs, footprint: MemoryColumns) -> list[str]:
    """Advise the most blocks that the device holds, where the user set more."""
    most = float(footprint.max_blocks[0])
    fewer = replace(question, load=replace(question.load, kv_blocks=np.array([most])))
    if not (float(question.load.kv_blocks[0]) > most and memory_footprint(fewer).fits[0]):
        return []
    return [f"omit kv_blocks, or set kv_blocks to at most {most:,.0f}."]


def _bytes(value: float) -> str:
    return format_quantity(value, "B", digits=4)


def _shortfall(question: MemoryInputs, footprint: MemoryColumns) -> str:
    load = question.load
    sequences, room = float(load.sequences[0]), float(footprint.max_sequences[0])
    excess = float(footprint.total_bytes[0] - footprint.capacity_bytes[0])
    kv_bytes = float(footprint.kv_bytes[0])
    parts = (
        f"weights {_bytes(float(footprint.weights_bytes[0]))},"
        f"{f' KV cache {_bytes(kv_bytes)},' if kv_bytes else ''}"
        f" activations {_bytes(float(footprint.activation_bytes[0]))},"
        f" other {_bytes(float(footprint.other_bytes[0]))}"
    )
    usable = f"{_bytes(float(footprint.capacity_bytes[0]))} usable per GPU"
    if float(question.load.gpu_memory_utilization[0]) < 1.0:
        usable += f" ({_share(question)})"
    if excess > 0:
        need = _bytes(float(footprint.total_bytes[0]))
        return (
            f"the load does not fit by {_bytes(excess)} per GPU: it needs {need} ({parts}),"
            f" with {usable}."
        )
    second = float(footprint.second_weights_bytes[0] + footprint.second_kv_bytes[0])
    if second > (capacity := float(footprint.second_capacity_bytes[0])):
        return (
            f"the load does not fit: weight_offload and kv_offload leave {_bytes(second)} to the"
            f" second memory of a GPU, which has {_bytes(capacity)}."
        )
    most = float(footprint.max_blocks[0])
    if float(load.kv_blocks[0]) > most:
        return (
            f"kv_blocks = {float(load.kv_blocks[0]):,.0f} do not fit: a GPU of"
            f" {_bytes(float(question.memory_bytes[0]))} holds at most {most:,.0f} blocks of"
            f" {float(load.block_size[0]):g} tokens beside weights, activations and the engine."
        )
    return (
        f"the load does not fit: {sequences:g} sequences of"
        f" {float(load.tokens_per_sequence[0]):g} tokens are requested per attention-DP rank,"
        f" but the KV cache holds {room:g}, in whole blocks"
        f" ({parts}; {usable})."
    )


def _share(question: MemoryInputs) -> str:
    """Return the part of device memory that the engine may use."""
    part = f"{float(question.load.gpu_memory_utilization[0]):g} of"
    whole = _bytes(float(question.memory_bytes[0]))
    return f"{part} {whole}" if question.overheads.rule == "total" else f"of {whole}"


def _need(footprint: MemoryColumns, index: int) -> str:
    return (
        f"it needs {_bytes(float(footprint.total_bytes[index]))} of"
        f" {_bytes(float(footprint.capacity_bytes[index]))} per GPU"
    )


def _wider(question: MemoryInputs, axis: str, accepts: Accepts, *, states_gpus: bool) -> list[str]:
    """Advise the smallest multiple of tp, pp or attention_dp that is legal, priced and fits."""
    variants = _widened(question, axis, states_gpus=states_gpus)
    footprint = memory_footprint(variants)
    problems = plan_problems(variants.network, variants.plan)
    for index, (problem, fits) in enumerate(zip(problems, footprint.fits.tolist(), strict=True)):
        if problem is None and fits and accepts(_plan_change(variants, axis, index)):
            size = float(getattr(variants.plan, axis)[index])
            gpus = float(variants.plan.gpus_per_replica[index])
            change = f"{axis} = {size:g}"
            if axis != "pp" and question.network.divides_weights:
                grown = _grown(question)
                change += f" with {grown} = {float(getattr(variants.plan, grown)[index]):g}"
            if states_gpus:
                change += f" and gpus = {float(variants.plan.ranks[index]):g}"
            return [f"{change} fits: {_need(footprint, index)} on {gpus:g} GPUs per replica."]
    return []


def _plan_change(question: MemoryInputs, axis: str, index: int) -> dict[str, float | str]:
    """Return the sizes of a wider plan that differ from the current ones, and its GPUs."""
    names = (axis, "ep", "moe_tp") if question.network.divides_weights and axis != "pp" else (axis,)
    sizes: dict[str, float | str] = {n: float(getattr(question.plan, n)[index]) for n in names}
    return sizes | {"gpus": float(question.plan.ranks[index])}


def _widened(question: MemoryInputs, axis: str, *, states_gpus: bool) -> MemoryInputs:
    """Return multiples of one axis; the expert group grows with tp and attention_dp.

    Of a stated number of GPUs, those that copy tables divide them.
    """
    growth = _STAGES if axis == "pp" else _DOUBLINGS
    variants = _repeat(question, len(growth))
    plan, load = variants.plan, variants.load
    sizes = {axis: getattr(plan, axis) * growth}
    if not question.network.divides_weights:
        sizes["moe_tp"] = np.ones_like(plan.tp)
    elif axis != "pp":
        grown = _grown(question)
        sizes[grown] = getattr(plan, grown) * growth
    if axis == "attention_dp":  # the sequences of a replica are divided over more ranks
        load = replace(load, sequences=np.ceil(load.sequences / growth))
        if question.network.tables and states_gpus:
            sizes["dp"] = np.ceil(plan.dp / growth)
    return replace(variants, plan=replace(plan, **sizes), load=load)


def _grown(question: MemoryInputs) -> str:
    """Return the size of the expert group that grows with the ranks: ep if it is used."""
    return "ep" if float(question.plan.ep[0]) > 1 else "moe_tp"


def _smaller_weights(question: MemoryInputs, accepts: Accepts) -> list[str]:
    for name in _WEIGHT_FORMATS:
        smaller = get_format(name).weight_bytes
        gemm, moe = question.formats.gemm, question.formats.moe
        current = max(get_format(gemm).weight_bytes, get_format(moe).weight_bytes)
        if smaller >= current:
            continue
        footprint = memory_footprint(_with_weights(question, name))
        if footprint.fits[0] and accepts({"format": name}):
            return [f"format = {name} fits: {_need(footprint, 0)}."]
    return []


def _with_weights(question: MemoryInputs, name: str) -> MemoryInputs:
    return replace(question, formats=replace(question.formats, gemm=name, moe=name, modules=()))


def _with_cache(question: MemoryInputs) -> MemoryInputs:
    return replace(question, formats=replace(question.formats, kv=_CACHE_FORMAT))


def _smaller_cache(question: MemoryInputs, accepts: Accepts) -> list[str]:
    smaller = get_format(_CACHE_FORMAT).weight_bytes
    if get_format(question.formats.kv).weight_bytes <= smaller:
        return []
    footprint = memory_footprint(_with_cache(question))
    if not (footprint.fits[0] and accepts({"kv_format": _CACHE_FORMAT})):
        return []
    return [f"kv_format = {_CACHE_FORMAT} fits: {_need(footprint, 0)}."]


def _fewer_sequences(
    question: MemoryInputs, footprint: MemoryColumns, accepts: Accepts
) -> list[str]:
    room, sequences = float(footprint.max_sequences[0]), float(question.load.sequences[0])
    if not 1.0 <= room < sequences:
        return []
    replica = room * float(question.plan.attention_dp[0])
    if not accepts({"batch": replica}):
        return []
    sentence = (
        f"batch = {replica:g} per replica fits, the largest with this plan:"
        f" the KV cache holds {float(footprint.kv_capacity_tokens[0]):,.0f} tokens,"
        f" for sequences of {float(question.load.tokens_per_sequence[0]):,.0f} tokens."
    )
    return [sentence]


def _larger_device(
    question: MemoryInputs, devices: Mapping[str, float], accepts: Accepts
) -> list[str]:
    if not np.isnan(question.load.kv_blocks[0]):
        return []  # a fixed number of blocks does not grow with the device
    need = _needed_memory(question)
    if need is None:
        return []
    large = ((name, size) for name, size in devices.items() if size >= need)
    enough = [(name, size) for name, size in large if accepts({"system": name})]
    if devices and not enough:
        return []
    named = " or ".join(f"{name} ({_bytes(size)})" for name, size in enough[:_DEVICES_NAMED])
    such_as = f", such as {named}" if named else ""
    return [f"a device with at least {_bytes(need)} of memory would be enough{such_as}."]


def _needed_memory(question: MemoryInputs) -> float | None:
    """Return the minimum device memory that fits [bytes]; None if memory is not the cause.

    Two scans of 256 sizes, up to 4096 times the current memory: at most 0.02% too much.
    """
    low = float(question.memory_bytes[0])
    high = low * _MAX_DEVICE
    for _ in range(2):
        sizes = np.geomspace(low, high, 256)
        variants = replace(_repeat(question, len(sizes)), memory_bytes=sizes)
        fits = memory_footprint(variants).fits
        first = int(np.argmax(fits))
        if first == 0:
            return None  # it fits already, or with no memory size
        low, high = float(sizes[first - 1]), float(sizes[first])
    return high


def _everything(question: MemoryInputs, accepts: Accepts, *, states_gpus: bool) -> list[str]:
    """Advise tp and pp that fit with smaller weights and cache, or that no change is enough."""
    formats: dict[str, float | str] = {
        "format": _WEIGHT_FORMATS[0],
        "kv_format": _CACHE_FORMAT,
    }
    squeezed = _with_cache(_with_weights(question, _WEIGHT_FORMATS[0]))

    def accepts_both(change: Mapping[str, float | str]) -> bool:
        return accepts({**formats, **change})

    changes = [
        sentence
        for axis in ("tp", "pp")
        for sentence in _wider(squeezed, axis, accepts_both, states_gpus=states_gpus)
    ]
    together = f"with format = {_WEIGHT_FORMATS[0]} and kv_format = {_CACHE_FORMAT}, "
    if changes:
        return [together + sentence for sentence in changes]
    if not float(memory_footprint(question).kv_bytes[0]):  # a graph has no sequences
        return [NO_SINGLE_CHANGE.replace("shorter sequences", "smaller inputs")]
    return [NO_SINGLE_CHANGE]


def _repeat(question: MemoryInputs, times: int) -> MemoryInputs:
    """Return the first candidate of the question, repeated."""

    def cut(column: FloatArray) -> FloatArray:
        return np.repeat(column[:1], times)

    plan, load = question.plan, question.load
    return replace(
        question,
        plan=replace(plan, **{f.name: cut(getattr(plan, f.name)) for f in fields(plan)}),
        load=replace(load, **{f.name: cut(getattr(load, f.name)) for f in fields(load)}),
        memory_bytes=cut(question.memory_bytes),
    )

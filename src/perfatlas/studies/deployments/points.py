"""Prices of candidates at all loads that run at once: points.

Shape legend: C candidates, P points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import inference
from perfatlas.cost import PoolPrices, TokenCounts, cost_columns
from perfatlas.energy import node_power
from perfatlas.hardware import resolve_system
from perfatlas.operators import Phase
from perfatlas.parallelism import MemoryColumns
from perfatlas.quantities import UnsupportedError
from perfatlas.quantization import change_columns
from perfatlas.scenario.deployments import quantized
from perfatlas.serving.requests import caches_of
from perfatlas.step import candidate_memory, take_columns
from perfatlas.studies.refusals import refused_by_rule

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates
    from perfatlas.studies.deployments.question import SearchInputs
    from perfatlas.studies.deployments.space import Family

# sequences of an attention-DP rank: four to each doubling
LOADS: Final = (1.0, 2.0, 3.0, *(float(n << k) for k in range(11) for n in (4, 5, 6, 7)))
BLOCK: Final = 1500  # candidates that are priced together, to limit memory
COSTS: Final = tuple(f"usd_per_million_output_tokens{end}" for end in ("", "_low", "_high"))
AC_POWER: Final = "ac_power_w"  # of a node over its GPUs
# what ends the loads of a candidate
ENDS: Final = ("loads", "kv_cache", "max_num_seqs", "max_num_batched_tokens")


@dataclass(frozen=True, kw_only=True)
class Points:
    """Candidates at loads, by candidate and ascending load."""

    family: Family
    rows: IntArray  # The candidate of each point, a position in its family (P,)
    sequences: FloatArray  # Sequences of a replica (P,)
    question: Candidates  # Plan, load and limits of each point
    evaluated: inference.LoadResults  # Their closed forms
    results: dict[str, FloatArray]  # Results of `estimate` by name (P,), without the number of GPUs
    ends: IntArray  # What ends the loads of the candidate of each point, a position in `ENDS` (P,)
    cache_tokens: FloatArray  # KV cache of a replica [tokens] (P,)

    @property
    def size(self) -> int:
        """Number of points P."""
        return int(self.rows.size)


def priced_points(
    family: Family,
    inputs: SearchInputs,
    rejected: Counter[str],
    loads: Sequence[float] = LOADS,
    phase: Phase | None = None,
) -> Iterator[Points]:
    """Yield the points of a family, some candidates at a time.

    Args:
        phase: The phase that workers of a pool run, None for both.
    """
    for first in range(0, family.size, BLOCK):
        some = np.arange(first, min(first + BLOCK, family.size))
        points = _priced(family, some, inputs, rejected, (loads, phase))
        if points is not None:
            yield points


def _priced(
    family: Family,
    some: IntArray,
    inputs: SearchInputs,
    rejected: Counter[str],
    work: tuple[Sequence[float], Phase | None],
) -> Points | None:
    loads, phase = work
    loads_CL = _loads(family, some, inputs, loads)
    rows = np.repeat(some, loads_CL.shape[1])
    sequences = loads_CL.ravel()
    classes = inputs.mix.classes
    classes = classes.prompts() if phase is Phase.PREFILL else classes
    question = family.spread(rows, sequences, classes.mean)
    memory = candidate_memory(inference.with_lengths(question, classes.running))
    longest = inference.with_lengths(question, inputs.mix.longest)
    on_rank = np.ceil(question.load.sequences / question.plan.attention_dp)
    queued = question.aggregated_C
    queues = queued & (inference.served_sequences(question, memory) < question.load.sequences)
    refused = {
        "fits_in_memory": ~memory.fits | (queued & (memory.max_sequences < on_rank)),
        "prompt_within_max_num_batched_tokens": inference.rejects_prompts(longest),
        "load_within_max_num_seqs": on_rank > question.limits.max_num_seqs,
        "load_within_max_num_batched_tokens": queues,
    }
    first = np.arange(0, rows.size, loads_CL.shape[1])
    runs_C, counts = refused_by_rule(((n, b[first]) for n, b in refused.items()), first.size)
    rejected.update(counts)
    within = ~np.logical_or.reduce(list(refused.values()))
    # loads ascend: those after the first that cannot run are left out too
    within_CL = np.logical_and.accumulate(within.reshape(loads_CL.shape), axis=1)
    kept_CL = within_CL & runs_C[:, None]
    fitting = np.flatnonzero(kept_CL)
    if not fitting.size:
        return None
    ends_C = _ends(refused, within_CL)
    candidates = question.take(fitting)
    memory_left = MemoryColumns(**take_columns(memory, fitting))
    candidates, classes = _with_cached_prompts(candidates, memory_left, classes, inputs)
    evaluated = inference.evaluate_mix(candidates, memory_left, classes, phase)
    results = inference.result_columns(candidates, evaluated)
    results |= costs(inputs, results, [(family.fields["system"], 1.0)])
    results |= accuracies(inputs, candidates)
    results |= ac_powers(inputs, results, family.fields["system"])
    return Points(
        family=family,
        rows=rows[fitting],
        sequences=sequences[fitting],
        question=candidates,
        evaluated=evaluated,
        results=results,
        ends=np.repeat(ends_C, loads_CL.shape[1])[fitting],
        cache_tokens=memory_left.kv_capacity_tokens,
    )


def _with_cached_prompts(
    candidates: Candidates,
    memory: MemoryColumns,
    classes: inference.RequestClasses,
    inputs: SearchInputs,
) -> tuple[Candidates, inference.RequestClasses]:
    """Return points and classes with what prefix caches have of the prompts of a trace."""
    reuse = inputs.mix.reuse
    if reuse is None or not np.any(candidates.load.prefix):
        return candidates, classes
    caches = caches_of(candidates.plan, memory.kv_capacity_tokens, inputs.routing)
    prefix_KP = np.floor(reuse.mean_cached(caches))  # whole tokens, which are priced once
    load = replace(candidates.load, prefix=classes.weight_K @ prefix_KP)
    return replace(candidates, load=load), replace(classes, prefix_KC=prefix_KP)


def _loads(
    family: Family, some: IntArray, inputs: SearchInputs, loads: Sequence[float]
) -> FloatArray:
    """Return the sequences of a replica at each load, ascending (C, L)."""
    if inputs.concurrency is not None:
        each_C1: FloatArray = (inputs.concurrency / family.plan.dp[some])[:, None]
        return each_C1
    ranks_C = family.plan.attention_dp[some]
    loads_CL: FloatArray = ranks_C[:, None] * np.array(loads)
    if np.any(ranks_C > 1.0):  # a single request, with idle ranks
        loads_CL = np.concatenate([np.ones_like(ranks_C)[:, None], loads_CL], axis=1)
    return loads_CL


def _ends(refused: dict[str, NDArray[np.bool_]], within_CL: NDArray[np.bool_]) -> IntArray:
    """Return what ends the loads of each candidate, a position in `ENDS` (C,)."""
    size = within_CL.shape[1]
    last_C = np.minimum(within_CL.sum(axis=1), size - 1)
    ends_C = np.zeros(within_CL.shape[0], np.int64)
    reasons = ("fits_in_memory", "load_within_max_num_seqs", "load_within_max_num_batched_tokens")
    for code, name in reversed(list(enumerate(reasons, start=1))):
        broken_C = refused[name].reshape(within_CL.shape)[np.arange(last_C.size), last_C]
        ends_C = np.where(broken_C, code, ends_C)
    return ends_C


def accuracies(inputs: SearchInputs, question: Candidates) -> dict[str, FloatArray]:
    """Return the change of the benchmark with its interval (P,) [points], nothing if not asked.

    Args:
        question: Points of one model and formats (P).
    """
    benchmark = inputs.accuracy_benchmark
    if benchmark is None:
        return {}
    changes = change_columns([quantized(question, benchmark, inputs.quantization_method)])
    return {name: np.repeat(values, question.size) for name, values in changes.items()}


def ac_powers(
    inputs: SearchInputs, results: Mapping[str, FloatArray], name: str
) -> dict[str, FloatArray]:
    """Return the AC power of a node over its GPUs with its interval (P,) [W], nothing if not asked.

    Args:
        results: Results with the power of a board and its interval (P,).
        name: The system.

    Raises:
        UnsupportedError: The power of the device or of its nodes is not predicted.
    """
    if inputs.max_deployment_power_w is None:
        return {}
    node, found = resolve_system(name).node, {}
    for suffix, end in (("", "value"), ("_low", "low"), ("_high", "high")):
        meter = node_power(node, end)
        host_w = meter.node_w(0.0) / meter.devices
        found[f"{AC_POWER}{suffix}"] = host_w + meter.factor * results[f"power_w{suffix}"]
    if np.isnan(found[AC_POWER]).any():
        raise UnsupportedError(
            f"max_deployment_power_w: the power of {name} or of its nodes is not predicted; leave"
            " out max_deployment_power_w, or search other systems"
        )
    return found


def costs(
    inputs: SearchInputs,
    results: Mapping[str, FloatArray],
    systems: Sequence[tuple[str, FloatArray | float]],
) -> dict[str, FloatArray]:
    """Return the cost of a million output tokens with its interval (P,) [USD], NaN without a price.

    Args:
        results: Results with the output rate per GPU and its interval (P,).
        systems: System of each pool, and its share of the GPUs (P,).
    """
    rate = results["output_tokens_per_s_per_gpu"]
    first = np.zeros(rate.shape, np.int64)
    priced = [(inputs.gpu_price(name), share) for name, share in systems]
    pools = [PoolPrices([price], first, share) for price, share in priced]
    none = np.full(rate.shape, np.nan)
    costs = cost_columns({**results, "gpus": none}, pools, none, TokenCounts(1.0, 1.0))
    return {name: costs[name] for name in COSTS}

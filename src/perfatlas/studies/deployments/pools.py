"""Disaggregated deployments: pools of prefill and decode workers with matched rates.

Workers of both roles are priced by themselves; deployments are composed from their columns.

Every pair of workers is judged by its latencies, rates and objectives; all columns of an answer are
composed for the deployments that are kept.

Shape legend: W workers at batches, K those that are kept, D deployments.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import inference
from perfatlas.operators import Phase, unique_rows
from perfatlas.parallelism import node_gpus
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies.deployments.find import LIMITS, Found, reported
from perfatlas.studies.deployments.launch import ROLES
from perfatlas.studies.deployments.limits import (
    PER_GPU,
    PER_USER,
    frontier_points,
    met_limits,
    score_of,
)
from perfatlas.studies.deployments.matching import Rates, matched_pairs
from perfatlas.studies.deployments.points import LOADS, accuracies, costs, priced_points
from perfatlas.studies.deployments.rows import POOL_SIZES
from perfatlas.studies.deployments.space import families
from perfatlas.studies.pareto import pareto_points
from perfatlas.studies.probability import value_exceeded
from perfatlas.studies.ranking import best_of_groups, joined, ranking_values

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates
    from perfatlas.studies.deployments.find import Columns, PricedSoFar
    from perfatlas.studies.deployments.matching import Pairs
    from perfatlas.studies.deployments.points import Points
    from perfatlas.studies.deployments.question import SearchInputs
    from perfatlas.studies.deployments.space import Family

BLOCK: Final = 32_768  # deployments that are composed together, to limit memory
POOL_FIELDS: Final = ("system", "engine", "format", "kv_format")  # fields in which pools may differ
ENERGY: Final = "energy_per_output_token_j"
JUDGED: Final = (
    *("request_latency_s", PER_USER, PER_GPU),
    *("gpus", "slo_probability", "excess", "score"),
)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Workers of one role, system and format at batches, without those that another one exceeds.

    They are in ascending order of their GPUs.
    """

    family: Family
    question: Candidates  # Plan, batch and limits (W)
    results: inference.LoadResults
    plan: IntArray  # Which of them have the same plan, its position among the plans (W,)
    rates: Rates  # Requests per second of a worker (W)


@dataclass(frozen=True, kw_only=True)
class _Pools:
    """Workers of both roles."""

    prefill: Workers
    decode: Workers
    prompts: (
        inference.PrefillWorker
    )  # What latencies of deployments depend on of the prefill workers
    tokens: inference.DecodeWorker  # The same of the decode workers


@dataclass(frozen=True, kw_only=True)
class Deployments:
    """Deployments of two kinds of workers."""

    best: Columns  # Each pair of plans and numbers of workers at its best batches, as columns
    frontier: Columns  # Deployments at batches that no other exceeds, as columns
    size: int  # Number of deployments at batches


def deployments(
    pools: tuple[Workers, Workers], number: int, inputs: SearchInputs, rejected: Counter[str]
) -> Deployments | None:
    """Return the deployments of two kinds of workers, None if no numbers of them fit."""
    prefill, decode = pools
    systems = [pool.question.placement.systems[0] for pool in pools]
    shared = systems[0] == systems[1]
    per_node = node_gpus(systems[0]) if shared else float(inputs.most_gpus)
    pairs = matched_pairs(
        prefill.rates,
        decode.rates,
        inputs.most_gpus,
        exact=inputs.gpus is not None,
        request_rate=inputs.request_rate,
        per_node=per_node,
    )
    placed = pairs.prefill_workers > 0.0
    if not np.all(placed):
        others = pairs.at(np.flatnonzero(~placed))
        plans = (prefill.plan[others.first], decode.plan[others.second])
        rejected["workers_fit_on_nodes"] += unique_rows(plans)[0].size
    pairs = pairs.at(np.flatnonzero(placed))
    size = pairs.first.size
    if not size:
        return None
    both = _Pools(
        prefill=prefill,
        decode=decode,
        prompts=inference.PrefillWorker.of(prefill.question, prefill.results),
        tokens=inference.DecodeWorker.of(decode.question, decode.results),
    )
    judged = joined([_judged(both, some, inputs) for some in _blocks(pairs)])
    best = _best_batches(both, pairs, judged, inputs)
    front = frontier_points(judged, judged["gpus"], judged["slo_probability"], inputs)
    columns = [
        joined([_composed(both, some, inputs) for some in _blocks(pairs.at(indices))])
        | {"family": np.full(indices.size, number)}
        for indices in (best, front)
    ]
    return Deployments(best=columns[0], frontier=columns[1], size=size)


def _blocks(pairs: Pairs) -> Iterator[Pairs]:
    """Yield deployments, some at a time; of none, none once."""
    for start in range(0, max(pairs.first.size, 1), BLOCK):
        yield pairs.at(slice(start, start + BLOCK))


def _times(pools: _Pools, pairs: Pairs, inputs: SearchInputs) -> inference.PoolTimes:
    """Return the latencies and rates of deployments."""
    shape, concurrency = pairs.first.shape, inputs.concurrency
    return inference.PoolTimes(
        load=inference.PoolLoad(
            prefill_workers=pairs.prefill_workers,
            decode_workers=pairs.decode_workers,
            concurrency=np.full(shape, np.inf if concurrency is None else float(concurrency)),
            derived=np.zeros(shape),
        ),
        prefill=pools.prompts.at(pairs.first),
        decode=pools.tokens.at(pairs.second),
        first_from=inference.first_from(pools.prefill.question),
    )


def _priced(
    pools: _Pools, pairs: Pairs, inputs: SearchInputs, *, energy: bool
) -> tuple[inference.PoolTimes, Columns]:
    """Return latencies and rates, and these with costs, energies, limits and score (D,)."""
    times = _times(pools, pairs, inputs)
    results: Columns = dict(times.columns())
    if energy:
        first, second = (workers.results.energy for workers in (pools.prefill, pools.decode))
        each = times.energy(first.take(pairs.first), second.take(pairs.second))
        results |= inference.energy_columns(each, results, times.decode.osl)
    share = pairs.prefill_workers * times.prefill.gpus / times.gpus
    named = [workers.family.fields["system"] for workers in (pools.prefill, pools.decode)]
    results |= costs(inputs, results, [(named[0], share), (named[1], 1.0 - share)])
    worker = accuracies(inputs, pools.decode.question)
    results |= {name: values[pairs.second] for name, values in worker.items()}
    met = met_limits(results, times.gpus, inputs)
    results |= {"gpus": times.gpus, "slo_probability": met.least, "excess": met.excess}
    return times, results | {"score": score_of(results, times.gpus, inputs)}


def _judged(pools: _Pools, pairs: Pairs, inputs: SearchInputs) -> Columns:
    """Return what decides which deployments are kept (D,)."""
    _, results = _priced(pools, pairs, inputs, energy=ENERGY in inputs.objectives)
    return {name: results[name] for name in dict.fromkeys((*JUDGED, *inputs.objectives))}


def _composed(pools: _Pools, pairs: Pairs, inputs: SearchInputs) -> Columns:
    """Return deployments as columns of an answer (D,)."""
    prefill, decode = pools.prefill, pools.decode
    times, results = _priced(pools, pairs, inputs, energy=True)
    columns: Columns = {"gpus": times.gpus}
    taken = (
        (prefill, pairs.first, pairs.prefill_workers),
        (decode, pairs.second, pairs.decode_workers),
    )
    for role, (workers, index, count) in zip(ROLES, taken, strict=True):
        plan, load = workers.question.plan, workers.question.load
        columns |= {f"{role}_{name}": getattr(plan, name)[index] for name in POOL_SIZES[role]}
        columns |= {f"{role}_workers": count, f"{role}_batch": load.sequences[index]}
    if inputs.mix.reuse is not None:
        columns["cached_tokens"] = prefill.question.load.prefix[pairs.first]
    limits = decode.question.limits
    columns |= {name: getattr(limits, name)[pairs.second] for name in LIMITS}
    columns |= {name: results[name] for name in reported(inputs)}
    columns["tier"] = prefill.results.tiers[pairs.first] | decode.results.tiers[pairs.second]
    columns |= {name: results[name] for name in ("slo_probability", "excess", "score")}
    limited = (
        times.prefill_rate("latencies") < pairs.decode_workers * decode.rates.rate[pairs.second]
    )
    binding = np.where(limited, "prefill_workers", "decode_workers")
    columns["binding_constraint"] = binding.astype(np.object_)
    return columns


def _best_batches(pools: _Pools, pairs: Pairs, judged: Columns, inputs: SearchInputs) -> IntArray:
    """Return the best batches of each deployment of the same workers, by the objective.

    Of equal ones it is that with the lowest latency, then the first.
    """
    first, second = pools.prefill.plan, pools.decode.plan
    plans = first[pairs.first] * (second.max() + 1) + second[pairs.second]
    most = float(inputs.most_gpus + 1)
    key_D = (plans * most + pairs.prefill_workers) * most + pairs.decode_workers
    meets_D = judged["slo_probability"] >= inputs.min_slo_probability
    value_D = ranking_values(meets_D, judged["score"], judged["excess"])
    group_D = unique_rows((key_D,))[1]
    return best_of_groups(group_D, meets_D, value_D, judged["request_latency_s"])


PROMPTS: Final = (1.0, 2.0, 4.0, 8.0)  # per step and attention-DP rank of a prefill worker
MAX_PAIRS: Final = 12_000_000  # of workers at batches, in 2 GB
PHASES: Final = {"prefill": Phase.PREFILL, "decode": Phase.DECODE}
MEDIAN: Final = 0.5  # probability that a prediction is not exceeded
TAIL: Final = 0.05  # probability beyond each end of a 90% interval


class Times(NamedTuple):
    """Times with their 90% intervals."""

    predicted: FloatArray  # The predictions (W,) [s]
    low: FloatArray  # Lower ends (W,) [s]
    high: FloatArray  # Upper ends (W,) [s], NaN for none


def find_pools(inputs: SearchInputs, progress: PricedSoFar | None = None) -> Found:
    """Return all deployments with prefill and decode pools, as columns.

    Args:
        inputs: The search, in mode disaggregated.
        progress: Receives the deployments so far, some at a time.

    Raises:
        InvalidSpecError: There are more than `MAX_PAIRS`.
        PerfatlasError: The only system, format and number of draft tokens is not supported.
    """
    started = time.process_time()
    search = Found()
    workers: dict[str, list[Workers]] = {role: [] for role in ROLES}
    pairs = 0
    parts: dict[tuple[int, int], Deployments | None] = {}
    for new in zip_longest(*(_workers(inputs, role, search) for role in ROLES)):
        for role, workers_of_system in zip(ROLES, new, strict=True):
            workers[role] += [workers_of_system] if workers_of_system is not None else []
        for pair in product(range(len(workers["prefill"])), range(len(workers["decode"]))):
            if pair in parts:
                continue
            both = workers["prefill"][pair[0]], workers["decode"][pair[1]]
            pairs += both[0].rates.gpus.size * both[1].rates.gpus.size
            if pairs > MAX_PAIRS:
                raise InvalidSpecError(
                    f"{inputs.most_gpus:,} GPUs have more than {MAX_PAIRS:,} pairs of prefill and"
                    " decode workers, too many for one search; set some of tp, pp, attention_dp"
                    " and ep, or fewer GPUs"
                )
            parts[pair] = _of_pair(*both, search, inputs)
            if progress is not None and parts[pair] is not None:
                progress(search, [part.best for part in parts.values() if part is not None])
    priced = [part for _, part in sorted(parts.items()) if part is not None]
    search.keep([part.best for part in priced], [part.frontier for part in priced], inputs)
    search.points += sum(part.size for part in priced)
    search.cpu_s = time.process_time() - started
    return search


def _of_pair(
    prefill: Workers, decode: Workers, search: Found, inputs: SearchInputs
) -> Deployments | None:
    """Return the deployments of two pools, None if they cannot work together."""
    first, second = prefill.family, decode.family
    written, read = first.base.formats, second.base.formats
    common = [
        {n: v for n, v in family.fields.items() if n not in POOL_FIELDS}
        for family in (first, second)
    ]
    # decode workers read the KV cache as prefill workers write it; each loads its own weights
    handed_over = (written.kv, written.attention) == (read.kv, read.attention)
    if not handed_over or common[0] != common[1]:
        return None
    number = len(search.families)
    search.families += [first, second]
    return deployments((prefill, decode), number, inputs, search.rejected)


def _workers(inputs: SearchInputs, role: str, search: Found) -> Iterator[Workers]:
    """Yield the workers of a role, by system and format."""
    role_inputs = _asked(inputs, role)
    rejected: Counter[str] = search.rejected
    for whole in families(role_inputs, rejected, (np.nan,), search.reasons, pooled=True):
        family = replace(whole, plan=replace(whole.plan, dp=np.ones_like(whole.plan.dp)))
        for points in priced_points(family, role_inputs, rejected, _batches(role), PHASES[role]):
            search.points += points.size
            yield _workers_at(points, role, inputs)


def _workers_at(points: Points, role: str, inputs: SearchInputs) -> Workers:
    """Return the workers that may belong to the best deployment.

    Energy counts if it is an objective.
    """
    gpus, evaluated = points.question.plan.gpus_per_replica, points.evaluated
    low, high = evaluated.low, evaluated.high
    busy = Times(
        *(_busy_s(latencies, role, inputs) for latencies in (evaluated.latencies, low, high))
    )
    energy_j = None
    if ENERGY in inputs.objectives:
        energy = evaluated.energy
        energy_j = energy.prefill_j if role == "prefill" else energy.decode_j
    indices = unexceeded_workers(points.sequences, gpus, busy, inputs, energy_j)
    late_s = value_exceeded(*busy, 1.0 - inputs.min_slo_probability)
    question, results = points.question.take(indices.tolist()), evaluated.take(indices)
    sizes = [getattr(question.plan, name) for name in POOL_SIZES[role]]
    return Workers(
        family=points.family,
        question=question,
        results=results,
        plan=unique_rows(sizes)[1],
        rates=Rates(
            gpus=gpus[indices],
            rate=(points.sequences / busy.predicted)[indices],
            sure_rate=(points.sequences / late_s)[indices],
        ),
    )


def unexceeded_workers(
    sequences: FloatArray,
    gpus: FloatArray,
    busy: Times,
    inputs: SearchInputs,
    energy_j: FloatArray | None = None,
) -> IntArray:
    """Return the workers that no other one of as many GPUs exceeds in rate, time and energy (K,).

    With limits, rate and time count at the ends of their intervals too: a slower worker whose
    interval is narrower may meet a limit with a higher probability. The time that a sum of two
    times exceeds with a probability grows with the predictions and with one end of each.

    Args:
        sequences: Sequences of a batch (W,).
        gpus: GPUs of a worker (W,).
        busy: Time of a batch (W,) [s].
        energy_j: Energy of a batch (W,) [J], None where it does not count.

    Limits: Above a probability of 0.95, a limit on the request latency may be met by a worker that
        is left out, where one with a wider interval and as late an end is faster.
    """
    times = [busy.predicted]
    if inputs.has_limits:
        least = inputs.min_slo_probability
        beyond = TAIL if least >= MEDIAN else 1.0 - TAIL
        ends = (value_exceeded(*busy, chance) for chance in (1.0 - least, beyond))
        times += [np.where(np.isnan(end_s), busy.predicted, end_s) for end_s in ends]
    better = [each for time_s in times for each in (sequences / time_s, -time_s)]
    better += [] if energy_j is None else [-energy_j]
    points: list[IntArray] = []
    for size in np.unique(gpus).tolist():
        some = np.flatnonzero(gpus == size)
        points.append(some[pareto_points(*(each[some] for each in better))])
    return np.concatenate(points)


def _busy_s(latencies: inference.Latencies, role: str, inputs: SearchInputs) -> FloatArray:
    """Return the time that a worker spends on its batch (W,) [s]."""
    if role == "prefill":
        return latencies.ttft_s
    return np.maximum(latencies.tpot_s * (inputs.mix.mean_osl - 1.0), np.finfo(np.float64).tiny)


def _batches(role: str) -> tuple[float, ...]:
    return PROMPTS if role == "prefill" else LOADS


def _asked(inputs: SearchInputs, role: str) -> SearchInputs:
    """Return the search for workers of a role: static batches on fewer GPUs than all."""
    changes: dict[str, Any] = {
        "mode": "static",
        "gpus": None,
        "max_gpus": inputs.most_gpus - 1,
        "concurrency": None,
    } | ({"cp": 1} if role == "decode" else {"dcp": 1})
    return inputs.changed(**changes)

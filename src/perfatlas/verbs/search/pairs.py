"""Deployments of prefill and decode workers: matched numbers of workers, and the best batches.

Every pair of workers is judged by its latencies, rates and objectives; all columns of an answer are
composed for the deployments that are kept.

Shape legend: W workers at batches, D deployments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.inference import (
    DecodeWorker,
    PoolLoad,
    PoolTimes,
    PrefillWorker,
    energy_columns,
    first_from,
)
from perfatlas.operators import unique_rows
from perfatlas.parallelism import node_gpus
from perfatlas.verbs.search.find import LIMITS, METRICS, joined
from perfatlas.verbs.search.limits import PER_GPU, PER_USER, frontier_points, met_limits, score_of
from perfatlas.verbs.search.matching import matched_pairs
from perfatlas.verbs.search.points import costs
from perfatlas.verbs.search.pool_rows import ROLES, SIZES

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfatlas.inference import LoadResults
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates
    from perfatlas.verbs.search.find import Columns
    from perfatlas.verbs.search.matching import Pairs, Rates
    from perfatlas.verbs.search.question import SearchInputs
    from perfatlas.verbs.search.space import Family

BLOCK: Final = 32_768  # deployments that are composed together, to limit memory
ENERGY: Final = "energy_per_output_token_j"
JUDGED: Final = ("request_latency_s", PER_USER, PER_GPU)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Workers of one role, system and format at batches, without those that another one exceeds.

    They are in ascending order of their GPUs.

    Args:
        family: Their family.
        question: Plan, batch and limits (W).
        results: Their results.
        plan: Which of them have the same plan, its position among the plans (W,).
        rates: Requests per second of a worker (W).
    """

    family: Family
    question: Candidates
    results: LoadResults
    plan: IntArray
    rates: Rates


@dataclass(frozen=True, kw_only=True)
class _Pools:
    """Workers of both roles.

    Args:
        prefill: Prefill workers.
        decode: Decode workers.
        prompts: What latencies of deployments depend on of the prefill workers.
        tokens: The same of the decode workers.
    """

    prefill: Workers
    decode: Workers
    prompts: PrefillWorker
    tokens: DecodeWorker


@dataclass(frozen=True, kw_only=True)
class Deployments:
    """Deployments of two kinds of workers.

    Args:
        best: Each pair of plans and numbers of workers at its best batches, as columns.
        frontier: Deployments at batches that no other exceeds, as columns.
        size: Number of deployments at batches.
    """

    best: Columns
    frontier: Columns
    size: int


def deployments(
    pools: tuple[Workers, Workers], number: int, inputs: SearchInputs, rejected: Counter[str]
) -> Deployments | None:
    """Return the deployments of two kinds of workers, None if no numbers of them fit.

    Args:
        pools: Prefill workers and decode workers.
        number: Position of the family of the prefill workers among all families.
        inputs: The search.
        rejected: Receives the number of pairs of plans that the nodes cannot hold.
    """
    prefill, decode = pools
    systems = [one.question.placement.systems[0] for one in pools]
    shared = systems[0] == systems[1]
    per_node = node_gpus(systems[0]) if shared else float(inputs.most_gpus)
    pairs = matched_pairs(prefill.rates, decode.rates, inputs, per_node)
    placed = pairs.prefill_workers > 0.0
    if not np.all(placed):
        others = pairs.at(np.flatnonzero(~placed))
        plans = np.column_stack((prefill.plan[others.first], decode.plan[others.second]))
        rejected["workers_fit_on_nodes"] += unique_rows(plans.astype(np.float64))[0].size
    pairs = pairs.at(np.flatnonzero(placed))
    size = pairs.first.size
    if not size:
        return None
    both = _Pools(
        prefill=prefill,
        decode=decode,
        prompts=PrefillWorker.of(prefill.question, prefill.results),
        tokens=DecodeWorker.of(decode.question, decode.results),
    )
    judged = joined([_judged(both, some, inputs) for some in _blocks(pairs)])
    best = _best_batches(both, pairs, judged, inputs)
    front = frontier_points(judged, judged["gpus"], judged["slo_probability"], inputs)
    kept = [
        joined([_composed(both, some, inputs) for some in _blocks(pairs.at(places))])
        | {"family": np.full(places.size, number)}
        for places in (best, front)
    ]
    return Deployments(best=kept[0], frontier=kept[1], size=size)


def _blocks(pairs: Pairs) -> Iterator[Pairs]:
    """Yield deployments, some at a time; of none, none once."""
    for start in range(0, max(pairs.first.size, 1), BLOCK):
        yield pairs.at(slice(start, start + BLOCK))


def _times(pools: _Pools, pairs: Pairs, inputs: SearchInputs) -> PoolTimes:
    """Return the latencies and rates of deployments."""
    shape, asked = pairs.first.shape, inputs.concurrency
    return PoolTimes(
        load=PoolLoad(
            prefill_workers=pairs.prefill_workers,
            decode_workers=pairs.decode_workers,
            concurrency=np.full(shape, np.inf if asked is None else float(asked)),
            derived=np.zeros(shape),
        ),
        prefill=pools.prompts.at(pairs.first),
        decode=pools.tokens.at(pairs.second),
        first_from=first_from(pools.prefill.question),
    )


def _results(pools: _Pools, times: PoolTimes, pairs: Pairs, inputs: SearchInputs) -> Columns:
    """Return latencies, rates, energies and costs of deployments (D,)."""
    results: Columns = times.columns()
    first, second = (one.results.energy for one in (pools.prefill, pools.decode))
    energy = times.energy(first.take(pairs.first), second.take(pairs.second))
    results |= energy_columns(energy, results, times.decode.osl)
    return results | {"usd_per_million_output_tokens": costs(inputs, results)}


def _judged(pools: _Pools, pairs: Pairs, inputs: SearchInputs) -> Columns:
    """Return what decides which deployments are kept (D,)."""
    times = _times(pools, pairs, inputs)
    if ENERGY in inputs.objectives:
        results = _results(pools, times, pairs, inputs)
    else:
        results = dict(times.columns())
        results["usd_per_million_output_tokens"] = costs(inputs, results)
    met = met_limits(results, times.gpus, inputs)
    names = dict.fromkeys((*JUDGED, *inputs.objectives))
    columns: Columns = {name: results[name] for name in names if name in results}
    columns |= {"gpus": times.gpus, "slo_probability": met.least, "excess": met.excess}
    return columns | {"score": score_of(results, times.gpus, inputs)}


def _composed(pools: _Pools, pairs: Pairs, inputs: SearchInputs) -> Columns:
    """Return deployments as columns of an answer (D,)."""
    prefill, decode = pools.prefill, pools.decode
    times = _times(pools, pairs, inputs)
    results = _results(pools, times, pairs, inputs)
    met = met_limits(results, times.gpus, inputs)
    columns: Columns = {"gpus": times.gpus}
    taken = (
        (prefill, pairs.first, pairs.prefill_workers),
        (decode, pairs.second, pairs.decode_workers),
    )
    for role, (workers, index, count) in zip(ROLES, taken, strict=True):
        plan, load = workers.question.plan, workers.question.load
        columns |= {f"{role}_{name}": getattr(plan, name)[index] for name in SIZES[role]}
        columns |= {f"{role}_workers": count, f"{role}_batch": load.sequences[index]}
    if inputs.mix.reuse is not None:
        columns["cached_tokens"] = prefill.question.load.prefix[pairs.first]
    limits = decode.question.limits
    columns |= {name: getattr(limits, name)[pairs.second] for name in LIMITS}
    columns |= {name: results[name] for name in METRICS}
    columns["tier"] = prefill.results.tiers[pairs.first] | decode.results.tiers[pairs.second]
    columns["slo_probability"], columns["excess"] = met.least, met.excess
    columns["score"] = score_of(results, times.gpus, inputs)
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
    first_G, group_D = unique_rows(key_D[:, None])
    meets_D = judged["slo_probability"] >= inputs.min_slo_probability
    value_D = np.where(meets_D, judged["score"], -judged["excess"])
    value_D = np.where(np.isnan(value_D), -np.inf, value_D)
    best_G = np.full(first_G.size, -1, np.int64)
    _keep_best(group_D, meets_D, value_D, judged["request_latency_s"], best_G)
    return np.sort(best_G)


@compiled
def _keep_best(
    group_D: IntArray,
    meets_D: NDArray[np.bool_],
    value_D: FloatArray,
    latency_s_D: FloatArray,
    best_G: IntArray,
) -> None:
    """Write the best member of each group.

    Args:
        group_D: Group of each member (D,).
        meets_D: Members that meet all limits come first (D,).
        value_D: Then those of the highest value (D,).
        latency_s_D: Then those of the lowest latency (D,) [s].
        best_G: Receives their positions, -1 at first (G,).
    """
    for place in range(group_D.shape[0]):
        group = group_D[place]
        best = best_G[group]
        if best < 0:
            best_G[group] = place
        elif meets_D[place] != meets_D[best]:
            if meets_D[place]:
                best_G[group] = place
        elif value_D[place] != value_D[best]:
            if value_D[place] > value_D[best]:
                best_G[group] = place
        elif latency_s_D[place] < latency_s_D[best]:
            best_G[group] = place

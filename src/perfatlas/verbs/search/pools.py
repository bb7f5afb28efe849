"""Disaggregated deployments: pools of prefill and decode workers with matched rates.

Workers of both roles are priced by themselves; deployments are composed from their columns.

Shape legend: W workers at batches, D deployments, V numbers of workers of both pools.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.operators import Phase, unique_rows
from perfatlas.serving.closed_form import PoolLoad, PoolRates
from perfatlas.studies import pareto_points, value_exceeded
from perfatlas.verbs.search.choices import EXCHANGE
from perfatlas.verbs.search.find import LIMITS, METRICS, Found, joined
from perfatlas.verbs.search.limits import frontier_points, met_limits, score_of
from perfatlas.verbs.search.points import LOADS, costs, priced_points
from perfatlas.verbs.search.pool_rows import IDENTITY, ROLES, SIZES
from perfatlas.verbs.search.space import PREFIX, families

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from perfatlas.models import ModelFormats
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.serving.closed_form import Latencies, LoadResults
    from perfatlas.step import Candidates
    from perfatlas.verbs.search.find import Columns, PricedSoFar
    from perfatlas.verbs.search.points import Points
    from perfatlas.verbs.search.question import SearchInputs
    from perfatlas.verbs.search.space import Family

PROMPTS: Final = (1.0, 2.0, 4.0, 8.0)  # per step and attention-DP rank of a prefill worker
PHASES: Final = {"prefill": Phase.PREFILL, "decode": Phase.DECODE}
BLOCK: Final = 32_768  # deployments that are composed together, to limit memory
MEDIAN: Final = 0.5  # probability that a prediction is not exceeded
# fields that both pools have in common
COMMON: Final = (*EXCHANGE, "redundant_experts", "speculative_depth", PREFIX)
TAIL: Final = 0.05  # probability beyond each end of a 90% interval


class Times(NamedTuple):
    """Times with their 90% intervals.

    Args:
        predicted: The predictions (W,) [s].
        low: Lower ends (W,) [s].
        high: Upper ends (W,) [s], NaN for none.
    """

    predicted: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Workers of one role, system and format at batches, without those that another one exceeds.

    Args:
        family: Their family.
        question: Plan, batch and limits (W).
        results: Their results.
        gpus: GPUs of a worker (W,).
        rate: Requests per second of a worker, roughly (W,).
        sure_rate: Rate that it reaches with the required probability (W,).
    """

    family: Family
    question: Candidates
    results: LoadResults
    gpus: FloatArray
    rate: FloatArray
    sure_rate: FloatArray


def find_pools(inputs: SearchInputs, progress: PricedSoFar | None = None) -> Found:
    """Return all deployments with prefill and decode pools, as columns.

    Args:
        inputs: The search, in mode disaggregated.
        progress: Receives the deployments so far, some at a time.

    Raises:
        PerfatlasError: The only system, format and number of draft tokens is not supported.
    """
    started = time.process_time()
    found = Found()
    workers: dict[str, list[Workers]] = {role: [] for role in ROLES}
    parts: dict[tuple[int, int], list[Columns]] = {}
    for new in zip_longest(*(_workers(inputs, role, found) for role in ROLES)):
        for role, one in zip(ROLES, new, strict=True):
            workers[role] += [one] if one is not None else []
        for pair in product(range(len(workers["prefill"])), range(len(workers["decode"]))):
            if pair in parts:
                continue
            both = workers["prefill"][pair[0]], workers["decode"][pair[1]]
            parts[pair] = _of_pair(*both, found, inputs)
            if progress is not None and parts[pair]:
                progress(found, [part for known in parts.values() for part in known])
    columns = joined([part for pair in sorted(parts) for part in parts[pair]])
    found.candidates = _best_batches(columns, inputs)
    if columns:
        kept = frontier_points(columns, columns["gpus"], columns["slo_probability"], inputs)
        found.by_frontier = len(inputs.objectives) > 1
        found.frontier = {name: values[kept] for name, values in columns.items()}
        found.points += int(columns["gpus"].size)
    found.cpu_s = time.process_time() - started
    return found


def _of_pair(
    prefill: Workers, decode: Workers, found: Found, inputs: SearchInputs
) -> list[Columns]:
    """Return the deployments of two pools, none if they cannot work together."""
    first, second = prefill.family, decode.family
    formats = first.base.formats, second.base.formats
    common = [{n: one.fields.get(n) for n in COMMON} for one in (first, second)]
    if not _hands_over(*formats) or common[0] != common[1]:
        return []
    number = len(found.families)
    found.families += [first, second]
    return [
        part | {"family": np.full(part["gpus"].size, number)}
        for part in _deployments(prefill, decode, inputs)
    ]


def _hands_over(prefill: ModelFormats, decode: ModelFormats) -> bool:
    """Return whether a decode worker reads the KV cache as a prefill worker writes it.

    Formats of weights may differ: each pool loads its own.
    """
    return (prefill.kv, prefill.attention) == (decode.kv, decode.attention)


def _workers(inputs: SearchInputs, role: str, found: Found) -> Iterator[Workers]:
    """Yield the workers of a role, by system and format."""
    asked = _asked(inputs, role)
    rejected: Counter[str] = found.rejected
    for whole in families(asked, rejected, (np.nan,), found.reasons):
        family = replace(whole, plan=replace(whole.plan, dp=np.ones_like(whole.plan.dp)))
        for points in priced_points(family, asked, rejected, _batches(role), PHASES[role]):
            found.points += points.size
            yield _workers_at(points, role, inputs)


def _workers_at(points: Points, role: str, inputs: SearchInputs) -> Workers:
    """Return the workers that may belong to the best deployment.

    Energy counts if it is an objective.
    """
    gpus, evaluated = points.question.plan.gpus_per_replica, points.evaluated
    low, high = evaluated.low, evaluated.high
    busy = Times(*(_busy_s(one, role, inputs) for one in (evaluated.latencies, low, high)))
    energy_j = None
    if "energy_per_output_token_j" in inputs.objectives:
        energy = evaluated.energy
        energy_j = energy.prefill_j if role == "prefill" else energy.decode_j
    places = unexceeded_workers(points.sequences, gpus, busy, inputs, energy_j)
    late_s = value_exceeded(*busy, 1.0 - inputs.min_slo_probability)
    return Workers(
        family=points.family,
        question=points.question.take(places.tolist()),
        results=evaluated.take(places),
        gpus=gpus[places],
        rate=(points.sequences / busy.predicted)[places],
        sure_rate=(points.sequences / late_s)[places],
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
        inputs: The search.
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
    kept: list[IntArray] = []
    for size in np.unique(gpus).tolist():
        some = np.flatnonzero(gpus == size)
        kept.append(some[pareto_points(*(each[some] for each in better))])
    return np.concatenate(kept)


def _busy_s(latencies: Latencies, role: str, inputs: SearchInputs) -> FloatArray:
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
    } | ({"cp": 1} if role == "decode" else {})
    return inputs.model_copy(update=changes)


def _deployments(prefill: Workers, decode: Workers, inputs: SearchInputs) -> Iterator[Columns]:
    """Yield the deployments of two pools, with the numbers of workers that match their rates."""
    pairs, decode_sizes = [], np.unique(decode.gpus)
    for first in np.unique(prefill.gpus).tolist():
        left = np.flatnonzero(prefill.gpus == first)
        for second in decode_sizes[decode_sizes <= inputs.most_gpus - first].tolist():
            counts_V = _worker_counts((first, second), inputs)
            if counts_V is None:
                continue
            right = np.flatnonzero(decode.gpus == second)
            in_prefill, in_decode = np.repeat(left, right.size), np.tile(right, left.size)
            rates = prefill.rate[in_prefill], decode.rate[in_decode]
            sure = prefill.sure_rate[in_prefill], decode.sure_rate[in_decode]
            best_D = _matched((first, second), counts_V, rates, sure, inputs)
            pairs.append((in_prefill, in_decode, counts_V[0][best_D], counts_V[1][best_D]))
    if not pairs:
        return
    in_prefill, in_decode, x_D, y_D = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    for start in range(0, in_prefill.size, BLOCK):
        some = slice(start, start + BLOCK)
        both = (prefill, in_prefill[some]), (decode, in_decode[some])
        yield _composed(*both, (x_D[some], y_D[some]), inputs)


def _worker_counts(
    sizes: tuple[float, float], inputs: SearchInputs
) -> tuple[FloatArray, FloatArray] | None:
    """Return the numbers of workers of both pools that fit (V,), the fewest GPUs first.

    With `gpus` they use exactly these, with `max_gpus` at most these. None if nothing fits.
    """
    most, (first, second) = inputs.most_gpus, sizes
    if first + second > most:
        return None
    if inputs.gpus is not None and most % math.gcd(int(first), int(second)):
        return None  # no sum of multiples of both
    if inputs.gpus is not None:
        x_V = np.arange(1.0, (most - second) // first + 1.0)
        left_V = most - first * x_V
        whole_V = np.mod(left_V, second) == 0.0
        return (x_V[whole_V], left_V[whole_V] / second) if whole_V.any() else None
    x_V, y_V = (
        counts.ravel()
        for counts in np.meshgrid(
            np.arange(1.0, (most - second) // first + 1.0),
            np.arange(1.0, (most - first) // second + 1.0),
            indexing="ij",
        )
    )
    total_V = x_V * first + y_V * second
    fits_V = total_V <= most
    order = np.argsort(total_V[fits_V], kind="stable")
    return x_V[fits_V][order], y_V[fits_V][order]


def _matched(
    sizes: tuple[float, float],
    counts_V: tuple[FloatArray, FloatArray],
    rates: tuple[FloatArray, FloatArray],
    sure: tuple[FloatArray, FloatArray],
    inputs: SearchInputs,
) -> IntArray:
    """Return the position of the numbers of workers with the highest rate per GPU (D,).

    Of equal rates per GPU the deployment with the fewest GPUs is taken.
    """
    x_V, y_V = counts_V
    total_V = x_V * sizes[0] + y_V * sizes[1]
    served_DV = np.minimum(rates[0][:, None] * x_V, rates[1][:, None] * y_V)
    value_DV = served_DV / total_V
    if inputs.request_rate is not None:  # the fewest GPUs that serve it
        sure_DV = np.minimum(sure[0][:, None] * x_V, sure[1][:, None] * y_V)
        enough_DV = sure_DV >= inputs.request_rate
        value_DV = np.where(enough_DV, value_DV.max() + 1.0 / total_V, value_DV)
    best_D: IntArray = value_DV.argmax(axis=1)
    return best_D


def _composed(
    prefill: tuple[Workers, IntArray],
    decode: tuple[Workers, IntArray],
    counts: tuple[FloatArray, FloatArray],
    inputs: SearchInputs,
) -> Columns:
    """Return the deployments of two pools as columns (D,)."""
    (first, in_prefill), (second, in_decode) = prefill, decode
    left, right = first.question.take(in_prefill.tolist()), second.question.take(in_decode.tolist())
    each = right.load.sequences
    asked = inputs.concurrency
    rates = PoolRates(
        load=PoolLoad(
            prefill_workers=counts[0],
            decode_workers=counts[1],
            concurrency=np.full(each.shape, np.inf if asked is None else float(asked)),
            derived=np.zeros(each.shape),
        ),
        prefill=(left, first.results.take(in_prefill)),
        decode=(right, second.results.take(in_decode)),
    )
    results = rates.columns()
    results["usd_per_million_output_tokens"] = costs(inputs, results)
    gpus = results["gpus"]
    met = met_limits(results, gpus, inputs)
    columns: Columns = {"gpus": gpus}
    for role, question, workers in (("prefill", left, counts[0]), ("decode", right, counts[1])):
        columns |= {f"{role}_{name}": getattr(question.plan, name) for name in SIZES[role]}
        columns |= {f"{role}_workers": workers, f"{role}_batch": question.load.sequences}
    columns |= {name: getattr(right.limits, name) for name in LIMITS}
    columns |= {name: results[name] for name in METRICS}
    columns["tier"] = first.results.tiers[in_prefill] | second.results.tiers[in_decode]
    columns["slo_probability"], columns["excess"] = met.least, met.excess
    columns["score"] = score_of(results, gpus, inputs)
    decode_rate = counts[1] * second.rate[in_decode]
    limited = rates.prefill_rate("latencies") < decode_rate
    columns["binding_constraint"] = np.where(limited, "prefill_workers", "decode_workers").astype(
        np.object_
    )
    return columns


def _best_batches(columns: Columns, inputs: SearchInputs) -> Columns:
    """Return the best batches of each deployment of the same workers, by the objective."""
    if not columns:
        return {}
    key = np.column_stack([columns[name] for name in ("family", *IDENTITY)])
    _, same_D = unique_rows(key)
    meets = columns["slo_probability"] >= inputs.min_slo_probability
    value = np.where(meets, columns["score"], -columns["excess"])
    order = np.lexsort((columns["request_latency_s"], -value, ~meets, same_D))
    first = np.concatenate([[True], same_D[order][1:] != same_D[order][:-1]])
    kept = np.sort(order[first])
    return {name: values[kept] for name, values in columns.items()}

"""Disaggregated deployments: pools of prefill and decode workers with matched rates.

Workers of both roles are priced by themselves; deployments are composed from their columns.

Shape legend: W workers at batches, K those that are kept.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.operators import Phase, unique_rows
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies import pareto_points, value_exceeded
from perfatlas.verbs.search.find import Found, joined
from perfatlas.verbs.search.limits import frontier_points
from perfatlas.verbs.search.matching import Rates
from perfatlas.verbs.search.pairs import ENERGY, Workers, deployments
from perfatlas.verbs.search.points import LOADS, priced_points
from perfatlas.verbs.search.pool_rows import OWN, ROLES, SIZES
from perfatlas.verbs.search.space import families

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from perfatlas.inference import Latencies
    from perfatlas.networks import ModelFormats
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.verbs.search.find import PricedSoFar
    from perfatlas.verbs.search.pairs import Deployments
    from perfatlas.verbs.search.points import Points
    from perfatlas.verbs.search.question import SearchInputs

PROMPTS: Final = (1.0, 2.0, 4.0, 8.0)  # per step and attention-DP rank of a prefill worker
MOST_PAIRS: Final = 12_000_000  # of workers at batches, in 2 GB
PHASES: Final = {"prefill": Phase.PREFILL, "decode": Phase.DECODE}
MEDIAN: Final = 0.5  # probability that a prediction is not exceeded
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


def find_pools(inputs: SearchInputs, progress: PricedSoFar | None = None) -> Found:
    """Return all deployments with prefill and decode pools, as columns.

    Args:
        inputs: The search, in mode disaggregated.
        progress: Receives the deployments so far, some at a time.

    Raises:
        InvalidSpecError: There are more than `MOST_PAIRS`.
        PerfatlasError: The only system, format and number of draft tokens is not supported.
    """
    started = time.process_time()
    found = Found()
    workers: dict[str, list[Workers]] = {role: [] for role in ROLES}
    pairs = 0
    parts: dict[tuple[int, int], Deployments | None] = {}
    for new in zip_longest(*(_workers(inputs, role, found) for role in ROLES)):
        for role, one in zip(ROLES, new, strict=True):
            workers[role] += [one] if one is not None else []
        for pair in product(range(len(workers["prefill"])), range(len(workers["decode"]))):
            if pair in parts:
                continue
            both = workers["prefill"][pair[0]], workers["decode"][pair[1]]
            pairs += both[0].rates.gpus.size * both[1].rates.gpus.size
            if pairs > MOST_PAIRS:
                raise InvalidSpecError(
                    f"{inputs.most_gpus:,} GPUs have more than {MOST_PAIRS:,} pairs of prefill and"
                    " decode workers, too many for one search; set some of tp, pp, attention_dp"
                    " and ep, or fewer GPUs"
                )
            parts[pair] = _of_pair(*both, found, inputs)
            if progress is not None and parts[pair] is not None:
                progress(found, [part.best for part in parts.values() if part is not None])
    known = [part for _, part in sorted(parts.items()) if part is not None]
    found.candidates = joined([part.best for part in known])
    frontier = joined([part.frontier for part in known])
    if frontier:
        kept = frontier_points(frontier, frontier["gpus"], frontier["slo_probability"], inputs)
        found.frontier = {name: values[kept] for name, values in frontier.items()}
        found.by_frontier = len(inputs.objectives) > 1
    found.points += sum(part.size for part in known)
    found.cpu_s = time.process_time() - started
    return found


def _of_pair(
    prefill: Workers, decode: Workers, found: Found, inputs: SearchInputs
) -> Deployments | None:
    """Return the deployments of two pools, None if they cannot work together."""
    first, second = prefill.family, decode.family
    formats = first.base.formats, second.base.formats
    common = [{n: v for n, v in one.fields.items() if n not in OWN} for one in (first, second)]
    if not _hands_over(*formats) or common[0] != common[1]:
        return None
    number = len(found.families)
    found.families += [first, second]
    return deployments((prefill, decode), number, inputs, found.rejected)


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
    if ENERGY in inputs.objectives:
        energy = evaluated.energy
        energy_j = energy.prefill_j if role == "prefill" else energy.decode_j
    places = unexceeded_workers(points.sequences, gpus, busy, inputs, energy_j)
    late_s = value_exceeded(*busy, 1.0 - inputs.min_slo_probability)
    question, results = points.question.take(places.tolist()), evaluated.take(places)
    sizes = np.column_stack([getattr(question.plan, name) for name in SIZES[role]])
    return Workers(
        family=points.family,
        question=question,
        results=results,
        plan=unique_rows(sizes)[1],
        rates=Rates(
            gpus=gpus[places],
            rate=(points.sequences / busy.predicted)[places],
            sure_rate=(points.sequences / late_s)[places],
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

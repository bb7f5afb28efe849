"""Numbers of prefill and decode workers that match in rate and fit on nodes.

Shape legend: W workers at batches, D deployments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.parallelism import pools_fit

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray


class Rates(NamedTuple):
    """Requests per second of workers (W,)."""

    gpus: FloatArray
    rate: FloatArray  # Requests per second, roughly
    sure_rate: FloatArray  # The rate that it reaches with the required probability


class Pairs(NamedTuple):
    """Deployments of workers of both roles (D,)."""

    first: IntArray  # Prefill worker, a position
    second: IntArray  # Decode worker, a position
    prefill_workers: FloatArray
    decode_workers: FloatArray

    def at(self, indices: IntArray | slice) -> Pairs:
        """Return some deployments."""
        return Pairs(
            self.first[indices],
            self.second[indices],
            self.prefill_workers[indices],
            self.decode_workers[indices],
        )


def matched_pairs(
    prefill: Rates,
    decode: Rates,
    gpus: int,
    *,
    exact: bool,
    request_rate: float | None = None,
    per_node: float = np.inf,
) -> Pairs:
    """Return all pairs of workers that fit, with the numbers of workers that match their rates.

    These have the highest rate per GPU, or with a request rate the fewest GPUs that serve it; of
    equal ones the fewest GPUs, then the fewest prefill workers. Pairs whose workers only fit if one
    crosses nodes have -1.

    Args:
        gpus: GPUs of a deployment, or the most.
        request_rate: Requests per second that must be served [1/s], None for as many as possible.
    """
    pairs_of_size: list[Pairs] = []
    wanted = (float(gpus), exact, request_rate or np.inf, min(per_node, float(gpus)))
    for size in np.unique(prefill.gpus).tolist():
        some = np.flatnonzero(prefill.gpus == size)
        most = some.size * decode.gpus.size
        pairs = Pairs(*(np.empty(most, kind) for kind in (np.int64, np.int64, float, float)))
        workers = Rates(*(values[some] for values in prefill))
        number = _match(pairs.first, pairs, workers, decode, wanted)
        fitting = pairs.at(slice(0, number))
        pairs_of_size.append(fitting._replace(first=some[fitting.first]))
    if not pairs_of_size:  # no prefill worker has a known time
        return Pairs(*(np.empty(0, kind) for kind in (np.int64, np.int64, float, float)))
    return Pairs(*(np.concatenate(each) for each in zip(*pairs_of_size, strict=True)))


@compiled
def _match(
    first_D: IntArray,
    pairs: Pairs,
    prefill: Rates,
    decode: Rates,
    wanted: tuple[float, bool, float, float],
) -> int:
    """Write the deployments of prefill workers of one size; return their number."""
    number, start, size = 0, 0, decode.gpus.shape[0]
    while start < size:
        end = start
        while end < size and decode.gpus[end] == decode.gpus[start]:
            end += 1
        for first in range(prefill.gpus.shape[0]):
            for second in range(start, end):
                pairs.prefill_workers[number] = 0.0
                _count(pairs, number, prefill, decode, (first, second), wanted)
                if pairs.prefill_workers[number] != 0.0:
                    first_D[number] = first
                    pairs.second[number] = second
                    number += 1
        start = end
    return number


@part
def _count(
    pairs: Pairs,
    number: int,
    prefill: Rates,
    decode: Rates,
    both: tuple[int, int],
    wanted: tuple[float, bool, float, float],
) -> None:
    """Write the numbers of workers that match the rates of two workers, if any fit.

    They are -1 if none fit on nodes.
    """
    first, second = both
    prefill_gpus, decode_gpus, gpus = prefill.gpus[first], decode.gpus[second], wanted[0]
    best, least, enough = -1.0, np.inf, False
    x = 1.0
    while prefill_gpus * x + decode_gpus <= gpus:
        most = (gpus - prefill_gpus * x) // decode_gpus
        fitting = _most_fitting((prefill_gpus, decode_gpus), x, most, gpus, wanted[3])
        if (fitting < 1.0 or (wanted[1] and fitting < most)) and (
            not wanted[1] or prefill_gpus * x + decode_gpus * most == gpus
        ):
            if pairs.prefill_workers[number] == 0.0:
                pairs.prefill_workers[number], pairs.decode_workers[number] = -1.0, -1.0
            x += 1.0
            continue
        # the value grows up to the decode workers of equal rates and falls beyond; where a rate is
        # asked, the fewest that serve it count. Rounding may move either by one.
        equal = np.floor(prefill.rate[first] * x / decode.rate[second])
        serving = np.ceil(wanted[2] / decode.sure_rate[second])
        for around in (equal, serving):
            for step in (-1.0, 0.0, 1.0, 2.0):
                y = most if wanted[1] else min(max(around + step, 1.0), fitting)
                total = prefill_gpus * x + decode_gpus * y
                if wanted[1] and total != gpus:
                    break
                value = min(prefill.rate[first] * x, decode.rate[second] * y) / total
                sure = min(prefill.sure_rate[first] * x, decode.sure_rate[second] * y)
                serves = sure >= wanted[2]
                better = serves and not enough
                if serves == enough:
                    better = value > best or (value == best and total < least)
                    better = total < least if serves else better
                if better:
                    best, least, enough = value, total, serves
                    pairs.prefill_workers[number], pairs.decode_workers[number] = x, y
        x += 1.0


@part
def _most_fitting(
    sizes: tuple[float, float], first: float, most: float, gpus: float, per_node: float
) -> float:
    """Return the most decode workers that fit on the nodes beside prefill workers, by bisection."""
    if pools_fit(sizes, (first, most), gpus, per_node):
        return most
    low, high = 0.0, most
    while high - low > 1.0:
        middle = np.floor((low + high) / 2.0)
        if pools_fit(sizes, (first, middle), gpus, per_node):
            low = middle
        else:
            high = middle
    return low

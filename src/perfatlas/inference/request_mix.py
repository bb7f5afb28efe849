"""Closed forms of requests of several lengths, from those of each class beside the others.

The time that a request takes of a replica is the sum of its prefill and of its share of decode
steps, and a step takes what its sequences add to it. So the times of classes add up.

Shape legend: C candidates, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.inference.energy import OF_TOKEN
from perfatlas.inference.latencies import Latencies
from perfatlas.inference.running_load import Among, running_load
from perfatlas.inference.shared_steps import evaluate_loads, load_results
from perfatlas.inference.utilization import Utilization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.inference.shared_steps import LoadResults
    from perfatlas.operators import FloatArray, Phase
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.step import Candidates


@dataclass(frozen=True, kw_only=True)
class RequestClasses:
    """Classes of requests."""

    isl_K: FloatArray  # Input tokens (K,)
    osl_K: FloatArray  # Output tokens (K,)
    weight_K: FloatArray  # Share of the requests, which add up to 1 (K,)
    # Prompt tokens that the prefix cache of each candidate has, where it has one (K, C); None for
    # those of the candidates
    prefix_KC: FloatArray | None = None

    @property
    def token_share(self) -> FloatArray:
        """Share of the output tokens, which is that of the running sequences (K,)."""
        tokens_K = self.weight_K * self.osl_K
        share_K: FloatArray = tokens_K / tokens_K.sum()
        return share_K

    @property
    def mean(self) -> tuple[float, float]:
        """Mean input and output tokens of a request."""
        return float(self.weight_K @ self.isl_K), float(self.weight_K @ self.osl_K)

    @property
    def running(self) -> tuple[float, float]:
        """Mean input and output tokens of the running sequences; long outputs run longer."""
        share_K = self.token_share
        return float(share_K @ self.isl_K), float(share_K @ self.osl_K)

    @property
    def are_equal(self) -> bool:
        """Whether all requests have the same lengths and the same cached tokens."""
        kinds: list[FloatArray] = [self.isl_K[:, None], self.osl_K[:, None]]
        kinds += [] if self.prefix_KC is None else [self.prefix_KC]
        return all(np.all(column == column[:1]) for column in kinds)

    def prompts(self) -> RequestClasses:
        """Return what prefill workers serve: a single output token for each prompt."""
        return replace(self, osl_K=np.ones_like(self.osl_K))


def with_lengths(
    question: Candidates, lengths: tuple[float, float], prefix: FloatArray | None = None
) -> Candidates:
    """Return candidates with requests of other lengths.

    Args:
        lengths: Input and output tokens.
        prefix: Cached prompt tokens of candidates with a prefix cache (C,); None for their own, as
            far as the prompt is longer.
    """
    load, shape = question.load, question.load.isl.shape
    isl, osl = (np.full(shape, tokens) for tokens in lengths)
    cached = load.prefix if prefix is None else np.where(load.prefix > 0.0, prefix, 0.0)
    cached = np.minimum(cached, isl - 1.0)
    return replace(question, load=replace(load, isl=isl, osl=osl, prefix=cached))


def evaluate_mix(
    question: Candidates,
    memory: MemoryColumns,
    classes: RequestClasses,
    phase: Phase | None = None,
) -> LoadResults:
    """Return the closed forms of candidates that serve all classes together.

    Args:
        question: The candidates, whose loads memory and engine admit.
        phase: The phase that they run, None for both.

    Source: derived. A request of class k takes 1 / rate_k of a replica, so that the mix runs
        1 / sum(weight_k / rate_k) requests per second. A step decodes classes in proportion to
        their output tokens, and so does the mean time per output token.

    Limits: Linear in the composition of a step: prompts that start together belong to one class.
        Utilizations are means over output tokens.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference import RequestClasses
        >>> mix = RequestClasses(isl_K=np.array([100.0, 500.0]), osl_K=np.array([30.0, 10.0]),
        ...     weight_K=np.array([0.5, 0.5]))
        >>> mix.mean, mix.running  # three of four running sequences have the first lengths
        ((300.0, 20.0), (200.0, 25.0))
    """
    lengths = list(zip(classes.isl_K.tolist(), classes.osl_K.tolist(), strict=True))
    prefixes = [None] * len(lengths) if classes.prefix_KC is None else list(classes.prefix_KC)
    by_class = [with_lengths(question, *pair) for pair in zip(lengths, prefixes, strict=True)]
    if classes.are_equal:
        return evaluate_loads(by_class[0], memory, phase)
    among = Among(classes.mean[1])
    loaded = [running_load(candidates, memory, among) for candidates in by_class]
    share_K = classes.token_share
    mixed_steps = _weighted([load.mixed_steps for load in loaded], share_K)
    results = [load_results(replace(load, mixed_steps=mixed_steps), phase) for load in loaded]
    first, chunks = results[0], [result.chunks for result in results]
    energies = [result.energy for result in results]
    return replace(
        first,
        latencies=_mixed([result.latencies for result in results], classes),
        low=_mixed([result.low for result in results], classes),
        high=_mixed([result.high for result in results], classes),
        chunks=replace(
            chunks[0],
            count=_weighted([chunk.count for chunk in chunks], classes.weight_K),
            last_count=_weighted([chunk.last_count for chunk in chunks], classes.weight_K),
        ),
        utilization=Utilization(
            *(
                _weighted(values, share_K)
                for values in zip(*(r.utilization for r in results), strict=True)
            )
        ),
        energy=energies[0]._replace(
            **{
                name: _weighted([getattr(energy, name) for energy in energies], share_K)
                for name in OF_TOKEN
            }
        ),
        tiers=np.bitwise_or.reduce([result.tiers for result in results]),
        priced=sum(result.priced for result in results),
    )


def _mixed(latencies: Sequence[Latencies], classes: RequestClasses) -> Latencies:
    """Return mean latencies over requests, and the rate of output tokens."""
    share_K, weight_K = classes.token_share, classes.weight_K
    tpot_s = _weighted([latency.tpot_s for latency in latencies], share_K)
    token_s = _weighted([1.0 / latency.output_tokens_per_s for latency in latencies], share_K)
    # all but the decode steps; the upper end of TTFT is unknown, that of the latency is not
    prompt_s = [
        latency.request_latency_s - latency.tpot_s * (osl - 1.0)
        for latency, osl in zip(latencies, classes.osl_K, strict=True)
    ]
    return Latencies(
        ttft_s=_weighted([latency.ttft_s for latency in latencies], weight_K),
        tpot_s=tpot_s,
        request_latency_s=_weighted(prompt_s, weight_K) + tpot_s * (classes.mean[1] - 1.0),
        output_tokens_per_s=1.0 / token_s,
    )


def _weighted(columns: Sequence[FloatArray], weight_K: FloatArray) -> FloatArray:
    """Return the weighted mean of a column of each class (C,)."""
    mean_C: FloatArray = weight_K @ np.stack(list(columns))
    return mean_C

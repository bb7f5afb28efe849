"""Requests of several lengths: classes with weights, given or from a trace.

Shape legend: K classes, N requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.inference import RequestClasses
from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.scenario.deployments import RequestSample
from perfatlas.serving.requests import MAX_TOKENS, TraceReuse, prefix_reuse
from perfatlas.serving.traces import read_requests

if TYPE_CHECKING:
    from perfatlas.serving.requests import Caches

HEAVIEST: Final = 1e9  # weight of a class
PARTS: Final = (2, 3)  # numbers of a class: isl, osl and its weight
PROMPT_QUANTILES: Final = (0.0, 0.25, 0.5, 0.75, 0.95)
DRAWN: Final = 10_000  # requests of the sample that stands for given classes


@dataclass(frozen=True, kw_only=True)
class RequestMix:
    """The requests of a search."""

    classes: RequestClasses
    source: str = ""  # What they are of, "" for given lengths
    # Requests to draw from in simulations; None if all are equal
    sample: RequestSample | None = None
    # Mean prompt tokens of a request that repeat the start of an earlier prompt of the trace, as
    # one cache without limit would have
    cached: float = 0.0
    reuse: TraceReuse | None = None  # What limited caches have of them, None where nothing repeats

    def cache_note(self, caches: str) -> str:
        """Return what the search assumes of the repeated prompts of a trace, "" for nothing."""
        if self.reuse is None:
            return ""
        return (
            f"prefix caching: {self.cached / self.classes.mean[0]:.0%} of the prompt tokens of the"
            " trace repeat the start of an earlier prompt, and a plan finds those that its KV"
            f" caches still have when the least recently used blocks are evicted; {caches}"
        )

    def sample_of(self, caches: Caches | None) -> RequestSample | None:
        """Return the requests to draw from in the simulation of a plan.

        Args:
            caches: Its prefix caches, None without prefix caching.
        """
        if self.sample is None or self.reuse is None or caches is None:
            return self.sample
        return self.sample._replace(cached_E=self.reuse.cached_tokens(caches))

    @property
    def mean_osl(self) -> float:
        """Mean output tokens of a request."""
        return self.classes.mean[1]

    @property
    def longest(self) -> tuple[float, float]:
        """Longest prompt and output."""
        return float(self.classes.isl_K.max()), float(self.classes.osl_K.max())

    @property
    def note(self) -> str:
        """What closed forms assume of the mix, in a sentence."""
        columns = (self.classes.isl_K, self.classes.osl_K, self.classes.weight_K)
        text = ", ".join(
            f"{weight:.3g} of {isl:,.0f} + {osl:,.0f}"
            for isl, osl, weight in zip(*columns, strict=True)
        )
        return (
            f"requests of {self.source}: shares of input + output tokens {text}; closed forms add"
            " up the time that each class takes of the deployment, all at the same load: a request"
            " slows the others as much as among requests of its own class"
        )


def equal_requests(isl: int, osl: int) -> RequestMix:
    """Return requests that all have the same lengths."""
    column, two = (np.array([float(tokens)]) for tokens in (isl, osl))
    return RequestMix(classes=RequestClasses(isl_K=column, osl_K=two, weight_K=np.ones(1)))


def given_classes(classes: tuple[str, ...]) -> RequestMix:
    """Return the requests of classes with weights."""
    isl_K, osl_K, weight_K = np.array([_request_class(text) for text in classes]).T
    share_K = weight_K / weight_K.sum()
    counts_K = np.maximum(np.rint(share_K * DRAWN), 1).astype(np.int64)
    return RequestMix(
        classes=RequestClasses(isl_K=isl_K, osl_K=osl_K, weight_K=share_K),
        source="request_mix",
        sample=RequestSample(
            isl_E=np.repeat(isl_K.astype(np.int64), counts_K),
            osl_E=np.repeat(osl_K.astype(np.int64), counts_K),
            cached_E=np.zeros(int(counts_K.sum()), np.int64),
        ),
    )


def _request_class(text: str) -> tuple[float, float, float]:
    """Return input tokens, output tokens and weight of a class."""
    parts = text.split(":")
    wanted = f"request_mix = {repr_for_error(text)}: a class is isl:osl:weight, as in 4000:500:0.7"
    if len(parts) not in PARTS:
        raise InvalidSpecError(wanted)
    try:
        isl, osl = (int(part) for part in parts[:2])
        weight = float(parts[2]) if len(parts) == max(PARTS) else 1.0
    except ValueError:
        raise InvalidSpecError(wanted) from None
    if not (1 <= isl <= MAX_TOKENS and 1 <= osl <= MAX_TOKENS):
        raise InvalidSpecError(f"{wanted}; isl and osl are 1 to {MAX_TOKENS:,} tokens")
    if not 0.0 < weight <= HEAVIEST:
        raise InvalidSpecError(f"{wanted}; a weight is above 0 and at most {HEAVIEST:,.0f}")
    return float(isl), float(osl), weight


def classes_of_trace(path: str, request_format: str) -> RequestMix:
    """Return classes of a trace with similar lengths, each with the mean lengths of its requests.

    Prompts are divided at quantiles, and each part at the median of its outputs.
    """
    requests = read_requests(path, request_format).requests
    isl_N, osl_N = requests.isl_N, requests.osl_N
    edges = np.unique(np.quantile(isl_N, PROMPT_QUANTILES))
    class_N = 2 * (np.searchsorted(edges, isl_N, side="right") - 1)
    for part in np.unique(class_N).tolist():
        in_part = class_N == part
        class_N[in_part] += osl_N[in_part] > np.median(osl_N[in_part])
    _, place_N, count_K = np.unique(class_N, return_inverse=True, return_counts=True)
    cached_N = prefix_reuse(requests).cached_tokens(np.inf, isl_N.size)
    reuse = TraceReuse(requests=requests, class_N=place_N, count_K=count_K)
    isl_K, osl_K = (np.bincount(place_N, tokens_N) / count_K for tokens_N in (isl_N, osl_N))
    return RequestMix(
        classes=RequestClasses(isl_K=isl_K, osl_K=osl_K, weight_K=count_K / count_K.sum()),
        source=f"{isl_N.size:,} requests of {path}",
        sample=RequestSample(
            isl_E=isl_N.astype(np.int64),
            osl_E=osl_N.astype(np.int64),
            cached_E=cached_N,
            hash_block=requests.hash_block,
        ),
        cached=float(cached_N.mean()),
        reuse=reuse if cached_N.any() else None,
    )

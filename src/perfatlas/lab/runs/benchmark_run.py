"""One benchmark run of a serving engine, whichever tool wrote it down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

WAVES: Final = 4.0  # requests per slot below which the start and the end are a large part
HALF_IDLE: Final = 0.8  # of the slots in use on average, below which much of a run was not loaded
OVERLOAD: Final = 1.25  # requests sent over answered, from which a queue grew
CHUNKED: Final = 1.25  # mean ITL / mean TPOT from which a chunk holds more than a token
UNEVEN: Final = 0.8  # mean ITL / mean TPOT below which requests differ too much to average
SPECULATIVE: Final = (
    "speculative decoding was on: give --speculative-depth and --speculative-acceptance"
)
CACHED: Final = "prompts hit the prefix cache: the estimate prefills what --prefix leaves over"
NO_LIMIT: Final = (
    "the file states neither a rate nor a limit on requests in flight: where all were sent at once"
    " there is no steady state"
)


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Statistics of one latency over requests, None where the file has none.

    Args:
        mean_s: Mean [s].
        median_s: Median [s].
    """

    mean_s: float | None = None
    median_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class BenchmarkRun:
    """What a benchmark measured, in SI units.

    Args:
        tool: What wrote the file.
        model: Model as the file names it, "" where it does not.
        engine: Engine in perfatlas' words, "" where the file does not state it.
        plan: Parallel sizes the file states, by their names in the vocabulary.
        formats: Number formats the file states, likewise.
        limits: Engine limits the file states, likewise.
        completed: Requests that were answered, None where not stated.
        failed: Requests that were not, None where not stated.
        isl: Mean input tokens of an answered request.
        osl: Mean output tokens of an answered request.
        slots: Requests the client keeps in flight at most, None without a limit.
        request_rate: Requests sent per second [1/s], None without a rate.
        answered_per_s: Requests answered per second of the run [1/s], None where not stated.
        in_flight: Mean requests in flight: completed x mean latency / duration (Little's law);
            None where the file does not allow to compute it.
        tpot: (latency - TTFT)/(output tokens - 1) of a request.
        itl: Gaps between chunks, over all requests.
        ttft: Time to first token.
        output_tokens_per_s: Over the whole deployment and the whole run [1/s].
        notes: How the file was read.
        warnings: What makes the run hard to compare.
    """

    tool: str
    model: str
    engine: str
    plan: Mapping[str, int]
    formats: Mapping[str, str]
    limits: Mapping[str, int]
    completed: float | None
    failed: float | None
    isl: float
    osl: float
    slots: float | None
    request_rate: float | None
    answered_per_s: float | None
    in_flight: float | None
    tpot: Latency
    itl: Latency
    ttft: Latency
    output_tokens_per_s: float | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def concurrency(self) -> tuple[int, str]:
        """Return the requests in flight to ask for, and where the number comes from.

        With a limit and no rate the loop is closed: every slot is always taken. Otherwise it is
        the measured mean.

        Raises:
            InvalidSpecError: Neither is known.

        Source:
            Little, A proof for the queuing formula L = lambda W, Operations Research 9(3), 1961.
        """
        if self.slots and self.request_rate is None:
            many = self.slots if self.completed is None else min(self.slots, self.attempted())
            return max(round(many), 1), "limit of the client"
        if self.in_flight is None or not math.isfinite(self.in_flight):
            raise InvalidSpecError(
                "concurrency unknown: the file states no limit on requests in flight, and lacks"
                " the latencies or the duration to compute their mean"
            )
        return max(round(self.in_flight), 1), "measured mean (Little's law)"

    def attempted(self) -> float:
        """Return the requests that were sent, as far as the file tells."""
        return (self.completed or 0.0) + (self.failed or 0.0)

    def measured_tpot(self) -> tuple[float | None, str]:
        """Return the TPOT to compare [s] and which statistic it is; None where there is none."""
        for name, value_s in (
            ("mean TPOT", self.tpot.mean_s),
            ("median TPOT", self.tpot.median_s),
            ("mean ITL", self.itl.mean_s),
            ("median ITL", self.itl.median_s),
        ):
            if value_s:
                return value_s, name
        return None, ""

    def measured_ttft(self) -> tuple[float | None, str]:
        """Return the TTFT to compare [s] and which statistic it is; None where there is none."""
        if self.ttft.mean_s:
            return self.ttft.mean_s, "mean TTFT"
        return self.ttft.median_s, "median TTFT" if self.ttft.median_s else ""

    def remarks(self) -> tuple[str, ...]:
        """Return how the run was read, one sentence each."""
        said = list(self.notes)
        _, statistic = self.measured_tpot()
        if not statistic:
            said.append("no TPOT and no ITL in the file: throughput alone is compared")
        elif statistic != "mean TPOT":
            said.append(f"no mean TPOT in the file: {statistic} is compared in its place")
        if not self.slots or self.request_rate is not None:
            said.append(
                "concurrency is the measured mean of requests in flight, waiting ones included"
                " (Little's law: completed x mean latency / duration)"
            )
        return tuple(said)

    def doubts(self) -> tuple[str, ...]:
        """Return what makes the run hard to compare with a steady state, one sentence each."""
        said = [*self.warnings, *self._load_doubts(), *self._token_doubts()]
        if self.failed:
            said.append(
                f"{self.failed:g} of {self.attempted():g} requests failed: the others saw less load"
            )
        return tuple(said)

    def _load_doubts(self) -> list[str]:
        if self.slots is None and self.request_rate is None:
            return [NO_LIMIT]
        said = []
        if self.slots and self.completed and self.completed < WAVES * self.slots:
            said.append(
                f"fewer than {WAVES:g} requests per slot: the burst at the start and the idle"
                " slots at the end are a large part of the run"
            )
        elif self.slots and self.in_flight and self.in_flight < HALF_IDLE * self.slots:
            said.append(
                f"fewer than {100 * HALF_IDLE:g} % of the slots were in use on average: a rate or"
                " a slow client kept requests back"
            )
        answered = self.answered_per_s
        if self.request_rate and answered and self.request_rate > OVERLOAD * answered:
            said.append(
                "requests came faster than they were answered: a queue grew until the last was sent"
            )
        return said

    def _token_doubts(self) -> list[str]:
        said = []
        if self.tpot.mean_s and self.itl.mean_s:
            ratio = self.itl.mean_s / self.tpot.mean_s
            if ratio > CHUNKED:
                said.append(
                    "mean ITL is far above mean TPOT: chunks hold several tokens, as with"
                    " speculative decoding; give --speculative-depth and --speculative-acceptance"
                    " if it was on"
                )
            elif ratio < UNEVEN:
                said.append(
                    "mean ITL is far below mean TPOT: requests differ (ITL averages over tokens,"
                    " TPOT over requests) and the estimate takes them all alike"
                )
        if self.tpot.mean_s and not self.measured_ttft()[1]:
            said.append("no TTFT in the file: a TPOT without streaming contains the prefill")
        return said

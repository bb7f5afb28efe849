"""A benchmark run of a serving engine, independent of the tool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

WAVES: Final = 4.0  # requests per slot below which start and end effects dominate
HALF_IDLE: Final = 0.8  # mean share of slots in use below which the load was too low
OVERLOAD: Final = 1.25  # requests sent over completed above which the queue grew
CHUNKED: Final = 1.25  # mean ITL / mean TPOT above which a chunk has several tokens
UNEVEN: Final = 0.8  # mean ITL / mean TPOT below which requests differ too much to average
SPECULATIVE: Final = (
    "speculative decoding was enabled: set --speculative-depth and --speculative-acceptance"
)
CACHED: Final = "prompts hit the prefix cache: set --prefix to exclude cached tokens from prefill"
NO_LIMIT: Final = (
    "the file has neither a rate nor a limit on requests in flight: if all were sent at once"
    " there is no steady state"
)


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Statistics of a latency over requests, None where missing."""

    mean_s: float | None = None  # Mean [s]
    median_s: float | None = None  # Median [s]


@dataclass(frozen=True, kw_only=True)
class BenchmarkRun:
    """A benchmark run, in SI units."""

    tool: str
    model: str  # Model name in the file, "" where missing
    engine: str  # Engine by its perfatlas name, "" where missing
    plan: Mapping[str, int]  # Parallel sizes in the file, by vocabulary name
    formats: Mapping[str, str]  # Number formats in the file, likewise
    limits: Mapping[str, int]  # Engine limits in the file, likewise
    completed: float | None  # Completed requests, None where not stated
    failed: float | None  # Failed requests, None where not stated
    isl: float  # Mean input tokens of a completed request
    osl: float  # Mean output tokens of a completed request
    slots: float | None  # Maximum requests in flight of the client, None for no limit
    request_rate: float | None  # Requests sent per second [1/s], None without a rate
    # Completed requests per second of the run [1/s], None where not stated
    answered_per_s: float | None
    # Mean requests in flight: completed x mean latency / duration (Little's distribution); None
    # where it cannot be computed
    in_flight: float | None
    tpot: Latency  # (latency - TTFT)/(output tokens - 1) of a request
    itl: Latency  # Gaps between chunks, over all requests
    ttft: Latency  # Time to first token
    output_tokens_per_s: float | None  # Over the whole deployment and the whole run [1/s]
    notes: tuple[str, ...]  # Notes on reading the file
    warnings: tuple[str, ...]  # Reasons why the run is hard to compare

    def concurrency(self) -> tuple[int, str]:
        """Return the requests in flight for the estimate, and the origin of the number.

        With a limit and no rate the loop is closed and every slot is always in use. Otherwise it is
        the measured mean.

        Raises:
            InvalidSpecError: Neither is available.

        Source:
            Little, A proof for the queuing formula L = lambda W, Operations Research 9(3), 1961.
        """
        if self.slots and self.request_rate is None:
            many = self.slots if self.completed is None else min(self.slots, self.attempted())
            return max(round(many), 1), "client limit"
        if self.in_flight is None or not math.isfinite(self.in_flight):
            raise InvalidSpecError(
                "concurrency unknown: the file states no limit on requests in flight, and lacks"
                " the latencies or the duration to compute their mean"
            )
        return max(round(self.in_flight), 1), "measured mean (Little's law)"

    def attempted(self) -> float:
        """Return the number of requests sent, where known."""
        return (self.completed or 0.0) + (self.failed or 0.0)

    def measured_tpot(self) -> tuple[float | None, str]:
        """Return the TPOT to compare [s] and its statistic; None where missing."""
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
        """Return the TTFT to compare [s] and its statistic; None where missing."""
        if self.ttft.mean_s:
            return self.ttft.mean_s, "mean TTFT"
        return self.ttft.median_s, "median TTFT" if self.ttft.median_s else ""

    def remarks(self) -> tuple[str, ...]:
        """Return notes on reading the run, one sentence each."""
        notes = list(self.notes)
        _, statistic = self.measured_tpot()
        if not statistic:
            notes.append("no TPOT and no ITL in the file: only throughput is compared")
        elif statistic != "mean TPOT":
            notes.append(f"no mean TPOT in the file: {statistic} is compared instead")
        if not self.slots or self.request_rate is not None:
            notes.append(
                "concurrency is the measured mean of requests in flight, including waiting ones"
                " (Little's law: completed x mean latency / duration)"
            )
        return tuple(notes)

    def doubts(self) -> tuple[str, ...]:
        """Return reasons why the run is hard to compare with a steady state, one sentence each."""
        notes = [*self.warnings, *self._load_doubts(), *self._token_doubts()]
        if self.failed:
            notes.append(
                f"{self.failed:g} of {self.attempted():g} requests failed, which reduced the load"
            )
        return tuple(notes)

    def _load_doubts(self) -> list[str]:
        if self.slots is None and self.request_rate is None:
            return [NO_LIMIT]
        notes = []
        if self.slots and self.completed and self.completed < WAVES * self.slots:
            notes.append(
                f"fewer than {WAVES:g} requests per slot: the initial burst and the idle slots at"
                " the end affect a large part of the run"
            )
        elif self.slots and self.in_flight and self.in_flight < HALF_IDLE * self.slots:
            notes.append(
                f"fewer than {100 * HALF_IDLE:g}% of the slots were in use on average: the load"
                " was limited by a request rate or a slow client"
            )
        answered = self.answered_per_s
        if self.request_rate and answered and self.request_rate > OVERLOAD * answered:
            notes.append(
                "requests arrived faster than they completed: the queue grew until the last was"
                " sent"
            )
        return notes

    def _token_doubts(self) -> list[str]:
        notes = []
        if self.tpot.mean_s and self.itl.mean_s:
            ratio = self.itl.mean_s / self.tpot.mean_s
            if ratio > CHUNKED:
                notes.append(
                    "mean ITL is far above mean TPOT: chunks have several tokens, as with"
                    " speculative decoding; set --speculative-depth and --speculative-acceptance"
                    " if it was enabled"
                )
            elif ratio < UNEVEN:
                notes.append(
                    "mean ITL is far below mean TPOT: requests differ (ITL averages over tokens,"
                    " TPOT over requests), but the estimate assumes equal requests"
                )
        if self.tpot.mean_s and not self.measured_ttft()[1]:
            notes.append("no TTFT in the file: a TPOT without streaming contains the prefill")
        return notes

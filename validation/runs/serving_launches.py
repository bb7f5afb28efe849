"""Launch limits of the engines of measured runs: rules, resolved per run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.serving.config import SchedulerLimits
    from validation.runs.serving_matches import Match
    from validation.runs.serving_rows import ServingRun

ROUNDS: Final = 10  # requests per request in flight: num-prompts of the benchmark's scripts
PASSED: Final = ("gpu_memory_utilization", "block_size", "chunked_prefill", "stream_interval")
COUNTS: Final = ("max_num_seqs", "max_num_batched_tokens")
SWITCHES: Final = ("async_scheduling", "batch_wait_timeout_iters")
RECV_INTERVAL: Final = "scheduler_recv_interval"
SCHEDULED: Final = ("mixed_chunk", RECV_INTERVAL)
BATCH_WAIT_RATIO: Final = "batch_wait_max_tokens_ratio"
LIMITS: Final = (*COUNTS, *PASSED, *SWITCHES, *SCHEDULED, BATCH_WAIT_RATIO)
MANY_REQUESTS: Final = 16  # requests in flight from which scripts pass the second of two values
TERMS: Final = ("isl", "osl", "on_rank", "concurrency")
SHAPES: Final = ("more", "multiple", "least", "most")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Launch limits of an engine."""

    name: str  # Name of the rule
    match: Match  # Matching runs
    limits: Mapping[str, Any]  # By name of `LIMITS`; others are engine defaults
    rounds: int  # Requests sent per request in flight
    unsimulated: str  # Options of the script that are not simulated, "" for none
    source: str  # Documentation
    limited: bool = True  # Whether the limits are known; otherwise all follow from the scenario

    def fields(self, run: ServingRun) -> dict[str, Any]:
        """Return the limits of a run by vocabulary name of `simulate`.

        Args:
            run: A matching run.
        """
        counts = {name: _count(self.limits[name], run) for name in COUNTS if name in self.limits}
        passed = {name: self.limits[name] for name in PASSED if name in self.limits}
        return counts | passed | self.scheduled(run)

    def scheduled(self, run: ServingRun) -> dict[str, Any]:
        """Return the settings of a scheduler that runs prompts first, by vocabulary name.

        Args:
            run: A matching run.
        """
        found = {name: self.limits[name] for name in SCHEDULED if name in self.limits}
        given = found.get(RECV_INTERVAL)
        if isinstance(given, list):
            found[RECV_INTERVAL] = given[run.concurrency >= MANY_REQUESTS]
        return found

    def changes(self, limits: SchedulerLimits) -> dict[str, Any]:
        """Return the scheduler limits without a vocabulary name.

        Args:
            limits: Default limits.
        """
        found = {name: self.limits[name] for name in SWITCHES if name in self.limits}
        if BATCH_WAIT_RATIO in self.limits:
            tokens = self.limits[BATCH_WAIT_RATIO] * limits.max_num_batched_tokens
            found["batch_wait_max_tokens"] = math.ceil(tokens)
        return found


def launch_of(rest: dict[str, Any], match: Match, name: str, source: str) -> Launch:
    """Return a launch from the rest of its entry.

    Args:
        rest: Limits, rounds and unsimulated options.
        match: Matching runs.
        name: Name of the rule.
        source: Documentation.

    Raises:
        InvalidSpecError: A limit or a term of a sum is unknown.
    """
    rounds, unsimulated = rest.pop("rounds", ROUNDS), rest.pop("unsimulated", "")
    _refuse_unknown(rest, LIMITS)
    for value in rest.values():
        if isinstance(value, dict):
            _refuse_unknown(value, (*TERMS, *SHAPES))
    return Launch(
        name=name,
        match=match,
        limits=rest,
        rounds=rounds,
        unsimulated=unsimulated,
        source=source,
    )


def _count(given: int | str | Mapping[str, int], run: ServingRun) -> int:
    if isinstance(given, str):
        return int(getattr(run, given))
    if isinstance(given, int):
        return given
    total = given.get("more", 0) + sum(given.get(term, 0) * getattr(run, term) for term in TERMS)
    multiple = given.get("multiple", 1)
    total = -(-total // multiple) * multiple
    total = max(total, given.get("least", 1))
    return int(min(total, given.get("most", total)))


def _refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise InvalidSpecError(
                f"serving_runs.toml: unknown limit {name!r}{did_you_mean(name, known)}"
            )

"""A slow event-by-event simulation of pipelines, written from the descriptions of the schedules.

Nothing is shared with perfatlas: every rank is a process that decides what to run next from the
rule of its schedule and waits for messages; the events of all ranks come from one queue. Times are
kept as `Fraction` if the durations are, so that comparisons can be exact.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Op = tuple[str, int, int]  # F, B (input gradient), W or BW; stage; micro-batch


@dataclass
class Case:
    """A pipeline: durations by stage, transfers by the stage before the boundary."""

    schedule: str
    ranks: int
    micro_batches: int
    chunks: int
    forward: list[Any]
    input_gradient: list[Any]
    weight_gradient: list[Any]
    send: list[Any]
    overlap: bool = True
    pair: list[Any] | None = None


@dataclass
class Outcome:
    """What happened: the intervals of every rank."""

    intervals: list[list[tuple[list[Op], Any, Any]]] = field(default_factory=list)

    @property
    def step(self) -> Any:  # noqa: ANN401 - float or Fraction
        return max(end for rank in self.intervals for _, _, end in rank)

    def peak(self, rank: int) -> int:
        held = peak = 0
        for ops, _, _ in self.intervals[rank]:
            held += sum(kind == "F" for kind, _, _ in ops)
            peak = max(peak, held)
            held -= sum(kind in ("W", "BW") for kind, _, _ in ops)
        return peak


def stages_on(case: Case, rank: int) -> list[int]:
    p = case.ranks
    if case.schedule == "interleaved":
        return [rank + p * c for c in range(case.chunks)]
    if case.schedule == "zb_v":
        return [rank, 2 * p - 1 - rank]
    return [rank]


def plan(case: Case, rank: int) -> Iterator[list[Op]]:
    """Yield what a rank runs, in order; two operations at once are an overlapped pair."""
    return {
        "gpipe": _gpipe,
        "1f1b": _one_f_one_b,
        "interleaved": _interleaved,
        "zb_h1": _zb_h1,
        "zb_v": _zb_v,
        "dualpipe": _dualpipe,
    }[case.schedule](case, rank)


def _gpipe(case: Case, rank: int) -> Iterator[list[Op]]:
    batches = list(range(case.micro_batches))
    yield from ([("F", rank, j)] for j in batches)
    yield from ([("BW", rank, j)] for j in reversed(batches))


def _one_f_one_b(case: Case, rank: int) -> Iterator[list[Op]]:
    """Run a backward whenever ranks - rank micro-batches are in flight, or none is left."""
    forwards, backwards = deque(range(case.micro_batches)), deque[int]()
    while forwards or backwards:
        if forwards and len(backwards) < case.ranks - rank:
            backwards.append(forwards.popleft())
            yield [("F", rank, backwards[-1])]
        else:
            yield [("BW", rank, backwards.popleft())]


def _interleaved(case: Case, rank: int) -> Iterator[list[Op]]:
    p, v = case.ranks, case.chunks
    forwards, backwards = deque[Op](), deque[Op]()
    for group in range(case.micro_batches // p):
        members = range(group * p, group * p + p)
        for c in range(v):
            forwards += [("F", rank + p * c, j) for j in members]
            backwards += [("BW", rank + p * (v - 1 - c), j) for j in members]
    in_flight = 0
    while backwards:
        if forwards and in_flight < 2 * (p - rank - 1) + (v - 1) * p + 1:
            in_flight += 1
            yield [forwards.popleft()]
        else:
            in_flight -= 1
            yield [backwards.popleft()]


def _zb_h1(case: Case, rank: int) -> Iterator[list[Op]]:
    """Run 1F1B by input gradients; a weight gradient follows once `rank` others wait."""
    waiting = deque[int]()
    ordered = [
        ("B" if kind == "BW" else "F", stage, j) for [(kind, stage, j)] in _one_f_one_b(case, rank)
    ]
    for kind, stage, j in ordered:
        yield [(kind, stage, j)]
        if kind == "B":
            waiting.append(j)
            if len(waiting) > rank:
                yield [("W", stage, waiting.popleft())]
    while waiting:
        yield [("W", rank, waiting.popleft())]


def _zb_v(case: Case, rank: int) -> Iterator[list[Op]]:
    p, m = case.ranks, case.micro_batches
    down, up = rank, 2 * p - 1 - rank
    made: dict[tuple[str, int], int] = {}

    def next_of(kind: str, stage: int) -> list[list[Op]]:
        j = made[kind, stage] = made.get((kind, stage), -1) + 1
        return [[(kind, stage, j)]] if j < m else []

    rounds = max(m, 2 * p - 1)
    ops = [next_of("F", down) for _ in range(2 * (p - rank) - 1)]
    for _ in range(rank):
        ops += [next_of("F", up), next_of("F", down)]
    for _ in range(p - rank):
        ops += [next_of("F", up), next_of("B", up), next_of("W", up)]
    while made["F", up] < rounds - 1:
        if made["F", down] < rounds - 1:
            ops.append(next_of("F", down))
        ops += [next_of("B", down), next_of("W", down)]
        ops += [next_of("F", up), next_of("B", up), next_of("W", up)]
    for _ in range(rank):
        ops += [next_of("B", down), next_of("B", up)]
    for _ in range(p - rank):
        ops += [next_of("B", down), next_of("W", down)]
    for stage in (up, down):
        while made.get(("W", stage), -1) < made["B", stage]:
            ops.append(next_of("W", stage))
    for some in ops:
        yield from some


def _dualpipe(case: Case, rank: int) -> Iterator[list[Op]]:  # noqa: C901 - part after part
    """The eight parts of the published schedule; direction 0 is the one the rank sees first."""
    p, half = case.ranks, case.micro_batches // 2
    edge = min(rank, p - 1 - rank)
    stage = (edge, p - 1 - edge)
    first = (0, half) if rank < p // 2 else (half, 0)
    forwards = [iter(range(first[d], first[d] + half)) for d in (0, 1)]
    backwards = [iter(range(first[d], first[d] + half)) for d in (0, 1)]
    deferred = deque[Op]()

    def f(d: int) -> Op:
        return ("F", stage[d], next(forwards[d]))

    def b(d: int, *, split: bool = False) -> Op:
        op = ("B" if split else "BW", stage[d], next(backwards[d]))
        if split:
            deferred.append(("W", *op[1:]))
        return op

    inner = p // 2 - 1 - edge
    for _ in range(2 * inner):
        yield [f(0)]
    for _ in range(edge + 1):
        yield [f(0)]
        yield [f(1)]
    for _ in range(inner):
        yield [b(1, split=True)]
        yield [deferred.popleft()]
        yield [f(1)]
    for i in range(half - p + edge + 1):
        pair = [f(0), b(1)]
        if i == 0 and inner == 0:
            yield from ([op] for op in pair)
        else:
            yield pair
        yield [f(1), b(0)]
    for _ in range(inner):
        yield [b(1)]
        yield [f(1), b(0)]
    for k in range(2 * (edge + 1)):
        yield [b(1 - k % 2, split=k >= edge + 1)]
    for _ in range(inner):
        yield [deferred.popleft()]
        yield [b(0, split=True)]
    while deferred:
        yield [deferred.popleft()]


def simulate(case: Case) -> Outcome:
    """Return the outcome of a step, from a queue of events."""
    last = 2 * case.ranks - 1 if case.schedule == "zb_v" else case.ranks * case.chunks - 1
    plans = [list(plan(case, rank)) for rank in range(case.ranks)]
    outcome = Outcome([[] for _ in plans])
    mail: list[set[Op]] = [set() for _ in plans]
    busy = [False] * case.ranks
    at = [0] * case.ranks
    order = count()
    events: list[tuple[Any, int, str, int, list[Op]]] = []
    for rank in range(case.ranks):
        heapq.heappush(events, (0, next(order), "wake", rank, []))
    while events:
        now, _, what, rank, ops = heapq.heappop(events)
        if what == "message":
            mail[rank].update(ops)
        if what == "ended":
            longest = 0
            for op in ops:
                time, target, message = _sent(case, rank, op, last)
                if target is not None:
                    longest = max(longest, time)
                    heapq.heappush(events, (now + time, next(order), "message", target, [message]))
            wait = 0 if case.overlap else longest
            heapq.heappush(events, (now + wait, next(order), "free", rank, []))
            continue
        if what == "free":
            busy[rank] = False
        if busy[rank] or at[rank] == len(plans[rank]):
            continue
        ops = plans[rank][at[rank]]
        if all(needed is None or needed in mail[rank] for needed in map(_needs(last), ops)):
            busy[rank] = True
            at[rank] += 1
            end = now + _duration(case, ops)
            outcome.intervals[rank].append((ops, now, end))
            heapq.heappush(events, (end, next(order), "ended", rank, ops))
    assert at == list(map(len, plans)), "the ranks wait for each other"
    return outcome


def _needs(last: int) -> Any:  # noqa: ANN401 - a function
    def needs(op: Op) -> Op | None:
        kind, stage, j = op
        if kind == "F" and stage > 0:
            return ("F", stage - 1, j)
        if kind in ("B", "BW") and stage < last:
            return ("B", stage + 1, j)
        return None

    return needs


def _sent(case: Case, rank: int, op: Op, last: int) -> tuple[Any, int | None, Op]:
    """Return transfer time, receiving rank and message of an operation that has ended."""
    kind, stage, j = op
    if kind == "F" and stage < last:
        following, boundary, message = stage + 1, stage, ("F", stage, j)
    elif kind in ("B", "BW") and stage > 0:
        following, boundary, message = stage - 1, stage - 1, ("B", stage, j)
    else:
        return 0, None, op
    if case.schedule == "dualpipe":  # one direction passes the ranks from the last one
        target = following if rank == stage else case.ranks - 1 - following
        return case.send[boundary], target, message
    target = next(r for r in range(case.ranks) if following in stages_on(case, r))
    return (0 if target == rank else case.send[boundary]), target, message


def _duration(case: Case, ops: list[Op]) -> Any:  # noqa: ANN401 - float or Fraction
    if len(ops) == 2 and case.pair is not None:
        return case.pair[ops[0][1]]
    total = 0
    for kind, stage, _ in ops:
        for letter, durations in (
            ("F", case.forward),
            ("B", case.input_gradient),
            ("W", case.weight_gradient),
        ):
            if letter in kind:
                total = total + durations[stage]
    return total

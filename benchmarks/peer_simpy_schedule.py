"""FIFO with EASY backfill in SimPy, node by node; needs SimPy and no perfatlas.

    python benchmarks/peer_simpy_schedule.py < trace.json

The trace is one JSON object: nodes, gpus (of each), depth, and jobs as rows of submit, run, nodes,
gpus (of each node) and limit, times in whole ticks. A process for every job, a queue they share.
Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from bisect import insort
from typing import TYPE_CHECKING, Any, NamedTuple

import simpy

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ask(NamedTuple):
    """What a job wants: times in ticks, GPUs of each of its nodes."""

    submit: int
    run: int
    nodes: int
    gpus: int
    limit: int


class Promise(NamedTuple):
    """When the head is due, GPUs free then on every node, and those it is to get."""

    head: int
    due: float
    future: list[int]
    kept: dict[int, int]


class Scheduler:
    """A queue, the nodes, and what runs on them.

    Args:
        trace: As it stands on standard input.
    """

    def __init__(self, trace: dict[str, Any]) -> None:  # noqa: D107 - told by the class
        self.env = simpy.Environment()
        self.asks = [Ask(*row) for row in trace["jobs"]]
        self.free = [trace["gpus"]] * trace["nodes"]
        self.depth = trace["depth"]
        self.queue: list[int] = []
        self.go: dict[int, simpy.Event] = {}
        self.changed = self.env.event()
        self.held: dict[int, list[int]] = {}
        self.kills: list[tuple[int, int]] = []  # when limits end jobs that run
        self.promise: Promise | None = None
        self.looked: set[int] = set()  # at these since the promise: they fit no more
        self.waited = 0
        self.backfilled = 0

    def job(self, number: int) -> Iterator[Any]:
        """Submit, wait, run, end."""
        ask = self.asks[number]
        yield self.env.timeout(ask.submit)
        self.go[number] = self.env.event()
        self.queue.append(number)
        self.wake()
        yield self.go[number]
        self.waited += self.env.now - ask.submit
        yield self.env.timeout(ask.run)
        for node in self.held.pop(number):
            self.free[node] += ask.gpus
        self.kills = [kill for kill in self.kills if kill[1] != number]
        self.promise = None
        self.wake()

    def wake(self) -> None:
        """Have the queue looked at, once for all that happens at this moment."""
        if not self.changed.triggered:
            self.changed.succeed()

    def server(self) -> Iterator[Any]:
        """Serve the queue after every moment at which jobs came or ended."""
        while True:
            yield self.changed
            yield self.env.timeout(0)
            self.changed = self.env.event()
            self.serve()

    def choose(self, available: list[int], ask: Ask) -> list[int]:
        """Return the first nodes that fit, none if there are too few."""
        found = []
        for node, free in enumerate(available):
            if free >= ask.gpus:
                found.append(node)
                if len(found) == ask.nodes:
                    return found
        return []

    def begin(self, number: int, nodes: list[int]) -> None:
        """Let a job run on nodes."""
        ask = self.asks[number]
        for node in nodes:
            self.free[node] -= ask.gpus
        self.held[number] = nodes
        insort(self.kills, (self.env.now + ask.limit, number))
        self.queue.remove(number)
        self.go[number].succeed()

    def serve(self) -> None:
        """Start the jobs at the head that fit, then those that may pass it."""
        while self.queue:
            nodes = self.choose(self.free, self.asks[self.queue[0]])
            if not nodes:
                self.pass_head()
                break
            self.begin(self.queue[0], nodes)

    def pass_head(self) -> None:
        """Start jobs that leave the head what it is promised (Lifka, JSSPP 1995)."""
        head, others = self.queue[0], self.queue[1 : 1 + self.depth]
        if self.promise is None or self.promise.head != head:
            self.promise = self.promised(head)
            self.looked = set()
        others = [number for number in others if number not in self.looked]
        self.looked.update(others)
        _, due, future, kept = self.promise
        for number in others:
            ask = self.asks[number]
            beside = self.env.now + ask.limit > due
            available = self.free
            if beside:
                spared = [gpus - kept.get(node, 0) for node, gpus in enumerate(future)]
                available = [min(pair) for pair in zip(self.free, spared, strict=True)]
            nodes = self.choose(available, ask)
            if nodes:
                if beside:
                    for node in nodes:
                        future[node] -= ask.gpus
                self.begin(number, nodes)
                self.backfilled += 1

    def promised(self, head: int) -> Promise:
        """Return when and where the head runs if all jobs take as long as they may."""
        future, ask, place = list(self.free), self.asks[head], 0
        while place < len(self.kills):
            due = self.kills[place][0]
            while place < len(self.kills) and self.kills[place][0] == due:
                number = self.kills[place][1]
                for node in self.held[number]:
                    future[node] += self.asks[number].gpus
                place += 1
            nodes = self.choose(future, ask)
            if nodes:
                return Promise(head, due, future, dict.fromkeys(nodes, ask.gpus))
        return Promise(head, float("inf"), list(self.free), {})


def main() -> int:
    """Schedule the jobs of standard input and print how fast, and how long they waited."""
    scheduler = Scheduler(json.load(sys.stdin))
    started = time.perf_counter()
    scheduler.env.process(scheduler.server())
    for number in range(len(scheduler.asks)):
        scheduler.env.process(scheduler.job(number))
    scheduler.env.run()
    took = time.perf_counter() - started
    found = {
        "version": simpy.__version__,
        "jobs_per_s": len(scheduler.asks) / took,
        "mean_wait_ticks": scheduler.waited / len(scheduler.asks),
        "backfilled": scheduler.backfilled,
    }
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

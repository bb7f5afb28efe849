"""FIFO with EASY backfill in SimPy, node by node; needs SimPy and no perfatlas.

    python benchmarks/peer_simpy_schedule.py < trace.json

The trace is one JSON object: nodes, gpus (of each), depth, and jobs as rows of submit, run, nodes,
gpus (of each node) and limit, times in whole ticks. One process per job, with a shared queue.
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
    """Request of a job: times in ticks, GPUs per node."""

    submit: int
    run: int
    nodes: int
    gpus: int
    limit: int


class Promise(NamedTuple):
    """Reservation of the head: its start, free GPUs per node then, and its nodes."""

    head: int
    due: float
    future: list[int]
    kept: dict[int, int]


class Scheduler:
    """The queue, the nodes and the running jobs.

    Args:
        trace: The parsed standard input.
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
        self.kills: list[tuple[int, int]] = []  # end times of running jobs by their limits
        self.promise: Promise | None = None
        self.looked: set[int] = set()  # tested since the reservation: they do not fit
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
        """Trigger a scheduling pass, once per time step."""
        if not self.changed.triggered:
            self.changed.succeed()

    def server(self) -> Iterator[Any]:
        """Run a scheduling pass after every time step with arrivals or ends."""
        while True:
            yield self.changed
            yield self.env.timeout(0)
            self.changed = self.env.event()
            self.serve()

    def choose(self, available: list[int], ask: Ask) -> list[int]:
        """Return the first nodes that fit, none if too few."""
        found = []
        for node, free in enumerate(available):
            if free >= ask.gpus:
                found.append(node)
                if len(found) == ask.nodes:
                    return found
        return []

    def begin(self, number: int, nodes: list[int]) -> None:
        """Start a job on nodes."""
        ask = self.asks[number]
        for node in nodes:
            self.free[node] -= ask.gpus
        self.held[number] = nodes
        insort(self.kills, (self.env.now + ask.limit, number))
        self.queue.remove(number)
        self.go[number].succeed()

    def serve(self) -> None:
        """Start the jobs at the head that fit, then backfill."""
        while self.queue:
            nodes = self.choose(self.free, self.asks[self.queue[0]])
            if not nodes:
                self.pass_head()
                break
            self.begin(self.queue[0], nodes)

    def pass_head(self) -> None:
        """Start jobs that do not delay the head's reservation (Lifka, JSSPP 1995)."""
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
        """Return start and nodes of the head if all jobs reach their limits."""
        future, ask, index = list(self.free), self.asks[head], 0
        while index < len(self.kills):
            due = self.kills[index][0]
            while index < len(self.kills) and self.kills[index][0] == due:
                number = self.kills[index][1]
                for node in self.held[number]:
                    future[node] += self.asks[number].gpus
                index += 1
            nodes = self.choose(future, ask)
            if nodes:
                return Promise(head, due, future, dict.fromkeys(nodes, ask.gpus))
        return Promise(head, float("inf"), list(self.free), {})


def main() -> int:
    """Schedule the jobs of standard input and print speed and waiting times."""
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

"""Reference implementation of outages and autoscaling, for the reference engines.

It shares no code with the loop it checks. The autoscaler follows kubernetes/kubernetes,
pkg/controller/podautoscaler: replica_calculator.go and horizontal.go.
"""

from __future__ import annotations

import math

from perfatlas.serving.config import EngineFleet
from perfatlas.serving.requests import Requests
from tests.serving.reference_blocks import Sequence
from tests.serving.reference_engine import Replica, Simulation


class ChangingSimulation(Simulation):
    """Order at equal times: steps end, replicas change, requests arrive, steps start."""

    def __init__(self, requests: Requests, fleet: EngineFleet, concurrency: int = 0) -> None:
        self.availability = fleet.availability
        self.scaler = next(iter(fleet.availability.scalers), None)
        super().__init__(requests, fleet, concurrency)
        count = len(self.replicas)
        first = count if self.scaler is None else self.scaler.initial
        self.status = ["up" if index < first else "off" for index in range(count)]
        self.doomed: set[int] = set()
        self.returns: set[int] = set()
        self.ready_at: dict[int, int] = {}
        self.held = [0] * count
        self.before = 0
        self.wasted = 0
        self.door: list[int] = []
        self.again = [-1] * len(self.sequences)
        self.tries = [0] * len(self.sequences)
        self.lost: set[int] = set()
        self.rejected: set[int] = set()
        self.turn = 0
        self.advice: list[tuple[int, int]] = []
        self.looked = False
        self.due = 0 if self.scaler is None else self.scaler.period
        events = []
        for outage in self.availability.outages:
            events.append((outage.start, 2 if outage.drain else 1, outage.replica))
            if outage.end >= 0:
                events.append((outage.end, 0, outage.replica))
        self.events = sorted(events)

    def left(self) -> bool:
        over = self.lost | self.rejected
        return any(one.finished < 0 and one.index not in over for one in reversed(self.sequences))

    def route(self, i: int, pool: str = "entry") -> Replica:
        assert pool == "entry"
        serving = [one for one in self.replicas if self.status[one.index] == "up"]
        if self.routing == "round_robin":
            count = len(self.replicas)
            order = [(self.turn + k) % count for k in range(count)]
            index = next(index for index in order if self.status[index] == "up")
            self.turn = (index + 1) % count
            return self.replicas[index]
        everyone = self.replicas
        self.replicas = serving
        try:
            if self.routing == "prefix_aware":
                loads = {one.index: one.load for one in serving}
                return everyone[self.router.choose(i, loads)]
            return super().route(i, pool)
        finally:
            self.replicas = everyone

    def arrive(self, i: int, now: int) -> None:
        one = self.sequences[i]
        if one.arrival < 0:
            one.arrival = now
        if not all(self.runs(one, group) for group in self.fleet.groups):
            self.rejected.add(i)
            self.follow(i, now)
        elif "up" in self.status:
            self.send(i)
        else:
            one.replica = -1
            self.door.append(i)

    def send(self, i: int) -> None:
        replica = self.route(i)
        self.sequences[i].replica = replica.index
        self.queue(self.sequences[i], replica)

    def take_down(self, index: int, now: int) -> None:
        """Remove all requests of a failing replica between steps."""
        replica = self.replicas[index]
        if index not in self.doomed or replica.end >= 0:
            return
        for rank in replica.ranks:
            for one in (*rank.running, *rank.queue()):
                self.lose(one, now)
        self.empty(replica)
        self.doomed.discard(index)
        if index in self.returns:
            self.status[index] = "up"

    def empty(self, replica: Replica) -> None:
        fresh = [type(rank)(replica.group.limits) for rank in replica.ranks]
        for rank in fresh:
            rank.alone = replica.group.ranks == 1
        replica.ranks = fresh
        replica.planned, replica.running = [], []

    def lose(self, one: Sequence, now: int) -> None:
        self.wasted += one.generated
        one.generated = one.num_computed = one.num_registered = one.target = 0
        one.placeholders = one.interference = one.lost = one.mark = one.cached = 0
        one.scheduled = one.first_token = one.lost_since = -1
        one.blocks = []
        self.tries[one.index] += 1
        if self.availability.on_failure == "retry":
            self.again[one.index] = now + self.availability.retry_after
            self.comes.append((self.again[one.index], one.index))
        else:
            self.lost.add(one.index)
            self.follow(one.index, now)

    def strike(self, what: int, index: int, now: int) -> None:
        if what == 0:
            self.returns.add(index)
            self.doomed.add(index)
        else:
            self.status[index] = "out"
            self.returns.discard(index)
            self.router.forget(index)
            if what == 1:
                self.doomed.add(index)
        self.take_down(index, now)

    def change(self, now: int) -> None:
        for index, status in enumerate(self.status):
            if status in ("up", "starting", "draining"):
                self.held[index] += now - self.before
            self.take_down(index, now)
        self.before = now
        while self.left() and self.events and self.events[0][0] <= now:
            _, what, index = self.events.pop(0)
            self.strike(what, index, now)
        if self.scaler is not None and self.left():
            self.settle(now)
            if self.due <= now:
                self.due += self.scaler.period
                self.look(now)
                self.settle(now)
        if "up" in self.status:
            self.comes += [(now, i) for i in self.door]
            self.door = []

    def settle(self, now: int) -> None:
        for replica in self.replicas:
            index = replica.index
            if self.status[index] == "starting" and self.ready_at[index] <= now:
                self.status[index] = "up"
            idle = replica.load == 0 and replica.end < 0 and not any(replica.planned)
            if self.status[index] == "draining" and idle:
                self.status[index] = "off"
                self.empty(replica)

    def look(self, now: int) -> None:
        scaler = self.scaler
        assert scaler is not None
        current = sum(status in ("up", "starting") for status in self.status)
        serving = [one for one in self.replicas if self.status[one.index] == "up"]
        if scaler.queue_only:
            metric = sum(len(rank.queue()) for one in serving for rank in one.ranks)
        else:
            metric = sum(one.load for one in serving)
        desired = current
        if abs(1.0 - metric / (scaler.target * current)) > scaler.tolerance:
            desired = math.ceil(metric / scaler.target)
        if not self.looked:
            self.advice.append((now, current))
        self.looked = True
        self.advice = [one for one in self.advice if one[0] > now - scaler.stable]
        down = max([desired, *(value for _, value in self.advice)])
        kept = current
        kept = max(kept, desired)
        kept = min(kept, down)
        self.advice.append((now, desired))
        if kept > current:
            allowed = max(current + 4, current * 2)
            kept = min(kept, allowed, len(self.replicas))
        kept = max(kept, scaler.low)
        self.resize(kept - current, now, scaler.start_up)

    def resize(self, more: int, now: int, start_up: int) -> None:
        off = [index for index, status in enumerate(self.status) if status == "off"]
        for index in off[: max(more, 0)]:
            self.status[index] = "starting"
            self.ready_at[index] = now + start_up
        starting = [index for index, status in enumerate(self.status) if status == "starting"]
        serving = [index for index, status in enumerate(self.status) if status == "up"]
        for index in (*reversed(starting), *reversed(serving))[: max(-more, 0)]:
            self.status[index] = "off" if index in starting else "draining"
            self.router.forget(index)

    def next_instant(self) -> int | None:
        times = [one.end for one in self.replicas if one.end >= 0]
        times += [time for time, _ in self.comes]
        if self.left():
            if times and self.scaler is not None:
                times.append(self.due)
                starting = [k for k, status in enumerate(self.status) if status == "starting"]
                times += [self.ready_at[index] for index in starting]
            times += [time for time, _, _ in self.events]
        return min(times) if times else None

    def run(self) -> ChangingSimulation:
        while (now := self.next_instant()) is not None:
            for replica in self.replicas:
                if replica.end == now:
                    replica.end = -1
                    self.note(replica, now)
                    for index, parts in enumerate(replica.running):
                        for one in replica.ranks[index].update(parts, now):
                            one.rank = index
                            self.end(one, now)
            self.change(now)
            while self.comes and min(self.comes)[0] <= now:
                self.comes.sort()
                self.arrive(self.comes.pop(0)[1], now)
            for replica in self.replicas:
                if replica.end < 0:
                    self.begin(replica, now)
        return self

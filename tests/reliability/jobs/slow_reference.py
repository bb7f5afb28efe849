"""The scheduler once more, in plain Python: lists, sets, everything counted anew each time.

It shares no code with the room and keeps no state that could be recomputed: what is free is counted
from who holds what, each time it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace

FOREVER = 2**62


@dataclass
class RefJob:
    index: int
    submit: int
    run: int
    limit: int
    nodes: int
    gpus: int
    user: int
    priority: int
    requeue: bool
    interval: int
    overhead: int
    fewest: int
    state: str = "pending"
    key: int = 0
    work: int = 0
    nodes_held: list[int] = field(default_factory=list)
    begun: int = 0
    kill: int = FOREVER
    mark: int = 0
    since: int = 0
    event: int = FOREVER
    lost: int = 0
    lost_node: int = -1
    attempts: int = 0
    restarts: int = 0
    counted: int = 0
    preempted: int = 0
    started: int = -1
    ended: int = -1
    promised: int = FOREVER
    queued_at: int = 0
    waited: int = 0
    lost_work: int = 0
    kept: int = 0


HOLDING = ("running", "stalled", "waiting")


class Reference:
    """One schedule; `rules` has the names of a policy and its response, times in ticks."""

    def __init__(
        self, jobs: list[RefJob], size: tuple[int, int, int, int], rules: SimpleNamespace
    ) -> None:
        self.jobs = jobs
        self.nodes, self.gpus, self.domain, self.leaf = size
        self.rules = rules
        self.now = 0
        self.up = ["up"] * self.nodes
        self.until = [FOREVER] * self.nodes
        self.repair = [0] * self.nodes
        self.owners: list[list[tuple[int, int]]] = [[] for _ in range(self.nodes)]
        self.queue: list[int] = []
        self.bucket: dict[str, int] = {}
        self.usage = [0.0] * len(rules.share)
        self.promise: tuple[int, int, list[int], dict[int, int]] | None = None
        self.stale = True
        self.backfilled = 0
        self.log: list[tuple[int, int, int]] = []  # time, node, GPUs in use, for the distributions
        for job in jobs:
            job.key, job.work = job.submit, job.run * job.nodes

    # -- what is free -------------------------------------------------------------------------
    def free(self, node: int) -> int:
        return self.gpus - sum(j.gpus for j in self.jobs if node in j.nodes_held)

    def open(self) -> list[int]:
        return [self.free(n) if self.up[n] == "up" else -1 for n in range(self.nodes)]

    def choose(self, avail: list[int], job: RefJob) -> list[int] | None:
        rules = self.rules
        everywhere = range(self.nodes)

        def fit(nodes: Iterable[int]) -> list[int]:
            found = [n for n in nodes if avail[n] >= job.gpus]
            if rules.best_fit:
                found.sort(key=lambda n: (avail[n], n))
            return found

        if rules.level == 0:
            found = fit(everywhere)
            return found[: job.nodes] if len(found) >= job.nodes else None
        for level in range(rules.level, 3):
            size = self.domain if level == 1 else self.leaf
            groups = [fit(range(a, min(a + size, self.nodes))) for a in range(0, self.nodes, size)]
            enough = [g for g in groups if len(g) >= job.nodes]
            if enough:
                best = min(enough, key=len) if rules.best_fit else enough[0]
                return best[: job.nodes]
            if rules.required:
                return None
        groups = [
            fit(range(a, min(a + self.domain, self.nodes)))
            for a in range(0, self.nodes, self.domain)
        ]
        groups.sort(key=len, reverse=True)
        flat = [n for g in groups for n in g]
        return flat[: job.nodes] if len(flat) >= job.nodes else None

    # -- accounting ---------------------------------------------------------------------------
    def add(self, name: str, amount: int) -> None:
        self.bucket[name] = self.bucket.get(name, 0) + amount

    def advance(self, now: int) -> None:
        passed = now - self.now
        free = sum(x for x in self.open() if x > 0)
        self.add("idle_jobs_queued" if self.queue else "idle_no_jobs", passed * free)
        for out in ("draining", "down"):
            nodes = [n for n in range(self.nodes) if self.up[n] == out]
            self.add(out, passed * sum(self.free(n) for n in nodes))
        if self.rules.order == "fair_share" and passed:
            half = self.rules.half_life
            decay = 2.0 ** (-passed / half)
            gain = half / math.log(2.0) * (1.0 - decay)
            for user in range(len(self.usage)):
                held = sum(len(j.nodes_held) * j.gpus for j in self.jobs if j.user == user)
                self.usage[user] = self.usage[user] * decay + held * gain
        self.now = now

    def settle(self, job: RefJob, *, done: bool = False) -> None:
        gpus, spent = len(job.nodes_held) * job.gpus, self.now - job.mark
        job.mark = self.now
        if job.state == "stalled":
            self.add("detection", spent * gpus)
        elif job.state == "waiting":
            self.add("waiting", spent * gpus)
        else:
            worked = max(self.now - job.since, 0)
            kept = (
                worked if done else (worked // job.interval * job.interval if job.interval else 0)
            )
            self.add("restart", (spent - worked) * gpus)
            job.kept += kept * gpus
            self.add("lost_work", (worked - kept) * gpus)
            job.lost_work += (worked - kept) * gpus
            job.work = 0 if done else job.work - kept * len(job.nodes_held)

    # -- attempts -----------------------------------------------------------------------------
    def begin(self, job: RefJob, chosen: list[int]) -> None:
        assert len(set(chosen)) == job.nodes
        assert all(self.free(n) >= job.gpus and self.up[n] == "up" for n in chosen)
        self.queue.remove(job.index)
        job.waited += self.now - job.queued_at
        job.nodes_held = list(chosen)
        job.begun = self.now
        job.kill = self.now + job.limit if job.limit < FOREVER else FOREVER
        if job.attempts == 0:
            job.started = self.now
        job.attempts += 1
        self.resume(job, again=job.attempts > 1)

    def resume(self, job: RefJob, *, again: bool) -> None:
        job.state, job.mark, job.lost = "running", self.now, 0
        job.restarts += again
        job.since = self.now + (job.overhead if again else 0)
        job.event = min(job.since + -(-job.work // len(job.nodes_held)), job.kill)

    def let_go(self, job: RefJob) -> None:
        nodes, job.nodes_held = job.nodes_held, []
        job.event = FOREVER
        self.stale = self.stale or bool(nodes)
        for node in nodes:
            self.maybe_repair(node)

    def maybe_repair(self, node: int) -> None:
        if self.up[node] == "draining" and self.free(node) == self.gpus:
            self.take_down(node, self.repair[node])

    def take_down(self, node: int, ticks: int) -> None:
        until = FOREVER if ticks < 0 else self.now + ticks
        if self.up[node] == "down":
            until = max(until, self.until[node])
        self.up[node], self.until[node] = "down", until
        self.stale = True

    def end(self, job: RefJob, how: str) -> None:
        self.settle(job, done=how == "completed")
        self.let_go(job)
        job.state, job.ended = how, self.now

    def enqueue(self, job: RefJob) -> None:
        job.state, job.queued_at = "queued", self.now
        self.queue.append(job.index)

    def requeue(self, job: RefJob) -> None:
        job.key = job.submit if self.rules.keeps_place else self.now
        self.enqueue(job)

    def give_up(self, job: RefJob) -> None:
        if not job.requeue or job.counted >= self.rules.most_restarts:
            self.end(job, "node_fail")
            return
        self.settle(job)
        self.let_go(job)
        job.counted += 1
        pause = min(self.rules.backoff * 2 ** (job.counted - 1), self.rules.most_backoff)
        if pause == 0:
            self.requeue(job)
        else:
            job.state, job.event = "held", self.now + pause

    # -- failures -----------------------------------------------------------------------------
    def apply_failure(self, event: tuple[int, int, int, int, int]) -> None:
        _, first, width, ticks, drain = event
        for node in range(first, first + width):
            if drain:
                if self.up[node] == "up":
                    self.up[node], self.repair[node] = "draining", ticks
                    self.stale = True
                    self.maybe_repair(node)
                continue
            if self.up[node] != "down":
                self.owners[node] = []
            self.take_down(node, ticks)
            for job in [j for j in self.jobs if node in j.nodes_held]:
                self.lose(job, node)

    def lose(self, job: RefJob, node: int) -> None:
        self.settle(job)
        job.nodes_held.remove(node)
        job.lost += 1
        job.lost_node = node
        if self.rules.response == "elastic":
            self.owners[node].append((job.index, job.attempts))
        if job.state == "running":
            job.state = "stalled"
            job.event = min(self.now + self.rules.detection, job.kill)
        elif job.state == "waiting" and self.rules.response == "replace":
            job.event = self.now

    def notice(self, job: RefJob) -> None:
        kind, enough = self.rules.response, len(job.nodes_held) >= max(job.fewest, 1)
        if kind == "elastic":
            job.counted += 1
            if job.counted > self.rules.most_restarts:
                self.end(job, "node_fail")
                return
        if kind in ("shrink", "elastic") and enough:
            self.settle(job)
            self.resume(job, again=True)
        elif kind == "elastic" or (kind == "replace" and job.lost == 1):
            self.settle(job)
            job.state = "waiting"
            patience = self.rules.patience
            job.event = min(self.now + patience if patience < FOREVER else FOREVER, job.kill)
        else:
            self.give_up(job)

    def job_events(self) -> None:
        while True:
            due = [j for j in self.jobs if j.event == self.now]
            if not due:
                return
            job = due[0]
            job.event = FOREVER
            if job.state == "held":
                self.requeue(job)
            elif (
                job.state == "running" and (self.now - job.since) * len(job.nodes_held) >= job.work
            ):
                self.end(job, "completed")
            elif self.now >= job.kill:
                self.end(job, "timeout")
            elif job.state == "stalled":
                self.notice(job)
            elif self.rules.response == "elastic":
                self.end(job, "node_fail")
            else:
                self.give_up(job)

    def come_back(self, node: int) -> None:
        self.up[node], self.until[node] = "up", FOREVER
        self.stale = True
        owners, self.owners[node] = self.owners[node], []
        for index, attempt in owners:
            job = self.jobs[index]
            if job.state not in HOLDING or job.attempts != attempt:
                continue
            self.settle(job)
            job.nodes_held.append(node)
            enough = len(job.nodes_held) >= job.fewest
            if job.state == "running" or (job.state == "waiting" and enough):
                self.resume(job, again=True)

    def replace(self) -> None:
        for job in self.jobs:
            if job.state != "waiting":
                continue
            avail, lost = self.open(), job.lost_node
            spans = [(0, self.nodes)]
            if self.rules.level:
                sizes = {1: (self.domain, self.leaf), 2: (self.leaf,)}[self.rules.level]
                near = [(lost - lost % s, lost - lost % s + s) for s in sizes]
                if self.rules.required:
                    near, spans = near[:1], []
                spans = near + spans
            for first, last in spans:
                span = range(first, min(last, self.nodes))
                fit = [n for n in span if avail[n] >= job.gpus and n not in job.nodes_held]
                if fit:
                    node = min(fit, key=lambda n: avail[n]) if self.rules.best_fit else fit[0]
                    self.settle(job)
                    job.nodes_held.append(node)
                    self.stale = True
                    self.resume(job, again=True)
                    break

    # -- who starts ---------------------------------------------------------------------------
    def rank(self, index: int) -> tuple[float, int, int]:
        job = self.jobs[index]
        if self.rules.order == "priority":
            return (-job.priority, job.key, index)
        if self.rules.order == "fair_share":
            return (self.usage[job.user] / self.rules.share[job.user], job.key, index)
        return (0, job.key, index)

    def holders(self) -> list[RefJob]:
        held = [j for j in self.jobs if j.state in HOLDING]
        return sorted(held, key=lambda j: (j.kill, j.index))

    def preempt(self, job: RefJob) -> bool:
        able = [j for j in self.holders() if j.priority < job.priority]
        able.sort(key=lambda j: (j.priority, -j.begun, -j.index))

        def without(gone: list[RefJob]) -> list[int]:
            avail = self.open()
            for other in gone:
                for node in other.nodes_held:
                    avail[node] += other.gpus if self.up[node] == "up" else 0
            return avail

        victims: list[RefJob] = []
        for other in able:
            victims.append(other)
            if self.choose(without(victims), job):
                break
        else:
            return False
        for other in reversed(list(victims)):
            rest = [v for v in victims if v is not other]
            if self.choose(without(rest), job):
                victims = rest
        for other in victims:
            other.preempted += 1
            self.settle(other)
            self.let_go(other)
            if self.rules.preemption == "cancel" or not other.requeue:
                other.state, other.ended = "preempted", self.now
            else:
                self.requeue(other)
        return True

    def serve(self) -> None:
        if self.rules.response == "replace":
            self.replace()
        self.queue.sort(key=self.rank)
        while self.queue:
            job = self.jobs[self.queue[0]]
            chosen = self.choose(self.open(), job)
            if chosen is None and self.rules.preemption != "none" and self.preempt(job):
                chosen = self.choose(self.open(), job)
                self.queue.sort(key=self.rank)
            if chosen is None:
                break
            self.begin(job, chosen)
            self.stale = True
        if self.queue and sum(x for x in self.open() if x > 0):
            if self.rules.backfill == "easy":
                self.easy()
            elif self.rules.backfill == "conservative":
                self.conservative()

    def easy(self) -> None:
        head = self.queue[0]
        window = self.queue[1 : 1 + self.rules.depth]
        old = self.promise
        if self.stale or old is None or old[0] != head or self.rules.order == "fair_share":
            self.promise = self.make_promise(head)
            self.stale = False
        assert self.promise is not None
        _, due, future, kept = self.promise
        for index in window:
            job, avail = self.jobs[index], self.open()
            ends = self.now + job.limit if job.limit < FOREVER else FOREVER
            beside = due < FOREVER and (ends == FOREVER or ends > due)
            if beside:
                spared = [future[n] - kept.get(n, 0) for n in range(self.nodes)]
                avail = [min(a, b) for a, b in zip(avail, spared, strict=True)]
            chosen = self.choose(avail, job)
            if chosen is None:
                continue
            if beside:
                for node in chosen:
                    future[node] -= job.gpus
            self.begin(job, chosen)
            self.backfilled += 1

    def make_promise(self, head: int) -> tuple[int, int, list[int], dict[int, int]]:
        job, holders = self.jobs[head], self.holders()
        for due in sorted({j.kill for j in holders if j.kill < FOREVER}):
            future = self.open()
            for other in holders:
                if other.kill <= due:
                    for node in other.nodes_held:
                        future[node] += other.gpus if self.up[node] == "up" else 0
            chosen = self.choose(future, job)
            if chosen:
                job.promised = min(job.promised, due) if job.promised == FOREVER else job.promised
                return head, due, future, dict.fromkeys(chosen, job.gpus)
        return head, FOREVER, self.open(), {}

    def conservative(self) -> None:
        booked: list[tuple[int, int, RefJob, list[int]]] = []
        base = self.open()
        for other in self.holders():
            nodes = [n for n in other.nodes_held if self.up[n] == "up"]
            for node in nodes:
                base[node] += other.gpus
            booked.append((self.now, other.kill, other, nodes))
        for place, index in enumerate(list(self.queue[: self.rules.depth])):
            job = self.jobs[index]
            points = {self.now} | {e for s, e, _, _ in booked} | {s for s, e, _, _ in booked}
            times = sorted(t for t in points if self.now <= t < FOREVER)
            for start in times:
                ends = start + job.limit if job.limit < FOREVER else FOREVER
                least = []
                for node in range(self.nodes):
                    inside = [t for t in times if t == start or start < t < ends]
                    used = [
                        sum(o.gpus for s, e, o, ns in booked if s <= t < e and node in ns)
                        for t in inside
                    ]
                    least.append(base[node] - max(used) if base[node] >= 0 else -1)
                chosen = self.choose(least, job)
                if chosen is None:
                    continue
                booked.append((start, ends, job, chosen))
                if place == 0 and job.promised == FOREVER:
                    job.promised = start
                if start == self.now:
                    self.backfilled += index != self.queue[0]
                    self.begin(job, chosen)
                break

    # -- the loop -----------------------------------------------------------------------------
    def run(self, failures: list[tuple[int, int, int, int, int]], until: int) -> None:
        submits = list(self.jobs)
        failures = list(failures)
        while True:
            times = [j.event for j in self.jobs] + self.until
            times += [submits[0].submit] if submits else []
            times += [failures[0][0]] if failures else []
            now = min(times)
            over = all(j.ended >= 0 for j in self.jobs) and until == FOREVER
            if now > until or now == FOREVER or over:
                break
            self.advance(now)
            self.job_events()
            for node in range(self.nodes):
                if self.until[node] == now:
                    self.come_back(node)
            while failures and failures[0][0] == now:
                self.apply_failure(failures.pop(0))
            self.job_events()
            while submits and submits[0].submit == now:
                self.enqueue(submits.pop(0))
            self.serve()
        if until < FOREVER:
            self.advance(until)
        for job in self.jobs:
            if job.state in HOLDING:
                self.settle(job, done=True)

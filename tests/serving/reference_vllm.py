"""vLLM V1 written again, slowly: every sequence visited in every step, every block with its name.

It shares no code with the loop it checks. Rules: vllm-project/vllm, vllm/v1/core/sched/scheduler.py
and vllm/v1/core/block_pool.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from perfatlas.serving.limits import Limits, Replicas
    from perfatlas.serving.prices import StepPrices, Ticks
    from perfatlas.serving.requests import Requests

GOLDEN = 0x9E3779B97F4A7C15
WORD = 2**64 - 1


@dataclass
class Sequence:
    index: int
    isl: int
    osl: int
    prompt_keys: list[Hashable]
    generated: int = 0
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)
    num_registered: int = 0
    decoding: bool = False  # its next token follows one that the model gave
    arrival: int = -1
    scheduled: int = -1
    first_token: int = -1
    finished: int = -1
    replica: int = -1
    preempted: int = 0
    cached: int = 0

    @property
    def num_tokens(self) -> int:
        return self.isl + self.generated

    def key(self, block: int) -> Hashable:
        if block < len(self.prompt_keys):
            return self.prompt_keys[block]
        return ("own", self.index, block)


class Pool:
    """Cache blocks by name: a queue of free ones, a map from hash to its blocks."""

    def __init__(self, count: int, *, caching: bool) -> None:
        self.free = list(range(count))
        self.references = [0] * count
        self.key_of: dict[int, Hashable] = {}
        self.cached: dict[Hashable, list[int]] = {}
        self.caching = caching

    def take(self) -> int:
        block = self.free.pop(0)
        key = self.key_of.pop(block, None)
        if key is not None:
            self.cached[key].remove(block)
            if not self.cached[key]:
                del self.cached[key]
        self.references[block] = 1
        return block

    def touch(self, block: int) -> None:
        if self.references[block] == 0:
            self.free.remove(block)
        self.references[block] += 1

    def give_back(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self.references[block] -= 1
            if self.references[block] == 0:
                self.free.append(block)

    def register(self, block: int, key: Hashable) -> None:
        if self.caching:
            self.key_of[block] = key
            self.cached.setdefault(key, []).append(block)

    def lookup(self, sequence: Sequence, block_size: int) -> list[int]:
        found: list[int] = []
        if self.caching:
            for block in range((sequence.num_tokens - 1) // block_size):
                same = self.cached.get(sequence.key(block))
                if not same:
                    break
                found.append(same[0])
        return found


class Scheduler:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.pool = Pool(limits.kv_blocks, caching=limits.prefix_caching)
        self.scheduled: list[tuple[Sequence, int, int]] = []  # sequence, tokens, computed before
        self.preemptions = 0

    def allocate(self, sequence: Sequence, tokens: int) -> bool:
        need = -(-(sequence.num_computed + tokens) // self.limits.block_size)
        need -= len(sequence.blocks)
        if need > len(self.pool.free):
            return False
        sequence.blocks += [self.pool.take() for _ in range(need)]
        full = (sequence.num_computed + tokens) // self.limits.block_size
        for block in range(sequence.num_registered, full):
            self.pool.register(sequence.blocks[block], sequence.key(block))
        sequence.num_registered = max(full, sequence.num_registered)
        return True

    def preempt(self, victim: Sequence) -> None:
        self.pool.give_back(victim.blocks)
        victim.blocks = []
        victim.num_registered = 0
        victim.num_computed = 0
        victim.decoding = False
        victim.preempted += 1
        self.preemptions += 1
        self.waiting.insert(0, victim)

    def schedule(self, now: int) -> None:
        self.scheduled = []
        budget = self.limits.max_num_batched_tokens
        before = self.preemptions
        place = 0
        while place < len(self.running) and budget > 0:
            sequence = self.running[place]
            tokens = min(sequence.num_tokens - sequence.num_computed, budget)
            alive = True
            while not self.allocate(sequence, tokens):
                victim = self.running.pop()
                self.preempt(victim)
                if victim is sequence:
                    alive = False
                    break
            if not alive:
                break
            self.scheduled.append((sequence, tokens, sequence.num_computed))
            budget -= tokens
            place += 1
        if self.preemptions == before:
            self.admit(budget, now)
        for sequence, tokens, _ in self.scheduled:
            sequence.num_computed += tokens

    def admit(self, budget: int, now: int) -> None:
        size = self.limits.block_size
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting[0]
            hits = self.pool.lookup(sequence, size)
            tokens = min(sequence.num_tokens - len(hits) * size, budget)
            whole = len(hits) * size + tokens
            if self.limits.reserve_full_isl:
                whole = sequence.num_tokens
            idle = sum(self.pool.references[block] == 0 for block in hits)
            if -(-whole // size) - len(hits) + idle > len(self.pool.free):
                break
            self.waiting.pop(0)
            for block in hits:
                self.pool.touch(block)
            sequence.blocks = hits
            sequence.num_registered = len(hits)
            sequence.num_computed = len(hits) * size
            if sequence.scheduled < 0:
                sequence.scheduled = now
                sequence.cached = len(hits) * size
            if not self.allocate(sequence, tokens):
                raise AssertionError("admitted without room")
            self.running.append(sequence)
            self.scheduled.append((sequence, tokens, sequence.num_computed))
            budget -= tokens

    def update(self, now: int) -> list[Sequence]:
        done = []
        for sequence, _, _ in self.scheduled:
            if sequence.num_computed < sequence.num_tokens:
                continue
            sequence.generated += 1
            sequence.decoding = True
            if sequence.first_token < 0:
                sequence.first_token = now
            if sequence.generated == sequence.osl:
                sequence.finished = now
                self.running.remove(sequence)
                self.pool.give_back(sequence.blocks)
                done.append(sequence)
        return done


def _chunk(prices: StepPrices, table: Ticks, queries: int, before: int) -> int:
    """Linear along the queries at both borders, then along the keys, each rounded down."""
    q = max(k for k in range(len(prices.queries_Q) - 1) if prices.queries_Q[k] <= queries)
    p = max(k for k in range(len(prices.before_P) - 1) if prices.before_P[k] <= before)
    q0, q1 = int(prices.queries_Q[q]), int(prices.queries_Q[q + 1])
    p0, p1 = int(prices.before_P[p]), int(prices.before_P[p + 1])
    ends = []
    for column in (p, p + 1):
        low, high = int(table[q, column]), int(table[q + 1, column])
        ends.append(low + (high - low) * (queries - q0) // (q1 - q0))
    return ends[0] + (ends[1] - ends[0]) * (before - p0) // (p1 - p0)


def step_time(prices: StepPrices, ranks: list[Scheduler]) -> int:
    """Every rank waits for the longest."""
    mixed = any(not part[0].decoding for rank in ranks for part in rank.scheduled)
    tokens = max(sum(part[1] for part in rank.scheduled) for rank in ranks)
    linear = int(prices.mixed_linear_T[tokens] if mixed else prices.decode_linear_B[tokens])
    return max(_rank_time(prices, rank, linear) for rank in ranks)


def _rank_time(prices: StepPrices, rank: Scheduler, linear: int) -> int:
    chunks = [part for part in rank.scheduled if not part[0].decoding]
    decodes = [part for part in rank.scheduled if part[0].decoding]
    ended = [part for part in chunks if part[0].num_computed == part[0].num_tokens]
    device = linear + int(prices.head_B[len(decodes) + len(ended)])
    if decodes:
        keys = sum(before + 1 for _, _, before in decodes)
        count = len(decodes)
        cell = max(k for k, border in enumerate(prices.context_K) if border <= keys // count)
        past = keys - count * int(prices.context_K[cell])
        device += int(prices.decode_base_BK[count, cell])
        device += int(prices.decode_slope_BK[count, cell]) * past
    for _, tokens, before in chunks:
        device += _chunk(prices, prices.prefill_added_QP, tokens, before)
    if chunks:
        last = prices.prefill_last_QP
        device += max(_chunk(prices, last, tokens, before) for _, tokens, before in chunks)
    host = prices.host_step + prices.host_sequence * len(rank.scheduled)
    host += prices.host_prefill if chunks else 0
    return max(device, host) if prices.host_overlapped else device + host


@dataclass
class Replica:
    index: int
    ranks: list[Scheduler]
    end: int = -1  # of the step that runs, -1 between steps

    @property
    def load(self) -> int:
        return sum(len(rank.waiting) + len(rank.running) for rank in self.ranks)


class Simulation:
    """At one instant steps end, then requests arrive, then steps begin."""

    def __init__(
        self,
        requests: Requests,
        prices: StepPrices,
        limits: Limits,
        replicas: Replicas,
        concurrency: int = 0,
    ) -> None:
        self.requests = requests
        self.prices = prices
        self.limits = limits
        self.routing = replicas.routing
        self.seed = replicas.seed
        self.concurrency = concurrency
        self.replicas = [
            Replica(index, [Scheduler(limits) for _ in range(replicas.ranks)])
            for index in range(replicas.number)
        ]
        self.sequences = [self._sequence(i) for i in range(len(requests.isl_N))]
        self.turn = 0
        self.steps = 0
        self.most_running = 0
        self.comes: list[tuple[int, int]] = []
        self.free = [i for i in range(len(self.sequences)) if requests.think_N[i] < 0]
        if concurrency == 0:
            self.comes = [(int(requests.arrival_N[i]), i) for i in self.free]
        for _ in range(concurrency):
            self.issue(0)

    def _sequence(self, i: int) -> Sequence:
        requests, size = self.requests, self.limits.block_size
        hashes = requests.hash_H[requests.hash_first_N[i] : requests.hash_first_N[i + 1]]
        keys: list[Hashable] = []
        if len(hashes):
            for block in range(int(requests.isl_N[i]) // size):
                last = ((block + 1) * size - 1) // requests.hash_block
                keys.append((int(hashes[last]), block))
        return Sequence(i, int(requests.isl_N[i]), int(requests.osl_N[i]), keys)

    def issue(self, now: int) -> None:
        if self.free:
            i = self.free.pop(0)
            self.comes.append((max(now, int(self.requests.arrival_N[i])), i))

    def follow(self, i: int, now: int) -> None:
        session = self.requests.session_N[i]
        later = [
            j
            for j in range(i + 1, len(self.sequences))
            if session >= 0 and self.requests.session_N[j] == session
        ]
        if later and self.requests.think_N[later[0]] >= 0:
            self.comes.append((now + int(self.requests.think_N[later[0]]), later[0]))
        elif self.concurrency:
            self.issue(now)

    def route(self, i: int) -> Replica:
        count = len(self.replicas)
        if self.routing == "round_robin":
            self.turn += 1
            return self.replicas[(self.turn - 1) % count]
        if self.routing == "random":
            z = (self.seed + (i + 1) * GOLDEN) & WORD
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
            return self.replicas[((z ^ (z >> 31)) >> 1) % count]
        return min(self.replicas, key=lambda replica: replica.load)

    def arrive(self, i: int, now: int) -> None:
        sequence = self.sequences[i]
        sequence.arrival = now
        most = (sequence.isl + sequence.osl - 1 + self.limits.block_size - 1) // (
            self.limits.block_size
        )
        if sequence.isl < 1 or sequence.osl < 1 or most > self.limits.kv_blocks:
            self.follow(i, now)
            return
        replica = self.route(i)
        sequence.replica = replica.index
        min(
            replica.ranks, key=lambda rank: 4 * len(rank.waiting) + len(rank.running)
        ).waiting.append(sequence)

    def begin(self, replica: Replica, now: int) -> None:
        for rank in replica.ranks:
            rank.schedule(now)
        if any(rank.scheduled for rank in replica.ranks):
            replica.end = now + step_time(self.prices, replica.ranks)
            self.steps += 1

    def run(self) -> Simulation:
        while self.comes or any(replica.end >= 0 for replica in self.replicas):
            ends = [replica.end for replica in self.replicas if replica.end >= 0]
            now = min(ends + [time for time, _ in self.comes])
            for replica in self.replicas:
                if replica.end == now:
                    replica.end = -1
                    for rank in replica.ranks:
                        for sequence in rank.update(now):
                            self.follow(sequence.index, now)
            while self.comes and min(self.comes)[0] <= now:
                self.comes.sort()
                self.arrive(self.comes.pop(0)[1], now)
            for replica in self.replicas:
                if replica.end < 0:
                    self.begin(replica, now)
        return self

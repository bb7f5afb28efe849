"""vLLM V1 written again, slowly: every sequence visited in every step, every block with its name.

It shares no code with the loop it checks. Rules: vllm-project/vllm, vllm/v1/core/sched/scheduler.py
and async_scheduler.py, vllm/v1/core/block_pool.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.serving.reference_blocks import Part, Pool, Sequence

if TYPE_CHECKING:
    from perfatlas.serving.limits import Limits


class Scheduler:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.pool = Pool(limits.kv_blocks, caching=limits.prefix_caching)
        self.scheduled: list[Part] = []
        self.preemptions = 0
        self.now = 0

    def idle(self) -> None:
        """Nothing runs and nothing is to run."""

    def allocate(self, sequence: Sequence, tokens: int) -> bool:
        need = -(-(sequence.num_computed + tokens) // self.limits.block_size)
        need -= len(sequence.blocks)
        if need > len(self.pool.free):
            return False
        sequence.blocks += [self.pool.take() for _ in range(need)]
        self.register(sequence, min(sequence.num_computed + tokens, sequence.num_tokens))
        return True

    def register(self, sequence: Sequence, tokens: int) -> None:
        full = tokens // self.limits.block_size
        for block in range(sequence.num_registered, full):
            self.pool.register(sequence.blocks[block], sequence.key(block))
        sequence.num_registered = max(full, sequence.num_registered)

    def preempt(self, victim: Sequence) -> None:
        ends = victim.placeholders and victim.generated + victim.placeholders >= victim.osl
        if not ends:
            if victim.lost_since < 0:
                victim.lost_since = self.now
            decoded = victim.num_computed >= victim.target
            victim.mark = max(victim.mark, victim.num_computed + decoded)
        self.pool.give_back(victim.blocks)
        victim.blocks = []
        victim.num_registered = 0
        victim.num_computed = 0
        victim.preempted += 1
        self.preemptions += 1
        self.waiting.insert(0, victim)

    def schedule(self, now: int) -> None:
        self.now = now
        self.scheduled = []
        budget = self.limits.max_num_batched_tokens
        before = self.preemptions
        place = 0
        while place < len(self.running) and budget > 0:
            sequence = self.running[place]
            due = sequence.isl + sequence.osl
            if sequence.placeholders > 0 and (
                sequence.num_computed + 2 - sequence.placeholders >= due
            ):
                place += 1
                continue
            tokens = sequence.num_tokens + sequence.placeholders - sequence.num_computed
            tokens = min(tokens, budget)
            alive = True
            while not self.allocate(sequence, tokens):
                victim = self.running.pop()
                self.preempt(victim)
                if victim is sequence:
                    alive = False
                    break
            if not alive:
                break
            self.put(sequence, tokens)
            budget -= tokens
            place += 1
        if self.preemptions == before:
            self.admit(budget, now)
        for part in self.scheduled:
            part.sequence.num_computed += part.tokens
            if part.samples:
                part.sequence.placeholders += 1

    def put(self, sequence: Sequence, tokens: int) -> None:
        self.scheduled.append(Part(sequence, tokens, sequence.num_computed, sequence.target))

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
            sequence.target = sequence.num_tokens
            self.put(sequence, tokens)
            budget -= tokens

    def update(self, parts: list[Part], now: int) -> list[Sequence]:
        done = []
        for part in parts:
            sequence = part.sequence
            if not part.samples:
                continue
            sequence.generated += 1
            sequence.placeholders -= 1
            if sequence in self.running:
                self.register(sequence, sequence.num_computed - sequence.placeholders)
            if sequence.first_token < 0:
                sequence.first_token = now
            if sequence.generated == sequence.osl:
                sequence.finished = now
                (self.running if sequence in self.running else self.waiting).remove(sequence)
                self.pool.give_back(sequence.blocks)
                sequence.blocks = []
                done.append(sequence)
        return done

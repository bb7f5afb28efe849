"""Reference implementation of vLLM V1: visits every sequence in every step and tracks all blocks.

It shares no code with the loop it checks. Rules: vllm-project/vllm, vllm/v1/core/sched/scheduler.py
and async_scheduler.py, vllm/v1/core/block_pool.py.
"""

from __future__ import annotations

from perfatlas.serving.config import SchedulerLimits
from tests.serving.reference_blocks import Part, Pool, Sequence
from tests.serving.reference_offload import Tiers

WORD = 2**64 - 1


def _hash(value: int) -> int:
    z = (value + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


class Scheduler:
    def __init__(self, limits: SchedulerLimits) -> None:
        self.limits = limits
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.pool = Pool(
            limits.kv_blocks, caching=limits.prefix_caching, unnamed_first=limits.rules == "vllm"
        )
        self.scheduled: list[Part] = []
        self.preemptions = 0
        self.now = 0
        self.keeps = False  # blocks of those that end, for another engine
        self.again = False  # the first token is computed again
        self.early = False  # it was given when the prompt had ended
        self.here: list[Sequence] = []  # caches that have come
        self.away: list[Sequence] = []  # blocks for caches, those of `here` too
        self.sent: list[tuple[int, Sequence]] = []
        self.held = 0
        self.alone = True
        self.tiers = Tiers(limits)
        self.pool.evicted = self.tiers.evict

    def idle(self) -> None:
        """Return whether nothing runs or is scheduled."""

    def queue(self) -> list[Sequence]:
        return self.waiting

    def take(self, one: Sequence) -> None:
        self.waiting.append(one)

    def accepts(self, sequence: Sequence) -> int:
        """Return the tokens of a decode step: drafts before the first rejection, plus 1."""
        output = sequence.generated + sequence.placeholders
        if output == 0:  # its first token comes from the last one of its prompt
            return 1
        state = _hash(_hash(_hash(self.limits.draft_seed) + sequence.index) + output)
        tokens = 1
        for chance in self.limits.acceptance:
            state = _hash(state)
            if state / 2**64 >= chance:
                break
            tokens += 1
        return min(tokens, sequence.osl - output)

    def allocate(self, sequence: Sequence, tokens: int, ahead: int = 0) -> bool:
        need = -(-(sequence.num_computed + tokens + ahead) // self.limits.block_size)
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
        partial = any(one.num_computed < one.target for one in self.running)
        place = 0
        while place < len(self.running) and budget > 0:
            sequence = self.running[place]
            if sequence.generated + sequence.placeholders >= sequence.osl:
                place += 1
                continue
            ahead = 0
            if sequence.num_computed >= sequence.target:
                ahead = self.limits.draft_tokens
            tokens = sequence.num_tokens + sequence.placeholders - sequence.num_computed + ahead
            tokens = min(tokens, budget)
            if not self.make_room(sequence, tokens, ahead):
                break
            self.put(sequence, tokens)
            budget -= tokens
            place += 1
        if self.preemptions == before:
            if not partial:
                budget -= self.join(self.limits.max_num_seqs - len(self.running), now)
            self.admit(budget, now)
        for part in self.scheduled:
            kept = part.tokens
            if part.decodes:
                kept = part.gives = self.accepts(part.sequence)
            part.sequence.num_computed += kept
            if part.samples:
                part.sequence.placeholders += part.gives

    def make_room(self, sequence: Sequence, tokens: int, ahead: int) -> bool:
        while not self.allocate(sequence, tokens, ahead):
            victim = self.running.pop()
            self.preempt(victim)
            if victim is sequence:
                return False
        return True

    def put(self, sequence: Sequence, tokens: int, loads: int = 0) -> None:
        part = Part(sequence, tokens, sequence.num_computed, sequence.target)
        if not part.decodes:  # the step waits for loads, and for stores of what it computes
            part.moves = loads + self.tiers.store(sequence, part.before + part.tokens)
            sequence.moved += part.moves if sequence.first_token < 0 else 0
        self.scheduled.append(part)

    def admit(self, budget: int, now: int) -> None:
        size = self.limits.block_size
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting[0]
            hits = self.pool.lookup(sequence, size)
            found = self.found(sequence, hits)
            if sequence.stage == "handed":
                idle = sum(self.pool.references[block] == 0 for block in hits)
                if -(-self.places(sequence) // size) - len(hits) + idle > len(self.pool.free):
                    break
                self.fetch(hits, now)
                continue
            tokens = min(sequence.num_tokens - found * size, budget)
            whole = found * size + tokens
            if self.limits.reserve_full_isl:
                whole = sequence.num_tokens
            idle = sum(self.pool.references[block] == 0 for block in hits)
            if -(-whole // size) - len(hits) + idle > len(self.pool.free):
                break
            self.waiting.pop(0)
            loads = self.hold(sequence, hits, found, now)
            if not self.allocate(sequence, tokens):
                raise AssertionError("admitted without free blocks")
            self.running.append(sequence)
            sequence.target = sequence.num_tokens
            self.put(sequence, tokens, loads)
            budget -= tokens

    def found(self, sequence: Sequence, hits: list[int]) -> int:
        """Return the leading blocks on the GPU or below it."""
        if not self.limits.offloads:
            return len(hits)
        below = sum(map(len, self.tiers.lookup(sequence, len(hits))))
        return max(len(hits), self.tiers.first(len(hits)) + below)

    def hold(self, sequence: Sequence, hits: list[int], found: int, now: int) -> int:
        """Use the hits on the GPU and below it; return the time of the loads."""
        size = self.limits.block_size
        for block in hits:
            self.pool.touch(block)
        sequence.blocks = hits.copy()
        sequence.num_registered = len(hits)
        sequence.num_computed = len(hits) * size
        first = sequence.scheduled < 0
        if first:
            sequence.scheduled = now
            sequence.cached = len(hits) * size
        loads = self.tiers.load(sequence, len(hits), now, first=first)
        if not self.allocate(sequence, (found - len(hits)) * size):
            raise AssertionError("loaded without free blocks")
        sequence.num_computed = found * size
        return loads

    def places(self, sequence: Sequence) -> int:
        return sequence.isl + (sequence.osl > 1 and not self.again) + self.step_slots() - 1

    def step_slots(self) -> int:
        """Return the slots of a decode step and of drafts after it."""
        return 1 + 2 * self.limits.draft_tokens

    def fetch(self, hits: list[int], now: int) -> None:
        sequence = self.waiting.pop(0)
        for block in hits:
            self.pool.touch(block)
        need = -(-self.places(sequence) // self.limits.block_size) - len(hits)
        sequence.blocks = hits + [self.pool.take() for _ in range(need)]
        sequence.num_registered = len(hits)
        sequence.stage = "fetched"
        self.away.append(sequence)
        self.sent.append((now, sequence))

    def join(self, most: int, now: int) -> int:
        joined = 0
        while self.here and joined < most:
            sequence = self.here[0]
            known = sequence.isl - self.again
            self.here.pop(0)
            self.away.remove(sequence)
            self.register(sequence, sequence.isl)
            sequence.generated = 0 if self.again else 1
            sequence.num_computed = sequence.target = known
            sequence.stage = ""
            sequence.resumed = now
            if not self.again and not self.early:
                sequence.first_token = sequence.last_token = now
            self.running.append(sequence)
            self.put(sequence, 1 + self.limits.draft_tokens)
            joined += 1
        return joined

    def update(self, parts: list[Part], now: int) -> list[Sequence]:
        done = []
        for part in parts:
            sequence = part.sequence
            if not part.samples:
                continue
            sequence.generated += part.gives
            sequence.placeholders -= part.gives
            if sequence in self.running:
                self.register(sequence, sequence.num_computed - sequence.placeholders)
            if sequence.first_token < 0:
                sequence.first_token = now
            if sequence.generated == sequence.osl:
                sequence.finished = now
                (self.running if sequence in self.running else self.waiting).remove(sequence)
                self.leave(sequence)
                done.append(sequence)
        return done

    def leave(self, sequence: Sequence) -> None:
        named = sequence.answer_keys or self.limits.stores_evicted
        if named and sequence.blocks and sequence.finished >= 0:
            first = sequence.isl // self.limits.block_size
            for block in sequence.blocks[first:]:
                self.pool.forget(block)
            sequence.num_registered = min(sequence.num_registered, first)
            self.register(sequence, sequence.isl + sequence.osl - 1)
        if self.keeps and (sequence.whole_osl > 1 or not self.early):
            sequence.kept = sequence.blocks
        else:
            self.pool.give_back(sequence.blocks)
        sequence.blocks = []

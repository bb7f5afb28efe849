"""Reference implementation of SGLang: batches of sequences are merged, filtered and retracted as in
the engine, and results are processed at the end of a step.

It shares no code with the loop it checks. Rules: sgl-project/sglang, python/sglang/srt/managers,
scheduler.py, schedule_policy.py and schedule_batch.py.
"""

from __future__ import annotations

from perfatlas.serving.config import SchedulerLimits
from tests.serving.reference_blocks import Part, Sequence
from tests.serving.reference_vllm import Scheduler

CLIP = 4096
RETRACT_STEPS = 20


class SglangScheduler(Scheduler):
    def __init__(self, limits: SchedulerLimits) -> None:
        super().__init__(limits)
        self.batch: list[Sequence] = []  # running_batch
        self.last: list[Sequence] = []  # last_batch, where it ran prompts
        self.chunked: Sequence | None = None
        self.full = False
        self.inbox: list[Sequence] = []
        self.last_mode = ""
        self.counter = 0
        self.idle()

    def queue(self) -> list[Sequence]:
        return self.waiting + self.inbox

    def take(self, one: Sequence) -> None:
        (self.inbox if self.limits.scheduler_recv_interval > 1 else self.waiting).append(one)

    def idle(self) -> None:
        self.ratio = self.limits.new_token_ratio
        self.decays = 0

    def current_ratio(self) -> float:
        if not self.decays:
            return self.ratio
        least = self.limits.new_token_ratio * 0.14
        decay = (self.limits.new_token_ratio - least) / 600
        return max(self.ratio - self.decays * decay, least)

    def schedule(self, now: int) -> None:
        self.now = now
        self.scheduled = []
        self.full = self.full and not self.keeps  # a prefill engine looks again
        self.receive()
        if self.last:
            kept = [one for one in self.last if one.finished < 0 and one is not self.chunked]
            if len(kept) < len(self.last):
                self.full = False
            self.batch += kept
            order = {id(one): place for place, one in enumerate(self.running)}
            self.batch.sort(key=lambda one: order.get(id(one), -1))
            if self.chunked is not None:
                self.register(self.chunked, self.chunked.num_computed)
        self.last = []
        prompts = self.prefill(now)
        if prompts:
            self.last = [part.sequence for part in prompts]
            self.scheduled = prompts
            if self.limits.mixed_chunk:
                self.mix()
        else:
            self.decode()
        self.keep()
        self.last_mode = "extend" if prompts else "decode" if self.scheduled else ""

    def keep(self) -> None:
        """Count the tokens that the step computes and keeps."""
        for part in self.scheduled:
            one = part.sequence
            if part.decodes:
                part.gives = self.accepts(one) if one.generated + one.placeholders < one.osl else 1
            one.num_computed = part.before + (part.gives if part.decodes else part.tokens)
            one.placeholders += part.gives if part.samples else 0

    def step_slots(self) -> int:
        drafts = self.limits.draft_tokens
        return (1 + drafts) * (2 if self.limits.async_scheduling and drafts else 1)

    def decode_one(self, one: Sequence) -> None:
        self.extend(one, one.num_computed + self.step_slots())
        self.put(one, 1 + self.limits.draft_tokens)

    def receive(self) -> None:
        """The recv skipper of the engine: a decode-only step counts 1, any other 1,000."""
        nothing = not self.batch and not self.last
        self.counter += 1 if self.last_mode == "decode" and not nothing else 1000
        if self.counter >= self.limits.scheduler_recv_interval:
            self.counter = 0
            self.waiting += self.inbox
            self.inbox = []

    def mix(self) -> None:
        self.batch = [one for one in self.batch if one.finished < 0]
        if sum(self.page_needed(one) for one in self.batch) <= len(self.pool.free):
            for one in self.batch:
                self.decode_one(one)
            self.last += self.batch
            self.batch = []

    def page_needed(self, one: Sequence) -> int:
        pages = -(-(one.num_computed + self.step_slots()) // self.limits.block_size)
        return max(pages - len(one.blocks), 0)

    def decode(self) -> None:
        if not self.batch:
            return
        before = len(self.batch)
        self.batch = [one for one in self.batch if one.finished < 0]
        if not self.batch:
            self.full = False
            return
        if sum(self.page_needed(one) for one in self.batch) > len(self.pool.free):
            self.retract()
        else:
            self.decays += 1
        if len(self.batch) < before:
            self.full = False
        for one in self.batch:
            self.decode_one(one)

    def retract(self) -> None:
        order = sorted(self.batch, key=lambda one: (one.generated, -one.isl), reverse=True)
        while sum(self.page_needed(one) for one in order) > len(self.pool.free):
            victim = order.pop()
            self.batch.remove(victim)
            self.running.remove(victim)
            victim.placeholders = 0  # the tokens of the running step are lost
            self.preempt(victim)
            self.put_back(self.waiting.pop(0))
        given = sum(one.generated for one in self.batch) + RETRACT_STEPS * len(self.batch)
        self.ratio = min(1.0, given / (sum(one.osl for one in self.batch) + 1))
        self.decays = 0

    def put_back(self, victim: Sequence) -> None:
        self.waiting.append(victim)

    def extend(self, one: Sequence, tokens: int) -> None:
        need = max(-(-tokens // self.limits.block_size) - len(one.blocks), 0)
        assert need <= len(self.pool.free)
        one.blocks += [self.pool.take() for _ in range(need)]

    def update(self, parts: list[Part], now: int) -> list[Sequence]:
        done = []
        order = {id(one): place for place, one in enumerate(self.running)}
        for part in sorted(parts, key=lambda part: order.get(id(part.sequence), -1)):
            one = part.sequence
            # it ended or was retracted while the step ran
            if not part.samples or one.finished >= 0 or one.num_computed == 0:
                continue
            if not part.decodes:
                self.register(one, part.target)
            one.generated += part.gives
            one.placeholders -= part.gives
            if one.first_token < 0:
                one.first_token = now
            if one.generated == one.osl:
                one.finished = now
                self.running.remove(one)
                self.leave(one)
                done.append(one)
        return done

    def prefill(self, now: int) -> list[Part]:
        if (self.full or not self.waiting) and self.chunked is None:
            return []
        slots = self.limits.max_num_seqs - len(self.batch)
        if slots <= 0 and self.chunked is None:
            self.full = True
            return []
        return Adder(self, now).add(slots)


class Adder:
    """The budgets of a prefill step."""

    def __init__(self, scheduler: SglangScheduler, now: int) -> None:
        self.scheduler = scheduler
        self.limits = scheduler.limits
        self.now = now
        self.size = self.limits.block_size
        mixed = len(scheduler.batch) if self.limits.mixed_chunk else 0
        self.tokens = self.limits.max_num_batched_tokens - mixed
        expected = sum(min(one.osl - one.generated, CLIP) for one in scheduler.batch)
        self.total = float(len(scheduler.pool.free) * self.size - mixed)
        self.total -= expected * scheduler.current_ratio()
        self.parts: list[Part] = []

    def paged(self, tokens: int) -> int:
        return -(-tokens // self.size) * self.size

    def add(self, slots: int) -> list[Part]:
        scheduler = self.scheduler
        if scheduler.chunked is not None and not self.add_chunked(scheduler.chunked):
            return []
        while scheduler.waiting:
            if len(self.parts) >= slots:
                scheduler.full = True
            if scheduler.full or not self.add_one(scheduler.waiting[0]):
                break
        return self.parts

    def add_chunked(self, one: Sequence) -> bool:
        whole = one.target - one.num_computed
        most = min(self.tokens, int(self.total))
        if most <= 0:
            most = self.tokens
        room = (len(self.scheduler.pool.free) + len(one.blocks)) * self.size - one.num_computed
        chunk = min(whole, most, room)
        if chunk <= 0:
            return False
        self.launch(one, chunk)
        self.total -= self.paged(chunk) + self.size
        self.tokens -= self.paged(chunk)
        if chunk == whole:
            self.scheduler.chunked = None
            self.total -= min(one.osl, CLIP)
        else:
            self.tokens = 0
        return True

    def add_one(self, one: Sequence) -> bool:
        scheduler = self.scheduler
        hits = scheduler.pool.lookup(one, self.size)
        found = scheduler.found(one, hits)
        locked = sum(scheduler.pool.references[block] == 0 for block in hits) * self.size
        chunk = whole = one.num_tokens - found * self.size
        loaded = (found - len(hits)) * self.size
        left = self.total - locked
        if loaded + chunk + min(one.osl - one.generated, CLIP) + self.size >= left:
            scheduler.full = True
            return False
        if self.paged(chunk) > self.tokens:
            chunk = self.tokens // self.size * self.size
        if chunk <= 0:
            return False
        scheduler.waiting.pop(0)
        scheduler.running.append(one)
        for block in hits:
            scheduler.pool.touch(block)
        one.blocks = hits.copy()
        one.num_registered = len(hits)
        one.target = one.num_tokens
        first = one.scheduled < 0
        if first:
            one.scheduled = self.now
            one.cached = len(hits) * self.size
        loads = scheduler.tiers.load(one, len(hits), self.now, first=first)
        scheduler.extend(one, found * self.size)
        one.num_computed = found * self.size
        self.launch(one, chunk, loads)
        self.total = left - loaded - self.paged(chunk) - self.size
        self.tokens -= self.paged(chunk)
        if chunk == whole:
            self.total -= min(one.osl, CLIP)
        else:
            scheduler.chunked = one
        if self.total <= 0:
            scheduler.full = True
        return self.total > 0 and self.tokens > 0

    def launch(self, one: Sequence, chunk: int, loads: int = 0) -> None:
        self.scheduler.extend(one, one.num_computed + chunk)
        part = Part(one, chunk, one.num_computed, one.target)
        part.moves = loads + self.scheduler.tiers.store(one, part.before + chunk)
        one.moved += part.moves if one.first_token < 0 else 0
        self.parts.append(part)


class SglangDecodeScheduler(SglangScheduler):
    """A decode engine: disaggregation/decode.py, process_decode_queue() and its successors."""

    def __init__(self, limits: SchedulerLimits) -> None:
        super().__init__(limits)
        self.retracted_queue: list[Sequence] = []
        self.ready: list[Sequence] = []  # waiting_queue of the engine; `waiting` is its prealloc

    def queue(self) -> list[Sequence]:
        return self.waiting + self.inbox + self.retracted_queue

    def put_back(self, victim: Sequence) -> None:
        self.retracted_queue.append(victim)

    def take(self, one: Sequence) -> None:
        (self.inbox if self.limits.scheduler_recv_interval > 1 else self.waiting).append(one)

    def schedule(self, now: int) -> None:
        self.now = now
        self.scheduled = []
        self.receive()
        self.resume()
        if not self.retracted_queue or not (self.batch or self.ready):
            self.ready += self.here
            self.here = []
        if not self.retracted_queue:
            self.preallocate(now)
        slots = self.limits.max_num_seqs - len(self.batch)
        new, self.ready = self.ready[:slots], self.ready[slots:]
        for one in new:
            self.away.remove(one)
            self.merge(one, now)
        self.decode()
        self.keep()
        self.last_mode = "decode" if self.scheduled else ""

    def fill(self, one: Sequence) -> int:
        given = one.generated if one.stage == "" else int(not self.again)
        return one.isl + given - 1

    def slots(self) -> int:
        size = self.limits.max_num_seqs
        size += 2 * size if size <= 32 else 0
        return size - len([one for one in self.running if one.finished < 0]) - len(self.away)

    def paged(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size) * self.limits.block_size

    def left(self) -> int:
        return len(self.pool.free) * self.limits.block_size

    def reserved(self) -> int:
        return self.limits.reserved_decode_tokens * (len(self.batch) + len(self.away))

    def resume(self) -> None:
        while self.retracted_queue and self.slots() > 0:
            one = self.retracted_queue[0]
            need = self.paged(self.fill(one)) + self.limits.reserved_decode_tokens
            if need > self.left() - self.reserved():
                break
            self.retracted_queue.pop(0)
            self.extend(one, self.fill(one))
            self.away.append(one)
            self.ready.append(one)

    def preallocate(self, now: int) -> None:
        runs = [one for one in self.batch if one.finished < 0]
        retractable = sum(one.isl + one.generated for one in runs)
        single = max((one.isl + min(one.osl, CLIP) - retractable for one in runs), default=0)
        while self.waiting and self.slots() > 0:
            one = self.waiting[0]
            need = max(
                self.paged(self.fill(one)) + self.limits.reserved_decode_tokens,
                one.isl + min(one.osl, CLIP) - retractable,
            )
            if need > self.left() - max(self.reserved(), single):
                break
            self.waiting.pop(0)
            self.extend(one, self.fill(one))
            one.stage = "fetched"
            self.away.append(one)
            self.sent.append((now, one))

    def merge(self, one: Sequence, now: int) -> None:
        if one.stage:
            one.generated = int(not self.again)
            one.stage = ""
            one.resumed = now
            if not self.again and not self.early:
                one.first_token = one.last_token = now
        one.num_computed = one.target = one.isl + one.generated - 1
        self.running.append(one)
        self.batch.append(one)

"""Reference implementation of TensorRT-LLM: capacity, then tokens, over the list of requests.

It shares no code with the loop it checks. Rules: NVIDIA/TensorRT-LLM,
cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp and microBatchScheduler.cpp.
"""

from __future__ import annotations

from tests.serving.reference_blocks import Part, Sequence
from tests.serving.reference_vllm import Scheduler


class TrtllmScheduler(Scheduler):
    def blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)

    def schedule(self, now: int) -> None:
        self.now = now
        self.scheduled = []
        going = [
            sequence
            for sequence in self.running
            if not (
                sequence.placeholders and sequence.generated + sequence.placeholders >= sequence.osl
            )
        ]
        if self.limits.rules == "trtllm_max_utilization":
            chosen = self.max_utilization(going)
        else:
            chosen = self.guaranteed(going + self.decode(going, now), now)
        taken = [part.sequence.index for part in self.scheduled]
        self.micro_batch([one for one in chosen if one.index not in taken], now)
        for part in self.scheduled:
            kept = part.tokens
            if part.decodes:
                kept = part.gives = self.accepts(part.sequence)
            part.sequence.num_computed += kept
            if part.samples:
                part.sequence.placeholders += part.gives

    def step_slots(self) -> int:
        return 1 + self.limits.draft_tokens

    def at_end(self, one: Sequence) -> int:
        return self.blocks_of(one.isl + one.osl + self.limits.draft_tokens)

    def decode(self, going: list[Sequence], now: int) -> list[Sequence]:
        """Add decoding sequences to the step; return those that join them."""
        started = [one for one in going if one.num_computed < one.target]
        for one in going:
            if one not in started:
                assert self.give(one, one.num_computed + self.step_slots())
                self.put(one, self.step_slots())
        joined = 0 if started else self.join(self.limits.max_num_seqs - len(going), now)
        return [part.sequence for part in self.scheduled[len(self.scheduled) - joined :]]

    def guaranteed(self, going: list[Sequence], now: int) -> list[Sequence]:
        left = len(self.pool.free)
        left -= sum(self.at_end(one) - len(one.blocks) for one in self.away)
        chosen = []
        pending = []
        for sequence in going:
            if sequence.num_computed >= sequence.target:
                chosen.append(sequence)
                left -= self.at_end(sequence) - len(sequence.blocks)
            else:
                pending.append(sequence)
        if self.limits.rules == "static" and chosen:
            return chosen
        for sequence in pending + list(self.waiting):
            need = self.at_end(sequence) - len(sequence.blocks)
            if len(chosen) >= self.limits.max_num_seqs or need > left:
                break
            if sequence.stage:
                hits = self.pool.lookup(sequence, self.limits.block_size)
                left += len(hits) - sum(self.pool.references[block] == 0 for block in hits)
                self.fetch(hits, now)
            else:
                chosen.append(sequence)
            left -= need
        return chosen

    def max_utilization(self, going: list[Sequence]) -> list[Sequence]:
        free = len(self.pool.free)
        held = list(self.pool.references)
        active = going + self.waiting
        end = len(active)
        chosen: list[Sequence] = []
        paused: list[Sequence] = []
        taken = 0
        at = 0
        while at < end:
            sequence = active[at]
            need = 0
            if sequence not in going:
                need = self.blocks_of(sequence.num_tokens)
            elif sequence.num_computed >= sequence.target:
                need = self.blocks_of(sequence.num_computed + self.step_slots()) - len(
                    sequence.blocks
                )
                need = max(need, 0)
            if len(chosen) < self.limits.max_num_seqs and taken + need <= free:
                chosen.append(sequence)
                taken += need
                at += 1
                continue
            started = [k for k in range(at, end) if active[k] in going]
            if not started:
                break
            end = started[-1]
            paused.append(active[end])
            for block in active[end].blocks:
                held[block] -= 1
                free += held[block] == 0
        for sequence in paused:
            self.running.remove(sequence)
            self.register(sequence, sequence.num_computed - sequence.placeholders)
            self.preempt(sequence)
        return chosen

    def micro_batch(self, chosen: list[Sequence], now: int) -> None:
        budget = self.limits.max_num_batched_tokens - len(self.scheduled) * self.step_slots()
        size = self.limits.block_size
        contexts = []
        for sequence in chosen:
            if sequence in self.running and sequence.num_computed >= sequence.target:
                assert self.give(sequence, sequence.num_computed + self.step_slots())
                self.put(sequence, self.step_slots())
                budget -= self.step_slots()
            else:
                contexts.append(sequence)
        if self.limits.batch_wait_timeout_iters and self.alone and self.waits(contexts, budget):
            return
        for sequence in contexts:
            started = sequence in self.running
            hits = [] if started else self.pool.lookup(sequence, size)
            done = sequence.num_computed if started else self.found(sequence, hits) * size
            target = sequence.target if started else sequence.num_tokens
            chunk = wanted = target - done
            if wanted > budget:
                chunk = budget // size * size
                if not self.limits.chunked_prefill and target <= self.limits.max_num_batched_tokens:
                    break
            if chunk == 0:
                break
            loads = 0 if started else self.start(sequence, hits, now)
            self.put(sequence, chunk, loads)
            budget -= chunk
            if chunk < wanted:
                break

    def waits(self, contexts: list[Sequence], budget: int) -> bool:
        """Let prompts wait for more prompts while sequences decode."""
        size = self.limits.block_size
        tokens = 0
        for sequence in contexts:
            started = sequence in self.running
            done = sequence.num_computed
            target = sequence.target if started else sequence.num_tokens
            if not started:
                done = self.found(sequence, self.pool.lookup(sequence, size)) * size
            wanted = target - done
            chunk = wanted if wanted <= budget else budget // size * size
            small = target <= self.limits.max_num_batched_tokens
            if chunk == 0 or (
                not started and chunk < wanted and small and not self.limits.chunked_prefill
            ):
                break
            tokens += target
            budget -= chunk
            if chunk < wanted or budget <= 0:
                break
        if not tokens or not self.scheduled:
            return False
        decodes = len(self.scheduled) * self.step_slots()
        full = tokens + decodes >= self.limits.batch_wait_max_tokens
        if self.held >= self.limits.batch_wait_timeout_iters or full:
            self.held = 0
            return False
        self.held += 1
        return True

    def start(self, sequence: Sequence, hits: list[int], now: int) -> int:
        self.waiting.remove(sequence)
        self.running.append(sequence)
        found = self.found(sequence, hits)
        for block in hits:
            self.pool.touch(block)
        sequence.blocks = hits.copy()
        sequence.num_registered = len(hits)
        sequence.target = sequence.num_tokens
        first = sequence.scheduled < 0
        if first:
            sequence.scheduled = now
            sequence.cached = len(hits) * self.limits.block_size
        loads = self.tiers.load(sequence, len(hits), now, first=first)
        sequence.num_computed = found * self.limits.block_size
        assert self.give(sequence, sequence.num_computed)
        assert self.give(sequence, sequence.target)
        return loads

    def give(self, sequence: Sequence, tokens: int) -> bool:
        need = max(self.blocks_of(tokens) - len(sequence.blocks), 0)
        if need > len(self.pool.free):
            return False
        sequence.blocks += [self.pool.take() for _ in range(need)]
        return True

    def update(self, parts: list[Part], now: int) -> list[Sequence]:
        for part in parts:
            if part.samples and not part.decodes and part.sequence in self.running:
                self.register(part.sequence, part.target)
        return super().update(parts, now)

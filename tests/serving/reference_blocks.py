"""Sequences and prefix-cache blocks of the reference simulations."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field


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
    target: int = 0  # tokens when last admitted: past them it decodes
    placeholders: int = 0  # output tokens of steps that have not ended
    arrival: int = -1
    scheduled: int = -1
    first_token: int = -1
    finished: int = -1
    replica: int = -1
    preempted: int = 0
    interference: int = 0
    lost: int = 0
    lost_since: int = -1
    mark: int = 0  # tokens computed at its preemption
    last_token: int = -1
    cached: int = 0
    whole_osl: int = 0  # where osl is only that of the prefill engine
    stage: str = ""  # between two pools
    kept: list[int] = field(default_factory=list)  # blocks at the prefill engine
    rank: int = 0  # of its prefill engine
    handed: int = -1
    arrived: int = -1
    resumed: int = -1
    decoded_at: int = -1
    answer_keys: dict[int, Hashable] = field(default_factory=dict)  # as the next turn has them
    below: int = 0  # leading blocks that tiers below the GPU had or got
    from_host: int = 0
    from_ssd: int = 0
    from_remote: int = 0
    moved: int = 0  # copies that steps waited for, up to its first token

    @property
    def num_tokens(self) -> int:
        return self.isl + self.generated

    def key(self, block: int) -> Hashable:
        if block < len(self.prompt_keys):
            return self.prompt_keys[block]
        own = ("own", self.index, block)
        return self.answer_keys.get(block, own) if self.finished >= 0 else own


@dataclass
class Part:
    """Tokens that a step computes for one sequence."""

    sequence: Sequence
    tokens: int
    before: int
    target: int
    gives: int = 1  # tokens, where it samples
    moves: int = 0  # time of copies from and to tiers below the GPU

    @property
    def decodes(self) -> bool:
        return self.before >= self.target

    @property
    def samples(self) -> bool:
        return self.before + self.tokens >= self.target


class Pool:
    """Prefix-cache blocks: a free queue and a map from hash to blocks."""

    def __init__(self, count: int, *, caching: bool, unnamed_first: bool) -> None:
        self.free = list(range(count))
        self.references = [0] * count
        self.key_of: dict[int, Hashable] = {}
        self.cached: dict[Hashable, list[int]] = {}
        self.caching = caching
        self.unnamed_first = unnamed_first
        self.evicted: Callable[[Hashable], object] = bool

    def take(self) -> int:
        block = self.free.pop(0)
        if block in self.key_of:
            self.evicted(self.key_of[block])
        self.forget(block)
        self.references[block] = 1
        return block

    def forget(self, block: int) -> None:
        key = self.key_of.pop(block, None)
        if key is not None:
            self.cached[key].remove(block)
            if not self.cached[key]:
                del self.cached[key]

    def touch(self, block: int) -> None:
        if self.references[block] == 0:
            self.free.remove(block)
        self.references[block] += 1

    def give_back(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self.references[block] -= 1
            if self.references[block] > 0:
                continue
            unnamed = self.caching and block not in self.key_of
            self.free.insert(0 if unnamed and self.unnamed_first else len(self.free), block)

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

"""Reference implementation of KV cache offloading: ordered dictionaries, oldest key first.

It shares no code with the loop it checks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from perfatlas.serving.config import SchedulerLimits
from tests.serving.reference_blocks import Sequence


class Tier:
    """A tier: keys in LRU order."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.keys: OrderedDict[Hashable, None] = OrderedDict()
        self.entered = self.left = self.loaded = 0
        self.free_at = 0  # end of the last load over its link

    def put(self, key: Hashable) -> Hashable | None:
        """Add a new key; return the one that has no room any more."""
        if self.room == 0:
            return key
        old = None
        if len(self.keys) == self.room:
            old, _ = self.keys.popitem(last=False)
            self.left += 1
        self.keys[key] = None
        self.entered += 1
        return old


class Tiers:
    """Host memory and SSD of a scheduler, and the pool that those of a group share."""

    def __init__(self, limits: SchedulerLimits) -> None:
        self.limits = limits
        self.host = Tier(limits.host_blocks)
        self.ssd = Tier(limits.ssd_blocks)
        self.remote = Tier(limits.remote_blocks)
        self.stored = 0
        self.copied = 0  # time of the copies of the step being scheduled

    def lookup(self, sequence: Sequence, hits: int) -> list[list[Hashable]]:
        """Return the leading keys in host memory, then those in each next tier from there on."""
        most = (sequence.num_tokens - 1) // self.limits.block_size
        keys = [sequence.key(block) for block in range(self.first(hits), most)]
        found: list[list[Hashable]] = []
        for tier in (self.host, self.ssd, self.remote):
            there = 0
            while there < len(keys) and keys[there] in tier.keys:
                there += 1
            found.append(keys[:there])
            keys = keys[there:]
        return found

    def first(self, hits: int) -> int:
        """Return the block at which a lookup begins: what the GPU evicts follows what it keeps."""
        return hits if self.limits.stores_evicted else 0

    def load(self, sequence: Sequence, hits: int, now: int, *, first: bool) -> int:
        """Refresh the hits; return the time to copy the others to the GPU."""
        if not self.limits.offloads:
            return 0
        found = self.lookup(sequence, hits)
        sequence.below = sum(map(len, found))
        known = hits - self.first(hits)
        counts, time = [], 0
        raised: list[Hashable] = []
        for tier, keys in zip((self.host, self.ssd, self.remote), found, strict=True):
            for key in reversed(keys):
                tier.keys.move_to_end(key)
            copies = keys[known:]
            known = max(known - len(keys), 0)
            tier.loaded += len(copies)
            counts.append(len(copies) * self.limits.block_size)
            raised += copies if tier is not self.host else []
            if tier is self.ssd:
                time += len(copies) * self.limits.ssd_move
            if tier is self.remote and copies:
                begin = now + self.copied + time
                tier.free_at = max(tier.free_at, begin) + len(copies) * self.limits.remote_share
                own = len(copies) * self.limits.remote_move
                time += self.limits.remote_latency + max(own, tier.free_at - begin)
            time += len(copies) * self.limits.host_move
        for key in raised:
            if key not in self.host.keys:
                self.sink(self.host.put(key))
        if first:
            sequence.from_host, sequence.from_ssd, sequence.from_remote = counts
            sequence.cached += sum(counts)
        self.copied += time
        return time

    def sink(self, key: Hashable | None) -> None:
        """Put a block that leaves host memory into the next tiers, where the engine does so."""
        for tier in (self.ssd, self.remote) if self.limits.stores_evicted else ():
            if key is None:
                return
            if key in tier.keys:
                tier.keys.move_to_end(key)
                return
            key = tier.put(key)

    def evict(self, key: Hashable) -> None:
        """Take a block that the GPU evicts, where the engine stores those."""
        if self.limits.offloads and self.limits.stores_evicted and key not in self.host.keys:
            self.stored += 1
            self.sink(self.host.put(key))

    def store(self, sequence: Sequence, tokens: int) -> int:
        """Write new blocks of a prompt to all tiers; return the time of the copy."""
        time = 0
        if not self.limits.offloads or self.limits.stores_evicted:
            return time
        while (sequence.below + 1) * self.limits.block_size <= min(tokens, sequence.isl):
            key = sequence.key(sequence.below)
            if key not in self.host.keys:
                self.host.put(key)
            for tier in (self.ssd, self.remote):
                if key in tier.keys:
                    tier.keys.move_to_end(key)
                else:
                    tier.put(key)
            sequence.below += 1
            self.stored += 1
            time += self.limits.host_move if self.limits.store_waits else 0
        self.copied += time
        return time

"""Reference implementation of KV cache offloading: two ordered dictionaries, oldest key first.

It shares no code with the loop it checks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from perfatlas.serving.config import SchedulerLimits
from tests.serving.reference_blocks import Sequence


class Shelf:
    """A tier: keys in LRU order."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.keys: OrderedDict[Hashable, None] = OrderedDict()
        self.came = self.went = self.loaded = 0

    def put(self, key: Hashable) -> Hashable | None:
        """Add a new key; return the one that has no room any more."""
        if self.room == 0:
            return key
        old = None
        if len(self.keys) == self.room:
            old, _ = self.keys.popitem(last=False)
            self.went += 1
        self.keys[key] = None
        self.came += 1
        return old


class Tiers:
    """Host memory and SSD of a scheduler."""

    def __init__(self, limits: SchedulerLimits) -> None:
        self.limits = limits
        self.host = Shelf(limits.host_blocks)
        self.ssd = Shelf(limits.ssd_blocks)
        self.stored = 0

    def lookup(self, sequence: Sequence, hits: int) -> tuple[list[Hashable], list[Hashable]]:
        """Return the leading keys in host memory, then those on the SSD from the first miss on."""
        keys = [
            sequence.key(block)
            for block in range((sequence.num_tokens - 1) // self.limits.block_size)
        ]
        keys = keys[self.first(hits) :]
        host: list[Hashable] = []
        while len(host) < len(keys) and keys[len(host)] in self.host.keys:
            host.append(keys[len(host)])
        ssd: list[Hashable] = []
        rest = keys[len(host) :]
        while len(ssd) < len(rest) and rest[len(ssd)] in self.ssd.keys:
            ssd.append(rest[len(ssd)])
        return host, ssd

    def first(self, hits: int) -> int:
        """Return the block at which a lookup begins: what the GPU evicts follows what it keeps."""
        return hits if self.limits.stores_evicted else 0

    def load(self, sequence: Sequence, hits: int, *, first: bool) -> int:
        """Refresh the hits; return the time to copy the others to the GPU."""
        if not self.limits.offloads:
            return 0
        host, ssd = self.lookup(sequence, hits)
        hits -= self.first(hits)
        for key in reversed(host):
            self.host.keys.move_to_end(key)
        for key in reversed(ssd):
            self.ssd.keys.move_to_end(key)
        sequence.below = len(host) + len(ssd)
        by_host = host[hits:]
        by_ssd = ssd[max(hits - len(host), 0) :]
        for key in by_ssd:
            if key not in self.host.keys:
                self.sink(self.host.put(key))
        self.host.loaded += len(by_host)
        self.ssd.loaded += len(by_ssd)
        if first:
            sequence.from_host = len(by_host) * self.limits.block_size
            sequence.from_ssd = len(by_ssd) * self.limits.block_size
            sequence.cached += sequence.from_host + sequence.from_ssd
        time = len(by_host) * self.limits.host_move
        return time + len(by_ssd) * (self.limits.host_move + self.limits.ssd_move)

    def sink(self, key: Hashable | None) -> None:
        """Put a block that leaves host memory onto the SSD, where the engine does so."""
        if key is None or not self.limits.stores_evicted:
            return
        if key in self.ssd.keys:
            self.ssd.keys.move_to_end(key)
        else:
            self.ssd.put(key)

    def evict(self, key: Hashable) -> None:
        """Take a block that the GPU evicts, where the engine stores those."""
        if self.limits.offloads and self.limits.stores_evicted and key not in self.host.keys:
            self.stored += 1
            self.sink(self.host.put(key))

    def store(self, sequence: Sequence, tokens: int) -> int:
        """Write new blocks of a prompt to both tiers; return the time of the copy."""
        time = 0
        if not self.limits.offloads or self.limits.stores_evicted:
            return time
        while (sequence.below + 1) * self.limits.block_size <= min(tokens, sequence.isl):
            key = sequence.key(sequence.below)
            if key not in self.host.keys:
                self.host.put(key)
            if key in self.ssd.keys:
                self.ssd.keys.move_to_end(key)
            else:
                self.ssd.put(key)
            sequence.below += 1
            self.stored += 1
            time += self.limits.host_move if self.limits.store_waits else 0
        return time

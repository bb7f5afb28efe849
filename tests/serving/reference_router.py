"""Reference implementation of the prefix-aware router: a tree with children by hash.

It shares no code with the loop it checks. Rules: sglang-router 0.3.2, src/policies/cache_aware.rs
and tree.rs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfatlas.serving.config import Affinity
from perfatlas.serving.requests import Requests
from tests.serving.support import hashes_of


@dataclass
class Node:
    owner: int
    got: set[int] = field(default_factory=set)


class PrefixRouter:
    """Replicas by received prefix; hashes are chained, so that each identifies its path."""

    def __init__(self, requests: Requests, affinity: Affinity, number: int) -> None:
        self.requests = requests
        self.affinity = affinity
        self.nodes: dict[int, Node] = {}
        self.last = -1  # the replica that was the least loaded last
        self.number = number

    def path(self, i: int) -> list[int]:
        return [int(value) for value in hashes_of(self.requests, i)]

    def choose(self, i: int, loads: dict[int, int]) -> int:
        after = self.last + 1
        least = min(loads, key=lambda index: (loads[index], (index - after) % self.number))
        most, fewest = max(loads.values()), min(loads.values())
        far = most - fewest > self.affinity.balance_apart
        chosen = least
        followed = False
        if not (far and most > self.affinity.balance_ratio * fewest):
            known = []
            for value in self.path(i):
                if value not in self.nodes:
                    break
                known.append(self.nodes[value])
            isl = int(self.requests.isl_N[i])
            tokens = min(len(known) * self.requests.hash_block, isl)
            if tokens > self.affinity.match_share * isl:
                chosen = known[-1].owner
                followed = True
        self.last = self.last if followed else least
        for value in self.path(i):
            self.nodes.setdefault(value, Node(chosen)).got.add(chosen)
        return chosen

    def forget(self, index: int) -> None:
        for value, node in list(self.nodes.items()):
            node.got.discard(index)
            if not node.got:
                del self.nodes[value]
            elif node.owner == index:
                node.owner = min(node.got)

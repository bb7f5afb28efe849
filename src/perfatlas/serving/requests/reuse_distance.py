"""Which blocks of prompts a prefix cache of limited capacity still has.

A cache that evicts the least recently used block has, at any capacity, the blocks that were used
last. So one pass over the requests, with the tokens that were used since each block was last used,
answers all capacities (the stack distance of Mattson et al., IBM Systems Journal 9(2), 1970).

Shape legend: N requests, H hashed blocks of their prompts, T uses of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.serving.requests.hashes import prompt_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.requests.columns import Requests

    Int = NDArray[np.int64]

NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class PrefixReuse:
    """The capacity from which a cache still has each block of a prompt when it arrives."""

    needed_H: Int  # That capacity [tokens], the largest integer where no earlier prompt has it (H,)
    saved_H: Int  # Prompt tokens that are not computed if the cache has it (H,)
    request_H: Int  # Its request (H,)

    @property
    def repeats(self) -> NDArray[np.bool_]:
        """Whether an earlier prompt has the block (H,)."""
        repeated_H: NDArray[np.bool_] = self.needed_H != NEVER
        return repeated_H

    def cached_tokens(self, capacity_tokens: float, count: int) -> Int:
        """Return the prompt tokens that a cache has when each request arrives (N,)."""
        cached_H = (self.needed_H <= capacity_tokens) & self.repeats
        tokens_N: Int = np.bincount(self.request_H, self.saved_H * cached_H, count).astype(np.int64)
        return tokens_N


def prefix_reuse(requests: Requests, caches: int = 1) -> PrefixReuse:
    """Return the capacity from which each block of a prompt is still cached when it arrives.

    Args:
        requests: Requests in order of arrival, with hashes of their prompts.
        caches: Caches that receive the requests in turn, each with one of so many.

    Source: vLLM v1/core/block_pool.py: blocks of a finished request are freed last block first, and
        the block freed first is evicted first; its output takes blocks too.

    Limits: A request uses all its blocks at its arrival, in whole blocks of the hashes. Running
        requests hold the blocks that were used last, so that the capacity is that of all KV blocks.
        Outputs are not found by later prompts.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import plain_requests, prefix_reuse, with_hashes
        >>> plain = plain_requests(np.arange(2), np.array([8, 12]), np.array([5, 5]))
        >>> count, hashes = np.array([2, 3]), np.array([1, 2, 1, 2, 3])
        >>> reuse = prefix_reuse(with_hashes(plain, count, hashes, 4))
        >>> reuse.needed_H[2:4].tolist()  # its own 4 tokens; those and the 4 before
        [4, 8]
        >>> [reuse.cached_tokens(room, 2).tolist() for room in (7, 8)]
        [[0, 4], [0, 8]]
    """
    first_N, hash_P = prompt_hashes(requests)
    count_N = np.diff(first_N)
    request_H = np.repeat(np.arange(count_N.size), count_N)
    start_H = (np.arange(request_H.size) - first_N[request_H]) * requests.hash_block
    tokens_H = np.minimum(requests.hash_block, requests.isl_N[request_H] - start_H)
    last_H = requests.isl_N[request_H] - 1 - start_H  # the last token is always computed
    saved_H = np.clip(last_H, 0, tokens_H)
    _, place_H = np.unique(hash_P, return_inverse=True)
    needed_H = np.full(request_H.size, NEVER)
    turn_N = np.arange(count_N.size) % caches
    order_N = np.argsort(turn_N, kind="stable")
    _fill_needed(
        needed_H,
        (order_N, turn_N, first_N, requests.osl_N),
        (place_H.astype(np.int64), tokens_H),
        (
            np.zeros(order_N.size + place_H.size + 1, np.int64),
            np.full(place_H.size, -1),
            np.zeros(place_H.size, np.int64),
        ),
    )
    return PrefixReuse(needed_H=needed_H, saved_H=saved_H, request_H=request_H)


@compiled
def _fill_needed(
    needed_H: Int,
    requests: tuple[Int, Int, Int, Int],
    blocks: tuple[Int, Int],
    state: tuple[Int, Int, Int],
) -> None:
    """Write the tokens used since the last use of each block, and its own.

    Args:
        blocks: Number of the distinct block and tokens of each block (H,).
        state: Tree of the tokens of uses, all 0; last use of each distinct block, -1 each, and its
            tokens then.
    """
    order_N, turn_N, first_N, osl_N = requests
    place_H, tokens_H = blocks
    tree_T, last_U, held_U = state
    use, begin, total, turn = 0, 0, 0, -1
    for i in order_N:
        if turn_N[i] != turn:  # the next cache, which is empty
            turn, begin, total = turn_N[i], use, 0
        deepest = 0
        for h in range(first_N[i], first_N[i + 1]):
            last = last_U[place_H[h]]
            if last < begin:
                break  # nor is any later block of the prompt known
            older = _sum_before(tree_T, last) - _sum_before(tree_T, begin)
            deepest = max(deepest, total - older)
            needed_H[h] = deepest
        # the output first, and blocks from the last on: the start of a prompt is evicted last
        _add(tree_T, use, osl_N[i])
        total += osl_N[i]
        use += 1
        for h in range(first_N[i + 1] - 1, first_N[i] - 1, -1):
            block = place_H[h]
            if last_U[block] >= begin:
                _add(tree_T, last_U[block], -held_U[block])
                total -= held_U[block]
            last_U[block], held_U[block] = use, tokens_H[h]
            _add(tree_T, use, tokens_H[h])
            total += tokens_H[h]
            use += 1


@part
def _add(tree_T: Int, use: int, tokens: int) -> None:
    """Add the tokens of a use to a tree of partial sums (Fenwick)."""
    node = use + 1
    while node < tree_T.shape[0]:
        tree_T[node] += tokens
        node += node & -node


@part
def _sum_before(tree_T: Int, use: int) -> int:
    """Return the tokens of all earlier uses."""
    total, node = 0, use
    while node > 0:
        total += tree_T[node]
        node -= node & -node
    return total

"""An independent packing of workers onto nodes, by trying every node for every worker."""

from __future__ import annotations

from functools import cache

Nodes = tuple[int, ...]


def holds(workers: tuple[int, ...], gpus: int, per_node: int) -> bool:
    """Return whether nodes hold all workers: small ones whole, larger ones on whole nodes."""
    nodes = [per_node] * (gpus // per_node)
    if gpus % per_node:
        nodes.append(gpus % per_node)
    return _packs(tuple(sorted(workers, reverse=True)), tuple(sorted(nodes)), per_node)


@cache
def _packs(workers: tuple[int, ...], free: Nodes, per_node: int) -> bool:
    if not workers:
        return True
    first, rest = workers[0], workers[1:]
    if first > per_node:
        number = -(-first // per_node)
        whole = [node for node in free if node == per_node]
        others = [node for node in free if node != per_node]
        if len(whole) >= number and _packs(rest, (*others, *whole[number:]), per_node):
            return True
        short = (number - 1) * per_node
        return len(whole) >= number - 1 and any(
            node + short >= first
            and _packs(
                rest, tuple(sorted((*others[:k], *others[k + 1 :], *whole[number - 1 :]))), per_node
            )
            for k, node in enumerate(others)
        )
    for node in sorted({node for node in free if node >= first}):
        left = list(free)
        left.remove(node)
        if _packs(rest, tuple(sorted((*left, node - first))), per_node):
            return True
    return False

"""Natural loops of a function, from the instructions that may follow each instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def natural_loops(following: Sequence[Sequence[int]]) -> list[set[int]]:
    """Return the instructions of every natural loop, without loops of one instruction.

    A jump back to an instruction through which every path to the jump leads closes a loop; loops
    with the same first instruction are one.

    Args:
        following: Instructions that may follow each one; the first is the entry.

    Source:
        Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001), figure 3.

    Example:
        >>> from perfatlas.lab.static.loops import natural_loops
        >>> natural_loops([[1], [2], [1, 3], []])
        [{1, 2}]
    """
    if not following:
        return []
    order = _postorder(following)
    number = {at: rank for rank, at in enumerate(order)}
    before: dict[int, list[int]] = {at: [] for at in order}
    for at in order:
        for after in following[at]:
            before[after].append(at)
    dominator = _dominators(order, number, before)
    loops: dict[int, set[int]] = {}
    for at in order:
        for head in following[at]:
            if head != at and _dominates(head, at, dominator):
                loops.setdefault(head, {head}).update(_body(head, at, before))
    return list(loops.values())


def _postorder(following: Sequence[Sequence[int]]) -> list[int]:
    """Return the instructions that can be reached, each after those that follow it."""
    order: list[int] = []
    seen, stack = {0}, [(0, iter(following[0]))]
    while stack:
        at, rest = stack[-1]
        after = next((one for one in rest if one not in seen), None)
        if after is None:
            order.append(at)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(following[after])))
    return order


def _dominators(
    order: Sequence[int], number: dict[int, int], before: dict[int, list[int]]
) -> dict[int, int]:
    """Return the immediate dominator of every instruction that can be reached."""
    found = {0: 0}
    changed = True
    while changed:
        changed = False
        for at in reversed(order[:-1]):
            known = [one for one in before[at] if one in found]
            new = known[0]
            for one in known[1:]:
                new = _common(new, one, found, number)
            if found.get(at) != new:
                found[at], changed = new, True
    return found


def _common(left: int, right: int, dominator: dict[int, int], number: dict[int, int]) -> int:
    while left != right:
        if number[left] < number[right]:
            left = dominator[left]
        else:
            right = dominator[right]
    return left


def _dominates(head: int, at: int, dominator: dict[int, int]) -> bool:
    while at not in (head, dominator[at]):
        at = dominator[at]
    return at == head


def _body(head: int, tail: int, before: dict[int, list[int]]) -> set[int]:
    """Return the instructions from which a jump back is reached without passing the head."""
    body, stack = {head}, [tail]
    while stack:
        at = stack.pop()
        if at not in body:
            body.add(at)
            stack.extend(before[at])
    return body

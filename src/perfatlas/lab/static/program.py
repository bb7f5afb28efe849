"""Instructions of a function in any assembly: counted, and followed around its loops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfatlas.lab.static.kernel import Instructions
from perfatlas.lab.static.work import LOADS, NARROW, NARROW_BYTES

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence

    from perfatlas.lab.static.kernel import Kernel, Line


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How an assembly writes its instructions."""

    label: re.Pattern[str]  # among operands
    mma: re.Pattern[str]  # matrix instructions
    ends: tuple[str, ...]  # operations that the next instruction does not follow
    local_loads: str
    local_stores: str
    stem: Callable[[str], str]  # the operation without modifiers
    work: Callable[[Sequence[Line], int], tuple[str, int] | None]  # kind and amount of a line
    mma_name: Callable[[str], str] = str
    padding: str = ""


def with_program(kernel: Kernel, lines: Sequence[Line], dialect: Dialect) -> Kernel:
    """Return a kernel with its instructions and its loops.

    The main loop is the innermost one with the most matrix instructions, or else the longest.
    """
    loops = sorted(natural_loops(_following(lines, dialect)), key=len, reverse=True)
    matrix = {index for index, line in enumerate(lines) if dialect.mma.match(line.operation)}
    with_mma = [loop for loop in loops if loop & matrix]
    inner = [loop for loop in with_mma if not any(other < loop for other in with_mma)]
    main = max(inner or loops, key=lambda loop: (len(loop & matrix), len(loop)), default=None)
    counted = [_counted(lines, sorted(loop), dialect) for loop in loops]
    around = [loop for loop in loops if main and main < loop]
    return replace(
        kernel,
        instructions=_counted(lines, range(len(lines)), dialect),
        main_loop=counted[loops.index(main)] if main else None,
        loops=tuple(counted),
        around=counted[loops.index(around[-1])] if around else None,
    )


def _counted(lines: Sequence[Line], places: Iterable[int], dialect: Dialect) -> Instructions:
    names, work = [], Counter[str]()
    for place in places:
        names.append(lines[place].operation)
        if found := dialect.work(lines, place):
            work[found[0]] += found[1]
            if found[0] in LOADS and found[1] < NARROW_BYTES:
                work[NARROW] += found[1]
    mix = Counter(map(dialect.stem, names))
    mix.pop(dialect.padding, None)
    mma = Counter(dialect.mma_name(name) for name in names if dialect.mma.match(name))
    return Instructions(
        count=mix.total(),
        mix=dict(mix.most_common()),
        mma=dict(mma.most_common()),
        local_loads=sum(name.startswith(dialect.local_loads) for name in names),
        local_stores=sum(name.startswith(dialect.local_stores) for name in names),
        work=dict(work),
    )


def _following(lines: Sequence[Line], dialect: Dialect) -> list[list[int]]:
    """Return, for each instruction, those that may follow it."""
    targets = {label: index for index, line in enumerate(lines) for label in line.labels}
    successors = []
    for index, line in enumerate(lines):
        labels = dialect.label.findall(line.operands)
        after = [targets[label] for label in labels if label in targets]
        ends = dialect.stem(line.operation) in dialect.ends and not line.conditional
        successors.append(after if ends or index + 1 == len(lines) else [*after, index + 1])
    return successors


def natural_loops(following: Sequence[Sequence[int]]) -> list[set[int]]:
    """Return the instructions of every natural loop, without loops of one instruction.

    Loops with the same first instruction are one.

    Source:
        Aho, Lam, Sethi, Ullman, "Compilers" (2nd edition), section 9.6.

    Limits:
        cycles with several entries, which compilers rarely emit, are no loops.

    Example:
        >>> from perfatlas.lab.static.program import natural_loops
        >>> natural_loops([[1], [2], [1, 3], []])
        [{1, 2}]
    """
    before: list[list[int]] = [[] for _ in following]
    path, seen = {0}, {0}
    stack = [(0, iter(following[0]))] if following else []
    back = []
    while stack:
        instruction, rest = stack[-1]
        after = next(rest, None)
        if after is None:
            path.discard(instruction)
            stack.pop()
            continue
        before[after].append(instruction)
        if after in path and after != instruction:
            back.append((after, instruction))
        elif after not in seen:
            seen.add(after)
            path.add(after)
            stack.append((after, iter(following[after])))
    loops: dict[int, set[int]] = {}
    for head, tail in back:
        body, waiting = loops.setdefault(head, {head}), [tail]
        while waiting:
            if (instruction := waiting.pop()) not in body:
                body.add(instruction)
                waiting += before[instruction]
    return [body for head, body in loops.items() if head == 0 or 0 not in body]

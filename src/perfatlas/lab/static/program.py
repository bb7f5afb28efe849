"""Instructions of a function in any assembly: counted, and followed around its loops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from perfatlas.lab.static.kernel import Instructions
from perfatlas.lab.static.loops import natural_loops

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence


class Line(NamedTuple):
    """An instruction: whether it has a condition, its operation, operands, labels before it."""

    conditional: bool
    operation: str
    operands: str
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How an assembly writes its instructions.

    Args:
        label: Matches the labels among operands.
        mma: Matches the operations that multiply matrices.
        ends: Operations after which the next instruction does not follow.
        local_loads: Operations that load from local memory.
        local_stores: Operations that store to it.
        stem: The operation without modifiers.
        mma_name: The name of a matrix instruction.
        padding: Operation that only fills.
    """

    label: re.Pattern[str]
    mma: re.Pattern[str]
    ends: tuple[str, ...]
    local_loads: str
    local_stores: str
    stem: Callable[[str], str]
    mma_name: Callable[[str], str] = str
    padding: str = ""


def counted_instructions(lines: Iterable[Line], dialect: Dialect) -> Instructions:
    """Return the number of each instruction, without padding.

    Args:
        lines: Instructions.
        dialect: Their assembly.
    """
    names = [line.operation for line in lines]
    mix = Counter(map(dialect.stem, names))
    mix.pop(dialect.padding, None)
    mma = Counter(dialect.mma_name(name) for name in names if dialect.mma.match(name))
    return Instructions(
        count=mix.total(),
        mix=dict(mix.most_common()),
        mma=dict(mma.most_common()),
        local_loads=sum(name.startswith(dialect.local_loads) for name in names),
        local_stores=sum(name.startswith(dialect.local_stores) for name in names),
    )


def loops_of(lines: Sequence[Line], dialect: Dialect) -> tuple[int, Instructions | None]:
    """Return the number of loops, and the main loop.

    The main loop is the innermost one with the most matrix instructions, or else the longest.

    Args:
        lines: Instructions of a function.
        dialect: Their assembly.
    """
    loops = natural_loops(_following(lines, dialect))
    matrix = {at for at, line in enumerate(lines) if dialect.mma.match(line.operation)}
    with_mma = [loop for loop in loops if loop & matrix]
    inner = [one for one in with_mma if not any(other < one for other in with_mma)]
    chosen = max(inner or loops, key=lambda one: (len(one & matrix), len(one)), default=None)
    body = [lines[at] for at in sorted(chosen or ())]
    return len(loops), counted_instructions(body, dialect) if body else None


def _following(lines: Sequence[Line], dialect: Dialect) -> list[list[int]]:
    """Return, for each instruction, those that may follow it."""
    place = {label: at for at, line in enumerate(lines) for label in line.labels}
    found = []
    for at, line in enumerate(lines):
        after = [place[label] for label in dialect.label.findall(line.operands) if label in place]
        if at + 1 < len(lines) and (
            line.conditional or dialect.stem(line.operation) not in dialect.ends
        ):
            after.append(at + 1)
        found.append(after)
    return found

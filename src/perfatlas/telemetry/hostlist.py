"""Slurm host lists: node[01-03,7],gpu8 as names."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_HOSTS: Final = 1_000_000
_NO_HOSTS: Final = ("", "none assigned", "(null)", "none", "unknown")
_PART: Final = re.compile(r"([^\[\],]*)(?:\[([^\[\]]*)\])?")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


@lru_cache(maxsize=64)
def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the names of a host list in its order.

    Args:
        text: Such as "node[0998-1001,1838],login1"; "None assigned" and "" have no hosts.

    Raises:
        InvalidSpecError: The list is not closed, a range is no range or runs downwards, or it names
            more than a million hosts.

    Source: Slurm's hostlist(3) notation as sacct prints it; several brackets in one name multiply.

    Example:
        >>> from perfatlas.telemetry.hostlist import expand_hosts
        >>> expand_hosts("node[08-10],login")
        ('node08', 'node09', 'node10', 'login')
    """
    if text.strip().lower() in _NO_HOSTS:
        return ()
    hosts: list[str] = []
    for name in _names(text.strip()):
        hosts += _expanded(name, text, MOST_HOSTS - len(hosts))
    return tuple(hosts)


def _names(text: str) -> Iterator[str]:
    """Yield the parts between commas that are not in brackets."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise _wrong(text, f"bracket {letter!r} at character {place + 1} does not match")
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if depth:
        raise _wrong(text, "a bracket is not closed; was the list cut off (sacct's %width)?")
    yield text[start:]


def _expanded(name: str, text: str, most: int) -> list[str]:
    axes: list[list[str]] = []
    count = 1
    for match in _PART.finditer(name):
        head, inside = match.groups()
        if head:
            axes.append([head])
        if inside is not None:
            axes.append(_numbers(inside, text, most))
            count *= len(axes[-1])
        if count > most:
            raise _wrong(text, f"more than {MOST_HOSTS} hosts")
    if not axes:
        raise _wrong(text, "a name between commas is empty")
    return ["".join(parts) for parts in product(*axes)]


def _numbers(inside: str, text: str, most: int) -> list[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _wrong(text, f"{shown(part)} is not a number or a range of numbers")
        low, high = match.group(1), match.group(2) or match.group(1)
        first, last = int(low), int(high)
        if last < first:
            raise _wrong(text, f"range {shown(part)} runs downwards")
        if last - first >= most - len(numbers):
            raise _wrong(text, f"more than {MOST_HOSTS} hosts")
        numbers += [str(n).zfill(len(low)) for n in range(first, last + 1)]
    return numbers


def _wrong(text: str, problem: str) -> InvalidSpecError:
    return InvalidSpecError(f"host list {shown(text)}: {problem}")

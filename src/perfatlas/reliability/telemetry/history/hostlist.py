"""Slurm host lists, node[01-03,7],gpu8: number of hosts and their names."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_HOSTS: Final = 1_000_000
_NO_HOSTS: Final = ("", "none assigned", "(null)", "none", "unknown")
_NAME: Final = re.compile(r"(?:[^\[\],]++|\[[^\[\]]*+\])*+")
_PART: Final = re.compile(r"([^\[\]]++)|\[([^\[\]]*+)\]")
_RANGE: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class _Span(NamedTuple):
    """A range of numbers in a bracket, with the digits of the first."""

    first: int
    last: int
    digits: int

    def numbers(self) -> list[str]:
        return [str(n).zfill(self.digits) for n in range(self.first, self.last + 1)]


class _Host(NamedTuple):
    """A name with its brackets."""

    parts: tuple[str | tuple[_Span, ...], ...]  # Text, or the ranges of a bracket, in order
    size: int  # Number of hosts: brackets multiply


@lru_cache(maxsize=1 << 16)
def count_hosts(text: str) -> int:
    """Return the number of hosts of a list, without expanding it.

    Args:
        text: As for `expand_hosts`.

    Example:
        >>> from perfatlas.reliability.telemetry.history import count_hosts
        >>> count_hosts("rack[1-3]node[08-10],login"), count_hosts("None assigned")
        (10, 0)
    """
    return sum(host.size for host in _hosts(text))


def lone_host(text: str) -> str:
    """Return the host of a list with one host, "" for none or several.

    Args:
        text: As for `expand_hosts`.
    """
    return expand_hosts(text)[0] if count_hosts(text) == 1 else ""


def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the names of a host list in its order.

    Args:
        text: Such as "node[0998-1001,1838],login1"; "None assigned" and "" have no hosts.

    Raises:
        InvalidSpecError: A bracket is not closed, a range is invalid or decreasing, or there are
            more than a million hosts.

    Source: Slurm's hostlist(3) notation as sacct prints it; several brackets in one name multiply.

    Example:
        >>> from perfatlas.reliability.telemetry.history import expand_hosts
        >>> expand_hosts("node[08-10],login")
        ('node08', 'node09', 'node10', 'login')
    """
    names: list[str] = []
    for host in _hosts(text):
        axes = [
            [part] if isinstance(part, str) else [n for span in part for n in span.numbers()]
            for part in host.parts
        ]
        names += ["".join(parts) for parts in product(*axes)]
    return tuple(names)


def _hosts(text: str) -> list[_Host]:
    """Return the names of a list with unexpanded brackets."""
    plain = text.strip()
    if plain.lower() in _NO_HOSTS:
        return []
    hosts = [_host(name, text) for name in _names(plain)]
    if sum(host.size for host in hosts) > MAX_HOSTS:
        raise _wrong(text, f"more than {MAX_HOSTS} hosts")
    return hosts


def _names(text: str) -> Iterator[str]:
    """Yield the parts between commas that are not in brackets."""
    index = -1
    while index < len(text):
        start = index + 1
        index = next(_NAME.finditer(text, start)).end()  # always matches, possibly the empty text
        yield text[start:index]
        if index < len(text) and text[index] != ",":
            raise _bracket(text, index)


def _bracket(text: str, start: int) -> InvalidSpecError:
    """Return the error of an unmatched bracket."""
    again = re.search(r"[\[\]]", text[start + 1 :])
    if text[start] == "[" and again is None:
        return _wrong(text, "a bracket is not closed; is the list truncated (sacct's %width)?")
    at = start if text[start] == "]" or again is None else start + 1 + again.start()
    return _wrong(text, f"bracket {text[at]!r} at character {at + 1} does not match")


def _host(name: str, text: str) -> _Host:
    if not name:
        raise _wrong(text, "a name between commas is empty")
    parts = [head or _spans(inside, text) for head, inside in _PART.findall(name)]
    sizes = [
        sum(span.last - span.first + 1 for span in part)
        for part in parts
        if not isinstance(part, str)
    ]
    return _Host(tuple(parts), prod(sizes))


def _spans(inside: str, text: str) -> tuple[_Span, ...]:
    spans: list[_Span] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _wrong(text, f"{repr_for_error(part)} is not a number or a range of numbers")
        low, high = match[1], match[2] or match[1]
        span = _Span(int(low), int(high), len(low))
        if span.last < span.first:
            raise _wrong(text, f"range {repr_for_error(part)} is decreasing")
        spans.append(span)
    return tuple(spans)


def _wrong(text: str, problem: str) -> InvalidSpecError:
    return InvalidSpecError(f"host list {repr_for_error(text)}: {problem}")

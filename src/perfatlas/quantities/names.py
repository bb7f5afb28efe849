"""Names that a user writes: which known name is meant, and which one is nearest to a wrong one."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from perfatlas.quantities.errors import InvalidSpecError, PerfatlasError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEAST_SIMILARITY: Final = 0.6  # of difflib, 0 to 1: two thirds of the letters, one wrong in three
_LONGEST_NAME: Final = 80  # characters that are compared
_LONGEST_LIST: Final = 8  # candidates that a message lists
_PART: Final = 0.95  # weight of a likeness with the first part of a name alone
_SAME_LETTERS: Final = 0.95  # likeness of names whose letters stand in another order, as nodse
_VARIANT: Final = re.compile("([^/_@]+)[_@]")  # h100 of h100_sxm, vllm of vllm@0.24


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the nearest choice, or an empty string.

    Letter case, and "-" for "_", make no difference. The organization before a "/" and what
    follows the first "_" or "@" may be left out. A choice that is less similar than
    `LEAST_SIMILARITY` is not suggested.

    Args:
        value: What the user wrote.
        choices: The valid names.

    Returns:
        A clause to append to an error message.

    Example:
        >>> from perfatlas.quantities import did_you_mean
        >>> did_you_mean("h2000", ["h20", "h200_sxm", "b200_sxm"])
        "; did you mean 'h200_sxm'?"
        >>> did_you_mean("resnet50", ["Qwen/Qwen2.5-0.5B"])
        ''
    """
    name = nearest_name(value, choices)
    return "" if name is None else f"; did you mean {name!r}?"


def nearest_name(value: str, choices: Iterable[str]) -> str | None:
    """Return the choice that a misspelt name is nearest to, None where none is similar.

    Of equally near ones the last in the alphabet, which is the newest of numbered ones.

    Args:
        value: What the user wrote.
        choices: The valid names.

    Example:
        >>> from perfatlas.quantities import nearest_name
        >>> nearest_name("mdlel", ["model", "mode"])
        'model'
    """
    wanted = _folded(value[:_LONGEST_NAME])
    matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
    best, nearest = LEAST_SIMILARITY, None
    for choice in choices:
        for spelling, weight in _compared(choice):
            matcher.set_seq1(spelling)
            if matcher.real_quick_ratio() * weight < best or matcher.quick_ratio() * weight < best:
                continue
            same_letters = sorted(spelling) == sorted(wanted)
            ratio = max(matcher.ratio(), _SAME_LETTERS if same_letters else 0.0) * weight
            if ratio > best or (ratio == best and (nearest is None or choice > nearest)):
                best, nearest = ratio, choice
    return nearest


def resolve_name(
    given: str,
    names: Iterable[str],
    *,
    what: str,
    lists: str,
    shorten: bool = True,
    error: type[PerfatlasError] = InvalidSpecError,
) -> str:
    """Return the known name that a user means.

    A name is found as it is spelled; else in any letter case, with "-" or a space for "_" and
    without an organization before "/"; else by its first parts, up to a "_", "-", "@" or ".",
    where one name alone begins with them.

    Args:
        given: What the user wrote.
        names: The known names.
        what: What is named, such as "system".
        lists: What lists all names, such as "`perfatlas catalog systems` lists all".
        shorten: Whether the first parts of a name are enough. If not, they are only suggested.
        error: What to raise.

    Raises:
        PerfatlasError: No name is meant, or several are: the message has the nearest or all.

    Example:
        >>> from perfatlas.quantities import resolve_name
        >>> systems = ["a100_sxm", "h100_pcie", "h100_sxm"]
        >>> resolve_name("A100", systems, what="system", lists="")
        'a100_sxm'
    """
    known = frozenset(names)
    if given in known:
        return given
    wanted = _folded(given)
    folded = [(spelling, name) for name in known for spelling in _spellings(name)]
    found = {name for spelling, name in folded if spelling == wanted}
    if len(found) == 1:
        return found.pop()
    if not found and wanted:
        found = {name for spelling, name in folded if _begins(spelling, wanted)}
        if shorten and len(found) == 1:
            return found.pop()
    if len(found) > 1:
        raise error(f"ambiguous {what} {shown(given)}: {_listed(sorted(found))}; {lists}")
    nearest = (
        f"; did you mean {found.pop()!r}?" if found else did_you_mean(given, sorted(known)) or ";"
    )
    raise error(f"unknown {what} {shown(given)}{nearest} {lists}")


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def _spellings(name: str) -> tuple[str, ...]:
    """Return a name folded, and what follows its organization if it has one."""
    folded = _folded(name)
    return (folded, folded.rpartition("/")[2]) if "/" in folded else (folded,)


def _compared(name: str) -> Iterator[tuple[str, float]]:
    """Yield what a misspelt name is compared with, and how much a likeness counts."""
    for spelling in _spellings(name):
        yield spelling, 1.0
    if first := _VARIANT.match(name):
        yield _folded(first[1]), _PART


def _begins(spelling: str, wanted: str) -> bool:
    """Return whether a folded name begins with whole parts that are wanted."""
    return spelling.startswith(wanted) and spelling[len(wanted)] in "_@."


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LONGEST_LIST} more" if len(names) > _LONGEST_LIST else ""
    return ", ".join(names[:_LONGEST_LIST]) + more

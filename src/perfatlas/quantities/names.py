"""Resolution of names that a user writes, and suggestions for misspelt ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from perfatlas.quantities.errors import InvalidSpecError, PerfatlasError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

SHORT_NAME: Final = 3  # letters up to which a name begins with the same one
MIN_SIMILARITY: Final = 0.6  # difflib ratio from 0 to 1
_MAX_NAME_LENGTH: Final = 80  # characters that are compared
_MAX_LIST_LENGTH: Final = 8  # candidates that a message lists
_PART: Final = 0.95  # weight of a match with only the first part of a name
_SAME_LETTERS: Final = 0.95  # similarity of names with transposed letters, such as nodse
_BETWEEN_DIGITS: Final = re.compile(r"(?<=\d)[._-]+(?=\d)")
_PUNCTUATION: Final = re.compile(r"[._-]+")
_VARIANT: Final = re.compile("([^/_@]+)[_@]")  # h100 of h100_sxm, vllm of vllm@0.24


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the nearest choice, or an empty string.

    Letter case and the difference between "-" and "_" are ignored. The organization before a "/"
    and everything after the first "_" or "@" may be omitted. Choices that are less similar than
    `MIN_SIMILARITY` are not suggested.

    Args:
        value: What the user wrote.

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
    """Return the choice nearest to a misspelt name, or None if none is similar enough.

    Ties go to the last name in alphabetical order: the newest of numbered names.

    Args:
        value: What the user wrote.

    Example:
        >>> from perfatlas.quantities import nearest_name
        >>> nearest_name("mdlel", ["model", "mode"])
        'model'
    """
    wanted = _folded(value[:_MAX_NAME_LENGTH])
    matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
    best, nearest = MIN_SIMILARITY, None
    for choice in choices:
        for spelling, weight in _compared(choice):
            matcher.set_seq1(spelling)
            if matcher.real_quick_ratio() * weight < best or matcher.quick_ratio() * weight < best:
                continue
            same_letters = sorted(spelling) == sorted(wanted)
            if len(wanted) <= SHORT_NAME and wanted[:1] != spelling[:1] and not same_letters:
                continue  # another letter at the start makes another word: an lpu is no cpu
            ratio = max(matcher.ratio(), _SAME_LETTERS if same_letters else 0.0) * weight
            if ratio > best or (ratio == best and (nearest is None or choice > nearest)):
                best, nearest = ratio, choice
    return nearest


def resolve_name(
    given: str,
    names: Iterable[str] | Mapping[str, object],
    *,
    what: str,
    lists: str,
    shorten: bool | Collection[str] = True,
    error: type[PerfatlasError] = InvalidSpecError,
) -> str:
    """Return the known name that a user means.

    An exact match wins; then a match that ignores letter case, the difference between "-", space
    and "_", and the organization before "/"; then one that ignores all punctuation but that between
    two digits; then a unique name that begins with the given parts, which end at a "_", "-", "@" or
    ".".

    Args:
        names: All names; as a mapping to texts, those of one text are spellings of one name.
        what: Noun for the message, such as "system".
        lists: Where to find all names, such as "`perfatlas catalog systems` lists all".
        shorten: Whether the first parts of a name are accepted, or the names of which they are.
            Otherwise they are only suggested.
        error: Exception class to raise.

    Raises:
        PerfatlasError: No name matches, or several do; the message lists the nearest or all.

    Example:
        >>> from perfatlas.quantities import resolve_name
        >>> systems = ["a100_sxm", "h100_pcie", "h100_sxm"]
        >>> resolve_name("A100", systems, what="system", lists="")
        'a100_sxm'
        >>> resolve_name("resnet50", ["resnet-50"], what="model", lists="")
        'resnet-50'
    """
    choices = frozenset(names)
    if given in choices:
        return given
    wanted = _folded(given)
    folded = [(spelling, name) for name in choices for spelling in _spellings(name)]
    matches = {name for spelling, name in folded if spelling == wanted}
    if not matches and (plain := _without_punctuation(wanted)):
        matches = {name for spelling, name in folded if _without_punctuation(spelling) == plain}
    shortened = not matches and bool(wanted)
    if shortened:
        matches = {name for spelling, name in folded if _begins(spelling, wanted)}
    accepted = not shortened or shorten is True or matches.issubset(shorten or ())
    values = names if isinstance(names, Mapping) else {}
    meant = {name: text if isinstance(text := values.get(name), str) else name for name in choices}
    if accepted and len({meant[name] for name in matches}) == 1:
        return min(matches)
    if len(matches) > 1:
        listed = _listed(sorted({meant[name] for name in matches}))
        raise error(f"ambiguous {what} {repr_for_error(given)}: {listed}; {lists}")
    # of a known name with further parts, as in gb200_nvl72, the longest
    matches = matches or {name for spelling, name in folded if wanted.startswith(f"{spelling}_")}
    nearest = max(matches, key=len) if matches else nearest_name(given, sorted(choices))
    hint = ";" if nearest is None else f"; did you mean {meant[nearest]!r}?"
    raise error(f"unknown {what} {repr_for_error(given)}{hint} {lists}")


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def _without_punctuation(folded: str) -> str:
    """Return a folded name without punctuation, but that between two digits: 3.1 is not 31."""
    return _PUNCTUATION.sub("", _BETWEEN_DIGITS.sub(",", folded))


def _spellings(name: str) -> tuple[str, ...]:
    """Return a folded name, and the part after its organization if it has one."""
    folded = _folded(name)
    return (folded, folded.rpartition("/")[2]) if "/" in folded else (folded,)


def _compared(name: str) -> Iterator[tuple[str, float]]:
    """Yield the spellings to compare a misspelt name with, and the weight of each."""
    for spelling in _spellings(name):
        yield spelling, 1.0
    if first := _VARIANT.match(name):
        yield _folded(first[1]), _PART


def _begins(spelling: str, wanted: str) -> bool:
    """Return whether a folded name begins with the given whole parts."""
    return spelling.startswith(wanted) and spelling[len(wanted)] in "_@."


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LIST_LENGTH} more" if len(names) > _MAX_LIST_LENGTH else ""
    return ", ".join(names[:_MAX_LIST_LENGTH]) + more

"""Why there is no answer, in words: one line, or a bullet per change that would help."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InfeasibleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyclopts import UnknownOptionError

    from perfatlas.quantities import PerfatlasError

WIDEST: Final = 100
MOST_SHOWN: Final = 200  # letters of what was written


def refusal_text(problem: PerfatlasError) -> str:
    """Return the message of a refusal, its line end included.

    Args:
        problem: Why there is no answer. What does not fit brings changes that would: each is a
            bullet, wrapped at the width of the terminal.

    Example:
        >>> from perfatlas.commands.output import refusal_text
        >>> from perfatlas.quantities import InfeasibleError
        >>> print(refusal_text(InfeasibleError("does not fit.", advice=("tp = 2 fits.",))), end="")
        perfatlas: does not fit.
        what fits:
          - tp = 2 fits.
    """
    advice = problem.advice if isinstance(problem, InfeasibleError) else ()
    if not advice:
        return f"perfatlas: {problem}\n"
    width = min(shutil.get_terminal_size().columns, WIDEST)
    lines = [_wrapped(f"perfatlas: {shortfall_of(problem)}", width, "", "  "), "what fits:"]
    lines += [_wrapped(sentence, width, "  - ", "    ") for sentence in advice]
    return "\n".join(lines) + "\n"


def shortfall_of(problem: PerfatlasError) -> str:
    """Return the message of a refusal without the changes that would help.

    Args:
        problem: Why there is no answer.
    """
    advice = problem.advice if isinstance(problem, InfeasibleError) else ()
    return str(problem).removesuffix(" ".join(advice)).strip()


def _wrapped(text: str, width: int, first: str, rest: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def unknown_option_text(problem: UnknownOptionError) -> str:
    """Return the message of a flag that does not exist, with the one that was meant if one is near.

    Args:
        problem: What cyclopts found.
    """
    from perfatlas.vocabulary.fields import named_elsewhere

    asked = str(problem.token.keyword or problem.token.value).partition("=")[0]
    known = [name for argument in problem.argument_collection for name in argument.names]
    flags = [name for name in known if name.startswith("--")]
    ours = named_elsewhere(asked.lstrip("-"), [flag[2:].replace("-", "_") for flag in flags])
    if ours:
        return f"Unknown option: {asked}. Here it is --{ours.replace('_', '-')}."
    meant = nearest_flag(asked, flags)
    return f"Unknown option: {asked}." + (f" Did you mean {meant}?" if meant else "")


def unused_words_text(words: Sequence[str]) -> str:
    """Return the message of words that belong to no flag.

    Args:
        words: They.

    Example:
        >>> from perfatlas.commands.output import unused_words_text
        >>> unused_words_text(["order=fifo"])
        "'order=fifo' belongs to no flag: each value follows its own, as in --flag value."
    """
    told = " ".join(words)
    told = f"{told[:MOST_SHOWN]}..." if len(told) > MOST_SHOWN else told
    return f"{told!r} belongs to no flag: each value follows its own, as in --flag value."


def nearest_flag(asked: str, known: Iterable[str]) -> str:
    """Return the flag that was meant, "" where none is near.

    Near is one slip of the fingers (a letter wrong, missing, doubled or swapped with the next) per
    four letters; of equally near ones that of the same length or start is meant.

    Args:
        asked: What was written.
        known: The flags there are.

    Example:
        >>> from perfatlas.commands.output.refusal import nearest_flag
        >>> nearest_flag("--modle", ["--mode", "--model", "--m"])
        '--model'
    """
    word = asked.lstrip("-").replace("_", "-")
    names = [flag.lstrip("-") for flag in known]
    ranked = sorted(
        (slips(word, name), abs(len(name) - len(word)), -_shared_start(word, name), name)
        for name in names
    )
    if ranked and ranked[0][0] <= max(len(word) // 4, 1) and ranked[0][0] < len(word):
        return f"--{ranked[0][3]}"
    return ""


def _shared_start(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def slips(left: str, right: str) -> int:
    """Return how many letters must be changed, added, left out or swapped with their neighbour.

    Args:
        left: A word.
        right: Another word.

    Source: optimal string alignment distance, Damerau, CACM 7(3), 1964.

    Example:
        >>> from perfatlas.commands.output.refusal import slips
        >>> slips("modle", "model"), slips("modle", "mode"), slips("tpp", "tp")
        (1, 1, 1)
    """
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, start=1):
        last, before, row = before, row, [i]
        for j, other in enumerate(right, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]

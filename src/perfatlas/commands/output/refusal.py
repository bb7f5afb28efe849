"""Error messages: one line, or one bullet per change that would help."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InfeasibleError, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyclopts import UnknownOptionError

    from perfatlas.quantities import PerfatlasError

EXAMPLE: Final = "; for example: "
WIDEST: Final = 100
# flags of other tools that say at once what several of ours say
COMPOSED: Final = {
    "max_model_len": ("isl", "osl"),
    "context_length": ("isl", "osl"),
    "size": ("m", "n", "k"),
    "nodes": ("gpus",),
    "csv": ("table", "output"),
    "plot": ("figure",),
}
# Words that other tools have for commands, and the command lines that answer them.
VERBS: Final = {
    **dict.fromkeys(
        ("what-if", "whatif"),
        "perfatlas sweep varies fields and hardware; perfatlas compare answers alternatives",
    ),
    **dict.fromkeys(
        ("size", "recommend", "optimize", "plan", "tune"),
        "perfatlas search --max-gpus 64 --slo-ttft-s 1 finds the deployments that meet objectives",
    ),
    "sensitivity": "perfatlas estimate --explain has the sensitivities of a deployment",
    "roofline": "perfatlas estimate --figure FILE --figure-chart roofline draws it",
    **dict.fromkeys(
        ("plot", "draw", "chart"),
        "perfatlas estimate --figure FILE draws the charts of an answer, as other commands do;"
        " perfatlas report makes a page of saved answers",
    ),
    **dict.fromkeys(("ui", "gui", "serve", "dashboard"), "perfatlas web opens forms in a browser"),
    **dict.fromkeys(("predict", "infer", "inference"), "perfatlas estimate answers one deployment"),
    **dict.fromkeys(
        ("models", "systems", "engines"), "perfatlas catalog lists models, systems and engines"
    ),
}
MAX_SHOWN: Final = 200  # characters of an argument that a message quotes


def refusal_text(problem: PerfatlasError) -> str:
    """Return the message of an error, including the line end.

    Args:
        problem: The error. Changes that would make a scenario fit are listed as bullets, wrapped
            at the width of the terminal.

    Example:
        >>> from perfatlas.commands.output.refusal import refusal_text
        >>> from perfatlas.quantities import InfeasibleError
        >>> print(refusal_text(InfeasibleError("does not fit.", advice=("tp = 2 fits.",))), end="")
        perfatlas: does not fit.
        changes that make it fit:
          - tp = 2 fits.
    """
    advice = [printable(text) for text in getattr(problem, "advice", ())]
    width = min(shutil.get_terminal_size().columns, WIDEST)
    if not advice:
        text, _, example = printable(f"perfatlas: {problem}").partition(EXAMPLE)
        wrapped = _wrapped(text, width, "", "  ") if sys.stderr.isatty() else text
        # an example has a line of its own, which is never broken: it is there to be copied
        return f"{wrapped}{EXAMPLE.rstrip()}\n  {example}\n" if example else f"{wrapped}\n"
    lines = [
        _wrapped(printable(f"perfatlas: {shortfall_of(problem)}"), width, "", "  "),
        "changes that make it fit:",
    ]
    lines += [_wrapped(sentence, width, "  - ", "    ") for sentence in advice]
    return "\n".join(lines) + "\n"


def shortfall_of(problem: PerfatlasError) -> str:
    """Return the message of an error without the suggested changes."""
    advice = problem.advice if isinstance(problem, InfeasibleError) else ()
    return str(problem).removesuffix(" ".join(advice)).strip()


def _wrapped(text: str, width: int, first: str, rest: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def unknown_option_text(problem: UnknownOptionError, command: str) -> str:
    """Return the message for an unknown flag: one that is near, or the commands that have it.

    Args:
        command: The command, "" if it is not known.
    """
    from perfatlas.declarations import commands_with, questions, verb_fields
    from perfatlas.vocabulary.fields import canonical_name

    option = str(problem.token.keyword or problem.token.value).partition("=")[0]
    names = [name for argument in problem.argument_collection for name in argument.names]
    flags = [name for name in names if name.startswith("--")]
    ours = canonical_name(option.lstrip("-"), [flag[2:].replace("-", "_") for flag in flags])
    if ours:
        return f"Unknown option: {option}. perfatlas calls it --{ours.replace('_', '-')}."
    plain = option.lstrip("-").replace("-", "_")
    parts = [f"--{name}" for name in COMPOSED.get(plain, ()) if f"--{name}" in flags]
    if parts:
        return f"Unknown option: {option}. perfatlas takes {' and '.join(parts)} instead."
    fields = {name for each in questions() for name in verb_fields(each)}
    elsewhere = "" if plain in fields else canonical_name(plain, fields)
    others = commands_with(elsewhere or plain)
    called = f"perfatlas calls it --{elsewhere.replace('_', '-')}, of" if elsewhere else ""
    belongs = f" {called or 'It belongs to'} {', '.join(others)}." if others else ""
    meant = nearest_flag(option, flags)
    if meant:
        return f"Unknown option: {option}. Did you mean {meant}?{belongs}"
    lists = f" `perfatlas {command} --help` lists the options." if command and not belongs else ""
    return f"Unknown option: {option}.{belongs}{lists}"


def unexpected_argument_text(words: Sequence[str]) -> str:
    """Return the message for unexpected positional arguments.

    Example:
        >>> from perfatlas.commands.output.refusal import unexpected_argument_text
        >>> unexpected_argument_text(["order=fifo"])
        "unexpected positional argument 'order=fifo': set values with flags, as in --flag value"
    """
    quoted = " ".join(words)
    quoted = f"{quoted[:MAX_SHOWN]}..." if len(quoted) > MAX_SHOWN else quoted
    return f"unexpected positional argument {quoted!r}: set values with flags, as in --flag value"


def nearest_flag(option: str, flags: Iterable[str]) -> str:
    """Return the flag nearest to a misspelt one, "" if none is near.

    Up to one typing error (a wrong, missing, doubled or transposed letter) per four letters is
    accepted; ties go to the flag with the same length or beginning.

    Example:
        >>> from perfatlas.commands.output.refusal import nearest_flag
        >>> nearest_flag("--modle", ["--mode", "--model", "--m"])
        '--model'
    """
    word = option.lstrip("-").replace("_", "-")
    names = [flag.lstrip("-") for flag in flags]
    ranked = sorted(
        (slips(word, name), abs(len(name) - len(word)), -_shared_start(word, name), name)
        for name in names
    )
    if ranked and ranked[0][0] <= max(len(word) // 4, 1) and ranked[0][0] < len(word):
        return f"--{ranked[0][3]}"
    return ""


def _shared_start(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(left), len(right)))


def slips(left: str, right: str) -> int:
    """Return the number of letters to change, insert, delete or transpose.

    Args:
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

"""Flags that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

from perfatlas.quantities import repr_for_error
from perfatlas.vocabulary.fields import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token

TIME: Final = Number(unit="s")


FURTHER: Final = Group("Further output options", sort_key=9)
RARE: Final = Parameter(group=FURTHER)  # of an option that --help-all shows, of many


def whole(_hint: object, tokens: Sequence[Token]) -> int:
    """Return an integer flag; "1.5" is rejected, whereas cyclopts' int() rounds.

    Args:
        tokens: The argument, one token.

    Raises:
        ValueError: It is not an integer; cyclopts adds the name of the flag.
    """
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"cannot convert {text!r} to an integer") from None


def seconds(_hint: object, tokens: Sequence[Token]) -> float:
    """Return a duration flag [s], in seconds or with a unit, as in 3h.

    Args:
        tokens: The argument, one token.

    Raises:
        ValueError: It is not a duration; cyclopts adds the name of the flag.
    """
    text = tokens[0].value
    try:
        read: Any = TIME.read(text)
        return float(read)
    except ValueError as problem:
        raise ValueError(f"{repr_for_error(text)}: {problem}") from None


def default(text: str) -> Parameter:
    """Return the --help text of a default that the scenario sets instead of the flag.

    Args:
        text: The default.
    """
    return Parameter(show_default=text)


Count = Annotated[int | None, Parameter(converter=whole)]
Seconds = Annotated[float | None, Parameter(converter=seconds)]


def _check_writable(_hint: object, path: Path | None) -> None:
    from perfatlas.files import check_writable

    if path is not None:
        check_writable(path)


File = Path  # cyclopts needs it at run time, and shells complete it as a file
WrittenFile = Annotated[Path, Parameter(validator=_check_writable)]  # checked before the work

SWITCH: Final = Parameter(negative="", show_default=False)
WITHOUT_NEGATIVE_FLAG: Final = Parameter(negative="")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Output of the answer.

    Args:
        json: Print one JSON object in SI units instead of text.
        verbose: Print all operators, calibrations, assumptions, sources and versions.
        table: Answer every row of a CSV, Parquet or JSON Lines file; flags fill empty cells.
        output: File for the answered table; its extension selects the format.
        resume: Continue an interrupted --table after the rows kept in OUTPUT.partial.
    """

    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False
    table: File | None = None
    output: File | None = None
    resume: Annotated[bool, SWITCH, RARE] = False


OUTPUT: Final[Group] = Group("Output", sort_key=7)
Output = Annotated[OutputFlags | None, Parameter(group=OUTPUT)]


def changed_flags(flags: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of flags
    """Return the flags that are set, by name, in order of declaration.

    Args:
        flags: A dataclass of flags, nested or not.

    Example:
        >>> from perfatlas.commands.flags import OutputFlags, changed_flags
        >>> changed_flags(OutputFlags(json=True))
        {'json': True, 'verbose': False, 'resume': False}
    """
    changed: dict[str, Any] = {}
    for item in fields(flags):
        value = getattr(flags, item.name)
        if is_dataclass(value):
            changed |= changed_flags(value)
        elif value is not None:
            changed[item.name] = value
    return changed

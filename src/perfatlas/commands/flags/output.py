"""Flags that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.vocabulary.fields import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token

TIME: Final = Number(unit="s")


def whole(_hint: object, tokens: Sequence[Token]) -> int:
    """Return the whole number a flag names; "1.5" is refused where int() of cyclopts rounds.

    Args:
        _hint: The annotation of the flag.
        tokens: What was written; one token.

    Raises:
        ValueError: It is not a whole number; cyclopts then names the flag.
    """
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"unable to convert {text!r} into a whole number") from None


def seconds(_hint: object, tokens: Sequence[Token]) -> float:
    """Return the time a flag names, in seconds or with a unit, as in 3h.

    Args:
        _hint: The annotation of the flag.
        tokens: What was written; one token.

    Raises:
        ValueError: It is not a time; cyclopts then names the flag.
    """
    read: Any = TIME.read(tokens[0].value)
    return float(read)


def default(text: str) -> Parameter:
    """Return what --help says of a flag whose default the scenario sets, not the flag.

    Args:
        text: The default.
    """
    return Parameter(show_default=text)


Count = Annotated[int | None, Parameter(converter=whole)]
Seconds = Annotated[float | None, Parameter(converter=seconds)]
File = Path  # cyclopts reads it at run time, and shells complete it as a file

SWITCH: Final = Parameter(negative="", show_default=False)
MANY: Final = Parameter(negative="")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Where the answer goes.

    Args:
        json: Print one JSON object, SI units, instead of text.
        table: Answer every row of a CSV, Parquet or JSON Lines file; flags fill empty cells.
        output: Where the answered table is written; its extension chooses the format.
    """

    json: Annotated[bool, SWITCH] = False
    table: File | None = None
    output: File | None = None


def given(flags: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of flags
    """Return the flags that were given, by name, in the order of the vocabulary.

    Args:
        flags: A dataclass of flags, nested or not.

    Example:
        >>> from perfatlas.commands.flags import OutputFlags, given
        >>> given(OutputFlags(json=True))
        {'json': True}
    """
    found: dict[str, Any] = {}
    for item in fields(flags):
        value = getattr(flags, item.name)
        if is_dataclass(value):
            found |= given(value)
        elif value is not None:
            found[item.name] = value
    return found

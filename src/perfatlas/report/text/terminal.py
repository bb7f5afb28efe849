"""The terminal an answer is written to: its width, its colours, its alphabet."""

from __future__ import annotations

import os
import re
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, RenderableType

TRAILING_SPACE: Final = re.compile(r"[ \t]+$", re.MULTILINE)
PLAIN: Final = str.maketrans({"µ": "u", "±": "+-"})


def open_terminal(
    stream: IO[str], *, width: int | None = None, environ: Mapping[str, str] | None = None
) -> Console:
    """Return a rich console that writes plainly to a stream: no markup, no highlighting.

    Colour is used on a terminal only, never with NO_COLOR or TERM=dumb; FORCE_COLOR forces it.

    Args:
        stream: Where the text goes.
        width: Columns; by default those of the terminal, else COLUMNS, else 80.
        environ: Environment variables; by default those of the process.
    """
    import rich.console

    variables = os.environ if environ is None else environ
    plain = bool(variables.get("NO_COLOR")) or variables.get("TERM") in ("dumb", "unknown")
    forced = bool(variables.get("FORCE_COLOR"))
    return rich.console.Console(
        file=stream,
        width=width,
        color_system=None if plain else "auto",
        force_terminal=True if forced and not plain else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )


def speaks_unicode(console: Console) -> bool:
    """Tell whether block characters can be written to a console.

    Args:
        console: From `open_terminal`.
    """
    return console.encoding.lower().replace("-", "") in ("utf8", "utf16", "utf32", "utf_8")


def print_plain(
    console: Console, thing: RenderableType, *, style: str = "", wrap: bool = True
) -> None:
    """Write a table or a text without the spaces that pad its lines.

    Args:
        console: From `open_terminal`.
        thing: What to write.
        style: Its colour.
        wrap: Whether long lines are broken at the console's width.
    """
    with console.capture() as written:
        console.print(thing, style=style, soft_wrap=not wrap)
    console.file.write(encodable(TRAILING_SPACE.sub("", written.get()), console.encoding))


def encodable(text: str, encoding: str) -> str:
    """Return a text as a stream can encode it: where it cannot, µs is us and ± is +-.

    Args:
        text: What to write.
        encoding: Of the stream.

    Example:
        >>> from perfatlas.report.text.terminal import encodable
        >>> encodable("12.0 µs", "utf-8"), encodable("12.0 µs ± 1", "ascii")
        ('12.0 µs', '12.0 us +- 1')
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.translate(PLAIN)
        return plain.encode(encoding, "replace").decode(encoding)
    return text


def print_line(console: Console, text: str, *, style: str = "") -> None:
    """Write a line of text, wrapped at the console's width.

    Args:
        console: From `open_terminal`.
        text: What to write.
        style: Its colour.
    """
    print_plain(console, text, style=style)

"""Terminal output: width, colors, character set, typographic form of units."""

from __future__ import annotations

import os
import re
from typing import IO, TYPE_CHECKING, Final

import rich.console
from rich.segment import Segment

from perfatlas.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console, ConsoleOptions, RenderableType

PER_CENT: Final = re.compile(r"(?<=\d) %")
MICROSECONDS: Final = re.compile(r"(?<=\d) us\b")


def typeset(text: str) -> str:
    """Return a text without a space before %, and with µs in place of us.

    Args:
        text: A sentence, such as a warning or an assumption.

    Example:
        >>> from perfatlas.report.text import typeset
        >>> typeset("12.0 us, 4.2 % of it")
        '12.0 µs, 4.2% of it'
    """
    return MICROSECONDS.sub(" µs", PER_CENT.sub("%", text))


TRAILING_SPACE: Final = re.compile(r"[ \t]+$", re.MULTILINE)
MIN_FOLDED_COLUMNS: Final = 8  # columns of a name that is broken
NARROWEST: Final = 40  # columns; a narrower terminal wraps
PLAIN: Final = str.maketrans({"µ": "u", "±": "+-", "≥": ">="})


class EscapingConsole(rich.console.Console):
    """A console on which only styles, never texts, write control characters."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a table or text, escaped."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                yield Segment(printable(segment.text), segment.style)
            else:
                yield segment


def open_terminal(
    stream: IO[str], *, width: int | None = None, environ: Mapping[str, str] | None = None
) -> Console:
    """Return a rich console for a stream, without markup and highlighting.

    Colors are used only on terminals, never with NO_COLOR or TERM=dumb; FORCE_COLOR forces them.

    Args:
        width: Columns; by default those of the terminal, else COLUMNS, else 80.
        environ: Environment variables; by default those of the process.
    """
    variables = os.environ if environ is None else environ
    plain = bool(variables.get("NO_COLOR")) or variables.get("TERM") in ("dumb", "unknown")
    forced = bool(variables.get("FORCE_COLOR"))
    console = EscapingConsole(
        file=stream,
        width=width,
        color_system=None if plain else "auto",
        force_terminal=True if forced and not plain else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    console.width = max(console.width, NARROWEST)
    return console


def speaks_unicode(console: Console) -> bool:
    """Return whether a console supports block characters."""
    return console.encoding.lower().replace("-", "") in ("utf8", "utf16", "utf32", "utf_8")


def print_plain(
    console: Console, thing: RenderableType, *, style: str = "", wrap: bool = True
) -> None:
    """Write a table or text without trailing spaces.

    A number is never cut: a table whose words do not fit is wider than the terminal.
    """
    from rich.table import Table

    width = console.width
    if isinstance(thing, Table):
        from rich.measure import Measurement

        # no word of a table is cut
        total = thing.padding[1] * (len(thing.columns) - 1)
        for column in thing.columns:
            cells = [column.header, *column.cells]
            sizes = [Measurement.get(console, console.options, cell) for cell in cells]
            if column.no_wrap:
                column.min_width = max(size.maximum for size in sizes)
            elif column.overflow != "fold":  # which breaks names on purpose
                column.min_width = max(size.minimum for size in sizes)
            total += column.min_width or MIN_FOLDED_COLUMNS
        console.width = max(width, total)
    with console.capture() as written:
        console.print(thing, style=style, soft_wrap=not wrap)
    console.width = width
    console.file.write(encodable(TRAILING_SPACE.sub("", written.get()), console.encoding))


def encodable(text: str, encoding: str) -> str:
    """Return a text that a stream can encode, with us for µs and +- for ± if necessary.

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
    """Write a line of text, wrapped at the console's width."""
    print_plain(console, text, style=style)

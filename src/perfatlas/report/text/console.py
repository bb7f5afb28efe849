"""A console that escapes control characters of names, cells and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich.console
from rich.segment import Segment

from perfatlas.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


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

"""Units as print has them, in sentences that come from other packages."""

from __future__ import annotations

import re
from typing import Final

PER_CENT: Final = re.compile(r"(?<=\d) %")
MICROSECONDS: Final = re.compile(r"(?<=\d) us\b")


def typeset(text: str) -> str:
    """Return a text with per cent closed up to its number and microseconds with their letter.

    Args:
        text: A sentence, such as a warning or an assumption.

    Example:
        >>> from perfatlas.report.text import typeset
        >>> typeset("12.0 us, 4.2 % of it")
        '12.0 µs, 4.2% of it'
    """
    return MICROSECONDS.sub(" µs", PER_CENT.sub("%", text))

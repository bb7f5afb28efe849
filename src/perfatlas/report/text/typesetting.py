"""Typographic form of units in sentences from other packages."""

from __future__ import annotations

import re
from typing import Final

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

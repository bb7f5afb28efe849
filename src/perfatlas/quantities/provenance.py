"""Where a number comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["datasheet", "measured", "derived", "announced", "assumed"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Provenance of one value: its kind and its reference."""

    # datasheet, measured, derived (`note` has the arithmetic), announced (of what does not ship, or
    # by the press) or assumed (with the reason)
    kind: Kind
    ref: str  # Document, page, repository or measurement that holds the value
    note: str = ""  # Arithmetic, conflicting sources and the choice made, or the reason

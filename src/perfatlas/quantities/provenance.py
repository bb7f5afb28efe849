"""Where a number comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["datasheet", "measured", "derived", "assumed"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Provenance of one value: what kind of knowledge it is and where it can be read.

    Args:
        kind: datasheet, measured, derived (with the arithmetic in `note`) or assumed (with why).
        ref: Document, page, repository or measurement that holds the value.
        note: Arithmetic, conflict between sources and the choice made, or the reason.
    """

    kind: Kind
    ref: str
    note: str = ""

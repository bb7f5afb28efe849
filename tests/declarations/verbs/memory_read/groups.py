"""The groups of fields that `memory_read` is asked."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.vocabulary.fields import Number, Row, SystemChoice, group


@group("Read", 2)
class ReadSize:
    """What is read."""

    bytes: Annotated[float, Number(unit="bytes", above=0), Row("Bytes that are read.")]


QUESTIONS: Final[dict[str, tuple[type, ...]]] = {"memory_read": (SystemChoice, ReadSize)}

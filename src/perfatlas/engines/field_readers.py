"""Readers of single values of an engine's TOML file, and what may read each field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from perfatlas.files import Array, Field, Number, Reader, Text, Whole

T = TypeVar("T")


# What may read a field of a profile; nothing reads what only describes.
OPERATORS: Final = ("operators",)
COLLECTIVES: Final = ("collectives",)
STEPS: Final = (*OPERATORS, *COLLECTIVES)
HOST: Final = ("host time of steps",)
MEMORY: Final = ("memory",)
BATCHING: Final = ("continuous batching",)
POOLS: Final = ("disaggregated serving",)
REQUESTS: Final = (*BATCHING, *POOLS)
INTERVALS: Final = ("intervals of times",)


@dataclass(frozen=True)
class ProfileField(Field[T]):
    """One field of a profile."""

    read_by: tuple[str, ...] = ()  # What may read it


def needed(reader: Reader[T], *read_by: str, into: str = "") -> ProfileField[T]:
    """Return a required field.

    Args:
        into: Attribute that it becomes, "" for its own name.
    """
    return ProfileField(reader, required=True, into=into, read_by=read_by)


def perhaps(reader: Reader[T], *read_by: str, into: str = "") -> ProfileField[T]:
    """Return a field that a file may leave out.

    Args:
        into: Attribute that it becomes, "" for its own name.
    """
    return ProfileField(reader, into=into, read_by=read_by)


REF: Final = needed(
    Text(empty=False, longest=4000, expected="a documentation reference"), into="source"
)
NAME: Final = Text(empty=False)
NAMES: Final = Array(of=Text(), expected="an array of names")
TIME: Final = Number(dimension="s", unit="s", least=0.0, example="126 us")
BYTES: Final = Number(dimension="bytes", unit="B", least=0.0, example="0.65 GiB")
COUNT: Final = Whole(least=1)
NON_NEGATIVE_INTEGER: Final = Whole(least=0)
SHARE: Final = Number(least=0.0)
WIDTHS: Final[Array[int]] = Array(of=Whole(least=1), expected="an array of whole numbers")

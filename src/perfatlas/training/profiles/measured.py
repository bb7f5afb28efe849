"""The highest measured MFU of a device, by class of models and number format."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.files import Array, Field, Number, Record, Text, read_fields, shipped_table

if TYPE_CHECKING:
    from collections.abc import Mapping


class HighestMfu(NamedTuple):
    """A published training step."""

    mfu: float  # Model FLOP over its time and the dense peak
    run: str  # Model and GPUs
    source: str  # Where it is published


_RUN: Final[dict[str, Field[Any]]] = {
    "device": Field(Text(empty=False), required=True),
    "models": Field(Text(choices=("dense", "moe")), required=True),
    "format": Field(Text(empty=False), required=True),
    "mfu": Field(Number(least=0.0, most=1.0), required=True),
    "run": Field(Text(empty=False), required=True),
    "ref": Field(Text(longest=300), required=True),
}


@cache
def highest_mfu() -> Mapping[tuple[str, str, str], HighestMfu]:
    """Return the highest measured MFU by device, "dense" or "moe", and format of products.

    Source: `data/highest_mfu.toml`.
    """
    fields = {"run": Field(Array(of=Record(fields=_RUN, build=dict[str, Any])), required=True)}
    rows = read_fields(shipped_table("data/highest_mfu.toml"), fields, "highest_mfu.toml")["run"]
    return {
        (row["device"], row["models"], row["format"]): HighestMfu(
            row["mfu"], row["run"], row["ref"]
        )
        for row in rows
    }

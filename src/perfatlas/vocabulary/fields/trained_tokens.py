"""Fields of a job whose training step is predicted."""

from __future__ import annotations

from typing import Annotated

from perfatlas.vocabulary.fields.conditions import AnySet
from perfatlas.vocabulary.fields.numbers import Number
from perfatlas.vocabulary.fields.rows import InputFile, Text, group


@group("Training", 5)
class TrainedTokens:
    """A predicted training step, instead of a measured one."""

    train: Annotated[str, Text(), InputFile()] | None = None
    tokens: Annotated[
        Annotated[float, Number(unit="tokens", above=0.0, at_most=1e18)] | None, AnySet("train")
    ] = None

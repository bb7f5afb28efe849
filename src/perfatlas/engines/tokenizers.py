"""What turning prompts into tokens takes, as measured, by vocabulary."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import median
from typing import Final

from perfatlas.quantities import parse_quantity

TOKENIZERS: Final = "data/tokenizers.toml"
TEXTS: Final = ("natural", "random")


@dataclass(frozen=True, kw_only=True)
class Tokenizing:
    """What a token of a prompt takes on the core that tokenizes.

    Args:
        token_s: CPU time [s].
        said: Of which vocabulary and text, in words.
        source: How it was measured.
    """

    token_s: float
    said: str
    source: str


@cache
def tokenizing(vocab_size: int, text: str) -> Tokenizing:
    """Return what tokenizing takes for a vocabulary; the median of all where it was not measured.

    Args:
        vocab_size: Rows of the model's embedding, by which its tokenizer is known.
        text: One of `TEXTS`: prose, or random tokens as benchmark clients send them.

    Limits: one CPU; that of a server takes longer. A tokenizer in Python takes many times as long.

    Example:
        >>> from perfatlas.engines import tokenizing
        >>> tokenizing(128256, "natural").token_s
        1.2e-06
    """
    raw = tomllib.loads(resources.files("perfatlas").joinpath(TOKENIZERS).read_text("utf-8"))
    rates = {
        row["name"]: parse_quantity(row[text], "s")
        for row in raw["vocabulary"]
        if vocab_size in row["sizes"]
    }
    kind = "random tokens" if text == "random" else "prose"
    if rates:
        ((name, token_s),) = rates.items()
        return Tokenizing(token_s=token_s, said=f"{kind} by {name}", source=raw["ref"])
    every = [parse_quantity(row[text], "s") for row in raw["vocabulary"]]
    said = f"{kind}, the median of {len(every)} vocabularies, this one not among them"
    return Tokenizing(token_s=median(every), said=said, source=raw["ref"])
